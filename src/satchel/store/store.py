"""What the stores in SQL databases do alike: transactions for one org, and uses that wait for a write."""

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec

from satchel.errors import StoreError
from satchel.model.memory import Change, Memory, Relation, Scope
from satchel.store import index, memories, search, transfer
from satchel.store import index as reembedding
from satchel.store.contract import Candidate, Changed, Embedded, Embedding, Filter, Held, Link, Record, Stats, Trace
from satchel.store.database import Database, Dialect
from satchel.store.transfer import SqlHoldings

__all__ = ["CLOSING_SECONDS", "USES_WAIT_SECONDS", "WHILE_READING", "BaseStore", "Uses"]


class Uses:
    """Counted here until a write takes them along, so that no read has to write."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, datetime]] = {}
        self._since: datetime | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __bool__(self) -> bool:
        self._leave_to_parent()
        return bool(self._waiting)

    def count(self, ids: Sequence[str], moment: datetime) -> float:
        """Count a use of each; for how many seconds the oldest one has been waiting."""
        self._leave_to_parent()
        with self._lock:
            if self._since is None:
                self._since = moment
            for identifier in ids:
                count, _ = self._waiting.get(identifier, (0, moment))
                self._waiting[identifier] = (count + 1, moment)
            return (moment - self._since).total_seconds()

    def take(self) -> dict[str, tuple[int, datetime]]:
        """Hand all of them over to a write."""
        self._leave_to_parent()
        with self._lock:
            taken, self._waiting, self._since = self._waiting, {}, None
        return taken

    def give_back(self, taken: Mapping[str, tuple[int, datetime]]) -> None:
        """The write failed: they wait again."""
        with self._lock:
            for identifier, (count, last) in taken.items():
                later, newest = self._waiting.get(identifier, (0, last))
                self._waiting[identifier] = (count + later, newest)
                self._since = min(self._since or last, last)

    def added_to(self, memory: Memory) -> Memory:
        """The memory with the uses that wait for it."""
        if (waiting := self._waiting.get(memory.id)) is None:
            return memory
        count, last = waiting
        return msgspec.structs.replace(memory, access_count=memory.access_count + count, accessed_at=last)

    def _leave_to_parent(self) -> None:
        """In a forked child: what the parent counted is the parent's to write."""
        if self._pid != os.getpid():
            self._waiting, self._since, self._lock = {}, None, threading.Lock()
            self._pid = os.getpid()


# What the stores in SQL databases do alike: each call is one read or one write, on a connection for its org.


# Uses are written with the next write; a reader that never writes does it after this many seconds.
USES_WAIT_SECONDS = 5.0
# How long closing waits for other writers in order to write the last uses.
CLOSING_SECONDS = 2.0
WHILE_READING = "nothing is written while one state of the store is read; do it afterwards"

D = TypeVar("D", bound=Database)


class BaseStore(ABC, Generic[D]):
    """Fulfils most of the `Store` contract on connections that its children give out."""

    location: str
    dialect: Dialect
    org: str = Scope().org
    """Whose memories are meant where a call names no scope."""
    _readonly = False
    _uses: Uses

    @abstractmethod
    def within(self, org: str) -> Self:
        """This store for one org."""

    @abstractmethod
    def _read(self, org: str) -> AbstractContextManager[D]:
        """The connection of the transaction this thread is in, or any idle one."""

    @abstractmethod
    def _snapshot(self, org: str) -> AbstractContextManager[D]:
        """For reads of several statements, which see the same state."""

    @abstractmethod
    def _write(self, org: str) -> AbstractContextManager[D]:
        """One transaction, or a part of the one this thread is in that can fail alone."""

    @property
    @abstractmethod
    def in_transaction(self) -> bool: ...

    @abstractmethod
    def _write_uses(self, *, patience: float) -> None:
        """Best effort: a use that cannot be written now waits, and never fails a read or holds it up."""

    def add(
        self, candidates: Sequence[Candidate], embedded: Embedded | None = None, *, deduplicate: bool = True
    ) -> list[Memory]:
        with self._write(_org(candidates)) as db:
            return memories.add(db, candidates, embedded, deduplicate=deduplicate)

    def put(
        self, scope: Scope, records: Sequence[Record], embedded: Embedded | None = None
    ) -> list[Literal["added", "updated", "kept"]]:
        with self._write(scope.org) as db:
            return memories.put(db, scope, records, embedded)

    def put_relations(self, scope: Scope, relations: Sequence[Relation]) -> None:
        with self._write(scope.org) as db:
            memories.put_relations(db, scope, relations)

    def resolve(self, scope: Scope, prefix: str) -> str:
        with self._read(scope.org) as db:
            return memories.resolve(db, scope, prefix)

    def short_ids(self, ids: Sequence[str]) -> list[str]:
        with self._read(self.org) as db:
            return memories.short_ids(db, ids)

    def select(self, where: Filter, *, limit: int) -> list[Memory]:
        with self._read(where.scope.org) as db:
            found = memories.select(db, where, limit=limit)
        return [self._uses.added_to(memory) for memory in found]

    def count(self, where: Filter, *, most: int) -> int:
        with self._read(where.scope.org) as db:
            return search.count(db, where, most)

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
        with self._read(where.scope.org) as db:
            return search.between(db, where, start, end, limit=limit)

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        with self._read(where.scope.org) as db:
            return search.beside(db, traces, where, reach=reach)

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        with self._read(where.scope.org) as db:
            return search.links(db, keys, where, limit=limit)

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        with self._snapshot(where.scope.org) as db:
            return search.traces(db, where, keys)

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        with self._read(self.org) as db:
            return search.memories(db, keys)

    def embedding(self) -> Embedding | None:
        with self._read(self.org) as db:
            return index.embedding(db)

    def adopt(self, embedding: Embedding) -> None:
        with self._write(self.org) as db:
            index.adopt(db, embedding)

    def backlog(self, *, limit: int) -> list[tuple[int, Memory]]:
        with self._read(self.org) as db:
            return index.backlog(db, limit)

    def backlog_size(self) -> int:
        with self._read(self.org) as db:
            return index.backlog_size(db)

    def embed_backlog(self, keys: Sequence[int], embedded: Embedded) -> int:
        with self._write(self.org) as db:
            return index.embed_backlog(db, embedded, keys)

    def begin_reembedding(self, embedding: Embedding) -> int:
        self._refuse_inside_transaction("reembed")
        with self._write(self.org) as db:
            return reembedding.begin_reembedding(db, embedding)

    def unembedded(self, embedding: Embedding, *, after: int, limit: int) -> list[tuple[int, str]]:
        with self._snapshot(self.org) as db:
            return reembedding.unembedded(db, embedding, after=after, limit=limit)

    def fill(self, numbers: Sequence[int], embedded: Embedded) -> int:
        with self._write(self.org) as db:
            return reembedding.fill(db, numbers, embedded)

    def finish_reembedding(self, embedding: Embedding) -> bool:
        with self._write(self.org) as db:
            return reembedding.finish_reembedding(db, embedding)

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        with self._read(where.scope.org) as db:
            found = memories.around(db, memory, where, before=before, after=after)
        return [self._uses.added_to(each) for each in found]

    def change(
        self,
        scope: Scope,
        identifier: str,
        changes: Mapping[str, Any],
        *,
        action: str,
        embedded: Embedded | None = None,
    ) -> Memory:
        with self._write(scope.org) as db:
            return memories.change(db, scope, identifier, changes, action=action, embedded=embedded)

    def forget(self, where: Filter, moment: datetime) -> int:
        with self._write(where.scope.org) as db:
            return memories.forget(db, where, moment)

    def relate(self, scope: Scope, relation: Relation) -> Relation:
        with self._write(scope.org) as db:
            return memories.relate(db, scope, relation)

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        with self._read(scope.org) as db:
            return memories.relations(db, scope, ids)

    def changed(self, where: Filter, since: datetime) -> list[Changed]:
        with self._snapshot(where.scope.org) as db:
            return memories.changed(db, where, since)

    def related_since(self, org: str, since: datetime) -> bool:
        with self._read(org) as db:
            return memories.related_since(db, org, since)

    def history(self, scope: Scope, identifier: str) -> list[Change]:
        with self._read(scope.org) as db:
            return memories.history(db, scope.org, identifier)

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        if not self._readonly and self._uses.count(ids, moment) > USES_WAIT_SECONDS:
            self._write_uses(patience=0.0)

    def stats(self, where: Filter, moment: datetime) -> Stats:
        with self._snapshot(where.scope.org) as db:
            return memories.stats(db, where, moment)

    def records(self, where: Filter) -> Iterator[Record]:
        for record in memories.records(self.dialect, partial(self._snapshot, where.scope.org), where):
            yield Record(memory=self._uses.added_to(record.memory), history=record.history)

    def all_relations(self, where: Filter) -> Iterator[Relation]:
        return memories.relation_pages(self.dialect, partial(self._read, where.scope.org), where)

    def orgs(self) -> list[str]:
        # The transaction would go on with the rights of the login.
        self._refuse_inside_transaction("list the orgs")
        with self._read(self.org) as db:
            db.execute(db.statement("see_all_orgs"))
            return [row[0] for row in db.execute(db.statement("orgs"))]

    def holdings(self, org: str) -> SqlHoldings:
        return SqlHoldings(org, self.dialect, partial(self._snapshot, org), partial(self._write, org))

    def erase(self, org: str) -> dict[Held, int]:
        self._refuse_inside_transaction("erase an org")
        with self._write(org) as db:
            return transfer.erase(db, org)

    @contextlib.contextmanager
    def _uses_taken(self) -> Iterator[Mapping[str, tuple[int, datetime]]]:
        """For a write that is not part of another: what a part takes would be lost when the whole is undone."""
        if self.in_transaction:
            yield {}
            return
        uses = self._uses.take()
        try:
            yield uses
        except BaseException:
            self._uses.give_back(uses)
            raise

    def _refuse_inside_transaction(self, what: str) -> None:
        if self.in_transaction:
            raise StoreError(f"cannot {what} inside a transaction; leave it first")


def _org(candidates: Sequence[Candidate]) -> str:
    """That of all of them: a view adds to its own."""
    return candidates[0].memory.scope.org if candidates else Scope().org
