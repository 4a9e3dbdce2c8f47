"""What every store does. Values in, values out; each write is one transaction, whole or not at all."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec

from satchel.model.filters import Filter
from satchel.model.memory import Change, Memory, Relation, Scope
from satchel.store.ledger import Ledgers
from satchel.text.passages import Part

if TYPE_CHECKING:
    from satchel.store.holdings import Held, Holdings

__all__ = [
    "Candidate",
    "Changed",
    "Check",
    "Embedded",
    "Embedding",
    "Link",
    "Match",
    "Record",
    "SearchStore",
    "Stats",
    "Store",
    "Trace",
    "TracedPassage",
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
    def ledgers(self) -> Ledgers:
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
