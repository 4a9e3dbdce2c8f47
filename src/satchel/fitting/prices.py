"""What rendering costs, as packing is told: it knows nothing of any format."""

from collections.abc import Hashable
from typing import Protocol

from satchel.model.item import Item, Placed

__all__ = ["Prices"]


class Prices(Protocol):
    """The tokens of each part of a block; together at least what the block costs."""

    @property
    def around(self) -> int:
        """What stands around everything."""

    def section(self, item: Item) -> tuple[Hashable, int]:
        """The section an item stands in, by a key, and what opens and closes it."""

    def group(self, item: Item) -> tuple[Hashable, int]:
        """The heading an item stands under inside its section, and what that costs."""

    def lines(self, placed: Placed) -> int:
        """What an item itself adds."""

    def text(self, item: Item) -> int | None:
        """What the bare text of an item costs as it is stored, where that is known without counting."""
