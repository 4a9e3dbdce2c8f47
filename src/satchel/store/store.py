"""The store: transactions for one org, search, sessions, transfer and upkeep, whichever database holds them."""

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

# Uses are written with the next write; a reader that never writes does it after this many seconds.
USES_WAIT_SECONDS = 5.0
# How long closing waits for other writers in order to write the last uses.
CLOSING_SECONDS = 2.0
WHILE_READING = "nothing is written while one state of the store is read; do it afterwards"


class Store(Search[Database]):
    """One place where memories live. Safe to share between threads and between processes.

    Callers hold a transaction, by `reading` or `writing`, and hand it to the functions of `memories` and `index`.
    What a search reads are methods of the store itself, since a view of an earlier moment answers them too.
    """

    location: str
    dialect: Dialect
    ledgers: Ledgers
    """The ledgers of agent sessions."""
    _readonly = False

    @abstractmethod
    def within(self, org: str) -> Self:
        """This store where a call names no scope: for one org."""

    @abstractmethod
    def reading(self, org: str | None = None) -> AbstractContextManager[Database]:
        """Let all that this thread reads of an org inside see the same state; it writes nothing inside."""

    @abstractmethod
    def writing(self, org: str | None = None) -> AbstractContextManager[Database]:
        """One transaction for an org, or a part of the one this thread is in that can fail alone."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Make one transaction of all that this thread does inside; an error undoes it all."""

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether this thread is inside a transaction."""

    def refuse_inside_transaction(self, what: str) -> None:
        """Raise where this thread is inside a transaction, which `what` must not be part of."""
        if self.in_transaction:
            raise StoreError(f"cannot {what} inside a transaction; leave it first")

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        """Count a use of each memory; written with the next write, or when the store is closed."""
        if not self._readonly and self._uses.count(ids, moment) > USES_WAIT_SECONDS:
            self._write_uses(patience=0.0)

    def records(self, where: Filter) -> Iterator[Record]:
        """Every memory that matches, with its history, in id order; no transaction stays open."""
        for record in memories.records(self.dialect, partial(self._snapshot, where.scope.org), where):
            yield Record(memory=self._uses.added_to(record.memory), history=record.history)

    def all_relations(self, where: Filter) -> Iterator[Relation]:
        """Every relation between memories that match; no transaction stays open."""
        return memories.relation_pages(self.dialect, partial(self._read, where.scope.org), where)

    def orgs(self) -> list[str]:
        """All that have anything here; an error where whoever asks may see only one at a time."""
        # The transaction would go on with the rights of the login.
        self.refuse_inside_transaction("list the orgs")
        with self._read(self.org) as db:
            db.execute(db.statement("see_all_orgs"))
            return [row[0] for row in db.execute(db.statement("orgs"))]

    def holdings(self, org: str) -> Holdings:
        """All that one org has, as it moves between stores; uses that wait to be written are no part of it."""
        return Holdings(org, self.dialect, partial(self._snapshot, org), partial(self.writing, org))

    def erase(self, org: str) -> dict[Held, int]:
        """Remove an org with everything it has, its sessions and its history too; how many rows of each kind."""
        self.refuse_inside_transaction("erase an org")
        with self.writing(org) as db:
            return transfer.erase(db, org)

    @abstractmethod
    def backup(self, target: Path) -> int:
        """Copy the store to a new file while others write; the number of bytes."""

    @abstractmethod
    def checks(self) -> list[Check]:
        """Run health checks on the store."""

    @abstractmethod
    def repair(self) -> list[str]:
        """Mend what can be mended without losing anything; what was done."""

    @abstractmethod
    def close(self) -> None:
        """Write what is pending and let go of the connections."""

    @contextlib.contextmanager
    def _uses_taken(self) -> Iterator[Mapping[str, tuple[int, datetime]]]:
        """For a write that is not part of another: what a part takes would be lost when the whole is undone."""
        if self.in_transaction:
            yield {}
            return
        uses = self._uses.take()
        try:
            yield uses
        except BaseException:
            self._uses.give_back(uses)
            raise
