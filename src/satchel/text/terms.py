"""Index terms: the words of a text, folded, split and stemmed as FTS5's tokenizer "porter unicode61" does it.

Text in scripts without spaces, such as Chinese, is split into single characters and pairs.
"""

import itertools
import os
import re
import sys
import threading
import unicodedata
import zlib
from array import array
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from satchel.model.checks import repair_surrogates
from satchel.model.patterns import lazy_pattern

if TYPE_CHECKING:
    import apsw

__all__ = [
    "QUESTION_WORDS",
    "folded",
    "packed_codes",
    "query_terms",
    "query_words",
    "segment",
    "stem",
    "term_codes",
    "term_numbers",
    "terms",
    "words",
]


# Scripts without spaces.


# Han, kana, bopomofo, hangul, yi, and Thai, Lao, Khmer, Myanmar. Korean has spaces, but its particles are attached
# to words, so words are found by their syllables.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029"
    "\u3031-\u3035\u3041-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001b000-\U0001b2ff\U00020000-\U000323af"
)
_PLAIN_TERM = lazy_pattern(r"[A-Za-z0-9]+")


@cache
def _character() -> re.Pattern[str]:
    # Compiled when first used: compiling takes as long as importing several modules.
    return re.compile(f"[{_UNSPACED}]")


@cache
def _term() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")


def segment(text: str) -> str | None:
    """Return the text with spaces around each character of an unspaced script; None if it has no such character."""
    # The pattern takes 3 ms to compile, which texts of Latin, Greek or Cyrillic letters do not need.
    if text.isascii() or max(text) < _UNSPACED[0] or not _character().search(text):
        return None
    return _character().sub(r" \g<0> ", unicodedata.normalize("NFC", text))


def query_terms(query: str) -> tuple[str, ...]:
    """Return the distinct terms of a query for FTS, in order. A pair of unspaced characters is a phrase of two."""
    found: dict[str, None] = {}
    plain = query if query.isascii() else unicodedata.normalize("NFC", repair_surrogates(query))
    for chunk in plain.split():
        if chunk.isascii():
            found.update(dict.fromkeys(map(str.lower, _PLAIN_TERM.findall(chunk))))
        else:
            for match in _term().finditer(chunk):
                found.update(dict.fromkeys(_terms(match.group())))
            # The index may have a newer Unicode table than Python, with more letters. So the chunk is also passed
            # unchanged, for FTS5 to split.
            found[(segment(chunk) or chunk).strip().lower()] = None
    return tuple(term for term in found if term)


def _terms(word: str) -> list[str]:
    if word.isascii() or not _character().match(word):
        return [word.lower()]
    return [f"{first} {second}" for first, second in itertools.pairwise(word)] or [word]


# Words, stems and term codes.


# Stop words of questions. "s", "t", "ll" and so on remain where an apostrophe splits a word. "may" is missing
# because it is also a month, "won" because it is also what remains of "won't".
_QUESTION = """
a an the this that these those
i me my mine you your yours he him his she her hers it its we us our ours they them their theirs
myself yourself himself herself itself ourselves yourselves themselves one ones
someone something anyone anything
am is are was were be been being do does did doing done have has had having
can could will would shall should might must
s t d ll m re ve don doesn didn isn aren wasn weren hasn haven hadn wouldn couldn shouldn
what when where which who whom whose why how whether
of in on at to for from with by about into onto as than over under between during
through upon within
and or but if so nor because while then there here
not no yes any some all both each such very too also just only ever
tell say please show give know let ok hey hi thanks
"""
QUESTION_WORDS = frozenset(_QUESTION.split())

# Everything but letters and digits becomes a space, which takes less time than a pattern.
_ASCII_WORDS = bytes(byte if chr(byte).isalnum() else 32 for byte in range(128)) + b" " * 128
# FTS5 does not stem tokens with more bytes than this.
_LONGEST = 64
_MOST_CACHED = 1 << 16
# Variants of a letter that lower() does not unify.
_VARIANTS = str.maketrans("ςµſ", "σμs")

_lock = threading.Lock()


class _Stems(dict[str, str]):
    """Cache of stems by word."""

    def __missing__(self, word: str) -> str:
        if len(word) > _LONGEST:
            return word
        if len(self) >= _MOST_CACHED:
            self.clear()
        self[word] = found = _stemmed(word)
        return found


class _Codes(dict[str, int]):
    """Cache of term codes by word."""

    def __missing__(self, word: str) -> int:
        code = zlib.crc32(_stems[word].encode())
        if len(word) <= _LONGEST:
            if len(self) >= _MOST_CACHED:
                self.clear()
            self[word] = code
        return code


_stems = _Stems()
_codes = _Codes()


def terms(text: str) -> list[str]:
    """Return the index terms of a text, in order: folded and stemmed words."""
    return [*map(_stems.__getitem__, _words(text))]


def words(text: str) -> list[str]:
    """Return the words of a text, in order: folded like terms, but not stemmed."""
    return _words(text)


def term_codes(text: str) -> bytes:
    """Return the terms of a text, in order, each as four little-endian bytes: the CRC-32 of its UTF-8."""
    return packed_codes(term_numbers(text))


def term_numbers(text: str) -> list[int]:
    """Return the codes of the terms of a text as numbers, in order."""
    return [*map(_codes.__getitem__, _words(text))]


def packed_codes(codes: Sequence[int]) -> bytes:
    """Return codes as they are stored: each as four little-endian bytes."""
    packed = array("I", codes)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def query_words(query: str) -> list[str]:
    """Return the distinct words of a query, not stemmed, without stop words unless it has no others."""
    words = dict.fromkeys(_words(query))
    return [word for word in words if word not in QUESTION_WORDS] or [*words]


def stem(word: str) -> str:
    """Return the stem of a folded word."""
    return _stems[word]


def _words(text: str) -> list[str]:
    if text.isascii():
        return text.lower().encode().translate(_ASCII_WORDS).decode().split()
    return _word().findall(folded(segment(text) or text))


def folded(text: str) -> str:
    """Return a text in lower case, without diacritics on Latin letters, as the index folds it."""
    # Not casefold(): it turns "ß" into "ss", and the index keeps "ß". Diacritics are removed from Latin letters
    # only, so "й" and "и" stay different letters.
    decomposed = unicodedata.normalize("NFD", text.lower().translate(_VARIANTS))
    return unicodedata.normalize("NFC", _marks().sub("", decomposed))


@cache
def _word() -> re.Pattern[str]:
    # FTS5, unlike Python, treats private-use characters as letters.
    return re.compile(r"(?:[^\W_]|[\ue000-\uf8ff])+")


@cache
def _marks() -> re.Pattern[str]:
    return re.compile(r"(?<=[a-z])[\u0300-\u036f]+")


def _stemmed(word: str) -> str:
    import apsw

    # A connection and its tokenizer serve one thread at a time.
    with _lock:
        found = _tokenizer()(
            word.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
        )
    stems = [str(each) for each in found]
    # FTS5 may know fewer letters than Python, and find no word or several in one.
    return stems[0] if len(stems) == 1 else word


@cache
def _tokenizer() -> "apsw.FTS5Tokenizer":
    """Return the tokenizer of the full-text index. Its stems are those of the index, whatever the store."""
    # Imported when first used: opening a store does not need stems.
    import apsw

    return apsw.Connection(":memory:").fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])


if hasattr(os, "register_at_fork"):
    # No thread uses the tokenizer while a process forks, so that the child can use it.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
