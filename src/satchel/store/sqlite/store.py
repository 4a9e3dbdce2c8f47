"""The embedded store: one SQLite file that many threads and processes use at once."""

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import apsw
import msgspec

from satchel.errors import InputError, SatchelError, StoreError
from satchel.fields import utc_now
from satchel.memory import Change, Hit, Memory, Relation, Scope
from satchel.store.contract import Candidate, Check, Filter, Record, Stats
from satchel.store.sqlite import lexical, reading, upkeep, writing
from satchel.store.sqlite.connection import (
    be_patient,
    connect,
    create_file,
    reading_errors,
    trust,
    write_transaction,
)
from satchel.store.sqlite.copy import copy_into, copy_to_new_file
from satchel.store.sqlite.header import refuse_strange_file
from satchel.store.sqlite.migrations import SCHEMA_VERSION, prepare, recognise, recognise_abandoned
from satchel.store.sqlite.pool import Pool

__all__ = ["SqliteStore", "restore"]

CONNECTIONS = 8
# Uses are written with the next write; a reader that never writes does it after this many seconds.
USES_WAIT_SECONDS = 5.0
# How long closing waits for other writers in order to write the last uses.
CLOSING_SECONDS = 2.0


class SqliteStore:
    """Fulfils the `Store` contract on a file, or in memory with the location ":memory:"."""

    def __init__(self, location: str, *, create: bool = True) -> None:
        in_memory = location == ":memory:"
        self.location = location if in_memory else str(Path(location).expanduser())
        self._readonly = self._recognised = False
        if not in_memory:
            self._readonly = _prepare_file(Path(self.location), create=create)
        self._uses: dict[str, tuple[int, datetime]] = {}
        self._uses_since = utc_now()
        self._uses_lock = threading.Lock()
        self._current = threading.local()
        self._pool = Pool(self._connect, limit=1 if in_memory else CONNECTIONS)
        try:
            with self._pool.connection() as db:
                prepare(db, self.location)
            self._recognised = True
        except BaseException:
            self._pool.close()
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._write():
            yield

    def add(self, candidates: Sequence[Candidate]) -> list[Memory]:
        with self._write() as db:
            return writing.add(db, candidates)

    def put(self, records: Sequence[Record]) -> list[Literal["added", "updated", "kept"]]:
        with self._write() as db:
            return writing.put(db, records)

    def put_relations(self, scope: Scope, relations: Sequence[Relation]) -> None:
        with self._write() as db:
            writing.put_relations(db, scope, relations)

    def resolve(self, scope: Scope, prefix: str) -> str:
        with self._read() as db:
            return reading.resolve(db, scope, prefix)

    def short_ids(self, ids: Sequence[str]) -> list[str]:
        with self._read() as db:
            return reading.short_ids(db, ids)

    def select(
        self, where: Filter, *, limit: int, order: Literal["newest", "oldest", "given"] = "newest"
    ) -> list[Memory]:
        with self._read() as db:
            found = reading.select(db, where, limit=limit, order=order)
        return [self._with_uses(memory) for memory in found]

    def search(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Hit]:
        with self._read() as db:
            return lexical.search(db, where, terms, limit=limit)

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        with self._read() as db:
            found = reading.around(db, memory, where, before=before, after=after)
        return [self._with_uses(each) for each in found]

    def change(self, scope: Scope, identifier: str, changes: Mapping[str, Any], *, action: str) -> Memory:
        with self._write() as db:
            return writing.change(db, scope, identifier, changes, action=action)

    def forget(self, where: Filter, moment: datetime) -> int:
        with self._write() as db:
            return writing.forget(db, where, moment)

    def purge(self, where: Filter) -> int:
        with self._write() as db:
            count = writing.purge(db, where)
        # The log would keep the words until it is next written back.
        with self._read() as db, contextlib.suppress(apsw.BusyError):
            if not db.in_transaction:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    def relate(self, scope: Scope, relation: Relation) -> None:
        with self._write() as db:
            writing.relate(db, scope, relation)

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        with self._read() as db:
            return reading.relations(db, scope, ids)

    def history(self, scope: Scope, identifier: str) -> list[Change]:
        with self._read() as db:
            return reading.history(db, scope.org, identifier)

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        with self._uses_lock:
            self._uses_since = self._uses_since if self._uses else moment
            for identifier in ids:
                count, _ = self._uses.get(identifier, (0, moment))
                self._uses[identifier] = (count + 1, moment)
            waited = (moment - self._uses_since).total_seconds()
        if waited > USES_WAIT_SECONDS:
            self._write_uses(patience=0.0)

    def stats(self, where: Filter, moment: datetime) -> Stats:
        with self._read() as db:
            return reading.stats(db, where, moment)

    def records(self, where: Filter) -> Iterator[Record]:
        for record in reading.records(self._read, where):
            yield Record(memory=self._with_uses(record.memory), history=record.history)

    def all_relations(self, where: Filter) -> Iterator[Relation]:
        return reading.relation_pages(self._read, where)

    def backup(self, target: Path) -> int:
        self._write_uses(patience=CLOSING_SECONDS)
        with self._read() as db:
            return copy_to_new_file(db, target)

    def checks(self) -> list[Check]:
        with self._read() as db:
            return upkeep.checks(db, self.location)

    def repair(self) -> list[str]:
        with self._read() as db:
            return upkeep.repair(db, self.location)

    def close(self) -> None:
        try:
            self._write_uses(patience=CLOSING_SECONDS)
        finally:
            self._pool.close()

    def _connect(self) -> apsw.Connection:
        connection = connect(self.location, readonly=self._readonly)
        if self._recognised:
            trust(connection)
        return connection

    @contextlib.contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        """The connection of the transaction this thread is in, or any idle one."""
        current: apsw.Connection | None = getattr(self._current, "connection", None)
        with reading_errors(self.location):
            if current is not None:
                yield current
            else:
                with self._pool.connection() as db:
                    yield db

    @contextlib.contextmanager
    def _write(self) -> Iterator[apsw.Connection]:
        """Waiting uses go along with any write: they cost no transaction of their own."""
        outer = getattr(self._current, "connection", None)
        if outer is not None and not outer.in_transaction:
            # SQLite undid everything; to go on would store the rest without the beginning.
            raise StoreError("an earlier failure has ended this transaction; nothing of it was stored")
        uses = self._take_uses()
        try:
            with self._read() as db, write_transaction(db):
                self._current.connection = db
                try:
                    yield db
                finally:
                    self._current.connection = outer
                writing.use(db, uses)
        except BaseException:
            self._return_uses(uses)
            raise

    def _write_uses(self, *, patience: float) -> None:
        """Best effort: a use that cannot be written now waits, and never fails a read or holds it up."""
        if not self._uses or self._readonly or getattr(self._current, "connection", None) is not None:
            return
        with contextlib.suppress(StoreError), self._read() as db:
            be_patient(db, patience)
            try:
                uses = self._take_uses()
                try:
                    with write_transaction(db):
                        writing.use(db, uses)
                except BaseException:
                    self._return_uses(uses)
                    raise
            finally:
                be_patient(db)

    def _with_uses(self, memory: Memory) -> Memory:
        """With the uses that are not written yet."""
        if (waiting := self._uses.get(memory.id)) is None:
            return memory
        count, last = waiting
        return msgspec.structs.replace(memory, access_count=memory.access_count + count, accessed_at=last)

    def _take_uses(self) -> dict[str, tuple[int, datetime]]:
        with self._uses_lock:
            uses, self._uses = self._uses, {}
        return uses

    def _return_uses(self, uses: Mapping[str, tuple[int, datetime]]) -> None:
        with self._uses_lock:
            for identifier, (count, last) in uses.items():
                later, newest = self._uses.get(identifier, (0, last))
                self._uses[identifier] = (count + later, newest)


def restore(backup: Path, location: str, *, replace: bool = False) -> Path | None:
    """Put a backup in place of a store; what was there is first kept beside it, at the path returned."""
    if not backup.is_file():
        raise InputError(f"there is no backup at {backup}")
    target = Path(location).expanduser()
    if target.exists() and backup.samefile(target):
        raise InputError(f"{backup} is the store itself; give a backup of it")
    _check_place(target)
    _look_first(backup)
    with contextlib.closing(connect(str(backup), readonly=True)) as source:
        with reading_errors(str(backup)):
            if recognise(source, str(backup)) == 0:
                raise InputError(f"{backup} is empty; there is nothing to restore")
            if (found := source.pragma("integrity_check")) != "ok":
                raise StoreError(f"{backup} is damaged and was not used: {found}")
        kept = None
        if target.exists() and target.stat().st_size:
            if not replace:
                raise InputError(f"{target} exists; add --force to replace it (it is kept aside)")
            kept = _keep_aside(target)
        create_file(target)
        # Through SQLite, not by moving files: other processes may have the store open.
        with contextlib.closing(connect(str(target))) as destination:
            trust(destination)
            copy_into(source, destination)
            prepare(destination, str(target))
    return kept


def _keep_aside(target: Path) -> Path:
    number = 1
    while (aside := target.with_name(f"{target.name}.before-restore-{number}")).exists():
        number += 1
    try:
        _look_first(target)
        with contextlib.closing(connect(str(target))) as current:
            recognise(current, str(target))
            trust(current)
            copy_to_new_file(current, aside)
    except (SatchelError, apsw.Error) as error:
        raise StoreError(f"{target} cannot be kept aside ({error}); move it away yourself, then restore") from error
    return aside


def _prepare_file(path: Path, *, create: bool) -> bool:
    """Make the file where needed; whether it can only be read."""
    if not path.exists():
        if not create:
            raise InputError(f"there is no store at {path}; `satchel add` makes one")
        _check_place(path)
        create_file(path)
    _check_place(path)
    _look_first(path)
    return not os.access(path, os.W_OK)


def _look_first(path: Path) -> None:
    """Refuse what is not ours before SQLite touches it."""
    refuse_strange_file(path, newest=SCHEMA_VERSION)
    recognise_abandoned(path)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; make it first")
