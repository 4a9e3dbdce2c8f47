"""What the stores in SQL databases do alike: each call is one read or one write, on a connection for its org."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any, Generic, Literal, Self, TypeVar

from satchel.errors import StoreError
from satchel.model.filters import Filter
from satchel.model.memory import Change, Memory, Relation, Scope
from satchel.store.contract import Candidate, Changed, Embedded, Embedding, Link, Record, Stats, Trace
from satchel.store.holdings import Held
from satchel.store.sql import erasing, index, reading, reembedding, tracing, writing
from satchel.store.sql.database import Database, Dialect
from satchel.store.sql.holdings import SqlHoldings
from satchel.store.sql.uses import Uses

__all__ = ["CLOSING_SECONDS", "USES_WAIT_SECONDS", "WHILE_READING", "SqlStore"]

# Uses are written with the next write; a reader that never writes does it after this many seconds.
USES_WAIT_SECONDS = 5.0
# How long closing waits for other writers in order to write the last uses.
CLOSING_SECONDS = 2.0
WHILE_READING = "nothing is written while one state of the store is read; do it afterwards"

D = TypeVar("D", bound=Database)


class SqlStore(ABC, Generic[D]):
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
            return writing.add(db, candidates, embedded, deduplicate=deduplicate)

    def put(
        self, scope: Scope, records: Sequence[Record], embedded: Embedded | None = None
    ) -> list[Literal["added", "updated", "kept"]]:
        with self._write(scope.org) as db:
            return writing.put(db, scope, records, embedded)

    def put_relations(self, scope: Scope, relations: Sequence[Relation]) -> None:
        with self._write(scope.org) as db:
            writing.put_relations(db, scope, relations)

    def resolve(self, scope: Scope, prefix: str) -> str:
        with self._read(scope.org) as db:
            return reading.resolve(db, scope, prefix)

    def short_ids(self, ids: Sequence[str]) -> list[str]:
        with self._read(self.org) as db:
            return reading.short_ids(db, ids)

    def select(self, where: Filter, *, limit: int) -> list[Memory]:
        with self._read(where.scope.org) as db:
            found = reading.select(db, where, limit=limit)
        return [self._uses.added_to(memory) for memory in found]

    def count(self, where: Filter, *, most: int) -> int:
        with self._read(where.scope.org) as db:
            return tracing.count(db, where, most)

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
        with self._read(where.scope.org) as db:
            return tracing.between(db, where, start, end, limit=limit)

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        with self._read(where.scope.org) as db:
            return tracing.beside(db, traces, where, reach=reach)

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        with self._read(where.scope.org) as db:
            return tracing.links(db, keys, where, limit=limit)

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        with self._snapshot(where.scope.org) as db:
            return tracing.traces(db, where, keys)

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        with self._read(self.org) as db:
            return tracing.memories(db, keys)

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
            return reembedding.begin(db, embedding)

    def unembedded(self, embedding: Embedding, *, after: int, limit: int) -> list[tuple[int, str]]:
        with self._snapshot(self.org) as db:
            return reembedding.unembedded(db, embedding, after=after, limit=limit)

    def fill(self, numbers: Sequence[int], embedded: Embedded) -> int:
        with self._write(self.org) as db:
            return reembedding.fill(db, numbers, embedded)

    def finish_reembedding(self, embedding: Embedding) -> bool:
        with self._write(self.org) as db:
            return reembedding.finish(db, embedding)

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        with self._read(where.scope.org) as db:
            found = reading.around(db, memory, where, before=before, after=after)
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
            return writing.change(db, scope, identifier, changes, action=action, embedded=embedded)

    def forget(self, where: Filter, moment: datetime) -> int:
        with self._write(where.scope.org) as db:
            return writing.forget(db, where, moment)

    def relate(self, scope: Scope, relation: Relation) -> Relation:
        with self._write(scope.org) as db:
            return writing.relate(db, scope, relation)

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        with self._read(scope.org) as db:
            return reading.relations(db, scope, ids)

    def changed(self, where: Filter, since: datetime) -> list[Changed]:
        with self._snapshot(where.scope.org) as db:
            return reading.changed(db, where, since)

    def related_since(self, org: str, since: datetime) -> bool:
        with self._read(org) as db:
            return reading.related_since(db, org, since)

    def history(self, scope: Scope, identifier: str) -> list[Change]:
        with self._read(scope.org) as db:
            return reading.history(db, scope.org, identifier)

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        if not self._readonly and self._uses.count(ids, moment) > USES_WAIT_SECONDS:
            self._write_uses(patience=0.0)

    def stats(self, where: Filter, moment: datetime) -> Stats:
        with self._snapshot(where.scope.org) as db:
            return reading.stats(db, where, moment)

    def records(self, where: Filter) -> Iterator[Record]:
        for record in reading.records(self.dialect, partial(self._snapshot, where.scope.org), where):
            yield Record(memory=self._uses.added_to(record.memory), history=record.history)

    def all_relations(self, where: Filter) -> Iterator[Relation]:
        return reading.relation_pages(self.dialect, partial(self._read, where.scope.org), where)

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
            return erasing.erase(db, org)

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
