"""The PostgreSQL store: one database for many tenants, isolated from each other.

`Connections` manages the transactions of threads, and replaces lost connections.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary

import psycopg

from satchel.errors import StoreBusyError, StoreError, StoreUnreachableError
from satchel.model.memory import Scope
from satchel.store import memories
from satchel.store.contract import Check
from satchel.store.database import Pool
from satchel.store.memories import Uses
from satchel.store.postgres import health
from satchel.store.postgres.connection import (
    LOCK_SECONDS,
    Address,
    PostgresConnection,
    connect,
    parse_address,
    reading_errors,
)
from satchel.store.postgres.schema import first_connection
from satchel.store.postgres.search import PostgresSearch
from satchel.store.sessions import Ledgers
from satchel.store.store import CLOSING_SECONDS, WHILE_READING, Store

__all__ = ["Connections", "PostgresStore"]


CONNECTIONS = 16
# At most this many of them are used by writers.
WRITERS = 12
# How long a call waits for a server that restarts.
PATIENCE = 5.0
NAP = 0.1
ENDED = "an earlier failure has ended this transaction; nothing of it was stored"


class _Turn:
    """A lock that exists only while somebody uses it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Connections:
    """Provides connections inside a transaction, and commits or rolls it back afterwards."""

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
        """In a forked child, start with no transactions and no waiting writers."""
        if self._pid != os.getpid():
            self._queue()

    def _connect(self) -> PostgresConnection:
        return connect(self._address, self._access)

    @property
    def current(self) -> PostgresConnection | None:
        """The connection of this thread's transaction."""
        self._leave_to_parent()
        found: PostgresConnection | None = getattr(self._current, "connection", None)
        return found

    @contextlib.contextmanager
    def reading(self, org: str, *, snapshot: bool = False) -> Iterator[PostgresConnection]:
        """Return a connection for one statement, or for several that see the same state."""
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
    def kept_for_reading(self, org: str) -> Iterator[PostgresConnection]:
        """Open a read transaction for all reads of this thread inside."""
        if self.current is not None or getattr(self._current, "reader", None) is not None:
            with self.reading(org, snapshot=True) as db:
                yield db
            return
        with self._begun(org, snapshot=True) as db:
            self._current.reader = db
            try:
                yield db
            finally:
                self._current.reader = None

    @contextlib.contextmanager
    def writing(self, org: str, *, patience: float = LOCK_SECONDS) -> Iterator[PostgresConnection]:
        """Open a write transaction, or a savepoint inside another transaction."""
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
        """Make one transaction of all that this thread does inside. Usually it is for one tenant."""
        if (outer := self.current) is not None:
            # The work inside binds the transaction to its tenant.
            with reading_errors(self._address.shown), outer.part():
                yield
            return
        with self._turn(org, LOCK_SECONDS), self._begun() as db, self._entered(db):
            yield

    def close(self) -> None:
        self._pool.close()

    @contextlib.contextmanager
    def _turn(self, org: str, patience: float) -> Iterator[None]:
        """Let one thread write for a tenant at a time, so that connections are left for readers.

        Otherwise each waiting writer would occupy a connection while it waits for the row of the tenant.
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
            # An interrupted connection may still be in its transaction, which others must not end.
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
            # For a failed transaction, PostgreSQL answers COMMIT with a rollback and no error.
            db.end("ROLLBACK")
            raise StoreError(ENDED)
        db.settle()
        try:
            db.end("COMMIT")
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if not db.lost:
                raise
            raise self._unknown("the connection was lost while it committed") from error
        except psycopg.InternalError as error:
            # "could not commit transaction for shard … on at least one active node"
            if not db.distributed:
                raise
            raise self._unknown("a node of the cluster did not confirm the commit") from error

    def _unknown(self, what: str) -> StoreUnreachableError:
        return StoreUnreachableError(
            f"{self._address.shown}: {what}; whether it was stored is not known: look before you try again"
        )

    def _begin(self, begin: Callable[[PostgresConnection], None], *, patience: float) -> PostgresConnection:
        """Begin a transaction on a connection. If an idle connection was lost, a new one is opened."""
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


# Tenants share the connections.


class _Tenants:
    """The stores of all tenants that are in use or have unwritten uses."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: WeakValueDictionary[str, PostgresStore] = WeakValueDictionary()
        self.waiting: dict[str, PostgresStore] = {}


class PostgresStore(PostgresSearch, Store):
    """The store of one tenant. `within` returns that of another, on the same connections."""

    dialect = PostgresConnection.dialect

    def __init__(self, location: str, *, create: bool = True, unbound: bool = False) -> None:
        address = parse_address(location)
        connections = Connections(address, first_connection(address, create=create, unbound=unbound))
        self._join(address, connections, _Tenants(), Scope().org)

    def _join(self, address: Address, connections: Connections, tenants: "_Tenants", org: str) -> None:
        self.location = address.shown
        self.org = org
        self._address = address
        self._connections = connections
        self._tenants = tenants
        self._uses = Uses()
        self.ledgers = Ledgers(self._read, self._written, self._hold)
        tenants.known[org] = self

    def within(self, org: str) -> Self:
        if org == self.org:
            return self
        with self._tenants.lock:
            found = self._tenants.known.get(org)
            if found is None:
                found = type(self).__new__(type(self))
                found._join(self._address, self._connections, self._tenants, org)
        return found  # type: ignore[return-value]

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        with self._tenants.lock:
            self._tenants.waiting[self.org] = self
        super().touch(ids, moment)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._connections.transaction(self.org):
            yield

    def reading(self, org: str | None = None) -> contextlib.AbstractContextManager[PostgresConnection]:
        return self._connections.kept_for_reading(self.org if org is None else org)

    def writing(self, org: str | None = None) -> contextlib.AbstractContextManager[PostgresConnection]:
        return self._write(self.org if org is None else org)

    @property
    def in_transaction(self) -> bool:
        return self._connections.current is not None

    def backup(self, target: Path) -> int:
        raise StoreError(
            "a store on a server is backed up there, by pg_dump or your provider; `satchel migrate` copies it to a "
            "file"
        )

    def checks(self) -> list[Check]:
        with self._read(self.org) as db:
            return health.checks(db, self._address)

    def repair(self) -> list[str]:
        with self._write(self.org) as db:
            return health.repair(db)

    def close(self) -> None:
        self.refuse_inside_transaction("close the store")
        deadline = time.monotonic() + CLOSING_SECONDS
        try:
            for tenant in list(self._tenants.waiting.values()):
                if (left := deadline - time.monotonic()) < 0:
                    break
                tenant._write_uses(patience=left)
        finally:
            self._connections.close()

    def _read(self, org: str) -> contextlib.AbstractContextManager[PostgresConnection]:
        return self._connections.reading(org)

    def _snapshot(self, org: str) -> contextlib.AbstractContextManager[PostgresConnection]:
        return self._connections.reading(org, snapshot=True)

    @contextlib.contextmanager
    def _write(self, org: str, *, patience: float = LOCK_SECONDS) -> Iterator[PostgresConnection]:
        """Open a write transaction, which also writes the waiting uses."""
        tenant = self.within(org)
        with tenant._uses_taken() as uses, self._connections.writing(org, patience=patience) as db:
            yield db
            if uses:
                db.bind(org)
                memories.count_uses(db, uses)
        if uses and not tenant._uses:
            with self._tenants.lock:
                self._tenants.waiting.pop(org, None)

    @contextlib.contextmanager
    def _written(self, org: str) -> Iterator[PostgresConnection]:
        """Return a connection for a write of one statement, which needs no savepoint inside a transaction."""
        if not self.in_transaction:
            with self._write(org) as db:
                yield db
            return
        with self._hold(org) as db:
            yield db

    @contextlib.contextmanager
    def _hold(self, org: str) -> Iterator[PostgresConnection]:
        with self._read(org) as db:
            if self.in_transaction:
                db.hold()
            yield db

    def _write_uses(self, *, patience: float) -> None:
        if not self._uses or self.in_transaction:
            return
        with contextlib.suppress(StoreError), self._write(self.org, patience=patience):
            pass
