"""The values that go in and out of a store, and `SearchStore`, the reads that ranking needs.

The store itself is `store.Store`. Memories, their index, sessions and transfer are modules beside it.
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
    "Version",
]


class Candidate(NamedTuple):
    """A memory to be stored, and the fields that the caller set. Only these change an existing memory."""

    memory: Memory
    given: frozenset[str]
    text_key: int | None
    """The key of its scope and text (`rows.text_key`), by which a memory with the same text is found."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A memory with its whole history, as it is exported and imported."""

    memory: Memory
    history: tuple[Change, ...] = ()


class Changed(NamedTuple):
    """A memory that was changed after some moment, as it is now, with its number in the store."""

    key: int
    memory: Memory
    history: tuple[Change, ...]
    """The changes of its fields, oldest first, without entries about relations."""


class Stats(Result, msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the memories that match a filter."""

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
    cache_bytes: int = 0
    """How much memory this process uses to keep what searches of this view read."""
    cache_limit: int = 0
    """How much of it may be used; `satchel.open(cache_mb=…)` or $SATCHEL_CACHE_MB sets it."""

    def _summary(self) -> str:
        return f"{self.memories:,} memories, {self.current:,} current, {self.relations:,} relations"


class Check(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of one health check: ok, a warning, or a failure with what to do about it."""

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
    """Passages and vectors of memories, made before the memories are written."""

    name: str
    dimensions: int
    parts: Mapping[str, Sequence[Part]]
    """The passages of each memory, by its id."""
    vectors: Mapping[str, tuple[bytes, bytes]]
    """By the text of a passage: its vector as bytes from -127 to 127, and the signs as one bit each."""


class Match(NamedTuple):
    """A match of an index: the number of the memory, and its score there."""

    key: int
    score: float


class TracedPassage(NamedTuple):
    """One passage of a memory, as stored in the index."""

    start: int
    end: int
    flags: int
    codes: bytes
    vector: bytes | None


class Trace(NamedTuple):
    """The data of a memory that ranking needs, without its text."""

    key: int
    at: int
    """Microseconds since 1970."""
    id: str
    thread: str | None
    """Identifies its session or document; None if it belongs to neither."""
    speaker: str | None
    kind: str
    tier: str
    importance: float
    confidence: float
    pinned: int
    tokens: int
    status: str
    valid_from: int | None
    invalid_at: int | None
    """The time in which it is valid, in microseconds since 1970; None for no limit."""
    uses: int
    passages: tuple[TracedPassage, ...]


class Version(NamedTuple):
    """Identifies a state of what a search reads of one org. The same version means the same state."""

    number: int
    """The number of the last change."""
    mark: int
    """A random number of that change: two stores, or a store and its restored backup, never share it."""
    generation: int
    """The generation of vectors; 0 if there is none."""


class Link(NamedTuple):
    """A relation between two memories, by their numbers, seen from one of them."""

    origin: int
    key: int
    kind: str
    strength: float
    outgoing: bool


class SearchStore(Protocol):
    """The reads that a search needs. A store and a view of its past (`recall.as_of`) provide them."""

    def reading(self, org: str) -> AbstractContextManager[object]:
        """Open a read transaction: all reads of this thread inside see the same state, and it writes nothing."""

    def select(self, where: Filter, *, limit: int, sort: Sort = "at", offset: int = 0) -> list[Memory]:
        """Return memories in the given order, newest or highest first, after skipping `offset` of them."""

    def count(self, where: Filter, *, most: int) -> int:
        """Count the memories that match, up to `most`."""

    def matches(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
        """Return the best BM25 matches for any of the terms. The filter applies before the limit."""

    def leading_matches(self, terms: Sequence[str], *, limit: int) -> list[Match] | None:
        """Return the best BM25 matches of the whole index, whether or not they pass any filter, best first.

        None if `matches` costs no more.
        """

    def nearest(self, where: Filter, code: bytes, *, limit: int) -> list[Match]:
        """Return the memories with the passages nearest to a code by Hamming distance."""

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
        """Return the memories about a time in this span, newest first."""

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        """Return for each memory its neighbours, up to `reach` before and after it in its session or document."""

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        """Return the relations between these memories and others that match."""

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        """Return the traces of the memories that match, oldest first: of all, or of those with these numbers."""

    def keys(self, where: Filter) -> list[int]:
        """Return the numbers of the memories that match."""

    def version(self, org: str) -> Version | None:
        """Return the version of what is read now; None if it must not be kept, as inside a write transaction."""

    def changed_keys(self, org: str, since: Version, *, limit: int) -> list[int] | None:
        """Return the memories that were added, changed or purged after a version; None if that is not known."""

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        """Return the memories with these numbers, by number. Numbers without a memory are left out."""

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        """Return the approximate number of memories, and in how many of them each term occurs."""

    def words_like(self, word: str, *, start: str) -> list[str]:
        """Return terms of the index that start like a word and have about its length."""

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        """Return the memories just before and after one in time, without it, oldest first."""

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        """Return the relations that start or end at one of these ids."""


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
    """Tokens of tool results in this turn."""
    results: int = 0
    delivered: int = 0
    """Tokens of all tool results ever delivered."""
    evicted: int = 0
    warned: int = 0
    """The level of the last warning: 1 low, 2 critical."""
    holds: Literal["digests", "whole"] = "digests"
    """Whether earlier results are replaced by digests, or the caller keeps every page it was given."""
    secret: bytes
    budget: str
    calibration: str


class LedgerRow(Result, msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a session: its position, how much of it is in the context, its cost at each level.

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
    """Size of the whole content in bytes."""
    start: int = 0
    stop: int = 0
    """The range of characters that was shown."""
    tokens: int = 0
    total_tokens: int = 0
    digest_tokens: int = 0
    stub_tokens: int = 0
    shape: str = ""
    name: str = ""
    tool: str = ""
    call_id: str = ""
    pair: int = 0
    """The `seq` of the call that it belongs to, with which it is evicted; its own if there is none."""
    origin: str = ""
    """The handle of the result that a page belongs to."""
    content: bytes = b""
    digest: str = ""
    stub: str = ""
    note: str = ""

    def _summary(self) -> str:
        return f"{self.handle} {self.tool or self.role} {self.level}, {self.tokens:,} tokens"


class Content(NamedTuple):
    """A whole content, compressed, with the hash of its bytes."""

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


# The rows of one org, for migration to another store and comparison.


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
"""The outcome for a migrated item: `kept` was there already, `newer` is newer in the target."""


class Row(NamedTuple):
    """One row of a kind. It is the same in every store."""

    key: tuple[Any, ...]
    values: tuple[Any, ...]


class Mark(NamedTuple):
    """The state of a memory without its text, to compare it between two stores."""

    number: int
    id: str
    updated_at: int
    changes: int
    uses: int | None
    used_at: int | None
    waiting: int | None
    """1 if its vectors are still to be made."""

    @property
    def state(self) -> tuple[int | None, ...]:
        return self[2:]


class Passage(NamedTuple):
    """A stored passage, with its vector and code if it has them."""

    start: int
    end: int
    flags: int
    codes: bytes
    vector: tuple[bytes, bytes] | None


class Packet(NamedTuple):
    """A memory with its history and passages."""

    record: Record
    passages: tuple[Passage, ...]

    @property
    def memory(self) -> Memory:
        return self.record.memory
