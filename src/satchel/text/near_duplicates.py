"""Find duplicate texts: equal, equal but for case, punctuation and articles, or contained in another."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

from satchel.model.patterns import lazy_pattern

__all__ = ["contained_texts", "exact_duplicates", "near_duplicates", "word_count"]

# Shorter texts occur in others by chance, so they are not reported as contained.
SHORTEST_CONTAINED = 20
# Longer texts are never near-duplicates, only exact ones.
LONGEST_COMPARED = 20_000
# Only texts with the same first and last words are compared.
EDGE_LENGTH = 64
EDGE_WORDS = 5

_Words = tuple[str, ...]

# A number is one word with its sign and separators: 1.5 is neither 15 nor "1, 5", and -1 is not 1. Symbols that may
# change the meaning are words too: C++, C#, #12, 5 %, a != b, 👍, and a question mark.
_WORD = lazy_pattern(
    r"""(?:(?<!\w)-(?=\d))?\w+(?:[.,:/-]\w*\d\w*)*
    |!(?=[=\w]) | \? | (?<=\w)\# | \#(?=\w)
    |[^\w\s.,;:!?\#"'()\[\]{}«»“”‘’‚„…–—―*`|\\·•。、「」『』（）-]""",
    re.VERBOSE,
)
_FILLERS = frozenset({"a", "an", "the", "that"})
# Ignored except as the first word, where they ask: "is it down". Past tenses are not ignored: they change the
# meaning.
_COPULAS = frozenset({"is", "are"})

_SEPARATOR = "\n\0\n"
_ENDS = ".!?。！？… \t\n\r"
# A text is contained only as whole sentences: a part of a sentence may mean something else.
_BEFORE = lazy_pattern(r"(?:^|[.!?。！？…\n\0][\"')\]»”’]*\s*|\n\s*[-*+•]\s+)$")
_AFTER = lazy_pattern(r"[\"')\]»”’]*(?:[.!?。！？…\n\0]|$)")


def exact_duplicates(texts: Sequence[str]) -> dict[int, int]:
    """Map the index of each text that equals an earlier one to the index of the first such text."""
    if len(set(texts)) == len(texts):
        return {}
    first: dict[str, int] = {}
    places = [first.setdefault(text, place) for place, text in enumerate(texts)]
    return {place: other for place, other in enumerate(places) if other != place}


def near_duplicates(texts: Sequence[str]) -> dict[int, int]:
    """Map the index of each text that has the same words as an earlier one, in the same order, to that one's index.

    Case, punctuation, articles, "that", "is" and "are" are ignored. All other words count, so texts with different
    numbers, dates or names, or with a negation, are never near-duplicates.
    """
    first: defaultdict[_Words, list[int]] = defaultdict(list)
    found = {}
    for place, text in enumerate(texts):
        beginning = _words(text[:EDGE_LENGTH])[:EDGE_WORDS]
        if not beginning or len(text) > LONGEST_COMPARED:
            continue
        others = first[beginning]
        other = next((other for other in others if _has_same_words(text, texts[other])), None)
        if other is None:
            others.append(place)
        else:
            found[place] = other
    return found


def _has_same_words(text: str, other: str) -> bool:
    """Return whether two texts have the same words. The ends are compared first, where most of them differ."""
    ends = [_words(each[-EDGE_LENGTH:])[-EDGE_WORDS:] for each in (text, other)]
    return ends[0] == ends[1] and _words(text) == _words(other)


def contained_texts(texts: Sequence[str]) -> dict[int, int]:
    """Map the index of each text that occurs in a longer one, as whole sentences, to the index of the longest."""
    folded = [text.casefold().strip(_ENDS) for text in texts]
    everything = _SEPARATOR.join(folded)
    starts = [0, *accumulate(len(text) + len(_SEPARATOR) for text in folded)]
    found = {}
    for place, text in enumerate(folded):
        if len(text) < SHORTEST_CONTAINED:
            continue
        at = everything.find(text)
        while at >= 0:
            other = bisect_right(starts, at) - 1
            if len(folded[other]) > len(text) and _is_whole_sentences(everything, at, at + len(text)):
                found[place] = other
                break
            at = everything.find(text, at + 1)
    return {place: _outermost(found, place) for place in found}


def _is_whole_sentences(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 8) : start] if start else ""
    return _BEFORE.search(before) is not None and _AFTER.match(text, end) is not None


def _outermost(found: dict[int, int], place: int) -> int:
    """Follow the chain of containing texts to the last one."""
    while place in found:
        place = found[place]
    return place


def word_count(text: str) -> int:
    """Return how many words of a text count in a comparison."""
    return len(_words(text))


def _words(text: str) -> _Words:
    found = _WORD.findall(text.casefold())
    return tuple(
        word for place, word in enumerate(found) if word not in _FILLERS and (word not in _COPULAS or not place)
    )
