"""What a store holds and what callers may ask of it: memories, search, sessions, transfer.

Values in, values out; each write is one transaction, whole or not at all."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, get_args

import msgspec

from satchel.model.memory import Change, Memory, Relation, Scope
from satchel.text.passages import Part

__all__ = [
    "CATEGORIES",
    "KINDS",
    "Books",
    "Candidate",
    "Category",
    "Changed",
    "Check",
    "Content",
    "Embedded",
    "Embedding",
    "Filter",
    "Held",
    "Holdings",
    "Ledgers",
    "Level",
    "Link",
    "Mark",
    "Match",
    "Outcome",
    "Packet",
    "Passage",
    "Posted",
    "Record",
    "Role",
    "Row",
    "SearchStore",
    "Stats",
    "Store",
    "Trace",
    "TracedPassage",
    "TurnRow",
]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which memories are meant. Empty tuples and None leave a field open; all tags must be there."""

    scope: Scope = Scope()
    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ("active",)
    valid_at: datetime | None = None
    since: datetime | None = None
    """Nothing that speaks of an earlier time; what speaks of this very moment is meant."""
    until: datetime | None = None
    """Nothing that speaks of a later time; what speaks of this very moment is meant."""
    ids: tuple[str, ...] = ()
    pinned: bool = False
    """Only what is pinned."""
    important: bool = False
    """Only what is more important than most: above 0.7."""
    unchanged_since: datetime | None = None
    """Only what no field of was changed after this moment."""


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


class Stats(msgspec.Struct, frozen=True, kw_only=True):
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


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of `doctor`: ok, a warning, or a failure with what to do about it."""

    name: str
    state: Literal["ok", "warning", "failed"]
    detail: str


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

    def reading(self, org: str) -> AbstractContextManager[None]:
        """Let all that this thread reads of an org inside see the same state; it writes nothing inside."""

    def select(self, where: Filter, *, limit: int) -> list[Memory]:
        """The newest memories, by the time they speak of."""

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


class Store(SearchStore, Protocol):
    """One place where memories live. Safe to share between threads and between processes."""

    location: str

    def within(self, org: str) -> "Store":
        """This store where a call names no scope: for one org."""

    @property
    def ledgers(self) -> "Ledgers":
        """The books of agents' sessions."""

    def transaction(self) -> AbstractContextManager[None]:
        """Make one transaction of all that this thread does inside; an error undoes it all."""

    def add(
        self, candidates: Sequence[Candidate], embedded: Embedded | None = None, *, deduplicate: bool = True
    ) -> list[Memory]:
        """Store all or none; the same ref or topic in the same scope updates what is there.

        With `deduplicate` the same text in the same scope confirms the memory that holds it, unless the two
        differ in title, kind, speaker, source, ref or topic, or are turns of a conversation.
        """

    def put(
        self, scope: Scope, records: Sequence[Record], embedded: Embedded | None = None
    ) -> list[Literal["added", "updated", "kept"]]:
        """Store records under their own ids, inside a scope; of two versions the one changed last stays."""

    def put_relations(self, scope: Scope, relations: Sequence[Relation]) -> None:
        """Store relations as they are, all or none; both of their memories must be in the scope."""

    def resolve(self, scope: Scope, prefix: str) -> str:
        """The one id inside the scope that starts with a prefix."""

    def short_ids(self, ids: Sequence[str]) -> list[str]:
        """The shortest prefix that names each of these ids."""

    def embedding(self) -> Embedding | None:
        """The embedder whose vectors are held; None before there are any."""

    def adopt(self, embedding: Embedding) -> None:
        """Record the embedder of a store that has none yet."""

    def backlog(self, *, limit: int) -> list[tuple[int, Memory]]:
        """Memories that wait to be embedded, with the store's own numbers."""

    def backlog_size(self) -> int:
        """How many memories wait to be embedded."""

    def embed_backlog(self, keys: Sequence[int], embedded: Embedded) -> int:
        """Write the vectors of memories that waited for them; how many are done."""

    def begin_reembedding(self, embedding: Embedding) -> int:
        """Start vectors of another embedder beside the current ones, or go on; how many passages they lack."""

    def unembedded(self, embedding: Embedding, *, after: int, limit: int) -> list[tuple[int, str]]:
        """Passages the new vectors do not have yet, with the text to embed."""

    def fill(self, numbers: Sequence[int], embedded: Embedded) -> int:
        """Write new vectors, by their texts; passages that are gone or changed meanwhile are left out. How many."""

    def finish_reembedding(self, embedding: Embedding) -> bool:
        """Let the new vectors take the old ones' place; False if some are still missing."""

    @property
    def in_transaction(self) -> bool:
        """Whether this thread is inside a transaction."""

    def change(
        self,
        scope: Scope,
        identifier: str,
        changes: Mapping[str, Any],
        *,
        action: str,
        embedded: Embedded | None = None,
    ) -> Memory:
        """Set fields of one memory and enter the change into its history."""

    def forget(self, where: Filter, moment: datetime) -> int:
        """End the validity of every memory that matches; how many there were."""

    def purge(self, where: Filter) -> int:
        """Remove every memory that matches, with its index and history; how many there were."""

    def relate(self, scope: Scope, relation: Relation) -> Relation:
        """Store or replace one relation; `supersedes` also ends its target. One that is held already stays."""

    def changed(self, where: Filter, since: datetime) -> list[Changed]:
        """The memories that match now and had a field changed after a moment, each with its history."""

    def related_since(self, org: str, since: datetime) -> bool:
        """Whether any relation of an org was made after a moment."""

    def history(self, scope: Scope, identifier: str) -> list[Change]:
        """What happened to one memory, oldest first; after a purge only that it was purged."""

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        """Count a use of each memory; written with the next write, or when the store is closed."""

    def stats(self, where: Filter, moment: datetime) -> Stats:
        """Counts by kind, tier, status and project."""

    def records(self, where: Filter) -> Iterator[Record]:
        """Every memory that matches, with its history, in id order; no transaction stays open."""

    def all_relations(self, where: Filter) -> Iterator[Relation]:
        """Every relation between memories that match."""

    def orgs(self) -> list[str]:
        """All that have anything here; an error where whoever asks may see only one at a time."""

    def holdings(self, org: str) -> "Holdings":
        """All that one org has, as it moves between stores; uses that wait to be written are no part of it."""

    def erase(self, org: str) -> "dict[Held, int]":
        """Remove an org with everything it has, its sessions and its history too; how many rows of each kind."""

    def backup(self, target: Path) -> int:
        """Copy the store to a new file while others write; the number of bytes."""

    def checks(self) -> list[Check]:
        """What is well and what is not."""

    def repair(self) -> list[str]:
        """Mend what can be mended without losing anything; what was done."""

    def close(self) -> None:
        """Write what is pending and let go of the file."""


# The books of agents' sessions: what every store keeps of them.


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
    """One entry of a session: where it stands, how much of it is held, what it costs at each level."""

    seq: int
    handle: str
    turn: int
    at: datetime
    used: int
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


# All that a store holds for one org, row by row: what moves to another store, and what is compared there.


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


class Holdings(Protocol):
    """What one org has in one store. Each page that is read, and each call that writes, is a transaction."""

    def exists(self) -> bool:
        """Whether the org has anything here."""

    def whereabouts(self) -> str:
        """What tells the place of this store from all others, however it was named; '' in memory."""

    def amounts(self) -> dict[Held, int]:
        """How many rows there are of each kind."""

    def embedding(self) -> Embedding | None:
        """The embedder whose vectors these are."""

    def rows(self, kind: Held) -> Iterator[Row]:
        """All rows of a kind, in the order of their keys."""

    def rows_of_session(self, kind: Literal["entries", "turns"], session: str) -> Iterator[Row]:
        """The rows of one session, in the order of their keys."""

    def purged(self) -> Iterator[Row]:
        """The history of memories that are gone."""

    def marks(self, *, after: int, limit: int) -> list[Mark]:
        """The memories with numbers above one, in the order of their numbers."""

    def marks_of(self, ids: Sequence[str]) -> dict[str, Mark]:
        """Those of these memories that are here."""

    def packets(self, marks: Sequence[Mark]) -> list[Packet]:
        """All that is kept of these memories, in the same order; without those that are gone."""

    def take(self, packets: Sequence[Packet], embedding: Embedding | None) -> list[Outcome]:
        """Store memories of another store as they are, all or none, in this order; what is newer here stays."""

    def take_purged(self, rows: Sequence[Row]) -> None:
        """Store the history of memories that are gone; what is left of them here goes, unless it is newer."""

    def take_relations(self, rows: Sequence[Row]) -> None:
        """Store relations between memories that are here; what is newer here stays."""

    def take_contents(self, rows: Sequence[Row]) -> None:
        """Store contents that are not here; those that are were last used at the later time."""

    def take_session(self, session: Row, entries: Iterator[Row], turns: Iterator[Row]) -> Outcome:
        """Store the books of a session with all of its entries and turns; one that has gone on here stays."""

    def session(self, id: str) -> Row | None:
        """The books of one session."""
