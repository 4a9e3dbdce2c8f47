"""A part of a text that is searched, prepared so that most rules can be skipped without looking at all of it."""

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from satchel.model.patterns import lazy_pattern

__all__ = ["HintIndex", "Run", "Searched", "searched"]

_LETTERS = bytes(byte if chr(byte).isalpha() else 32 for byte in range(128)) + b" " * 128
# What is no sign: letters, digits and white space.
_NO_SIGNS = bytes(byte for byte in range(128) if chr(byte).isalnum() or chr(byte).isspace())
# Letters of other languages, without the dashes, quotes and ellipses that English texts have, too.
_FOREIGN = lazy_pattern("[\u00c0-\u024f\u0400-\u04ff\u3040-\u9fff\uac00-\ud7af]")
_STEM = re.compile(r"[a-z]{3,}")
_SIGN = re.compile(r"[^a-z0-9\s]")

_WORDS_CACHED = 1 << 16
_LONGEST_CACHED = 32


class Searched(NamedTuple):
    """A text, the same in lower case, its words in order, and which hints it contains."""

    text: str
    lowered: str
    ascii: bytes
    """The same in lower case, with `?` for characters of other alphabets."""
    words: list[bytes]
    hinted: "list[_Group]"
    """Each index that has a hint in the text, with the number of the group."""


def searched(text: str) -> Searched:
    """Prepare a text for the search. One thread at a time may do this."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # İ is the only character whose lower case is longer; positions must stay the same.
        lowered = text.replace("İ", "I").lower()
    encoded = lowered.encode("ascii", "replace")
    words = encoded.translate(_LETTERS).split()
    return Searched(text, lowered, encoded, words, _hints.within(lowered, encoded, words))


class Run:
    """Tells whether a text has enough characters of some kind in a row, which takes little time to see."""

    def __init__(self, characters: str, length: int) -> None:
        """`characters` is the inside of a class in a pattern, of characters in lower case."""
        kind = re.compile(f"[{characters}]", re.ASCII)
        self._marked = bytes(kind.match(chr(byte)) is not None for byte in range(128)) + bytes(128)
        self._wanted = b"\1" * length

    def within(self, part: Searched) -> bool:
        return self._wanted in part.ascii.translate(self._marked)


class _KnownWords:
    """Remembers which stems of hints the words of earlier texts contain: most contain none."""

    def __init__(self) -> None:
        self._by_start: dict[tuple[str, ...], list[str]] = {}
        """The stems by their first three letters, which each has at least."""
        self._known: set[bytes] = set()
        self._stems_of: dict[bytes, tuple[str, ...]] = {}
        """The known words with stems."""

    def add_stem(self, stem: str) -> None:
        near = self._by_start.setdefault(tuple(stem[:3]), [])
        if stem not in near:
            near.append(stem)
            self.forget()

    def forget(self) -> None:
        self._known.clear()
        self._stems_of.clear()

    def stems_in(self, words: list[bytes]) -> set[str]:
        # The known words first: learning others may forget them.
        found: set[str] = set().union(*map(self._stems_of.__getitem__, self._stems_of.keys() & words))
        if not self._known.issuperset(words):
            found.update(*map(self._learnt, set(words) - self._known))
        return found

    def _learnt(self, word: bytes) -> tuple[str, ...]:
        stems = self._stems_within(word.decode("ascii"))
        if len(word) <= _LONGEST_CACHED:
            if len(self._known) >= _WORDS_CACHED:
                self.forget()
            # In this order, so that whatever interrupts it, no known word lacks its stems.
            if stems:
                self._stems_of[word] = stems
            self._known.add(word)
        return stems

    def _stems_within(self, word: str) -> tuple[str, ...]:
        # Few stems start with the same letters, so this takes less time than to look for each of them.
        starts = zip(word, word[1:], word[2:], strict=False)
        near = self._by_start.keys() & starts
        return tuple(stem for start in near for stem in self._by_start[start] if stem in word) if near else ()


_Group: TypeAlias = "tuple[HintIndex, int]"


class _Hints:
    """The hints of all indexes.

    A hint is looked for in a text only if the text contains its stem: the longest run of letters in it or, if it
    has no long one, its first sign.
    """

    def __init__(self) -> None:
        self.words = _KnownWords()
        self._by_stem: dict[str, list[tuple[str, _Group]]] = {}
        self._short: list[tuple[str, _Group]] = []
        self._foreign: list[tuple[str, _Group]] = []

    def add(self, hint: str, group: _Group) -> None:
        if not hint.isascii():
            self._foreign.append((hint, group))
        elif stem := max(_STEM.findall(hint), key=len, default=""):
            self._by_stem.setdefault(stem, []).append((hint, group))
            self.words.add_stem(stem)
        elif sign := _SIGN.search(hint):
            self._by_stem.setdefault(sign[0], []).append((hint, group))
        else:
            self._short.append((hint, group))

    def within(self, lowered: str, encoded: bytes, words: list[bytes]) -> list[_Group]:
        """Return the groups of which a text contains a hint, with their indexes."""
        # A search in ASCII is faster.
        text = lowered if lowered.isascii() else encoded.decode("ascii")
        found = [group for hint, group in self._short if hint in text]
        signs = encoded.translate(None, _NO_SIGNS).decode("ascii")
        for stem in self._by_stem.keys() & self.words.stems_in(words).union(signs):
            found += [group for hint, group in self._by_stem[stem] if hint == stem or hint in text]
        if text is not lowered and _FOREIGN.search(lowered):
            found += [group for hint, group in self._foreign if hint in lowered]
        return found


_hints = _Hints()


class HintIndex:
    """Tells which of many groups of hints a text contains. It is made when its module is imported."""

    def __init__(self, groups: Iterable[Iterable[str]]) -> None:
        for number, hints in enumerate(groups):
            for hint in hints:
                _hints.add(hint, (self, number))

    def present(self, part: Searched) -> list[int]:
        """Return the numbers of the groups of which the text contains a hint, in order."""
        if not part.hinted:
            return []
        return sorted({number for index, number in part.hinted if index is self})
