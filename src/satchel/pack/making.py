"""A block in the making: what is placed so far, its text and what that costs."""

from collections.abc import Callable, Mapping, Sequence

from satchel.pack.choice import Choosing
from satchel.pack.item import Item, Placed

__all__ = ["Assemble", "Count", "Making"]

Assemble = Callable[[Sequence[Placed]], str]
Count = Callable[[str], int]


class Making:
    """Takes what fits, and only that: the assembled text is counted each time."""

    def __init__(self, choosing: Choosing, budget: int, assemble: Assemble, count: Count) -> None:
        self.choosing = choosing
        self.budget = budget
        self._assemble = assemble
        self._count = count
        self.placed: dict[int, Placed] = {}
        self.text = ""
        self.spent = 0
        self.over = 0
        """By how many tokens the last try was over the budget."""

    def settle(self, placed: Mapping[int, Placed]) -> bool:
        """Take exactly these, by their places, if their text fits."""
        in_rank_order = {place: placed[place] for place in sorted(placed)}
        text = self._assemble(list(in_rank_order.values()))
        spent = self._count(text)
        self.over = max(0, spent - self.budget)
        if self.over:
            return False
        self.placed, self.text, self.spent = in_rank_order, text, spent
        return True

    @property
    def left(self) -> int:
        """What is left of the budget; an empty block may have a text, which gives way to what is placed first."""
        return self.budget - self.spent if self.placed else self.budget

    def headings(self, item: Item, more: Sequence[Placed] = ()) -> int:
        """What stands around an item and costs something still, where these more are placed too."""
        prices = self.choosing.prices
        placed = [each.item for each in (*self.placed.values(), *more)]
        (section, section_cost), (group, group_cost) = prices.section(item), prices.group(item)
        there = [each for each in placed if prices.section(each)[0] == section]
        opened = any(prices.group(each)[0] == group for each in there)
        return (0 if placed else prices.around) + (0 if there else section_cost) + (0 if opened else group_cost)
