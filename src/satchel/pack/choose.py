"""Choosing what is worth its tokens, where the first line of a group also pays for its heading."""

import heapq
from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

__all__ = ["Item", "choose"]


class Item(NamedTuple):
    """Something that may be packed: what it is worth, what its lines cost, the heading they stand under."""

    value: float
    cost: int
    group: Hashable
    ahead: bool = False
    """Whether it comes before all that is not, whatever they are worth."""


def choose(
    items: Sequence[Item],
    *,
    budget: int,
    group_cost: int,
    base_cost: int,
    taken: Collection[int] = (),
    refused: Collection[int] = (),
) -> list[int]:
    """The items that fit, in the order of being taken: by value per token, then value, then place.

    What does not fit is skipped. With `taken` the choice goes on: the base and the headings of those are
    paid, and the budget is what is left of it.
    """
    room = budget if taken else budget - base_cost
    gone = {*taken, *refused}
    opened = {items[index].group for index in taken}
    waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
    heap: list[tuple[bool, float, float, int]] = []
    for index, (value, cost, group, ahead) in enumerate(items):
        if cost <= room and index not in gone:
            heading = group_cost
            if group in opened:
                heading = 0
            else:
                waiting[group].append(index)
            heap.append((not ahead, -value / max(1, cost + heading), -value, index))
    heapq.heapify(heap)
    least = min((items[entry[-1]].cost for entry in heap), default=0)
    chosen: list[int] = []
    while heap and room >= least:
        index = heapq.heappop(heap)[-1]
        value, cost, group, _ = items[index]
        price = cost if group in opened else cost + group_cost
        if price > room or index in gone:
            continue
        chosen.append(index)
        gone.add(index)
        room -= price
        if group not in opened:
            opened.add(group)
            # Without the heading the others are worth more, so their new place comes before their old one.
            for other in waiting[group]:
                if other not in gone:
                    value, cost, _, ahead = items[other]
                    heapq.heappush(heap, (not ahead, -value / max(1, cost), -value, other))
    return chosen
