"""A part of a text that is searched, prepared so that most rules can be skipped without looking at all of it."""

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

__all__ = ["HintIndex", "Searched", "searched"]

_LETTERS = bytes(byte if chr(byte).isalpha() else 32 for byte in range(128)) + b" " * 128
# Letters of other languages, without the dashes, quotes and ellipses that English texts have, too.
_FOREIGN = re.compile("[\u00c0-\u024f\u0400-\u04ff\u3040-\u9fff\uac00-\ud7af]")
_STEM = re.compile(r"[a-z]{3,}")


class Searched(NamedTuple):
    """A text, the same in lower case, its words in order, and the different ones among them, each once."""

    text: str
    lowered: str
    ascii: str
    """The same in lower case, with `?` for characters of other alphabets: a search in it is faster."""
    words: list[bytes]
    vocabulary: str
    foreign: bool

    def has_any(self, hints: Iterable[str]) -> bool:
        """Return whether the lower-cased text contains one of these strings.

        The words are searched first, because they are much shorter than the text.
        """
        vocabulary, ascii_text = self.vocabulary, self.ascii
        for hint in hints:
            stem = _stem(hint)
            if stem is None:
                if self.foreign and hint in self.lowered:
                    return True
            elif stem in vocabulary and (stem is hint or hint in ascii_text):
                return True
        return False


def searched(text: str) -> Searched:
    """Prepare a text for the search."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # İ is the only character whose lower case is longer; positions must stay the same.
        lowered = text.replace("İ", "I").lower()
    encoded = lowered.encode("ascii", "replace")
    words = encoded.translate(_LETTERS).split()
    foreign = not text.isascii() and _FOREIGN.search(lowered) is not None
    return Searched(text, lowered, encoded.decode("ascii"), words, b" ".join(set(words)).decode("ascii"), foreign)


class HintIndex:
    """Tells which of many groups of hints a text contains, with one quick look at each distinct stem."""

    def __init__(self, groups: Iterable[Iterable[str]]) -> None:
        self._by_stem: dict[str, list[tuple[int, str]]] = {}
        self._without_stem: list[tuple[int, str]] = []
        self._foreign: list[tuple[int, str]] = []
        for number, hints in enumerate(groups):
            for hint in hints:
                stem = _stem(hint)
                if stem is None:
                    self._foreign.append((number, hint))
                elif stem:
                    self._by_stem.setdefault(stem, []).append((number, hint))
                else:
                    self._without_stem.append((number, hint))
        self._stems = tuple(self._by_stem)

    def present(self, part: Searched) -> list[int]:
        """Return the numbers of the groups of which the text contains a hint, in order."""
        vocabulary, text = part.vocabulary, part.ascii
        found = {number for number, hint in self._without_stem if hint in text}
        for stem in [each for each in self._stems if each in vocabulary]:
            found |= {number for number, hint in self._by_stem[stem] if hint is stem or hint in text}
        if part.foreign:
            found |= {number for number, hint in self._foreign if hint in part.lowered}
        return sorted(found)


@cache
def _stem(hint: str) -> str | None:
    """Return the longest run of letters in a hint, or None if the hint has letters of other languages."""
    if not hint.isascii():
        return None
    stem = max(_STEM.findall(hint), key=len, default="")
    return hint if stem == hint else stem
