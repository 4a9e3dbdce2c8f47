"""What every store does. Values in, values out; each write is one transaction, whole or not at all."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from satchel.memory import Change, Hit, Memory, Relation, Scope

__all__ = ["Candidate", "Check", "Filter", "Record", "Stats", "Store"]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which memories are meant. Empty tuples and None leave a field open; all tags must be there."""

    scope: Scope = Scope()
    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ("active",)
    valid_at: datetime | None = None
    ids: tuple[str, ...] = ()


class Candidate(NamedTuple):
    """A memory to be stored, and the fields its caller set: only these change an existing one."""

    memory: Memory
    given: frozenset[str]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A memory with its whole history, as it travels between stores."""

    memory: Memory
    history: tuple[Change, ...] = ()


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


class Store(Protocol):
    """One place where memories live. Safe to share between threads and between processes."""

    location: str

    def transaction(self) -> AbstractContextManager[None]:
        """Make one transaction of all that this thread does inside; an error undoes it all."""

    def add(self, candidates: Sequence[Candidate]) -> list[Memory]:
        """Store all or none; the same ref or topic in the same scope updates what is there."""

    def put(self, scope: Scope, records: Sequence[Record]) -> list[Literal["added", "updated", "kept"]]:
        """Store records under their own ids, inside a scope; of two versions the one changed last stays."""

    def put_relations(self, scope: Scope, relations: Sequence[Relation]) -> None:
        """Store relations as they are, all or none; both of their memories must be in the scope."""

    def resolve(self, scope: Scope, prefix: str) -> str:
        """The one id inside the scope that starts with a prefix."""

    def short_ids(self, ids: Sequence[str]) -> list[str]:
        """The shortest prefix that names each of these ids."""

    def select(self, where: Filter, *, limit: int) -> list[Memory]:
        """The newest memories, by the time they speak of."""

    def search(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Hit]:
        """The best BM25 matches for any of the terms, filtered before the limit is applied."""

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        """The memories just before and after one in time, without it, oldest first."""

    def change(self, scope: Scope, identifier: str, changes: Mapping[str, Any], *, action: str) -> Memory:
        """Set fields of one memory and enter the change into its history."""

    def forget(self, where: Filter, moment: datetime) -> int:
        """End the validity of every memory that matches; how many there were."""

    def purge(self, where: Filter) -> int:
        """Remove every memory that matches, with its index and history; how many there were."""

    def relate(self, scope: Scope, relation: Relation) -> None:
        """Store or replace one relation; `supersedes` also ends its target."""

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        """Every relation that starts or ends at one of these ids."""

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

    def backup(self, target: Path) -> int:
        """Copy the store to a new file while others write; the number of bytes."""

    def checks(self) -> list[Check]:
        """What is well and what is not."""

    def repair(self) -> list[str]:
        """Mend what can be mended without losing anything; what was done."""

    def close(self) -> None:
        """Write what is pending and let go of the file."""
