"""A block in the making: what is placed so far, its text and what that costs."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from satchel.fitting.choice import Choosing
from satchel.model.item import Placed

__all__ = ["Assemble", "Count", "Making", "Opened"]

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

    def cost(self, placed: Sequence[Placed]) -> int:
        """What a block of these costs."""
        return self._count(self._assemble(placed))

    @property
    def left(self) -> int:
        """What is left of the budget; an empty block may have a text, which gives way to what is placed first."""
        return self.budget - self.spent if self.placed else self.budget

    @property
    def whole(self) -> bool:
        """Whether all that is wanted of what is placed is there."""
        return all(placed.whole for placed in self.placed.values())

    def opened(self) -> "Opened":
        """The headings that stand there."""
        return Opened(self.choosing, self.placed)


class Opened:
    """The headings of a block, and what those of one more item cost."""

    def __init__(self, choosing: Choosing, placed: Iterable[int]) -> None:
        self._choosing = choosing
        self._sections: set[int] = set()
        self._groups: set[int] = set()
        for place in placed:
            self.add(place)

    def add(self, place: int) -> None:
        offer = self._choosing.offer(place)
        self._sections.add(offer.section)
        self._groups.add(offer.group)

    def price(self, place: int) -> int:
        offer, choosing = self._choosing.offer(place), self._choosing
        around = 0 if self._sections else choosing.prices.around
        section = 0 if offer.section in self._sections else choosing.sections[offer.section]
        return around + section + (0 if offer.group in self._groups else choosing.groups[offer.group])
