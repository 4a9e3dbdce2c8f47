"""The mapped table gives splintr's tokens, or none at all, and hands over when there is much to count."""

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.text import token_table, tokens
from satchel.text.mapped_vocabulary import MappedVocabulary, packed_vocabulary
from satchel.text.token_table import TokenTable, table_path

PARTS = [
    *(
        "a",
        "Z",
        "the",
        "hello",
        "WORLD",
        "camelCase",
        "HTTPServer",
        "don't",
        "CAN'T",
        "'s",
        "'S",
        "'Re",
        "'ll",
        "'",
    ),
    *(
        "1",
        "12",
        "2024",
        "3.14",
        "²",
        "½",
        "٣",
        "/",
        "//",
        "!",
        "?!",
        "-",
        "—",
        "_",
        "__init__",
        "()",
        "{}",
        "=" * 90,
    ),
    *(
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\u00a0",
        "\u3000",
        "\u2028",
        "\u0085",
        "\x00",
        "\x0b",
        "\x1c",
        "\x1f",
        "\x7f",
    ),
    *(
        "é",
        "É",
        "ß",
        "e\u0301",
        "\u0300",
        "ǅ",
        "ʰ",
        "ª",
        "и",
        "Д",
        "Ω",
        "日本",
        "か",
        "ア",
        "한국어",
        "नमस्ते",
        "עברית",
    ),
    *(
        "❤",
        "\ufe0f",
        "\u200d",
        "😀",
        "👍🏽",
        "👨‍👩‍👧",
        "🫠",
        "ſ",
        "K",
        "\ufffd",
        "\U00020000",
        "\U0001e900",
        "\ue000",
    ),
    *("<|endoftext|>", "<|im_start|>", "x" * 60, "latflourt", "QWZXKJ", "aGVsbG8gd29ybGQ="),
]
texts = st.lists(st.sampled_from(PARTS) | st.text(max_size=6), max_size=14).map("".join)


@pytest.fixture(scope="module")
def splintr():
    from splintr import Tokenizer

    return Tokenizer.from_pretrained("o200k_base").encode_ordinary


@pytest.fixture
def unused(monkeypatch: pytest.MonkeyPatch):
    """Count as a process that has not counted before."""
    monkeypatch.setattr(tokens, "_loaded", {})


@given(text=texts)
@example(text="It's the FIRST of 2024's — don't\r\n\r\n   wait…  \n\n  x ")
@example(text=" ❤️ ")
@example(text="ſ'ſ A'ſ")
def test_the_tokens_are_those_of_splintr(splintr, text):
    found = TokenTable(table_path()).encode(text)
    assert found is None or found == splintr(text)


def test_texts_of_many_languages_and_code_need_no_splintr(splintr):
    table = TokenTable(table_path())
    for text in (
        "We rotate JWTs every hour, don't we? See §3 — “quoted”, naïve café.\n\n- one\n\t- two\n",
        "Größe, être, señor, Привет, Ωμέγα, 我们每小时轮换一次令牌。記憶を、한국어 문장 😀👍🏽",
        Path(token_table.__file__).read_text("utf-8"),
    ):
        assert table.encode(text) == splintr(text), text


@pytest.mark.slow
def test_every_character_is_taken_as_splintr_takes_it(splintr, monkeypatch: pytest.MonkeyPatch):
    """Each character where its class matters: inside words, numbers, spaces, symbols, contractions."""
    monkeypatch.setattr(token_table, "_MOST_WORK", 1 << 60)
    table, taken = TokenTable(table_path()), 0
    for code in (*range(0xD800), *range(0xE000, 0x110000)):
        character = chr(code)
        text = "a?b A?B ??c1?2 ? \n?'s !?".replace("?", character)
        found = table.encode(text)
        if found is not None:
            taken += 1
            assert found == splintr(text), (hex(code), unicodedata.category(character))
    assert taken > 200_000


def test_lone_surrogates_are_refused_as_by_splintr(splintr):
    with pytest.raises(UnicodeEncodeError):
        splintr("a\ud800")
    with pytest.raises(UnicodeEncodeError):
        TokenTable(table_path()).encode("a\ud800")


def test_the_file_is_made_from_the_vocabulary_of_splintr():
    from bench.token_table import tokens as vocabulary

    assert table_path().read_bytes() == packed_vocabulary(vocabulary())


def test_much_text_and_long_pieces_are_left_to_splintr():
    table = TokenTable(table_path())
    assert table.encode("latflourt" * 50) is None
    assert table.encode("word " * 20_000) is not None
    assert table.encode("word " * 20_000) is None


def test_splintr_takes_over_for_good_and_the_numbers_stay(unused):
    short, long = "We rotate tokens. ❤️", "a bee " * 50_000
    before = tokens.count_tokens(short)
    assert isinstance(tokens.encoder("o200k_base"), tokens._FirstTexts)
    assert tokens.count_tokens(long) == 100_001
    assert isinstance(tokens.encoder("o200k_base"), tokens._Encoder)
    assert tokens.count_tokens(short) == before


@pytest.mark.usefixtures("unused")
@pytest.mark.parametrize("content", [None, b"", b"\0" * 100, b"satchel vocabulary 1\n".ljust(200, b"\0")])
def test_without_a_whole_file_splintr_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content):
    if content is not None:
        (tmp_path / "table").write_bytes(content)
    monkeypatch.setattr(token_table, "table_path", lambda: tmp_path / "table")
    assert tokens.count_tokens("We rotate tokens.") == 4


def test_a_process_that_counts_a_little_does_not_load_splintr():
    program = (
        "import sys, satchel\n"
        "print(satchel.count_tokens('We rotate 令牌. \\ud83d', 'gpt-4o'), satchel.count_tokens('one', 'claude-3'),"
        " 'splintr' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.split()[-1] == "False", shown.stdout


def test_a_vocabulary_finds_its_tokens_and_no_others(tmp_path: Path):
    words = [b"a", b"ab", b"", bytes(255), *(str(number).encode() for number in range(3000))]
    (tmp_path / "words").write_bytes(packed_vocabulary(words))
    vocabulary = MappedVocabulary(tmp_path / "words")
    assert [vocabulary.number(word) for word in words] == list(range(len(words)))
    assert vocabulary.number(b"b") is vocabulary.number(b"3000") is vocabulary.number(bytes(254)) is None
    assert vocabulary.size == len(words)
