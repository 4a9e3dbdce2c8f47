import base64
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.text import tokens as vocabulary
from satchel.text.tokens import VOCABULARIES, counter
from tables import each_row

FOUR_MEGABYTES = 4_000_000

# Counted with tiktoken's own o200k_base and cl100k_base.
GOLDEN = [
    ("", 0, 0),
    ("a", 1, 1),
    ("Hello, world!", 4, 4),
    ("We rotate JWTs every hour and keep the old key for ten minutes.", 15, 15),
    (
        "def add(self, text: str, *, tags: list[str] | None = None) -> Memory:\n"
        "    return self._store.add(text, tags or [])\n",
        33,
        33,
    ),
    ('{"id": 42, "name": "Ana", "tags": ["a", "b"], "ok": true, "score": 0.25}', 34, 34),
    ("我们每小时轮换一次令牌。", 9, 13),
    ("トークンは一時間ごとに更新されます。", 13, 14),
    ("우리는 한 시간마다 토큰을 교체합니다.", 12, 20),
    ("Мы меняем токены каждый час.", 8, 12),
    ("नमस्ते दुनिया", 5, 13),
    ("مرحبا بالعالم", 4, 10),
    ("👩‍👩‍👧 family, 🇫🇷 flag, 👍🏽 thumb", 20, 29),
    ("nul\x00byte", 3, 4),
    ("   \n\n\t  x   ", 4, 4),
    ("12345678901234567890", 7, 7),
    ("d41d8cd98f00b204e9800998ecf8427e", 19, 19),
    ("don't DON'T I'LL we'd", 5, 9),
    ("e\u0301 vs \u00e9", 4, 4),
    ("\r\n\r\nline\r\n", 3, 3),
    ("https://example.com/a/b?c=1&d=2#e", 16, 16),
    ("SGVsbG8sIHdvcmxkISBUaGlzIGlzIGJhc2U2NC4=", 27, 27),
    ("MAX_RETRY_COUNT camelCaseName snake_case_name", 10, 9),
    ("a" * 100, 13, 13),
    (" " * 100, 2, 2),
    ("½ ² ٣ Ⅷ ①", 10, 12),
]


@each_row(("text", "o200k", "cl100k"), GOLDEN)
def test_counts_are_those_of_tiktoken(text, o200k, cl100k):
    assert counter("o200k_base").count(text) == o200k
    assert counter("cl100k_base").count(text) == cl100k


@pytest.mark.slow
@each_row("name", VOCABULARIES)
def test_every_vocabulary_counts_and_is_exact(name):
    counting = counter(name)
    sentence = "We rotate JWTs every hour, 我们每小时轮换一次令牌. 👍"
    assert counting.exact
    assert counting.name == name
    assert counting.count("") == 0
    assert counting.count("a") == 1
    assert len(sentence) / 5 < counting.count(sentence) <= len(sentence.encode())
    assert counting.estimate(sentence) == counting.count(sentence)
    assert counting.count_many(["a", sentence]) == [1, counting.count(sentence)]


@pytest.mark.slow
@each_row("name", VOCABULARIES)
def test_text_that_spells_a_special_token_counts_as_ordinary_text(name):
    from splintr import Tokenizer

    special = Tokenizer.from_pretrained(name).special_tokens()
    counting = counter(name)
    assert special
    for spelled in ["<|endoftext|>", *special]:
        assert counting.count(spelled) > 1, spelled


def test_the_golden_count_of_a_special_token_is_that_of_its_letters():
    assert counter("o200k_base").count("<|endoftext|>") == 7
    assert counter("cl100k_base").count("<|im_start|>user\nhi<|im_end|>") == 15


@pytest.mark.slow
@each_row("name", VOCABULARIES)
def test_lone_surrogates_count_as_replacement_characters(name):
    counting = counter(name)
    assert counting.count("a\ud800b\udfffc") == counting.count("a\ufffdb\ufffdc")
    assert counting.count("\ud83d\ude00!") == counting.count("😀!")


@pytest.mark.slow
@each_row("name", VOCABULARIES)
def test_nul_bytes_count(name):
    assert 3 <= counter(name).count("a\x00\x00b") <= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("a" * FOUR_MEGABYTES, 500_000, id="one letter"),
        pytest.param(" " * FOUR_MEGABYTES, 31_250, id="spaces"),
        pytest.param("\x00" * FOUR_MEGABYTES, 2_000_000, id="NUL bytes"),
        pytest.param("1" * FOUR_MEGABYTES, 1_333_334, id="digits"),
    ],
)
def test_four_megabytes_of_one_character_count(text, tokens):
    assert counter("o200k_base").count(text) == tokens


@pytest.mark.slow
def test_four_megabytes_of_base64_and_of_random_han_characters_count():
    numbers = random.Random(11)
    encoded = base64.b64encode(numbers.randbytes(FOUR_MEGABYTES * 3 // 4)).decode()
    han = "".join(map(chr, numbers.choices(range(0x4E00, 0x9FA6), k=FOUR_MEGABYTES // 3)))
    assert 2_600_000 < counter("o200k_base").count(encoded) < 3_000_000
    assert 2_400_000 < counter("o200k_base").count(han) < 2_800_000


def test_what_the_tokenizer_remembers_is_cleared_now_and_then(monkeypatch):
    monkeypatch.setattr(vocabulary, "_CHARACTERS_PER_CACHE_CLEAR", 1000)
    count = vocabulary.encoder("olmo2")
    letters = random.Random(3)
    for _ in range(500):
        count("".join(letters.choices("bcdfghjklm", k=20)))
    assert count._tokenizer.cache_len < 200


@pytest.mark.slow
@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_vocabulary_goes_on_counting_past_a_clearing(name, monkeypatch):
    monkeypatch.setattr(vocabulary, "_CHARACTERS_PER_CACHE_CLEAR", 10)
    counting = counter(name)
    assert len(set(counting.count_many(["a longer text than that"] * 4))) == 1


def test_a_vocabulary_loads_once_however_many_threads_ask_first(monkeypatch):
    import splintr

    loads = []

    class Loader:
        @staticmethod
        def from_pretrained(name):
            loads.append(name)
            return real.from_pretrained(name)

    real = splintr.Tokenizer
    monkeypatch.setattr(splintr, "Tokenizer", Loader)
    monkeypatch.delitem(vocabulary._loaded, "mistral_v3", raising=False)
    barrier = threading.Barrier(8)
    answers = []

    def work():
        barrier.wait(timeout=30)
        answers.append([counter("mistral_v3").count(text) for text, _, _ in GOLDEN])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert loads == ["mistral_v3"]
    assert len(answers) == 8
    assert answers.count(answers[0]) == 8


def test_threads_counting_at_once_get_the_answers_of_one_alone():
    texts = [text for text, _, _ in GOLDEN] * 20
    expected = counter("o200k_base").count_many(texts)
    answers = []

    def work():
        answers.append(counter("o200k_base").count_many(texts))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert answers == [expected] * 6


@given(st.lists(st.text(max_size=60), min_size=1, max_size=8))
def test_newline_terminated_chunks_never_sum_to_less_than_the_whole(chunks):
    counting = counter("o200k_base")
    lines = [chunk.lstrip("/") + "\n" for chunk in chunks]
    assert sum(counting.count_many(lines)) >= counting.count("".join(lines))


def test_a_chunk_beginning_with_a_slash_can_cost_one_more_beside_the_chunk_before_it():
    # o200k_base takes slashes after punctuation and a newline into one piece; cl100k_base does not.
    fence, path = "```\n", "/home\n"
    o200k, cl100k = counter("o200k_base"), counter("cl100k_base")
    assert o200k.count(fence + path) == o200k.count(fence) + o200k.count(path) + 1
    assert cl100k.count(fence + path) == cl100k.count(fence) + cl100k.count(path)
