"""The connections of a store: transactions that threads are in, and new connections where the old are gone."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from weakref import WeakValueDictionary

import psycopg

from satchel.errors import StoreError, StoreUnreachableError
from satchel.store.postgres.address import Address
from satchel.store.postgres.connection import LOCK_SECONDS, Access, PostgresConnection, connect, reading_errors
from satchel.store.sql.pool import Pool

__all__ = ["Connections"]

CONNECTIONS = 16
# So many of them at most are given to writers.
WRITERS = 12
# How long a call waits for a server that restarts.
PATIENCE = 5.0
NAP = 0.1


class _Turn:
    """Kept for as long as somebody waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Connections:
    """Hands out connections inside a transaction, and commits or undoes it afterwards."""

    def __init__(self, address: Address, access: Access) -> None:
        self._address = address
        self._access = access
        self._pool: Pool[PostgresConnection] = Pool(self._connect, limit=CONNECTIONS)
        self._current = threading.local()
        self._queue()

    def _queue(self) -> None:
        self._writers = threading.BoundedSemaphore(WRITERS)
        self._turns: WeakValueDictionary[str, _Turn] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def _leave_to_parent(self) -> None:
        """In a forked child: no thread of the parent's has a turn here."""
        if self._pid != os.getpid():
            self._queue()

    def _connect(self) -> PostgresConnection:
        return connect(self._address, self._access)

    @property
    def current(self) -> PostgresConnection | None:
        """That of the transaction this thread is in."""
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
            self._leave_to_parent()
            # Those that wait for their turn leave the connections to readers.
            with (
                self._turn(org),
                self._writers,
                self._begun(org, lock_seconds=patience) as db,
                self._entered(db),
            ):
                db.hold()
                yield db
            return
        with reading_errors(self._address.shown):
            if outer.lost or outer.failed:
                raise StoreError("an earlier failure has ended this transaction; nothing of it was stored")
            outer.bind(org)
            outer.hold()
            with outer.part():
                yield outer

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction of all that this thread does inside."""
        if (outer := self.current) is not None:
            # Bound to no tenant yet, or to the last one: what is done inside binds it.
            with reading_errors(self._address.shown), outer.part():
                yield
            return
        self._leave_to_parent()
        with self._writers, self._begun() as db, self._entered(db):
            yield

    def close(self) -> None:
        self._pool.close()

    @contextlib.contextmanager
    def _turn(self, org: str) -> Iterator[None]:
        """One thread writes for a tenant at a time: the others would wait for its row, each with a connection."""
        with self._lock:
            turn = self._turns.setdefault(org, _Turn())
        with turn.lock:
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
        self, org: str | None = None, *, snapshot: bool = False, lock_seconds: float = LOCK_SECONDS
    ) -> Iterator[PostgresConnection]:
        db = self._begin(partial(PostgresConnection.begin, org=org, snapshot=snapshot, lock_seconds=lock_seconds))
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
            if db.lost:
                self._pool.discard(db)
            else:
                self._pool.give_back(db)

    def _commit(self, db: PostgresConnection) -> None:
        try:
            db.end("COMMIT")
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if not db.lost:
                raise
            raise StoreUnreachableError(
                f"{self._address.shown}: the connection was lost while it committed; whether it was stored is not "
                "known: look before you try again"
            ) from error

    def _begin(self, begin: Callable[[PostgresConnection], None]) -> PostgresConnection:
        """A connection in a new transaction; one that was lost while nobody used it costs only a new one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                db = self._pool.take()
            except StoreUnreachableError:
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
