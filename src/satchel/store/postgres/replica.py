"""A streaming replica that answers reads, but never with an older state than the primary server has."""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg import errors

from satchel.errors import InputError, SatchelError, StoreUnreachableError
from satchel.store.postgres.connection import Address, PostgresConnection, reading_errors
from satchel.store.postgres.schema import SCHEMA_VERSION, Status, look, open_raw, refuse_unbound
from satchel.store.postgres.transactions import Transactions

__all__ = ["Replica", "ReplicaStatus", "replica_of", "replica_status"]

# Reads wait for a replica that does not answer this long, and then leave it alone for a while.
CONNECT_SECONDS = 2
REST_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Identity(NamedTuple):
    """What a database and its replicas have in common, and no other database has."""

    system: int | None
    """None if the login may not know."""
    database: int


def _identity(raw: "psycopg.Connection[Any]") -> Identity:
    database = int(_value(raw, "SELECT oid FROM pg_database WHERE datname = current_database()"))
    try:
        return Identity(int(_value(raw, "SELECT system_identifier FROM pg_control_system()")), database)
    except errors.InsufficientPrivilege:
        return Identity(None, database)


class ReplicaStatus(msgspec.Struct, frozen=True):
    """The status of a replica."""

    place: str
    is_primary: bool
    """Whether it is no replica but takes writes, such as the primary server itself."""
    bytes_behind: int
    """How much of the primary's log it does not show yet."""


def replica_status(address: Address, read_address: Address) -> ReplicaStatus:
    """Return the status of a replica. Refuses what is no replica of the database at `address`."""
    with reading_errors(address.shown), open_raw(address) as primary:
        same_as, written = _identity(primary), "SELECT pg_current_wal_lsn()::text"
        at = _value(primary, "SELECT pg_last_wal_replay_lsn()::text" if _is_replica(primary) else written)
    with reading_errors(read_address.shown), open_raw(read_address) as raw:
        _refuse_other(_identity(raw), same_as, read_address.shown, address.shown)
        if not _is_replica(raw):
            return ReplicaStatus(read_address.shown, is_primary=True, bytes_behind=0)
        behind = _value(raw, f"SELECT greatest(pg_wal_lsn_diff('{at}', pg_last_wal_replay_lsn()), 0)::bigint")
        return ReplicaStatus(read_address.shown, is_primary=False, bytes_behind=int(behind))


def _value(raw: "psycopg.Connection[Any]", statement: str) -> Any:
    row = raw.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def _is_replica(raw: "psycopg.Connection[Any]") -> bool:
    return bool(_value(raw, "SELECT pg_is_in_recovery()"))


def _refuse_other(here: Identity, primary: Identity, shown: str, of: str) -> None:
    known = None not in (here.system, primary.system)
    if here.database != primary.database or (known and here.system != primary.system):
        raise InputError(
            f"{shown} is no replica of {of}; name a streaming replica of the same database for reads, or none"
        )


def replica_of(primary: PostgresConnection, address: Address) -> "Replica":
    """Return the replica at an address. Refuses what is no replica of this database."""
    if primary.distributed:
        raise InputError(
            f"{primary.shown} is distributed by Citus, which has no replica of the whole store; leave the address "
            "for reads out"
        )
    with reading_errors(primary.shown):
        same_as = _identity(primary.raw)
    return Replica(address, primary.shown, same_as)


class Replica:
    """Begins reads on a replica. One that fails is left alone for some seconds, while the primary answers."""

    def __init__(self, address: Address, primary: str, same_as: Identity) -> None:
        self._address = address
        self._primary = primary
        self._same_as = same_as
        self._transactions = Transactions(self._connect)
        self.ending = self._transactions.ending
        self._rests_until = 0.0
        try:
            self._transactions.adopt(self._connect())
        except StoreUnreachableError as error:
            self._rest(error)

    def close(self) -> None:
        self._transactions.close()

    def begin(self, org: str, mark: Callable[[], int | None]) -> PostgresConnection | None:
        """Return a connection that reads one state of a tenant, which is that of the primary at this moment.

        `mark` asks the primary for the mark of the tenant. None if the replica has another state or fails: then the
        primary has to answer the read.
        """
        if not self._is_ready():
            return None
        now = mark()
        try:
            db, here = self._transactions.begin(partial(PostgresConnection.begin_with_mark, org=org), patience=0.0)
        except SatchelError as error:
            # Also if it has become a server of something else.
            self._rest(error)
            return None
        if self._rests_until:
            _log.warning("%s answers reads again", self._address.shown)
            self._rests_until = 0.0
        if here == now:
            return db
        with self.ending(db):
            return None

    def _is_ready(self) -> bool:
        """Whether to try the replica. After a failure one thread tries, while the others let it rest on."""
        if not self._rests_until:
            return True
        if time.monotonic() < self._rests_until:
            return False
        self._rests_until = time.monotonic() + REST_SECONDS
        return True

    def _rest(self, error: SatchelError) -> None:
        if not self._rests_until:
            _log.warning("reads go to the primary server: %s", error)
        self._rests_until = time.monotonic() + REST_SECONDS

    def _connect(self) -> PostgresConnection:
        with reading_errors(self._address.shown):
            raw = open_raw(self._address, connect_timeout=CONNECT_SECONDS)
            try:
                found = self._checked(raw)
            except BaseException:
                raw.close()
                raise
            return PostgresConnection(raw, found.access, self._address.shown)

    def _checked(self, raw: "psycopg.Connection[Any]") -> Status:
        _refuse_other(_identity(raw), self._same_as, self._address.shown, self._primary)
        found = look(raw, self._address)
        if found.version < SCHEMA_VERSION:
            # A migration that it has not received yet.
            raise StoreUnreachableError(
                f"{self._address.shown} has schema version {found.version} and is behind its primary server"
            )
        refuse_unbound(found)
        return found
