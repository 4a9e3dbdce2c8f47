"""`Store`: the interface of both databases: transactions, search, sessions, transfer and maintenance."""

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self

from satchel.errors import StoreError
from satchel.model.filters import Filter
from satchel.model.memory import Relation
from satchel.store import memories, transfer
from satchel.store.contract import Check, Held, Record
from satchel.store.database import Database, Dialect
from satchel.store.search import Search
from satchel.store.sessions import Ledgers
from satchel.store.transfer import Holdings

__all__ = ["CLOSING_SECONDS", "USES_WAIT_SECONDS", "WHILE_READING", "Store"]

# Uses are written with the next write. A process that only reads writes them after this many seconds.
USES_WAIT_SECONDS = 5.0
# How long closing waits for other writers before it gives up writing the last uses.
CLOSING_SECONDS = 2.0
WHILE_READING = "nothing is written while one state of the store is read; do it afterwards"


_NO_USES: AbstractContextManager[Mapping[str, tuple[int, datetime]]] = contextlib.nullcontext({})


class Store(Search[Database]):
    """A store of memories. Safe to share between threads and processes.

    Callers begin a transaction with `reading` or `writing` and pass it to the functions of `memories` and `index`.
    The reads of a search are methods, because a view of the past (`recall.as_of`) implements them too.
    """

    location: str
    dialect: Dialect
    ledgers: Ledgers
    """The ledgers of agent sessions."""
    _readonly = False

    @abstractmethod
    def within(self, org: str) -> Self:
        """Return this store for one org, which is used by calls that name no scope."""

    @abstractmethod
    def reading(self, org: str | None = None) -> AbstractContextManager[Database]:
        """Open a read transaction: all reads of this thread inside see the same state, and it writes nothing."""

    @abstractmethod
    def writing(self, org: str | None = None) -> AbstractContextManager[Database]:
        """Open a write transaction for an org, or a savepoint inside the transaction of this thread."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Make one transaction of all that this thread does inside. An error rolls everything back."""

    def refuse_inside_transaction(self, what: str) -> None:
        """Raise a `StoreError` if this thread is inside a transaction, of which `what` must not be part."""
        if self.in_transaction:
            raise StoreError(f"cannot {what} inside a transaction; leave it first")

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        """Count a use of each memory. It is written with the next write, or when the store is closed."""
        if not self._readonly and self._uses.count(ids, moment) > USES_WAIT_SECONDS:
            self._write_uses(patience=0.0)

    def records(self, where: Filter) -> Iterator[Record]:
        """Yield all memories that match with their histories, by id. No transaction stays open."""
        for record in memories.records(self.dialect, partial(self._snapshot, where.scope.org), where):
            yield Record(memory=self._uses.added_to(record.memory), history=record.history)

    def all_relations(self, where: Filter) -> Iterator[Relation]:
        """Yield all relations between memories that match. No transaction stays open."""
        return memories.relation_pages(self.dialect, partial(self._read, where.scope.org), where)

    def orgs(self) -> list[str]:
        """Return all orgs. Raises an error if the login may see only one org at a time."""
        # The rest of the transaction would have the rights of the login.
        self.refuse_inside_transaction("list the orgs")
        with self._read(self.org) as db:
            db.see_all_orgs()
            return [row[0] for row in db.execute(db.statement("orgs"))]

    def holdings(self, org: str) -> Holdings:
        """Return access to all rows of an org, for migration. Uses that are not written yet are not included."""
        return Holdings(org, self.dialect, partial(self._snapshot, org), partial(self.writing, org))

    def erase(self, org: str) -> dict[Held, int]:
        """Delete an org with its memories, history and sessions. Returns how many rows of each kind there were."""
        self.refuse_inside_transaction("erase an org")
        with self.writing(org) as db:
            return transfer.erase(db, org)

    @abstractmethod
    def backup(self, target: Path) -> int:
        """Copy the store to a new file while others write. Returns the number of bytes."""

    @abstractmethod
    def checks(self) -> list[Check]:
        """Run health checks on the store."""

    @abstractmethod
    def repair(self) -> list[str]:
        """Repair what can be repaired without losing data. Returns what was done."""

    @abstractmethod
    def close(self) -> None:
        """Write pending uses and close all connections."""

    def _uses_taken(self) -> AbstractContextManager[Mapping[str, tuple[int, datetime]]]:
        """Take the waiting uses for a write, and give them back if it fails.

        Inside another transaction it takes none: they would be lost if that is rolled back.
        """
        return _NO_USES if self.in_transaction or not self._uses else self._some_uses_taken()

    @contextlib.contextmanager
    def _some_uses_taken(self) -> Iterator[Mapping[str, tuple[int, datetime]]]:
        uses = self._uses.take()
        try:
            yield uses
        except BaseException:
            self._uses.give_back(uses)
            raise
