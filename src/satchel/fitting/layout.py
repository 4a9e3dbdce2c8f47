"""What every format of a context block offers."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from satchel.model.item import Item, Placed

__all__ = ["Heading", "Layout", "Parsed", "ReadableLayout"]


class Heading(NamedTuple):
    """What the first item under it pays for: a key that all of them share, and the text of it."""

    key: Hashable
    text: str


class Parsed(NamedTuple):
    """An item as it reads in a block."""

    text: str
    title: str | None = None
    speaker: str | None = None
    tier: str | None = None
    day: str | None = None
    """Its date as ISO 8601."""
    id: str | None = None
    kind: str | None = None
    confidence: float | None = None
    older: bool = False
    """Whether the block says that a newer one in it tells this anew."""


class Layout(Protocol):
    """A format. Its parts, each a whole number of lines, cost together at least what the block costs."""

    name: str

    @property
    def around(self) -> str:
        """What stands around everything, opening and closing."""

    def section(self, item: Item) -> Heading:
        """The part of the block that an item stands in, with all that opens and closes it."""

    def group(self, item: Item) -> Heading:
        """The heading inside of it that an item stands under; an empty text where there is none."""

    def lines(self, placed: Placed) -> str:
        """What an item adds to the block."""

    def block(self, placed: Sequence[Placed]) -> str:
        """The whole text, in the format's own order, whatever the order given."""


class ReadableLayout(Layout, Protocol):
    """A format that can be read back."""

    def parse(self, text: str) -> list[Parsed]:
        """The items of a block, in order."""
