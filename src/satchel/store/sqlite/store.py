"""The SQLite store: one file that many threads and processes use at the same time."""

import contextlib
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Self

import apsw

from satchel.errors import StoreError
from satchel.model.checks import expanded
from satchel.store import memories
from satchel.store.contract import Check
from satchel.store.database import Pool
from satchel.store.memories import Uses
from satchel.store.sessions import Ledgers
from satchel.store.sqlite.connection import (
    SqliteConnection,
    connect,
    copy_to_new_file,
    flush_log,
    keep_log_by_hand,
    reading_errors,
    trust,
    waiting_at_most,
    write_transaction,
)
from satchel.store.sqlite.migrations import make_ready, prepare, refuse_changed_version
from satchel.store.sqlite.search import SqliteSearch
from satchel.store.store import CLOSING_SECONDS, WHILE_READING, Store

__all__ = ["SqliteStore"]

CONNECTIONS = 8


class SqliteLedgers(Ledgers):
    """The session ledgers, without keeping expired contents in memory."""

    def expire(self, org: str, *, before: datetime, most_bytes: int) -> int:
        dropped = super().expire(org, before=before, most_bytes=most_bytes)
        with self._read(org) as db:
            # Cached pages of old contents are not needed again, and would add up in a long-running process.
            db.execute("PRAGMA shrink_memory")
        return dropped


class SqliteStore(SqliteSearch, Store):
    """A store in a file, or in memory for the location ":memory:"."""

    dialect = SqliteConnection.dialect

    def __init__(self, location: str, *, create: bool = True) -> None:
        in_memory = location == ":memory:"
        self.location = location if in_memory else str(_absolute(location))
        self._recognised = False
        if not in_memory:
            self._readonly = make_ready(Path(self.location), create=create)
        self._uses = Uses()
        self._current = threading.local()
        self.ledgers = SqliteLedgers(self._read, self._written, self._read)
        self._pool = Pool(self._connect, limit=1 if in_memory else CONNECTIONS)
        try:
            with self._pool.connection() as db:
                prepare(db, self.location)
                keep_log_by_hand(db)
            self._recognised = True
        except BaseException:
            self._pool.close()
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self.writing():
            yield

    @contextlib.contextmanager
    def reading(self, org: str | None = None) -> Iterator[SqliteConnection]:
        if getattr(self._current, "reader", None) is not None:
            with self._read() as db:
                yield db
            return
        with self._snapshot() as db:
            self._current.reader = db
            try:
                yield db
            finally:
                self._current.reader = None

    def within(self, org: str) -> Self:
        return self

    @property
    def in_transaction(self) -> bool:
        return getattr(self._current, "connection", None) is not None

    def backup(self, target: Path) -> int:
        self.refuse_inside_transaction("make a backup")
        self._write_uses(patience=CLOSING_SECONDS)
        with self._read() as db:
            return copy_to_new_file(db, target)

    def checks(self) -> list[Check]:
        from satchel.store.sqlite import health

        with self._read() as db:
            return health.checks(db, self.location)

    def repair(self) -> list[str]:
        from satchel.store.sqlite import health

        with self._read() as db:
            return health.repair(db, self.location)

    def close(self) -> None:
        self.refuse_inside_transaction("close the store")
        try:
            self._write_uses(patience=CLOSING_SECONDS)
        finally:
            self._pool.close()

    def _connect(self) -> SqliteConnection:
        connection = connect(self.location, readonly=self._readonly)
        if self._recognised:
            trust(connection)
            keep_log_by_hand(connection)
        return connection

    def _connection(self) -> "_Borrowed":
        """Return a context with the connection of this thread's transaction, or an idle one."""
        current: SqliteConnection | None = getattr(self._current, "connection", None)
        if current is None:
            current = getattr(self._current, "reader", None)
        return _Borrowed(self.location, self._pool, current)

    @contextlib.contextmanager
    def _read(self, org: str = "") -> Iterator[SqliteConnection]:
        with self._connection() as db:
            if not db.in_transaction:
                refuse_changed_version(self.location, db)
            yield db

    @contextlib.contextmanager
    def _snapshot(self, org: str = "") -> Iterator[SqliteConnection]:
        """Return a connection for several statements that see the same state, and so the same tables."""
        if getattr(self._current, "reader", None) is not None:
            # It sees one state already.
            with self._read() as db:
                yield db
            return
        # Not `_read`: the state that is read begins inside.
        with self._connection() as db, db:
            refuse_changed_version(self.location, db)
            yield db

    @contextlib.contextmanager
    def writing(self, org: str | None = None) -> Iterator[SqliteConnection]:
        """Open a write transaction, which also writes the waiting uses. It is on disk when this returns."""
        outer = getattr(self._current, "connection", None)
        if outer is None and getattr(self._current, "reader", None) is not None:
            raise StoreError(WHILE_READING)
        if outer is not None and not outer.in_transaction:
            # SQLite has rolled back everything. Continuing would store only the rest.
            raise StoreError("an earlier failure has ended this transaction; nothing of it was stored")
        # Not `_read`: the version is checked inside the transaction.
        with self._pool.writing(), self._uses_taken() as uses, self._connection() as db:
            with write_transaction(db):
                refuse_changed_version(self.location, db)
                if outer is None:
                    db.scrubbing = False
                    db.vectors.unsettled = False
                self._current.connection = db
                try:
                    yield db
                finally:
                    self._current.connection = outer
                memories.count_uses(db, uses)
                if outer is None:
                    db.vectors.settle()
            if outer is None and db.scrubbing:
                _empty_log(db)
            log = db.filename_wal
        if outer is None:
            # Without any lock, so that others write meanwhile. The log has all earlier transactions, too.
            flush_log(log)

    @contextlib.contextmanager
    def _written(self, org: str = "") -> Iterator[SqliteConnection]:
        """Return a connection for a write of one statement, which needs no savepoint inside a transaction."""
        outer: SqliteConnection | None = getattr(self._current, "connection", None)
        if outer is not None and outer.in_transaction:
            with reading_errors(self.location):
                yield outer
        else:
            with self.writing() as db:
                yield db

    def _write_uses(self, *, patience: float) -> None:
        """Write waiting uses if that is possible now. It never makes a read fail or wait."""
        if not self._uses or getattr(self._current, "connection", None) is not None:
            return
        with (
            contextlib.suppress(StoreError),
            self._read() as db,
            waiting_at_most(db, patience),
            self._uses_taken() as uses,
            write_transaction(db),
        ):
            refuse_changed_version(self.location, db)
            memories.count_uses(db, uses)


class _Borrowed:
    """A connection, with its errors converted: the one of a transaction, or one of the pool for the time inside."""

    # Not a generator: every read and write enters this.
    __slots__ = ("_connection", "_errors", "_pool")

    def __init__(self, location: str, pool: Pool[SqliteConnection], current: SqliteConnection | None) -> None:
        self._errors = reading_errors(location)
        self._pool = pool if current is None else None
        self._connection = current

    def __enter__(self) -> SqliteConnection:
        if self._connection is None and self._pool is not None:
            with self._errors:
                self._connection = self._pool.take()
        assert self._connection is not None
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._pool is not None and self._connection is not None:
            self._pool.give_back(self._connection)
        self._errors.__exit__(kind, error, trace)


def _absolute(location: str) -> Path:
    """Return an absolute path, which stays valid if the process changes its working directory."""
    return expanded(location).absolute()


def _empty_log(db: SqliteConnection) -> None:
    """Empty the log, which would keep purged data until the next checkpoint. Waits only briefly for readers.

    The purge itself is committed, so a disk that is full or fails here does not make it a failure.
    """
    with waiting_at_most(db, CLOSING_SECONDS), contextlib.suppress(apsw.BusyError, apsw.FullError, apsw.IOError):
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
