"""Items that say the same: equal but for case, punctuation and articles, or one inside another."""

import re
from collections import defaultdict
from collections.abc import Sequence

from satchel.pack.item import Item
from satchel.passages import sentences

__all__ = ["alike", "equal", "within"]

# What is shorter stands in many a text by chance.
TELLING = 20
# A text longer than this is compared whole or not at all.
COMPARED = 20_000
# Only what begins with the same words is compared.
BEGINNING = 64
WORDS_OF_IT = 5

_WORD = re.compile(r"\w+")
_ARTICLES = frozenset({"a", "an", "the"})

_Words = tuple[str, ...]


def equal(items: Sequence[Item]) -> dict[int, int]:
    """For each item with the very text of one before it, the place of that one."""
    first: dict[str, int] = {}
    places = [first.setdefault(item.text, place) for place, item in enumerate(items)]
    return {place: other for place, other in enumerate(places) if other != place}


def alike(items: Sequence[Item]) -> dict[int, int]:
    """For each item with the same words as one before it, the place of that one."""
    first: defaultdict[_Words, list[int]] = defaultdict(list)
    found = {}
    for place, item in enumerate(items):
        if not (beginning := _words(item.text[:BEGINNING])[:WORDS_OF_IT]):
            continue
        others = first[beginning]
        words = _words(item.text) if others and len(item.text) <= COMPARED else ()
        same = (other for other in others if words and words == _words(items[other].text[: 2 * COMPARED]))
        if (other := next(same, None)) is not None:
            found[place] = other
        else:
            others.append(place)
    return found


def within(items: Sequence[Item]) -> dict[int, int]:
    """For each item all of whose sentences stand in a longer one, the place of that one."""
    said = [_sentences(item.text) for item in items]
    saying: defaultdict[_Words, list[int]] = defaultdict(list)
    for place, each in enumerate(said):
        for words in each:
            saying[words].append(place)
    found = {}
    for place, each in enumerate(said):
        if sum(len(word) for words in each for word in words) >= TELLING:
            fewest = min((saying[words] for words in each), key=len)
            others = [other for other in fewest if each < said[other]]
            if others:
                # The one that says most is in no other, so that it stays.
                found[place] = max(others, key=lambda other: len(said[other]))
    return found


def _sentences(text: str) -> frozenset[_Words]:
    beginning = text[:COMPARED]
    return frozenset(words for start, end in sentences(beginning) if (words := _words(beginning[start:end])))


def _words(text: str) -> _Words:
    return tuple(word for word in _WORD.findall(text.casefold()) if word not in _ARTICLES)
