"""The connections of a store: transactions that threads are in, and new connections where the old are gone."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from weakref import WeakValueDictionary

import psycopg

from satchel.errors import StoreBusyError, StoreError, StoreUnreachableError
from satchel.store.postgres.address import Address
from satchel.store.postgres.connection import LOCK_SECONDS, PostgresConnection, connect, reading_errors
from satchel.store.sql.pool import Pool
from satchel.store.sql.store import WHILE_READING

__all__ = ["Connections"]

CONNECTIONS = 16
# So many of them at most are given to writers.
WRITERS = 12
# How long a call waits for a server that restarts.
PATIENCE = 5.0
NAP = 0.1
ENDED = "an earlier failure has ended this transaction; nothing of it was stored"


class _Turn:
    """Kept for as long as somebody waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Connections:
    """Hands out connections inside a transaction, and commits or undoes it afterwards."""

    def __init__(self, address: Address, first: PostgresConnection) -> None:
        self._address = address
        self._access = first.access
        self._pool: Pool[PostgresConnection] = Pool(self._connect, limit=CONNECTIONS, patience=LOCK_SECONDS)
        self._pool.adopt(first)
        self._queue()

    def _queue(self) -> None:
        self._writers = threading.BoundedSemaphore(WRITERS)
        self._turns: WeakValueDictionary[str, _Turn] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._current = threading.local()
        self._pid = os.getpid()

    def _leave_to_parent(self) -> None:
        """In a forked child: no thread of the parent's has a turn here, or is in a transaction."""
        if self._pid != os.getpid():
            self._queue()

    def _connect(self) -> PostgresConnection:
        return connect(self._address, self._access)

    @property
    def current(self) -> PostgresConnection | None:
        """That of the transaction this thread is in."""
        self._leave_to_parent()
        found: PostgresConnection | None = getattr(self._current, "connection", None)
        return found

    @contextlib.contextmanager
    def reading(self, org: str, *, snapshot: bool = False) -> Iterator[PostgresConnection]:
        """For one statement, or for several that see the same state."""
        if (outer := self.current) is not None:
            with reading_errors(self._address.shown):
                outer.bind(org)
                yield outer
            return
        reader: PostgresConnection | None = getattr(self._current, "reader", None)
        if reader is not None and reader.org == org:
            with reading_errors(self._address.shown):
                yield reader
            return
        with self._begun(org, snapshot=snapshot) as db:
            yield db

    @contextlib.contextmanager
    def kept_for_reading(self, org: str) -> Iterator[None]:
        """One transaction for all that this thread reads inside."""
        if self.current is not None or getattr(self._current, "reader", None) is not None:
            yield
            return
        with self._begun(org, snapshot=True) as db:
            self._current.reader = db
            try:
                yield
            finally:
                self._current.reader = None

    @contextlib.contextmanager
    def writing(self, org: str, *, patience: float = LOCK_SECONDS) -> Iterator[PostgresConnection]:
        """Committed whole or rolled back; inside another one it is a part that can fail alone."""
        outer = self.current
        if outer is None:
            if getattr(self._current, "reader", None) is not None:
                raise StoreError(WHILE_READING)
            with self._turn(org, patience), self._begun(org, patience=patience) as db, self._entered(db):
                db.hold()
                yield db
            return
        with reading_errors(self._address.shown):
            if outer.lost or outer.failed:
                raise StoreError(ENDED)
            with outer.part():
                outer.bind(org)
                outer.hold()
                yield outer

    @contextlib.contextmanager
    def transaction(self, org: str) -> Iterator[None]:
        """One transaction of all that this thread does inside, for the most part for one tenant."""
        if (outer := self.current) is not None:
            # Bound to no tenant yet, or to the last one: what is done inside binds it.
            with reading_errors(self._address.shown), outer.part():
                yield
            return
        with self._turn(org, LOCK_SECONDS), self._begun() as db, self._entered(db):
            yield

    def close(self) -> None:
        self._pool.close()

    @contextlib.contextmanager
    def _turn(self, org: str, patience: float) -> Iterator[None]:
        """One thread writes for a tenant at a time, and readers find a connection while writers wait.

        The others would wait for the tenant's row, each with a connection.
        """
        with self._lock:
            turn = self._turns.setdefault(org, _Turn())
        with contextlib.ExitStack() as stack:
            for lock in (turn.lock, self._writers):
                if not lock.acquire(timeout=patience):
                    raise StoreBusyError(
                        f"{self._address.shown}: others have been writing for {patience:.0f} s; nothing was "
                        "written, try again"
                    )
                stack.callback(lock.release)
            yield

    @contextlib.contextmanager
    def _entered(self, db: PostgresConnection) -> Iterator[None]:
        self._current.connection = db
        try:
            yield
        finally:
            self._current.connection = None

    @contextlib.contextmanager
    def _begun(
        self, org: str | None = None, *, snapshot: bool = False, patience: float = LOCK_SECONDS
    ) -> Iterator[PostgresConnection]:
        begin = partial(PostgresConnection.begin, org=org, snapshot=snapshot, lock_seconds=patience)
        db = self._begin(begin, patience=min(patience, PATIENCE))
        try:
            with reading_errors(self._address.shown):
                try:
                    yield db
                except BaseException:
                    if not db.lost:
                        db.end("ROLLBACK")
                    raise
                self._commit(db)
        finally:
            # One that was interrupted may be in its transaction still, which nobody else shall end.
            if db.idle:
                self._pool.give_back(db)
            else:
                self._pool.discard(db)

    def _commit(self, db: PostgresConnection) -> None:
        if db.lost:
            raise StoreUnreachableError(
                f"{self._address.shown}: the connection was lost; nothing was stored, try again"
            )
        if db.failed:
            # PostgreSQL would undo it and call that a commit.
            db.end("ROLLBACK")
            raise StoreError(ENDED)
        db.settle()
        try:
            db.end("COMMIT")
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if not db.lost:
                raise
            raise StoreUnreachableError(
                f"{self._address.shown}: the connection was lost while it committed; whether it was stored is not "
                "known: look before you try again"
            ) from error

    def _begin(self, begin: Callable[[PostgresConnection], None], *, patience: float) -> PostgresConnection:
        """A connection in a new transaction; one that was lost while nobody used it costs only a new one."""
        deadline = time.monotonic() + patience
        while True:
            try:
                db = self._pool.take()
            except (StoreUnreachableError, StoreBusyError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(NAP)
                continue
            try:
                with reading_errors(self._address.shown):
                    begin(db)
                return db
            except StoreUnreachableError:
                self._pool.discard(db)
                if time.monotonic() > deadline:
                    raise
            except BaseException:
                self._pool.discard(db)
                raise
