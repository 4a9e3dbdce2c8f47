"""The books of agents' sessions: what every store keeps of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from satchel.model.memory import Scope, utc_now

__all__ = ["CATEGORIES", "Books", "Category", "Content", "Ledgers", "Level", "Posted", "Role", "TurnRow"]

Category = Literal["system", "history", "tool_results", "user"]
CATEGORIES: tuple[Category, ...] = ("system", "history", "tool_results", "user")

Role = Literal["system", "user", "assistant", "note", "call", "result", "page"]

Level = Literal["whole", "digest", "stub", "gone"]
"""How much of an entry the context holds; what is gone is named by another entry, or was replaced."""


class Books(msgspec.Struct, frozen=True, kw_only=True):
    """One session: its budget, and the sums over its entries, which are kept up with each of them."""

    id: str
    scope: Scope
    name: str
    created_at: datetime
    updated_at: datetime
    turn: int = 0
    clock: int = 0
    system: int = 0
    history: int = 0
    tool_results: int = 0
    user_message: int = 0
    turn_results: int = 0
    """Tokens of results in this turn."""
    results: int = 0
    delivered: int = 0
    """Tokens of all results that were ever given out."""
    evicted: int = 0
    warned: int = 0
    """The level of the last warning that was given: 1 low, 2 critical."""
    holds: Literal["digests", "whole"] = "digests"
    """Whether earlier results shrink to digests, or the caller keeps every page that it was given."""
    secret: bytes
    budget: str
    calibration: str


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a session: where it stands, how much of it is held, what it costs at each level.

    `seq`, `turn`, `at`, `used`, `pair` and `content` are set when it is entered into the ledger.
    """

    seq: int = 0
    handle: str
    turn: int = 0
    at: datetime = msgspec.field(default_factory=utc_now)
    used: int = 0
    category: Category
    role: Role
    level: Level = "whole"
    pinned: bool = False
    error: bool = False
    media: Literal["text", "bytes"] = "text"
    size: int = 0
    """Bytes of the whole."""
    start: int = 0
    stop: int = 0
    """Which characters of it were shown."""
    tokens: int = 0
    total_tokens: int = 0
    digest_tokens: int = 0
    stub_tokens: int = 0
    shape: str = ""
    name: str = ""
    tool: str = ""
    call_id: str = ""
    pair: int = 0
    """The place of the call that this belongs to, with which it stays together; its own, where there is none."""
    origin: str = ""
    """The handle of the result that a page was taken from."""
    content: bytes = b""
    digest: str = ""
    stub: str = ""
    note: str = ""


class Content(NamedTuple):
    """What was said, whole and packed, under the hash of its bytes."""

    hash: bytes
    codec: str
    data: bytes


class TurnRow(NamedTuple):
    number: int
    at: datetime
    system: int
    history: int
    tool_results: int
    user_message: int
    evicted: int


class Ledgers(Protocol):
    """Where the books are. Each call is one transaction, or part of the one its thread is in."""

    def open(self, fresh: Books) -> Books:
        """The session of this scope and name, which is begun with these books where there is none."""

    def named(self, scope: Scope, name: str) -> list[Books]:
        """The sessions of a name inside a scope, those changed last first."""

    def sessions(self, scope: Scope, *, limit: int) -> list[Books]:
        """The sessions inside a scope, those changed last first."""

    def books(self, org: str, session: str) -> Books | None:
        """A session as it is now; inside a transaction nobody else changes it before that ends."""

    def change(self, org: str, session: str, changes: Mapping[str, Any]) -> None:
        """Set fields of a session's books."""

    def post(self, org: str, session: str, entry: Posted) -> None:
        """Enter what is new."""

    def repost(self, org: str, session: str, seqs: Sequence[int], changes: Mapping[str, Any]) -> None:
        """Set the same fields of several entries."""

    def held(self, org: str, session: str, category: Category | None = None, *, words: bool = True) -> list[Posted]:
        """The entries that the context still names, oldest first; without words if only their sizes matter."""

    def last_of_call(self, org: str, session: str, call_id: str) -> Posted | None:
        """The newest entry of a call's id."""

    def results(self, org: str, session: str, *, limit: int) -> list[Posted]:
        """The newest results, newest first, whether they are held or not."""

    def by_handle(self, org: str, handle: str) -> tuple[str, Posted] | None:
        """The entry of a handle, and the session it belongs to."""

    def keep(self, org: str, content: Content, moment: datetime) -> None:
        """Keep a content, unless it is there; either way it is used now."""

    def content(self, org: str, hash: bytes) -> Content | None:
        """A content by its hash; None where it has expired."""

    def expire(self, org: str, *, before: datetime, most_bytes: int) -> int:
        """Drop contents that were not used since, then the least recently used above a size; how many.

        What is pinned stays, and what a context holds whole beside results, such as its system prompt.
        """

    def content_bytes(self, org: str) -> int:
        """How many bytes the contents take."""

    def end_turn(self, org: str, session: str, row: TurnRow) -> None:
        """Enter what a turn left; the same turn again replaces it."""

    def turns(self, org: str, session: str) -> list[TurnRow]:
        """The turns that have ended, oldest first."""

    def remove(self, org: str, session: str) -> None:
        """Remove a session with its entries, and the contents that no other entry has."""
