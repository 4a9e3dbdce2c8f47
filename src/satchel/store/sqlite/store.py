"""The embedded store: one SQLite file that many threads and processes use at once."""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import apsw

from satchel.errors import InputError, StoreError
from satchel.memory import Change, Memory, Relation, Scope
from satchel.store.contract import (
    Candidate,
    Check,
    Embedded,
    Embedding,
    Filter,
    Link,
    Match,
    Record,
    Stats,
    Trace,
)
from satchel.store.sqlite import index, lexical, reading, reembedding, tracing, upkeep, writing
from satchel.store.sqlite.connection import connect, reading_errors, trust, waiting_at_most, write_transaction
from satchel.store.sqlite.copy import copy_to_new_file
from satchel.store.sqlite.header import refuse_newer
from satchel.store.sqlite.ledgers import SqliteLedgers
from satchel.store.sqlite.migrations import SCHEMA_VERSION, prepare
from satchel.store.sqlite.place import make_ready
from satchel.store.sqlite.pool import Pool
from satchel.store.sqlite.uses import Uses

__all__ = ["SqliteStore"]

CONNECTIONS = 8
# Uses are written with the next write; a reader that never writes does it after this many seconds.
USES_WAIT_SECONDS = 5.0
# How long closing waits for other writers in order to write the last uses.
CLOSING_SECONDS = 2.0


class SqliteStore:
    """Fulfils the `Store` contract on a file, or in memory with the location ":memory:"."""

    def __init__(self, location: str, *, create: bool = True) -> None:
        in_memory = location == ":memory:"
        self.location = location if in_memory else str(_absolute(location))
        self._readonly = self._recognised = False
        if not in_memory:
            self._readonly = make_ready(Path(self.location), create=create)
        self._uses = Uses()
        self._current = threading.local()
        self.ledgers = SqliteLedgers(self._read, self._written)
        self._pool = Pool(self._connect, limit=1 if in_memory else CONNECTIONS)
        try:
            with self._pool.connection() as db:
                prepare(db, self.location)
            self._recognised = True
        except BaseException:
            self._pool.close()
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._write():
            yield

    def add(self, candidates: Sequence[Candidate], embedded: Embedded | None = None) -> list[Memory]:
        with self._write() as db:
            return writing.add(db, candidates, embedded)

    def put(
        self, scope: Scope, records: Sequence[Record], embedded: Embedded | None = None
    ) -> list[Literal["added", "updated", "kept"]]:
        with self._write() as db:
            return writing.put(db, scope, records, embedded)

    def put_relations(self, scope: Scope, relations: Sequence[Relation]) -> None:
        with self._write() as db:
            writing.put_relations(db, scope, relations)

    def resolve(self, scope: Scope, prefix: str) -> str:
        with self._read() as db:
            return reading.resolve(db, scope, prefix)

    def short_ids(self, ids: Sequence[str]) -> list[str]:
        with self._read() as db:
            return reading.short_ids(db, ids)

    def select(self, where: Filter, *, limit: int) -> list[Memory]:
        with self._read() as db:
            found = reading.select(db, where, limit=limit)
        return [self._uses.added_to(memory) for memory in found]

    def count(self, where: Filter, *, most: int) -> int:
        with self._read() as db:
            return tracing.count(db, where, most)

    def matches(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
        with self._read() as db:
            return lexical.matches(db, where, terms, limit=limit)

    def nearest(self, where: Filter, code: bytes, *, limit: int) -> list[Match]:
        with self._snapshot() as db:
            return tracing.nearest(db, where, code, limit=limit)

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
        with self._read() as db:
            return tracing.between(db, where, start, end, limit=limit)

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        with self._read() as db:
            return tracing.beside(db, traces, where, reach=reach)

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        with self._read() as db:
            return tracing.links(db, keys, where, limit=limit)

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        with self._snapshot() as db:
            return tracing.traces(db, where, keys)

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        with self._read() as db:
            return tracing.memories(db, keys)

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        with self._read() as db:
            return lexical.frequencies(db, terms)

    def words_like(self, word: str, *, start: str) -> list[str]:
        with self._read() as db:
            return lexical.words_like(db, word, start=start)

    def embedding(self) -> Embedding | None:
        with self._read() as db:
            return index.embedding(db)

    def adopt(self, embedding: Embedding) -> None:
        with self._write() as db:
            index.adopt(db, embedding)

    def backlog(self, *, limit: int) -> list[tuple[int, Memory]]:
        with self._read() as db:
            return index.backlog(db, limit)

    def embed_backlog(self, keys: Sequence[int], embedded: Embedded) -> int:
        with self._write() as db:
            return index.embed_backlog(db, embedded, keys)

    def begin_reembedding(self, embedding: Embedding) -> int:
        self._refuse_inside_transaction("reembed")
        with self._write() as db:
            return reembedding.begin(db, embedding)

    def unembedded(self, embedding: Embedding, *, after: int, limit: int) -> list[tuple[int, str]]:
        with self._snapshot() as db:
            return reembedding.unembedded(db, embedding, after=after, limit=limit)

    def fill(self, numbers: Sequence[int], embedded: Embedded) -> int:
        with self._write() as db:
            return reembedding.fill(db, numbers, embedded)

    def finish_reembedding(self, embedding: Embedding) -> bool:
        with self._write() as db:
            return reembedding.finish(db, embedding)

    @property
    def in_transaction(self) -> bool:
        return getattr(self._current, "connection", None) is not None

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        with self._read() as db:
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
        with self._write() as db:
            return writing.change(db, scope, identifier, changes, action=action, embedded=embedded)

    def forget(self, where: Filter, moment: datetime) -> int:
        with self._write() as db:
            return writing.forget(db, where, moment)

    def purge(self, where: Filter) -> int:
        with self._write() as db:
            self._current.purged = True
            return writing.purge(db, where)

    def relate(self, scope: Scope, relation: Relation) -> Relation:
        with self._write() as db:
            return writing.relate(db, scope, relation)

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        with self._read() as db:
            return reading.relations(db, scope, ids)

    def history(self, scope: Scope, identifier: str) -> list[Change]:
        with self._read() as db:
            return reading.history(db, scope.org, identifier)

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        if not self._readonly and self._uses.count(ids, moment) > USES_WAIT_SECONDS:
            self._write_uses(patience=0.0)

    def stats(self, where: Filter, moment: datetime) -> Stats:
        with self._read() as db:
            return reading.stats(db, where, moment)

    def records(self, where: Filter) -> Iterator[Record]:
        for record in reading.records(self._read, where):
            yield Record(memory=self._uses.added_to(record.memory), history=record.history)

    def all_relations(self, where: Filter) -> Iterator[Relation]:
        return reading.relation_pages(self._read, where)

    def backup(self, target: Path) -> int:
        self._refuse_inside_transaction("make a backup")
        self._write_uses(patience=CLOSING_SECONDS)
        with self._read() as db:
            return copy_to_new_file(db, target)

    def checks(self) -> list[Check]:
        with self._read() as db:
            return upkeep.checks(db, self.location)

    def repair(self) -> list[str]:
        with self._read() as db:
            return upkeep.repair(db, self.location)

    def close(self) -> None:
        self._refuse_inside_transaction("close the store")
        try:
            self._write_uses(patience=CLOSING_SECONDS)
        finally:
            self._pool.close()

    def _connect(self) -> apsw.Connection:
        connection = connect(self.location, readonly=self._readonly)
        if self._recognised:
            trust(connection)
        return connection

    @contextlib.contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        """The connection of the transaction this thread is in, or any idle one."""
        current: apsw.Connection | None = getattr(self._current, "connection", None)
        with reading_errors(self.location):
            if current is not None:
                yield current
            else:
                with self._pool.connection() as db:
                    yield db

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[apsw.Connection]:
        """For reads of several statements: a table of vectors that the first one names is there for the next."""
        with self._read() as db, db:
            yield db

    @contextlib.contextmanager
    def _write(self) -> Iterator[apsw.Connection]:
        """Waiting uses go along with any write: they cost no transaction of their own."""
        outer = getattr(self._current, "connection", None)
        if outer is not None and not outer.in_transaction:
            # SQLite undid everything; to go on would store the rest without the beginning.
            raise StoreError("an earlier failure has ended this transaction; nothing of it was stored")
        with self._pool.writing(), self._uses_taken() as uses, self._read() as db:
            with write_transaction(db):
                refuse_newer(self.location, db.pragma("user_version"), newest=SCHEMA_VERSION)
                self._current.connection = db
                try:
                    yield db
                finally:
                    self._current.connection = outer
                writing.use(db, uses)
            if outer is None and getattr(self._current, "purged", False):
                self._current.purged = False
                _empty_log(db)

    @contextlib.contextmanager
    def _written(self) -> Iterator[apsw.Connection]:
        """For writes of one statement: inside a transaction it needs no savepoint of its own."""
        outer: apsw.Connection | None = getattr(self._current, "connection", None)
        if outer is not None and outer.in_transaction:
            with reading_errors(self.location):
                yield outer
        else:
            with self._write() as db:
                yield db

    def _refuse_inside_transaction(self, what: str) -> None:
        if getattr(self._current, "connection", None) is not None:
            raise StoreError(f"cannot {what} inside a transaction; leave it first")

    def _write_uses(self, *, patience: float) -> None:
        """Best effort: a use that cannot be written now waits, and never fails a read or holds it up."""
        if not self._uses or getattr(self._current, "connection", None) is not None:
            return
        with (
            contextlib.suppress(StoreError),
            self._read() as db,
            waiting_at_most(db, patience),
            self._uses_taken() as uses,
            write_transaction(db),
        ):
            writing.use(db, uses)

    @contextlib.contextmanager
    def _uses_taken(self) -> Iterator[Mapping[str, tuple[int, datetime]]]:
        uses = self._uses.take()
        try:
            yield uses
        except BaseException:
            self._uses.give_back(uses)
            raise


def _absolute(location: str) -> Path:
    """The same file even if the process changes its folder."""
    try:
        return Path(location).expanduser().absolute()
    except RuntimeError as error:
        raise InputError(f"{location}: {error}") from None


def _empty_log(db: apsw.Connection) -> None:
    """The log would keep purged words until it is next written back; not waiting long for readers."""
    with waiting_at_most(db, CLOSING_SECONDS), contextlib.suppress(apsw.BusyError):
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
