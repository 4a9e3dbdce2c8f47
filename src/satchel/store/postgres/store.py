"""The PostgreSQL store: one database for many tenants, isolated from each other.

`Connections` manages the transactions of threads.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary

from satchel.errors import StoreBusyError, StoreError
from satchel.model.memory import Scope
from satchel.store import memories
from satchel.store.contract import Check
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
from satchel.store.postgres.replica import Replica, replica_of
from satchel.store.postgres.schema import first_connection
from satchel.store.postgres.search import PostgresSearch
from satchel.store.postgres.transactions import ENDED, Transactions
from satchel.store.sessions import Ledgers
from satchel.store.store import CLOSING_SECONDS, WHILE_READING, Store

__all__ = ["Connections", "PostgresStore"]


# At most this many connections are used by writers.
WRITERS = 12
# How long a call waits for a server that restarts.
PATIENCE = 5.0


class _Turn:
    """A lock that exists only while somebody uses it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Connections:
    """Provides connections inside a transaction: to the primary server, or for reads to a replica."""

    def __init__(self, address: Address, first: PostgresConnection, replica: Replica | None = None) -> None:
        self._address = address
        self._access = first.access
        self._primary = Transactions(self._connect)
        self._primary.adopt(first)
        self._replica = replica
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
            with reading_errors(outer.shown):
                outer.bind(org)
                yield outer
            return
        reader: PostgresConnection | None = getattr(self._current, "reader", None)
        if reader is not None and reader.org == org:
            with reading_errors(reader.shown):
                yield reader
            return
        with self._begun_reading(org, snapshot=snapshot) as db:
            yield db

    @contextlib.contextmanager
    def kept_for_reading(self, org: str) -> Iterator[PostgresConnection]:
        """Open a read transaction for all reads of this thread inside."""
        if self.current is not None or getattr(self._current, "reader", None) is not None:
            with self.reading(org, snapshot=True) as db:
                yield db
            return
        with self._begun_reading(org, snapshot=True) as db:
            self._current.reader = db
            try:
                yield db
            finally:
                self._current.reader = None

    @contextlib.contextmanager
    def on_primary(self) -> Iterator[None]:
        """Let the primary server answer all reads of this thread inside."""
        self._current.on_primary = True
        try:
            yield
        finally:
            self._current.on_primary = False

    @contextlib.contextmanager
    def writing(self, org: str, *, patience: float = LOCK_SECONDS) -> Iterator[PostgresConnection]:
        """Open a write transaction, or a savepoint inside another transaction."""
        outer = self.current
        if outer is None:
            if getattr(self._current, "reader", None) is not None:
                raise StoreError(WHILE_READING)
            with self._turn(org, patience), self._begun(org, patience=patience) as db, self._entered(db):
                yield db
            return
        with reading_errors(outer.shown):
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
            with reading_errors(outer.shown), outer.part():
                yield
            return
        with self._turn(org, LOCK_SECONDS), self._begun() as db, self._entered(db):
            yield

    def close(self) -> None:
        self._primary.close()
        if self._replica is not None:
            self._replica.close()

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
    def _begun(self, org: str | None = None, *, patience: float = LOCK_SECONDS) -> Iterator[PostgresConnection]:
        """Begin to write for a tenant, or for tenants that are not known yet."""

        def start(db: PostgresConnection) -> None:
            db.begin(org, lock_seconds=patience)
            # A part of the beginning, so that a server that has become read-only is left before anything is done.
            db.hold()

        db, _ = self._primary.begin(start, patience=min(patience, PATIENCE))
        with self._primary.ending(db):
            yield db

    @contextlib.contextmanager
    def _begun_reading(self, org: str, *, snapshot: bool) -> Iterator[PostgresConnection]:
        replica = None if getattr(self._current, "on_primary", False) else self._replica
        if replica is not None and (db := replica.begin(org, partial(self._mark, org))) is not None:
            with replica.ending(db):
                yield db
            return
        begin = partial(PostgresConnection.begin, org=org, snapshot=snapshot)
        db, _ = self._primary.begin(begin, patience=PATIENCE)
        with self._primary.ending(db):
            yield db

    def _mark(self, org: str) -> int | None:
        """Ask the primary server for the mark of a tenant."""
        db, mark = self._primary.begin(partial(PostgresConnection.mark, org=org), patience=PATIENCE)
        self._primary.give_back(db)
        return mark


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

    def __init__(
        self, location: str, *, read_location: str | None = None, create: bool = True, unbound: bool = False
    ) -> None:
        address = parse_address(location)
        read_address = None if read_location is None else parse_address(read_location)
        first = first_connection(address, create=create, unbound=unbound)
        try:
            replica = None if read_address is None else replica_of(first, read_address)
        except BaseException:
            first.close()
            raise
        self._join(address, Connections(address, first, replica), _Tenants(), Scope().org)

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

    def orgs(self) -> list[str]:
        with self._connections.on_primary():
            return super().orgs()

    def checks(self) -> list[Check]:
        with self._connections.on_primary(), self._read(self.org) as db:
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
