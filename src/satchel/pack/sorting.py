"""Which candidates are considered at all, and why the others are not."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from satchel.pack.item import Item
from satchel.pack.likeness import alike, equal
from satchel.pack.receipt import Reason

__all__ = ["Sorted", "Verdict", "sort_out"]

# So many are looked at closely, and one more for every few tokens of the budget.
LOOKED_AT = 400
TOKENS_FOR_ONE_MORE = 4
# The best are looked at however long they are.
ALWAYS = 50

CHARACTERS_PER_TOKEN = 4
LINE = 6


class Verdict(NamedTuple):
    """Why a candidate is not considered; `other` is the place of the one it repeats or that superseded it."""

    reason: Reason
    other: int | None = None


class Sorted(NamedTuple):
    """The places of those that are considered, the pinned first, then by rank."""

    considered: list[int]
    verdicts: dict[int, Verdict]


def sort_out(items: Sequence[Item], *, budget: int | None, floor: float) -> Sorted:
    """Leave out what is superseded, worth too little or said already; and of very many the least promising."""
    verdicts: dict[int, Verdict] = {}
    places = {item.id: place for place, item in enumerate(items)} if any(i.superseded_by for i in items) else {}
    for place, item in enumerate(items):
        if item.superseded_by in places:
            verdicts[place] = Verdict("superseded", places[item.superseded_by])
        elif item.value < floor and not item.pinned:
            verdicts[place] = Verdict("below the floor")
    left = [place for place in range(len(items)) if place not in verdicts]
    left.sort(key=lambda place: not items[place].pinned)
    left = _without(left, items, verdicts, equal)
    if budget is not None:
        left = _promising(left, items, LOOKED_AT + budget // TOKENS_FOR_ONE_MORE, verdicts)
    return Sorted(_without(left, items, verdicts, alike), verdicts)


def _without(
    places: Sequence[int],
    items: Sequence[Item],
    verdicts: dict[int, Verdict],
    repeats: Callable[[Sequence[Item]], dict[int, int]],
) -> list[int]:
    repeated = repeats([items[place] for place in places])
    for place, other in repeated.items():
        verdicts[places[place]] = Verdict("duplicate", places[other])
    return [place for number, place in enumerate(places) if number not in repeated]


def _promising(places: list[int], items: Sequence[Item], most: int, verdicts: dict[int, Verdict]) -> list[int]:
    """Those that seem worth most for their tokens; what they cost is counted later."""
    if len(places) <= most:
        return places
    tokens = np.array([_about(items[place]) for place in places])
    worth = np.array([items[place].value for place in places]) / tokens
    worth[:ALWAYS] = np.inf
    worth[[items[place].pinned for place in places]] = np.inf
    chosen = set(np.argsort(-worth, kind="stable")[:most].tolist())
    for number, place in enumerate(places):
        if number not in chosen:
            verdicts[place] = Verdict("over budget")
    return [place for number, place in enumerate(places) if number in chosen]


def _about(item: Item) -> int:
    return (item.tokens if item.tokens is not None else len(item.text) // CHARACTERS_PER_TOKEN) + LINE
