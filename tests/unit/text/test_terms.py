"""Terms are split and stemmed as in the full-text index, and coded for comparison."""

import os
import re
import signal
import struct
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from satchel.text import terms as module
from satchel.text.terms import QUESTION_WORDS, query_words, segment, stem, term_codes, terms
from tables import each_row


@pytest.fixture(scope="module")
def index_terms():
    connection = apsw.Connection(":memory:")
    tokenizer = connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])

    def tokenize(text):
        indexed = (segment(text) or text).encode()
        return tokenizer(indexed, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False)

    yield tokenize
    connection.close()


@pytest.fixture(scope="module")
def english():
    """The words of some of the standard library's sources: their docstrings, comments and names."""
    library = Path(sys.modules["re"].__file__).parents[1]
    sources = [library / name for name in ("argparse.py", "pydoc.py", "typing.py", "doctest.py", "tarfile.py")]
    sources += sorted(library.glob("email/*.py")) + sorted(library.glob("logging/*.py"))
    text = " ".join(source.read_text(encoding="utf-8") for source in sources)
    return sorted(set(re.findall(r"[a-z]+", text.lower())))


def test_english_words_are_stemmed_as_the_index_stems_them(english, index_terms):
    assert len(english) > 3_000
    assert [word for word in english if terms(word) != index_terms(word)] == []


@each_row(
    "text",
    [
        "is as us s y 1st 3.11 v2",
        "possibly comprehensibly technology biology apologies humbly ably ebly trekking anthropologie eed",
        "snake_case camelCase path/to.file don't it’s",
        "Größe Straße STRASSE naïveté Ångström café łódź đặt İstanbul øaking øs",
        "ΌΣΟΣ όσος 5 µm ſet",
        "й Привет мир",
        "हिन्दी x² Ⅻ",
        "長期記憶 JWTの記憶 한국어 ไทย",
        "🎒 … \ue000a",
        "x" * 61 + "ing " + "y" * 62 + "ing " + "a" * 60 + "ings",
    ],
)
def test_other_text_is_cut_and_folded_as_the_index_does_it(text, index_terms):
    assert terms(text) == index_terms(text)


def test_terms_keep_order_and_repetition():
    assert terms("Running, runs; and RUN!") == ["run", "run", "and", "run"]


@pytest.mark.parametrize("text", ["", " \n", "—…!", "\ud800"])
def test_text_without_words_has_no_terms(text):
    assert terms(text) == []
    assert term_codes(text) == b""


@pytest.mark.parametrize("text", ["Caroline went to the support group", "Größe und 記憶", "w" * 500])
def test_codes_are_the_checksums_of_the_terms(text):
    expected = [zlib.crc32(term.encode()) for term in terms(text)]
    assert list(struct.unpack(f"<{len(expected)}I", term_codes(text))) == expected


def test_the_caches_stay_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CACHED", 10)
    monkeypatch.setattr(module, "_stems", module._Stems())
    monkeypatch.setattr(module, "_codes", module._Codes())
    for number in range(100):
        term_codes(f"word{number} {'long' * 20}{number}")
    assert len(module._stems) <= 10
    assert len(module._codes) <= 10
    assert not [word for word in module._codes if len(word) > 64]


def test_many_threads_find_the_same_stems():
    words = [f"{start}{end}" for start in ("connect", "relat", "gener") for end in ("ing", "ed", "ions", "ably")]
    expected = [stem(word) for word in words]

    def fresh(_):
        return [module._stemmed(word) for word in words]

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(fresh, range(200)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_while_others_find_stems_can_find_stems():
    working = threading.Event()

    def work() -> None:
        working.set()
        while working.is_set():
            module._stemmed("connections")

    thread = threading.Thread(target=work)
    thread.start()
    working.wait(30)
    try:
        for _ in range(20):
            child = os.fork()
            if not child:
                signal.alarm(30)
                os._exit(module._stemmed("relations") != "relat")
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        working.clear()
        thread.join(30)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What did Caroline research?", ["caroline", "research"]),
        ("When is the deploy, and when was the last deploy?", ["deploy", "last"]),
        ("Who are you?", ["who", "are", "you"]),
        ("What's Melanie's café?", ["melanie", "cafe"]),
        ("Did I go in May?", ["go", "may"]),
        ("???", []),
    ],
)
def test_a_query_keeps_the_words_that_say_something(query, words):
    assert query_words(query) == words


def test_question_words_are_folded_words():
    assert all(query_words(word) == [word] for word in QUESTION_WORDS)
