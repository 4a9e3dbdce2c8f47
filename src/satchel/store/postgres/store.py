"""The shared store: one PostgreSQL database for many tenants, each apart from the others."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary

from satchel.errors import StoreError
from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.store.contract import Check, Link, Match, Trace
from satchel.store.postgres import lexical, tracing, upkeep
from satchel.store.postgres.address import Address, parse_address
from satchel.store.postgres.beside import beside
from satchel.store.postgres.connection import LOCK_SECONDS, PostgresConnection
from satchel.store.postgres.connections import Connections
from satchel.store.postgres.migrations import first_connection
from satchel.store.sql import writing
from satchel.store.sql.ledgers import SqlLedgers
from satchel.store.sql.store import CLOSING_SECONDS, SqlStore
from satchel.store.sql.uses import Uses

__all__ = ["PostgresStore"]


class _Tenants:
    """The stores of all tenants that somebody holds, and those whose uses are not written yet."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: WeakValueDictionary[str, PostgresStore] = WeakValueDictionary()
        self.waiting: dict[str, PostgresStore] = {}


class PostgresStore(SqlStore[PostgresConnection]):
    """Fulfils the `Store` contract for one tenant; `within` gives the others, on the same connections."""

    dialect = PostgresConnection.dialect

    def __init__(self, location: str, *, create: bool = True) -> None:
        address = parse_address(location)
        connections = Connections(address, first_connection(address, create=create))
        self._join(address, connections, _Tenants(), Scope().org)

    def _join(self, address: Address, connections: Connections, tenants: "_Tenants", org: str) -> None:
        self.location = address.shown
        self.org = org
        self._address = address
        self._connections = connections
        self._tenants = tenants
        self._uses = Uses()
        self.ledgers = SqlLedgers(self._read, self._written, self._hold)
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

    @contextlib.contextmanager
    def reading(self, org: str) -> Iterator[None]:
        with self._connections.kept_for_reading(org):
            yield

    @property
    def in_transaction(self) -> bool:
        return self._connections.current is not None

    def matches(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
        with self._read(where.scope.org) as db:
            return lexical.matches(db, where, terms, limit=limit)

    def nearest(self, where: Filter, code: bytes, *, limit: int) -> list[Match]:
        with self._snapshot(where.scope.org) as db:
            return tracing.nearest(db, where, code, limit=limit)

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        with self._snapshot(where.scope.org) as db:
            return tracing.traces(db, where, keys)

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        with self._snapshot(where.scope.org) as db:
            return tracing.links(db, keys, where, limit=limit)

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        with self._read(where.scope.org) as db:
            return beside(db, traces, where, reach=reach)

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        with self._read(self.org) as db:
            return lexical.frequencies(db, terms)

    def words_like(self, word: str, *, start: str) -> list[str]:
        with self._read(self.org) as db:
            return lexical.words_like(db, word, start=start)

    def purge(self, where: Filter) -> int:
        with self._write(where.scope.org) as db:
            return writing.purge(db, where)

    def backup(self, target: Path) -> int:
        raise StoreError(
            "a store on a server is backed up there, by pg_dump or your provider; `satchel migrate` copies it to a "
            "file"
        )

    def checks(self) -> list[Check]:
        with self._read(self.org) as db:
            return upkeep.checks(db, self._address)

    def repair(self) -> list[str]:
        with self._write(self.org) as db:
            return upkeep.repair(db)

    def close(self) -> None:
        self._refuse_inside_transaction("close the store")
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
        """Waiting uses go along with any write: they cost no transaction of their own."""
        tenant = self.within(org)
        with tenant._uses_taken() as uses, self._connections.writing(org, patience=patience) as db:
            yield db
            if uses:
                db.bind(org)
                writing.use(db, uses)
        if uses and not tenant._uses:
            with self._tenants.lock:
                self._tenants.waiting.pop(org, None)

    @contextlib.contextmanager
    def _written(self, org: str) -> Iterator[PostgresConnection]:
        """For writes of one statement: inside a transaction it needs no savepoint of its own."""
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
