"""Packing policies: in which order candidates are taken within a budget, and which are skipped.

A policy is one object. To add one, write a subclass of `Policy`, put an instance into `POLICIES` and its name
into `PolicyName`; all interfaces then offer it. With every policy, pinned items come first. A policy chooses by the
prices of parts; `packing` checks the final text against the budget.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from satchel.fitting.choice import Candidates, Choice, Step, Table, rooms_up_to
from satchel.model.memory import TIERS

__all__ = ["POLICIES", "Best", "Greedy", "Policy", "Tier"]

# How many budgets above the given one are tried one by one.
SKIPPED_THROUGH = 4_096


class Policy(ABC):
    """Takes whole items in an order of its own, each one that still fits.

    A subclass defines `name` and `order`, and may set `stops` or `weighs`. If it does not choose step by step, it
    also overrides `take` and `admitting`.
    """

    name: str
    stops = False
    """Whether to stop at the first item that does not fit, instead of skipping it."""
    weighs = False
    """Whether to weigh items by value: one may be included in part, the best match may come first, items whose text
    is contained in another are removed, and the room that is left is filled."""

    @abstractmethod
    def order(self, candidates: Candidates) -> Sequence[Step]:
        """Return the steps in the order in which they are taken."""

    def choose(self, candidates: Candidates, budget: int) -> Choice:
        """Choose what to take within a budget, by the prices of parts."""
        room = budget - candidates.prices.around
        return Choice({}, 0) if room < 0 or not candidates.offers else self.take(candidates, room)

    def take(self, candidates: Candidates, room: int) -> Choice:
        """Choose what to take if lines and headings may cost `room` tokens."""
        return _choice(candidates.tabulated(self.order(candidates), [room], stop=self.stops))

    def admitting_budgets(self, candidates: Candidates, places: Sequence[int], *, above: int) -> dict[int, int]:
        """Return for each place the smallest budget above the given one that includes its item."""
        budgets = self.admitting(candidates, places, above=above)
        return {place: max(budgets[place], above + 1) for place in places}

    def admitting(self, candidates: Candidates, places: Iterable[int], *, above: int) -> dict[int, int]:
        """Return for these places, and maybe others, a budget that includes the item; it may be lower than `above`.

        A policy that skips items tries every budget above the given one, up to the budget that holds the item and
        everything before it.
        """
        order = self.order(candidates)
        enough = _cumulated(candidates, order)
        if self.stops:
            return enough
        import numpy as np

        around = candidates.prices.around
        first = max(0, above + 1 - around)
        rooms = range(first, min(first + SKIPPED_THROUGH, max(enough.values()) - around) + 1)
        found = dict(enough)
        if rooms:
            for step, taken in candidates.tabulated(order, rooms).taken:
                if taken.any():
                    found[step.item] = min(enough[step.item], rooms[int(np.argmax(taken))] + around)
        return found


class Best(Policy):
    """Takes the most value per token. The result is never worth less than taking items by rank and skipping."""

    name = "best"
    weighs = True

    def order(self, candidates: Candidates) -> Sequence[Step]:
        return candidates.by_value_per_token

    def take(self, candidates: Candidates, room: int) -> Choice:
        if candidates.holds_everything(room + candidates.prices.around):
            return candidates.all_of_them
        rooms = rooms_up_to(room)
        return max(map(_choice, self._tables(candidates, rooms)), key=lambda choice: choice.value)

    def admitting(self, candidates: Candidates, places: Iterable[int], *, above: int) -> dict[int, int]:
        import numpy as np

        around = candidates.prices.around
        rooms = rooms_up_to(max(0, candidates.total - around))
        tables = self._tables(candidates, rooms)
        columns = [table.best() for table in tables]
        values = np.array([table.values[each] for table, each in zip(tables, columns, strict=True)])
        # Of equal values the first wins, as in `take`.
        winner = np.argmax(values, axis=0)
        higher = np.array(rooms) + around > above
        admitted = {place: np.zeros(len(rooms), bool) for place in places}
        for number, table in enumerate(tables):
            for step, taken in table.taken:
                if step.first and step.item in admitted:
                    admitted[step.item] |= taken[columns[number]] & (winner == number) & higher
        return {
            # A budget that holds everything includes everything.
            place: min(candidates.total, rooms[int(np.argmax(where))] + around) if where.any() else candidates.total
            for place, where in admitted.items()
        }

    def _tables(self, candidates: Candidates, rooms: Sequence[int]) -> list[Table]:
        orders = self.order(candidates), candidates.by_rank
        return [candidates.tabulated(order, rooms, nearby=True) for order in orders]


class Greedy(Policy):
    """Takes items by rank and stops at the first that does not fit."""

    name = "greedy"
    stops = True

    def order(self, candidates: Candidates) -> Sequence[Step]:
        return candidates.by_rank


class Tier(Policy):
    """Takes working memories first, then conversation, then knowledge, and skips items that do not fit."""

    name = "tier"

    def order(self, candidates: Candidates) -> Sequence[Step]:
        def priority(step: Step) -> tuple[bool, int]:
            item = candidates.items[step.item]
            return not item.pinned, TIERS.index(item.tier)

        return sorted(candidates.by_rank, key=priority)


POLICIES: dict[str, Policy] = {policy.name: policy for policy in (Best(), Greedy(), Tier())}


def _choice(table: Table) -> Choice:
    """Return the choice for the largest budget of a table, or for a smaller one if that is worth more."""
    column = int(table.best()[-1])
    steps = table.chosen(column)
    return Choice({step.item: step.level for step in steps}, int(table.values[column]))


def _cumulated(candidates: Candidates, steps: Iterable[Step]) -> dict[int, int]:
    """Return for each item the budget that holds it and everything before it in this order."""
    total = candidates.prices.around
    sections, groups = set(), set()
    budgets: dict[int, int] = {}
    for step in steps:
        total += candidates.cost(step)
        if step.section not in sections:
            total += candidates.sections[step.section]
        if step.group not in groups:
            total += candidates.groups[step.group]
        sections.add(step.section)
        groups.add(step.group)
        budgets.setdefault(step.item, total)
    return budgets
