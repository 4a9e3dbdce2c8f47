"""What a session hands out: pages of results, what was found in them, entries of its books."""

from collections.abc import Sequence
from typing import Any

import msgspec

from satchel.store.ledger import Posted

__all__ = ["Entry", "Found", "History", "Messages", "Shown"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What was entered into the books of a session."""

    handle: str
    """What `expand` gives the whole of it for."""
    role: str
    category: str
    turn: int
    token_count: int
    level: str
    tool: str | None = None
    call_id: str | None = None
    pinned: bool = False
    size: int = 0

    @classmethod
    def of(cls, posted: Posted) -> "Entry":
        return cls(
            handle=posted.handle,
            role=posted.role,
            category=posted.category,
            turn=posted.turn,
            token_count=posted.tokens,
            level=posted.level,
            tool=posted.tool or None,
            call_id=posted.call_id or None,
            pinned=posted.pinned,
            size=posted.size,
        )


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a result, within its allocation."""

    text: str
    """What goes to the model: the content, then the note. `token_count` is its number of tokens."""
    content: str
    """The characters of the original themselves; the contents of all pages joined are the original."""
    note: str
    handle: str
    cursor: str | None
    """What `page` gives the next page for; None where there is none."""
    total: int
    returned: int
    unit: str
    """What `total` and `returned` count: records, lines or characters."""
    token_count: int
    allocation: int
    total_tokens: int
    """Of the whole; above 200,000 characters estimated from samples."""
    remaining_tokens: int
    """About what the pages after this one cost."""
    budget_note: str | None
    size: int

    def __str__(self) -> str:
        return self.text

    def structured(self) -> dict[str, Any]:
        """What a program wants to know of it."""
        facts: dict[str, Any] = {
            "total": self.total,
            "returned": self.returned,
            "unit": self.unit,
            "continuation_token": self.cursor,
            "budget_note": self.budget_note,
        }
        return {name: value for name, value in facts.items() if value is not None}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a result that match a pattern, within their allocation."""

    text: str
    token_count: int
    allocation: int
    matches: int
    """Lines that match."""
    shown: int
    """How many of them the text has."""
    complete: bool
    """Whether the search went to the end."""

    def __str__(self) -> str:
        return self.text


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The work log as text: results as digests, what was evicted as stubs."""

    text: str
    token_count: int
    entries: tuple[Entry, ...]
    omitted: int
    """How many entries are shown as stubs, or not at all, for lack of room."""

    def __str__(self) -> str:
        return self.text


class Messages(list[dict[str, Any]]):
    """Messages as a provider takes them."""

    def __init__(
        self, messages: Sequence[dict[str, Any]], *, system: str, token_count: int, omitted: int = 0
    ) -> None:
        super().__init__(messages)
        self.omitted = omitted
        """How many entries are left out for lack of room, without even a stub."""
        self.system = system
        """The system prompt, which Anthropic takes apart from the messages."""
        self.token_count = token_count
        """Of the messages as JSON."""
