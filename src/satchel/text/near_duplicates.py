"""Texts that say the same: equal but for case, punctuation and function words, or one inside another."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["alike", "equal", "within", "word_count"]

# What is shorter stands in many a text by chance.
TELLING = 20
# A longer text is the same as another only to the letter.
COMPARED = 20_000
# Only what begins and ends with the same words is compared.
EDGE = 64
WORDS_OF_IT = 5

_Words = tuple[str, ...]

# A number is one word with its sign and what joins its digits: 1.5 is neither 15 nor "1, 5", and -1 is not 1.
# Signs that may change a meaning are words too: C++, C#, #12, 5 %, a != b, 👍, and a question mark.
_WORD = re.compile(
    r"""(?:(?<!\w)-(?=\d))?\w+(?:[.,:/-]\w*\d\w*)*
    |!(?=[=\w]) | \? | (?<=\w)\# | \#(?=\w)
    |[^\w\s.,;:!?\#"'()\[\]{}«»“”‘’‚„…–—―*`|\\·•。、「」『』（）-]""",
    re.VERBOSE,
)
_FILLERS = frozenset({"a", "an", "the", "that"})
# Except as the first word, where they ask: "is it down". No other tense: what was need not be any more.
_COPULAS = frozenset({"is", "are"})

_BORDER = "\n\0\n"
_ENDS = ".!?。！？… \t\n\r"
# A part of a sentence does not say what the sentence says.
_BEFORE = re.compile(r"(?:^|[.!?。！？…\n\0][\"')\]»”’]*\s*|\n\s*[-*+•]\s+)$")
_AFTER = re.compile(r"[\"')\]»”’]*(?:[.!?。！？…\n\0]|$)")


def equal(texts: Sequence[str]) -> dict[int, int]:
    """For each text that is that of one before it, the place of that one."""
    if len(set(texts)) == len(texts):
        return {}
    first: dict[str, int] = {}
    places = [first.setdefault(text, place) for place, text in enumerate(texts)]
    return {place: other for place, other in enumerate(places) if other != place}


def alike(texts: Sequence[str]) -> dict[int, int]:
    """For each text with the same words as one before it, in the same order, the place of that one.

    Articles, "that", "is" and "are" are not compared, nor are case and punctuation. Every other word is, so that
    texts with other numbers, dates, names or a negation are never alike.
    """
    first: defaultdict[_Words, list[int]] = defaultdict(list)
    found = {}
    for place, text in enumerate(texts):
        beginning = _words(text[:EDGE])[:WORDS_OF_IT]
        if not beginning or len(text) > COMPARED:
            continue
        others = first[beginning]
        other = next((other for other in others if _same(text, texts[other])), None)
        if other is None:
            others.append(place)
        else:
            found[place] = other
    return found


def _same(text: str, other: str) -> bool:
    """Whether the words are the same; most that differ do so at the end."""
    ends = [_words(each[-EDGE:])[-WORDS_OF_IT:] for each in (text, other)]
    return ends[0] == ends[1] and _words(text) == _words(other)


def within(texts: Sequence[str]) -> dict[int, int]:
    """For each text whose sentences stand together in a longer one, the place of that one."""
    folded = [text.casefold().strip(_ENDS) for text in texts]
    everything = _BORDER.join(folded)
    starts = [0, *accumulate(len(text) + len(_BORDER) for text in folded)]
    found = {}
    for place, text in enumerate(folded):
        if len(text) < TELLING:
            continue
        at = everything.find(text)
        while at >= 0:
            other = bisect_right(starts, at) - 1
            if len(folded[other]) > len(text) and _is_whole(everything, at, at + len(text)):
                found[place] = other
                break
            at = everything.find(text, at + 1)
    return {place: _last(found, place) for place in found}


def _is_whole(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 8) : start] if start else ""
    return _BEFORE.search(before) is not None and _AFTER.match(text, end) is not None


def _last(found: dict[int, int], place: int) -> int:
    """The longest of those that stand in each other."""
    while place in found:
        place = found[place]
    return place


def word_count(text: str) -> int:
    """How many words a text has, as they are compared."""
    return len(_words(text))


def _words(text: str) -> _Words:
    found = _WORD.findall(text.casefold())
    return tuple(
        word for place, word in enumerate(found) if word not in _FILLERS and (word not in _COPULAS or not place)
    )
