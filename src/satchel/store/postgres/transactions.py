"""Transactions on the connections to one server: lost connections are replaced, and commits say what they did."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import psycopg

from satchel.errors import StoreBusyError, StoreError, StoreReadOnlyError, StoreUnreachableError
from satchel.store.database import Pool
from satchel.store.postgres.connection import LOCK_SECONDS, PostgresConnection, reading_errors

__all__ = ["ENDED", "Transactions"]

CONNECTIONS = 16
NAP = 0.1
ENDED = "an earlier failure has ended this transaction; nothing of it was stored"

T = TypeVar("T")


class Transactions:
    """Begins transactions on idle connections to one server or on new ones, and ends them."""

    def __init__(self, connect: Callable[[], PostgresConnection]) -> None:
        self._pool: Pool[PostgresConnection] = Pool(connect, limit=CONNECTIONS, patience=LOCK_SECONDS)

    def adopt(self, connection: PostgresConnection) -> None:
        """Add a connection that was made elsewhere."""
        self._pool.adopt(connection)

    def close(self) -> None:
        self._pool.close()

    def begin(self, start: Callable[[PostgresConnection], T], *, patience: float) -> tuple[PostgresConnection, T]:
        """Return a connection on which `start` has begun a transaction, and the result of that.

        A connection that was lost while it was idle is replaced, and so is one to a server that has become
        read-only. `patience` is how many seconds a server may take to answer.
        """
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
                with reading_errors(db.shown):
                    return db, start(db)
            except (StoreUnreachableError, StoreReadOnlyError) as error:
                self._pool.discard(db)
                if not db.fresh:
                    continue
                if isinstance(error, StoreReadOnlyError) or time.monotonic() > deadline:
                    raise
                # A pooler may accept connections while the server behind it is down.
                time.sleep(NAP)
            except BaseException:
                self._pool.discard(db)
                raise

    @contextlib.contextmanager
    def ending(self, db: PostgresConnection) -> Iterator[PostgresConnection]:
        """Commit the transaction of a connection at the end, or roll it back, and keep the connection."""
        read_only = False
        try:
            with reading_errors(db.shown):
                try:
                    yield db
                except BaseException:
                    if not db.lost:
                        db.end("ROLLBACK")
                    raise
                _commit(db)
        except StoreReadOnlyError:
            # It was the primary server once. A new connection leads to the one that is now.
            read_only = True
            raise
        finally:
            self._keep(db, usable=not read_only)

    def give_back(self, db: PostgresConnection) -> None:
        """Keep a connection for others, whose transaction has ended."""
        self._keep(db, usable=True)

    def _keep(self, db: PostgresConnection, *, usable: bool) -> None:
        # An interrupted connection may still be in its transaction, which others must not end.
        if usable and db.idle:
            db.fresh = False
            self._pool.give_back(db)
        else:
            self._pool.discard(db)


def _commit(db: PostgresConnection) -> None:
    if db.lost:
        raise StoreUnreachableError(f"{db.shown}: the connection was lost; nothing was stored, try again")
    if db.failed:
        # For a failed transaction, PostgreSQL answers COMMIT with a rollback and no error.
        db.end("ROLLBACK")
        raise StoreError(ENDED)
    db.settle()
    _end(db)


def _end(db: PostgresConnection) -> None:
    try:
        db.end("COMMIT")
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if not db.lost:
            raise
        if not db.has_written:
            # All has been read.
            return
        raise _unknown(db, "the connection was lost while it committed") from error
    except psycopg.InternalError as error:
        # "could not commit transaction for shard … on at least one active node"
        if not db.distributed:
            raise
        raise _unknown(db, "a node of the cluster did not confirm the commit") from error


def _unknown(db: PostgresConnection, what: str) -> StoreUnreachableError:
    return StoreUnreachableError(
        f"{db.shown}: {what}; whether it was stored is not known: look before you try again"
    )
