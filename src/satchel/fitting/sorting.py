"""Which candidates are considered at all, and why the others are not."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from satchel.model.item import Item
from satchel.model.receipt import Reason
from satchel.text.near_duplicates import alike, equal

__all__ = ["Sorted", "Verdict", "sort_out"]

# As many are looked at closely as would fill a budget so many times, and some more; long ones count as if they
# were short, so that a larger budget looks at more of them whatever their length.
TIMES = 6
SOME_MORE = 2_000
SHORT = 64
# The best are looked at in any case.
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

    @property
    def wanted(self) -> int:
        """How many there would be if there were room for all of them."""
        short = sum(verdict.reason == "over budget" for verdict in self.verdicts.values())
        return short + sum(place not in self.verdicts for place in self.considered)

    @property
    def irrelevant(self) -> int:
        """How many are not relevant."""
        return sum(verdict.reason == "not relevant" for verdict in self.verdicts.values())


def sort_out(items: Sequence[Item], *, budget: int | None) -> Sorted:
    """Leave out what is superseded, not relevant or said already; and of very many the least promising."""
    verdicts = _superseded(items)
    weak = (place for place, item in enumerate(items) if not item.relevant and not item.pinned)
    verdicts |= {place: Verdict("not relevant") for place in weak if place not in verdicts}
    left = list(range(len(items)))
    if verdicts:
        left = [place for place in left if place not in verdicts]
    if any(item.pinned for item in items):
        left.sort(key=lambda place: not items[place].pinned)
    left = _without(left, items, verdicts, equal)
    if budget is not None:
        left = _promising(left, items, TIMES * budget + SOME_MORE, verdicts)
    return Sorted(_without(left, items, verdicts, alike), verdicts)


def _superseded(items: Sequence[Item]) -> dict[int, Verdict]:
    old = {place: item.superseded_by for place, item in enumerate(items) if item.superseded_by}
    places = {item.id: place for place, item in enumerate(items)} if old else {}
    return {place: Verdict("superseded", places[new]) for place, new in old.items() if new in places}


def _without(
    places: list[int],
    items: Sequence[Item],
    verdicts: dict[int, Verdict],
    repeats: Callable[[Sequence[str]], dict[int, int]],
) -> list[int]:
    repeated = repeats([items[place].text for place in places])
    if not repeated:
        return places
    for number, other in repeated.items():
        verdicts[places[number]] = Verdict("duplicate", places[other])
    return [place for number, place in enumerate(places) if number not in repeated]


def _promising(places: list[int], items: Sequence[Item], most: int, verdicts: dict[int, Verdict]) -> list[int]:
    """Those that seem worth most for their tokens, up to so many tokens; what they cost is counted later."""
    if len(places) * SHORT <= most:
        return places
    # Imported where there are many: it takes longer to load than a few take.
    import numpy as np

    found = [items[place] for place in places]
    about = np.array([_about(item) for item in found])
    worth = np.array([item.value for item in found]) / about
    worth[:ALWAYS] = np.inf
    worth[np.array([item.pinned for item in found])] = np.inf
    order = np.argsort(-worth, kind="stable")
    chosen = np.zeros(len(places), bool)
    tokens = np.where(np.isinf(worth), 0, np.minimum(about, SHORT))
    chosen[order[np.cumsum(tokens[order]) <= most]] = True
    numbers = np.array(places)
    verdicts.update(dict.fromkeys(numbers[~chosen].tolist(), Verdict("over budget")))
    kept: list[int] = numbers[chosen].tolist()
    return kept


def _about(item: Item) -> int:
    return (len(item.text) // CHARACTERS_PER_TOKEN if item.tokens is None else item.tokens) + LINE
