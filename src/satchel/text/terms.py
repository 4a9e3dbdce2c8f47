"""The words of a text as the index knows them: folded, cut and stemmed as FTS5's porter unicode61 does.

Scripts written without spaces become single characters and pairs, so that they can be found."""

import itertools
import re
import sys
import threading
import unicodedata
import zlib
from array import array
from collections.abc import Callable
from functools import cache

from satchel.model.checks import repair_surrogates

__all__ = [
    "QUESTION_WORDS",
    "folded",
    "query_terms",
    "query_words",
    "segment",
    "stem",
    "term_codes",
    "terms",
    "words",
]


# Han, kana, bopomofo, hangul, yi, and Thai, Lao, Khmer, Myanmar. Korean has spaces, but its particles
# stick to the word, so that only its syllables can be found inside one.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029"
    "\u3031-\u3035\u3041-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001b000-\U0001b2ff\U00020000-\U000323af"
)
_PLAIN_TERM = re.compile(r"[A-Za-z0-9]+")


@cache
def _character() -> re.Pattern[str]:
    # Compiled when first needed: it takes as long as importing several modules.
    return re.compile(f"[{_UNSPACED}]")


@cache
def _term() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")


def segment(text: str) -> str | None:
    """The text with spaces around each unspaced character, or None where it has no such character."""
    if text.isascii() or not _character().search(text):
        return None
    return _character().sub(r" \g<0> ", unicodedata.normalize("NFC", text))


def query_terms(query: str) -> tuple[str, ...]:
    """The distinct terms of a query, in order; a pair of unspaced characters is a phrase of two."""
    found: dict[str, None] = {}
    plain = query if query.isascii() else unicodedata.normalize("NFC", repair_surrogates(query))
    for chunk in plain.split():
        if chunk.isascii():
            found.update(dict.fromkeys(map(str.lower, _PLAIN_TERM.findall(chunk))))
        else:
            for match in _term().finditer(chunk):
                found.update(dict.fromkeys(_terms(match.group())))
            # The index may know characters as letters that this Python's Unicode does not, so the
            # chunk also goes to it as it is, to be split there.
            found[(segment(chunk) or chunk).strip().lower()] = None
    return tuple(term for term in found if term)


def _terms(word: str) -> list[str]:
    if not _character().match(word):
        return [word.lower()]
    return [f"{first} {second}" for first, second in itertools.pairwise(word)] or [word]


# The words of a text as the index knows them: folded, cut and stemmed as FTS5's porter unicode61 does.


# What a question is made of beside its subject. "s", "t", "ll" and their like are left where an
# apostrophe cut a word. Not "may", which is also a month, nor "won", which "won't" leaves too.
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

_ASCII_WORD = re.compile(r"[a-z0-9]+")
# Above these bytes FTS5 takes a token for no word, below them for too short a one.
_LONGEST, _SHORTEST = 64, 3
_MOST_CACHED = 1 << 16
# A vowel and a consonant after it: "technolog" has one before its "log", "biolog" has none.
_SYLLABLE = re.compile(r"(?:[aeiou]|(?<=[^aeiou])y)[^aeiou]")
# Two shapes of one letter, which lower() keeps apart.
_VARIANTS = str.maketrans("ςµſ", "σμs")

_lock = threading.Lock()


class _Stems(dict[str, str]):
    """Each word's stem, found when first asked for."""

    def __missing__(self, word: str) -> str:
        if not _SHORTEST <= len(word if word.isascii() else word.encode()) <= _LONGEST:
            return word
        if len(self) >= _MOST_CACHED:
            self.clear()
        # FTS5 counts bytes where the stemmer counts letters: each byte becomes a letter, for as long.
        found = _porter(word.encode().decode("latin-1")).encode("latin-1").decode()
        self[word] = found
        return found


class _Codes(dict[str, int]):
    """Each word's code, found when first asked for."""

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
    """The index terms of a text, in its order."""
    return [*map(_stems.__getitem__, _words(text))]


def words(text: str) -> list[str]:
    """The words of a text, in its order: folded as the terms are, but not stemmed."""
    return _words(text)


def term_codes(text: str) -> bytes:
    """The terms of a text, in its order, each as the CRC-32 of its UTF-8 in four little-endian bytes."""
    codes = array("I", map(_codes.__getitem__, _words(text)))
    if sys.byteorder == "big":
        codes.byteswap()
    return codes.tobytes()


def query_words(query: str) -> list[str]:
    """The distinct words of a query, not stemmed; its stop words only where it has no other."""
    words = dict.fromkeys(_words(query))
    return [word for word in words if word not in QUESTION_WORDS] or [*words]


def stem(word: str) -> str:
    """The stem of one folded word."""
    return _stems[word]


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _word().findall(folded(segment(text) or text))


def folded(text: str) -> str:
    """A text in small letters, without the marks on Latin ones."""
    # Not casefold(), which makes two letters of "ß": the index keeps it. As the index does, marks are
    # taken off Latin letters only, so that "й" stays another letter than "и".
    decomposed = unicodedata.normalize("NFD", text.lower().translate(_VARIANTS))
    return unicodedata.normalize("NFC", _marks().sub("", decomposed))


@cache
def _word() -> re.Pattern[str]:
    # Private-use characters are letters to the index, and only to it.
    return re.compile(r"(?:[^\W_]|[\ue000-\uf8ff])+")


@cache
def _marks() -> re.Pattern[str]:
    return re.compile(r"(?<=[a-z])[\u0300-\u036f]+")


def _porter(word: str) -> str:
    # The stemmer keeps the word it works on in itself: one thread at a time.
    with _lock:
        porter = _stemmer()
        found = porter(word)
        # FTS5 has the two rules that Porter added later: -bli to -ble, and -logi to -log.
        if found.endswith("bli") and _SYLLABLE.search(found, 0, len(found) - 3):
            found = porter(found[:-1] + "e")
        elif found.endswith("logi") and _SYLLABLE.search(found, 0, len(found) - 4):
            found = porter(found[:-1])
    return found


@cache
def _stemmer() -> Callable[[str], str]:
    # Imported when first needed: opening a store and saving to it need no stems.
    from Stemmer import Stemmer

    stem_word: Callable[[str], str] = Stemmer("porter", 0).stemWord
    return stem_word
