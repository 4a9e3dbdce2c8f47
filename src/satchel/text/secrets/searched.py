"""A part of a text that is searched, prepared so that most rules can be skipped without looking at all of it."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from satchel.model.patterns import lazy_pattern

__all__ = ["HintIndex", "Searched", "searched"]

_LETTERS = bytes(byte if chr(byte).isalpha() else 32 for byte in range(128)) + b" " * 128
# Letters of other languages, without the dashes, quotes and ellipses that English texts have, too.
_FOREIGN = lazy_pattern("[\u00c0-\u024f\u0400-\u04ff\u3040-\u9fff\uac00-\ud7af]")
_SHORTEST_STEM = 3
_STEM = re.compile(rf"[a-z]{{{_SHORTEST_STEM},}}")
_MARK = re.compile(r"[^a-z0-9\s]")

_WORDS_CACHED = 1 << 16
_LONGEST_CACHED = 32


class Searched(NamedTuple):
    """A text, the same in lower case, its words in order, and the stems of hints that the words contain."""

    text: str
    lowered: str
    ascii: str
    """The same in lower case, with `?` for characters of other alphabets: a search in it is faster."""
    words: list[bytes]
    stems: set[str]
    foreign: bool


def searched(text: str) -> Searched:
    """Prepare a text for the search. One thread at a time may do this."""
    lowered = text.lower()
    if text.isascii():
        words = lowered.encode().translate(_LETTERS).split()
        return Searched(text, lowered, lowered, words, _known.stems_in(words), foreign=False)
    if len(lowered) != len(text):
        # İ is the only character whose lower case is longer; positions must stay the same.
        lowered = text.replace("İ", "I").lower()
    encoded = lowered.encode("ascii", "replace")
    words = encoded.translate(_LETTERS).split()
    foreign = _FOREIGN.search(lowered) is not None
    return Searched(text, lowered, encoded.decode("ascii"), words, _known.stems_in(words), foreign)


class _KnownWords:
    """Remembers which stems of hints the words of earlier texts contain: most contain none."""

    def __init__(self) -> None:
        self._stems: dict[str, list[str]] = {}
        """The stems by their first letters."""
        self._plain: set[bytes] = set()
        self._stems_of: dict[bytes, tuple[str, ...]] = {}

    def add_stems(self, stems: Iterable[str]) -> None:
        for stem in stems:
            known = self._stems.setdefault(stem[:_SHORTEST_STEM], [])
            if stem not in known:
                known.append(stem)
        self.forget()

    def forget(self) -> None:
        self._plain.clear()
        self._stems_of.clear()

    def stems_in(self, words: Iterable[bytes]) -> set[str]:
        found: set[str] = set()
        unknown: list[bytes] = []
        for word in set(words) - self._plain:
            if (stems := self._stems_of.get(word)) is None:
                unknown.append(word)
            else:
                found.update(stems)
        return found | self._learnt(unknown) if unknown else found

    def _learnt(self, words: list[bytes]) -> set[str]:
        if len(self._plain) + len(self._stems_of) >= _WORDS_CACHED:
            self.forget()
        found: set[str] = set()
        for word in words:
            stems = self._stems_within(word.decode("ascii"))
            found.update(stems)
            if len(word) <= _LONGEST_CACHED:
                if stems:
                    self._stems_of[word] = stems
                else:
                    self._plain.add(word)
        return found

    def _stems_within(self, word: str) -> tuple[str, ...]:
        if len(word) > _LONGEST_CACHED:
            return tuple(stem for stems in self._stems.values() for stem in stems if stem in word)
        # Few stems start with the same letters, so this takes less time than to look for each of them.
        starts = (word[place : place + _SHORTEST_STEM] for place in range(len(word) - _SHORTEST_STEM + 1))
        near = [stem for start in self._stems.keys() & starts for stem in self._stems[start]]
        return tuple(stem for stem in near if stem in word)


_known = _KnownWords()


class HintIndex:
    """Tells which of many groups of hints a text contains. It is made when its module is imported.

    A hint is looked for in the text only if one of the words contains its stem, the longest run of letters in it.
    Most hints without a stem have a special character in them, and most texts have none.
    """

    def __init__(self, groups: Iterable[Iterable[str]]) -> None:
        self._by_stem: dict[str, list[tuple[int, str]]] = {}
        self._marked: list[tuple[int, str]] = []
        self._short: list[tuple[int, str]] = []
        self._foreign: list[tuple[int, str]] = []
        for number, hints in enumerate(groups):
            for hint in hints:
                stem = _stem(hint)
                if stem is None:
                    self._foreign.append((number, hint))
                elif stem:
                    self._by_stem.setdefault(stem, []).append((number, hint))
                else:
                    (self._marked if _MARK.search(hint) else self._short).append((number, hint))
        marks = {_MARK.findall(hint)[0] for _, hint in self._marked}
        self._marks = re.compile(f"[{re.escape(''.join(sorted(marks)))}]") if marks else None
        _known.add_stems(self._by_stem)

    def present(self, part: Searched) -> list[int]:
        """Return the numbers of the groups of which the text contains a hint, in order."""
        text = part.ascii
        found = [number for number, hint in self._short if hint in text]
        if self._marks is not None and self._marks.search(text):
            found += [number for number, hint in self._marked if hint in text]
        for stem in part.stems:
            if hints := self._by_stem.get(stem):
                found += [number for number, hint in hints if hint is stem or hint in text]
        if part.foreign:
            found += [number for number, hint in self._foreign if hint in part.lowered]
        return sorted(set(found)) if found else found


def _stem(hint: str) -> str | None:
    """Return the longest run of letters in a hint, or None if the hint has letters of other languages."""
    if not hint.isascii():
        return None
    stem = max(_STEM.findall(hint), key=len, default="")
    return hint if stem == hint else stem
