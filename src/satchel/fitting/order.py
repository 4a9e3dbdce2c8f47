"""In which order items are taken: steps, each an item or more of one, with what it costs and is worth.

The order by worth does not know the budget, so that a larger one only goes further along it.
"""

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["NOTHING", "Offer", "Option", "Step", "by_worth", "level_by_level", "whole"]

# A line takes a reader a little attention beside its tokens: without this, one-word lines win.
ATTENTION = 6


class Option(NamedTuple):
    """One level of an item: about what its lines cost, and what they are worth as a whole number."""

    cost: int
    value: int
    at_least: int = 0
    """What the lines cost for certain."""


class Offer(NamedTuple):
    """An item with its levels, the least first, and the numbers of the headings it stands under."""

    item: int
    options: Sequence[Option]
    section: int
    group: int
    cheaper: bool = False
    """Whether a level that is worth less for a token is taken where there is no room for another."""


NOTHING = -1


class Step(NamedTuple):
    """Taking an item at a level, or raising it there from the level of its step before."""

    item: int
    level: int
    before: int
    """The level it is raised from; `NOTHING` where it is taken first."""
    cost: int
    """About; what it costs exactly is asked for when there may be room for it."""
    at_least: int
    value: int
    section: int
    group: int

    @property
    def first(self) -> bool:
        return self.before == NOTHING


def whole(offer: Offer) -> Step:
    """All of an item at once."""
    cost, value, at_least = offer.options[-1]
    return Step(offer.item, len(offer.options) - 1, NOTHING, cost, at_least, value, offer.section, offer.group)


def level_by_level(offer: Offer) -> Iterator[Step]:
    """One item through all of its levels, so that it is there as far as there is room for it."""
    before, cheaper = NOTHING, Option(0, 0)
    for level, option in enumerate(offer.options):
        cost, value = option.cost - cheaper.cost, option.value - cheaper.value
        at_least = option.at_least - cheaper.cost
        yield Step(offer.item, level, before, cost, at_least, value, offer.section, offer.group)
        before, cheaper = level, option


def by_worth(offers: Sequence[Offer], *, sections: Sequence[int], groups: Sequence[int]) -> Iterator[Step]:
    """The steps by value per token, where the first under a heading also pays for it."""
    return _Walk(offers, sections, groups).steps()


class _Walk:
    def __init__(self, offers: Sequence[Offer], sections: Sequence[int], groups: Sequence[int]) -> None:
        self.section_costs = list(sections)
        self.group_costs = list(groups)
        self.raises = [list(_raises(offer)) for offer in offers]
        self.heap: list[tuple[float, int, int, int, int]] = []
        self.waiting: defaultdict[int, list[int]] = defaultdict(list)
        self.groups_of: defaultdict[int, set[int]] = defaultdict(set)
        for place, offer in enumerate(offers):
            self.waiting[offer.group].append(place)
            self.groups_of[offer.section].add(offer.group)
            self._push(place, 0)

    def steps(self) -> Iterator[Step]:
        taken = [0] * len(self.raises)
        while self.heap:
            *_, place, number, headings = heapq.heappop(self.heap)
            step = self.raises[place][number]
            if taken[place] != number or headings != self._headings(step):
                # It has been taken, or stands elsewhere in the heap with what its headings cost by now.
                continue
            yield step
            taken[place] += 1
            for opened in self._open(step):
                if not taken[opened]:
                    self._push(opened, 0)
            if number + 1 < len(self.raises[place]):
                self._push(place, number + 1)

    def _headings(self, step: Step) -> int:
        return self.section_costs[step.section] + self.group_costs[step.group] if step.first else 0

    def _push(self, place: int, number: int) -> None:
        step = self.raises[place][number]
        headings = self._headings(step)
        price = step.cost + headings + (ATTENTION if step.first else 0)
        heapq.heappush(self.heap, (-step.value / max(1, price), -step.value, place, number, headings))

    def _open(self, step: Step) -> Iterable[int]:
        """The places of those that cost less once this step is taken."""
        cheaper: Iterable[int] = ()
        if self.section_costs[step.section]:
            groups = sorted(self.groups_of[step.section])
            cheaper = itertools.chain.from_iterable(self.waiting[group] for group in groups)
        elif self.group_costs[step.group]:
            cheaper = self.waiting[step.group]
        self.section_costs[step.section] = self.group_costs[step.group] = 0
        return cheaper


def _raises(offer: Offer) -> Iterator[Step]:
    """The steps from nothing to the whole that are each worth less for a token than the one before.

    After them come those levels that cost less than the first step, for where there is no room for that.
    """
    if len(offer.options) == 1:
        yield whole(offer)
        return
    hull = [(NOTHING, Option(0, 0))]
    for level, option in sorted(enumerate(offer.options), key=lambda pair: pair[1].cost):
        if option.value <= hull[-1][1].value:
            continue
        while len(hull) > 1 and _slope(hull[-2][1], hull[-1][1]) <= _slope(hull[-2][1], option):
            hull.pop()
        hull.append((level, option))
    for (lower, before), (level, after) in itertools.pairwise(hull):
        cost, value = after.cost - before.cost, after.value - before.value
        at_least = after.at_least - before.cost
        yield Step(offer.item, level, lower, cost, at_least, value, offer.section, offer.group)
    if offer.cheaper:
        first = hull[1][0]
        for level in reversed(range(first)):
            cost, value, at_least = offer.options[level]
            yield Step(offer.item, level, NOTHING, cost, at_least, value, offer.section, offer.group)


def _slope(low: Option, high: Option) -> float:
    return (high.value - low.value) / max(1, high.cost - low.cost)
