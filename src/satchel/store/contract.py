"""What a store holds, as values, and what a search may ask of it.

The store itself is `store.Store`; memories, their index, sessions and transfer are modules beside it.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, get_args

import msgspec

from satchel.model.filters import Filter, Sort
from satchel.model.memory import Change, Memory, Relation, Scope, utc_now
from satchel.model.result import Result, quoted
from satchel.text.passages import Part

__all__ = [
    "KINDS",
    "Candidate",
    "Category",
    "Changed",
    "Check",
    "Content",
    "Embedded",
    "Embedding",
    "Held",
    "LedgerRow",
    "Level",
    "Link",
    "Mark",
    "Match",
    "Outcome",
    "Packet",
    "Passage",
    "Record",
    "Role",
    "Row",
    "SearchStore",
    "SessionRow",
    "Stats",
    "Trace",
    "TracedPassage",
    "TurnRow",
]


class Candidate(NamedTuple):
    """A memory to be stored, and the fields its caller set: only these change an existing one."""

    memory: Memory
    given: frozenset[str]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A memory with its whole history, as it travels between stores."""

    memory: Memory
    history: tuple[Change, ...] = ()


class Changed(NamedTuple):
    """A memory that was changed after some moment, by the store's own number, as it is now."""

    key: int
    memory: Memory
    history: tuple[Change, ...]
    """What happened to its fields, oldest first; entries about relations are left out."""


class Stats(Result, msgspec.Struct, frozen=True, kw_only=True):
    """Counts over the memories of a filter."""

    memories: int
    current: int
    tokens: int
    relations: int
    by_kind: dict[str, int]
    by_tier: dict[str, int]
    by_status: dict[str, int]
    by_project: dict[str, int]
    oldest: datetime | None
    newest: datetime | None
    embedder: str | None = None
    """The embedder whose vectors the store holds; None before there are any."""

    def _summary(self) -> str:
        return f"{self.memories:,} memories, {self.current:,} current, {self.relations:,} relations"


class Check(Result, msgspec.Struct, frozen=True, kw_only=True):
    """One finding of `doctor`: ok, a warning, or a failure with what to do about it."""

    name: str
    state: Literal["ok", "warning", "failed"]
    detail: str

    def _summary(self) -> str:
        return f"{self.name} {self.state}: {quoted(self.detail)}"


class Embedding(NamedTuple):
    """The embedder whose vectors a store holds."""

    name: str
    dimensions: int


class Embedded(NamedTuple):
    """What an embedder made of memories before they are written."""

    name: str
    dimensions: int
    parts: Mapping[str, Sequence[Part]]
    """The passages of each memory, by its id."""
    vectors: Mapping[str, tuple[bytes, bytes]]
    """For the text of a passage: its vector in bytes of -127 to 127, and one bit for each number's sign."""


class Match(NamedTuple):
    """A memory that an index found, by the store's own number, and how well it matched there."""

    key: int
    score: float


class TracedPassage(NamedTuple):
    """One passage of a memory, as the index keeps it."""

    start: int
    end: int
    flags: int
    codes: bytes
    vector: bytes | None


class Trace(NamedTuple):
    """What ranking needs of a memory, without its text."""

    key: int
    at: int
    """Microseconds since 1970."""
    id: str
    thread: str | None
    """What tells its session or document from all others; None where it belongs to neither."""
    speaker: str | None
    kind: str
    tier: str
    importance: float
    confidence: float
    pinned: int
    tokens: int
    uses: int
    passages: tuple[TracedPassage, ...]


class Link(NamedTuple):
    """A relation between two memories, by the store's own numbers, seen from one of them."""

    origin: int
    key: int
    kind: str
    strength: float
    outgoing: bool


class SearchStore(Protocol):
    """What a search reads of a store: all of it, or a view of an earlier moment."""

    def reading(self, org: str) -> AbstractContextManager[object]:
        """Let all that this thread reads of an org inside see the same state; it writes nothing inside."""

    def select(self, where: Filter, *, limit: int, sort: Sort = "at", offset: int = 0) -> list[Memory]:
        """The first memories in an order, newest or highest first, after an offset."""

    def count(self, where: Filter, *, most: int) -> int:
        """How many memories match, counted no further than `most`."""

    def matches(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
        """The best BM25 matches for any of the terms, filtered before the limit is applied."""

    def nearest(self, where: Filter, code: bytes, *, limit: int) -> list[Match]:
        """The memories with a passage whose signs differ least from these, filtered before the limit."""

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
        """The memories that speak of a time in this span, newest first."""

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        """For each of these, it and those up to `reach` places around it in its session or document, in order."""

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        """Relations from these memories to others that match."""

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        """What ranking needs of the memories that match, oldest first; of all, or of those with these numbers."""

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        """The memories with these numbers that are still there."""

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        """About how many memories there are, and in how many of them each term stands."""

    def words_like(self, word: str, *, start: str) -> list[str]:
        """Terms of the index that are about as long as a word and start so."""

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        """The memories just before and after one in time, without it, oldest first."""

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        """Every relation that starts or ends at one of these ids."""


# Agent sessions: their rows, ledger entries, contents and turns


Category = Literal["system", "history", "tool_results", "user"]

Role = Literal["system", "user", "assistant", "note", "call", "result", "page"]

Level = Literal["whole", "digest", "stub", "gone"]
"""How much of an entry the context holds. A gone entry is listed in another entry, or was replaced."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session: its budget, and the sums over its entries, updated with each of them."""

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


class LedgerRow(Result, msgspec.Struct, frozen=True, kw_only=True):
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

    def _summary(self) -> str:
        return f"{self.handle} {self.tool or self.role} {self.level}, {self.tokens:,} tokens"


class Content(NamedTuple):
    """What was said, whole and packed, under the hash of its bytes."""

    hash: bytes
    codec: str
    data: bytes


class TurnRow(Result, msgspec.Struct, frozen=True):
    """The tokens that a session held at the end of a turn, by category."""

    number: int
    at: datetime
    system: int
    history: int
    tool_results: int
    user_message: int
    evicted: int

    def _summary(self) -> str:
        held = self.system + self.history + self.tool_results + self.user_message
        return f"{self.number}: {held:,} tokens, {self.evicted:,} evicted"


# All that one org has, row by row: what moves to another store and is compared there.


Held = Literal[
    "memories",
    "uses",
    "history",
    "relations",
    "passages",
    "vectors",
    "sessions",
    "entries",
    "turns",
    "contents",
]
KINDS: tuple[Held, ...] = get_args(Held)

Outcome = Literal["added", "updated", "kept", "newer"]
"""What became of something that was brought: it was there already, or is there in a newer version."""


class Row(NamedTuple):
    """One row of a kind, the same in every store that holds it."""

    key: tuple[Any, ...]
    values: tuple[Any, ...]


class Mark(NamedTuple):
    """What tells whether a memory is the same in two stores, without its text."""

    number: int
    id: str
    updated_at: int
    changes: int
    uses: int | None
    used_at: int | None
    waiting: int | None
    """1 if it waits for its vectors."""

    @property
    def state(self) -> tuple[int | None, ...]:
        return self[2:]


class Passage(NamedTuple):
    """One passage as a store keeps it, with the vector and code of the store's embedder, if it has them."""

    start: int
    end: int
    flags: int
    codes: bytes
    vector: tuple[bytes, bytes] | None


class Packet(NamedTuple):
    """A memory with all that is kept of it."""

    record: Record
    passages: tuple[Passage, ...]

    @property
    def memory(self) -> Memory:
        return self.record.memory
