"""The smallest budget that keeps an item that was left out."""

from collections.abc import Iterable, Sequence

from satchel.fitting.choice import Choosing
from satchel.fitting.order import Step
from satchel.fitting.table import rooms_up_to

__all__ = ["admitting_budgets"]


def admitting_budgets(choosing: Choosing, places: Sequence[int], *, above: int) -> dict[int, int]:
    """For each place the smallest budget above this one with which the policy takes it."""
    match choosing.policy:
        case "greedy":
            budgets = _cumulated(choosing, choosing.by_rank)
        case "tier":
            budgets = _skipping(choosing, places, above=above)
        case "best":
            budgets = _best(choosing, places, above=above)
    return {place: max(budgets[place], above + 1) for place in places}


def _best(choosing: Choosing, places: Iterable[int], *, above: int) -> dict[int, int]:
    import numpy as np

    around = choosing.prices.around
    rooms = rooms_up_to(max(0, choosing.total - around))
    tables = [choosing.tabulated(steps, rooms) for steps in (choosing.by_worth, choosing.by_rank)]
    columns = [table.best() for table in tables]
    values = np.array([table.values[each] for table, each in zip(tables, columns, strict=True)])
    # Of equals the first, as in choosing.
    winner = np.argmax(values, axis=0)
    higher = np.array(rooms) + around > above
    admitted = {place: np.zeros(len(rooms), bool) for place in places}
    for number, table in enumerate(tables):
        for step, taken in table.taken:
            if step.first and step.item in admitted:
                admitted[step.item] |= taken[columns[number]] & (winner == number) & higher
    return {
        # The budget that holds everything takes everything.
        place: min(choosing.total, rooms[int(np.argmax(where))] + around) if where.any() else choosing.total
        for place, where in admitted.items()
    }


def _skipping(choosing: Choosing, places: Iterable[int], *, above: int) -> dict[int, int]:
    """Without a look at smaller budgets: each budget up to the one that holds all that comes before an item."""
    import numpy as np

    enough = _cumulated(choosing, choosing.by_tier)
    around = choosing.prices.around
    first = max(0, above + 1 - around)
    rooms = range(first, min(first + SKIPPED_THROUGH, max(enough.values()) - around) + 1)
    found = dict(enough)
    if rooms:
        for step, taken in choosing.tabulated(choosing.by_tier, rooms).taken:
            if taken.any():
                found[step.item] = min(enough[step.item], rooms[int(np.argmax(taken))] + around)
    return found


# How many budgets above the one given are looked at one by one.
SKIPPED_THROUGH = 4_096


def _cumulated(choosing: Choosing, steps: Iterable[Step]) -> dict[int, int]:
    """For each item the budget that holds all that comes before it in this order, and it."""
    total = choosing.prices.around
    sections, groups = set(), set()
    budgets: dict[int, int] = {}
    for step in steps:
        total += choosing.cost(step)
        if step.section not in sections:
            total += choosing.sections[step.section]
        if step.group not in groups:
            total += choosing.groups[step.group]
        sections.add(step.section)
        groups.add(step.group)
        budgets.setdefault(step.item, total)
    return budgets
