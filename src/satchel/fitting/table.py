"""What steps bring under many budgets at once, and the budget among them that brings most."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from satchel.fitting.order import Step

# numpy is imported where something is worked out: it takes longer to load than most commands take in all.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Table", "rooms_up_to", "tabulate"]

# After so many steps it is looked again whether any column has room for one of those to come.
BETWEEN_LOOKS = 8

# How far along the steps a room looks: as far as would fill it so many times, and some tokens more.
TIMES = 3
SOME_MORE = 1_000
SHORT = 64

# The rooms that are looked at: every one of the first, then ever fewer, so that there are some hundreds of them
# below any budget. They are the same for all budgets, and so a larger one looks at all that a smaller one did.
_STRIDES = ((512, 1), (2_048, 4), (8_192, 16), (65_536, 256), (1 << 20, 4_096), (1 << 31, 1 << 17))


class Table(NamedTuple):
    """A column for each budget: the steps that are taken there, and what they are worth together."""

    taken: list[tuple[Step, Any]]
    """Steps, each with the columns in which it is taken."""
    values: Any

    def chosen(self, column: int) -> list[Step]:
        return [step for step, columns in self.taken if columns[column]]

    def best(self) -> "NDArray[np.int64]":
        """For each column the one up to it that is worth most: the last of equals."""
        import numpy as np

        highest = np.maximum.accumulate(self.values)
        columns = np.where(self.values == highest, np.arange(len(highest)), 0)
        found: NDArray[np.int64] = np.maximum.accumulate(columns)
        return found


def tabulate(
    steps: Sequence[Step],
    rooms: "Sequence[int]",
    *,
    cost: Callable[[Step], int],
    sections: Sequence[int],
    groups: Sequence[int],
    stop: bool = False,
    nearby: bool = False,
    beside: Mapping[int, int] | None = None,
) -> Table:
    """Take each step in turn wherever there is room for it; with `stop` nothing after one there was none for.

    `rooms` are the tokens that lines and headings may take in each column; the first step under a heading
    pays for it. The exact `cost` of a step is asked for only where there may be room for it. With `nearby` a
    column takes no step that is farther along than would fill its room several times. `beside` names for an item
    the one without which it is not taken.
    """
    import numpy as np

    every = np.array(rooms, np.int64)
    room = every.copy()
    far = _rooms_that_reach(steps) if nearby else [0] * len(steps)
    values = np.zeros(len(room), np.int64)
    section_prices = [np.full(len(room), cost, np.int64) for cost in sections]
    group_prices: dict[int, Any] = {}
    held: dict[int, Any] = {}
    at: dict[tuple[int, int], Any] = {}
    going = np.ones(len(room), bool)
    taken: list[tuple[Step, Any]] = []
    least = list(itertools.accumulate((step.at_least for step in reversed(steps)), min))[::-1]
    most = 0
    for number, step in enumerate(steps):
        if not number % BETWEEN_LOOKS:
            most = int(room.max(where=every >= far[number], initial=-1))
            if most < least[number]:
                break
        if step.at_least > most and not stop:
            continue
        headings = []
        if step.first:
            if step.group not in group_prices:
                group_prices[step.group] = np.full(len(room), groups[step.group], np.int64)
            headings = [section_prices[step.section], group_prices[step.group]]
            price = headings[0] + headings[1]
            price += cost(step)
            fits = price <= room
            if step.item in held:
                fits &= ~held[step.item]
        elif (step.item, step.before) in at:
            price = np.full(len(room), cost(step), np.int64)
            fits = price <= room
            fits &= at[step.item, step.before]
        else:
            continue
        if beside and step.item in beside:
            fits &= held.get(beside[step.item], False)
        if far[number] > 0:
            fits &= every >= far[number]
        if stop:
            going &= fits
            fits &= going
        price *= fits
        room -= price
        values += fits * step.value
        for heading in headings:
            heading *= ~fits
        held[step.item] = held[step.item] | fits if step.item in held else fits
        at[step.item, step.level] = fits
        taken.append((step, fits))
    return Table(taken, values)


def _rooms_that_reach(steps: Sequence[Step]) -> list[int]:
    """For each step the least room that looks so far along.

    A long step counts as if it were short, so that what a room looks at does not depend on what fits into it.
    """
    tokens = itertools.accumulate(min(step.cost, SHORT) for step in steps)
    return [max(0, -((SOME_MORE - each) // TIMES)) for each in tokens]


def rooms_up_to(most: int) -> list[int]:
    """The rooms to look at for a budget that leaves this one."""
    found: list[int] = []
    start = 0
    for end, stride in _STRIDES:
        found += range(start, min(end, most + 1), stride)
        start = end
    return found
