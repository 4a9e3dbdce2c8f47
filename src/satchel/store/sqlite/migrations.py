"""Schema migrations of SQLite files (forward only, backed up first), and restoring a backup."""

import contextlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw

from satchel.errors import (
    InputError,
    SatchelError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreVersionError,
)
from satchel.model.checks import expanded
from satchel.store import index
from satchel.store.rows import memory_from_row, text_key
from satchel.store.sqlite.connection import (
    SqliteConnection,
    connect,
    copy_into,
    copy_to_new_file,
    create_file,
    reading_errors,
    refuse_foreign,
    refuse_newer,
    refuse_strange_file,
    trust,
    use_wal,
    write_transaction,
)
from satchel.store.sqlite.header import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION, migration_files

__all__ = [
    "look_at_text_keys",
    "make_ready",
    "mend_text_keys",
    "prepare",
    "recognise",
    "recognise_abandoned",
    "refuse_changed_version",
    "restore",
]


PAGE = 1000


def look_at_text_keys(db: SqliteConnection) -> list[tuple[int | None, int]]:
    """Return the correct hash and the number of each memory with a wrong hash."""
    differing: list[tuple[int | None, int]] = []
    last: Any = -1
    sql = db.statement("texts_with_keys")
    while page := db.execute(sql, {"after": last, "limit": PAGE}).fetchall():
        for row in page:
            right, (last, held) = text_key(memory_from_row(row)), row[-2:]
            if right != held:
                differing.append((right, last))
    return differing


def mend_text_keys(db: SqliteConnection) -> int:
    """Correct wrong hashes of texts, and return how many there were."""
    differing = look_at_text_keys(db)
    rows = [{"text_key": right, "seq": seq} for right, seq in differing]
    db.executemany(db.statement("set_text_key"), rows)
    return len(differing)


def replace_vec0(db: SqliteConnection) -> None:
    """Drop the virtual tables of codes with their own tables, and make chunks of codes instead.

    A module that does nothing stands for sqlite-vec, because a virtual table cannot be dropped without its module.
    """
    table = SimpleNamespace(Disconnect=lambda: None, Destroy=lambda: None)
    vec0: Any = SimpleNamespace(Connect=lambda *_: ("CREATE TABLE any (code)", table))
    db.create_module("vec0", vec0)
    for each in db.vectors.generations():
        db.execute(f"DROP TABLE IF EXISTS code_{each.number}")
        own = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB ?"
        for (name,) in db.execute(own, (f"code_{each.number}_*",)).fetchall():
            db.execute(f'DROP TABLE "{name}"')
        db.vectors.create_codes(each)
    db.vectors.settle()
    db.create_module("vec0", None)


# Steps of a migration that SQL alone cannot do.
_BUILDERS = {
    "0002_recall.sql": index.build_passages,
    "0005_confirming.sql": mend_text_keys,
    "0010_chunks.sql": replace_vec0,
}


def prepare(connection: SqliteConnection, location: str, folder: Path = MIGRATIONS) -> None:
    """Migrate a store to the newest version. A foreign or newer file is refused and not changed."""
    files = migration_files(folder)
    with reading_errors(location):
        version = recognise(connection, location, newest=len(files))
        if connection.readonly("main"):
            if version < len(files):
                raise StoreReadOnlyError(f"{location} can only be read, and needs an upgrade first")
            return
        trust(connection)
        # A restored backup has the newest version, but is still a single file without a log.
        if version < len(files) or connection.pragma("journal_mode") not in ("wal", "memory"):
            use_wal(connection)
        if version < len(files):
            _migrate(connection, location, files)


def recognise(connection: apsw.Connection, location: str, *, newest: int = SCHEMA_VERSION) -> int:
    """Return the schema version of a store; 0 for an empty file."""
    application, version, objects = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
        "FROM pragma_application_id, pragma_user_version"
    ).get
    refuse_foreign(location, application, version, objects)
    refuse_newer(location, version, newest=newest)
    return int(version)


def refuse_changed_version(location: str, connection: apsw.Connection) -> None:
    """Raise an error if another process has upgraded or replaced an open store.

    Checked by every read and write, because this program does not know the tables of another version.
    """
    version = connection.execute("PRAGMA user_version").get
    if version == SCHEMA_VERSION:
        return
    if version > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{location} was upgraded by a newer Satchel while it was open (schema {version}, this one knows "
            f"{SCHEMA_VERSION}); it was not changed: restart this process with the newer Satchel"
        )
    raise StoreVersionError(
        f"{location} was replaced by a store of schema {version} while it was open; {SCHEMA_VERSION} is needed: "
        "open it again to upgrade it"
    )


def recognise_abandoned(path: Path) -> None:
    """Refuse a foreign or newer file whose version is only in its log, if nobody has it open.

    A log without its index (-shm) is left by a copy or a crash. With an exclusive lock SQLite needs no index, so a
    file that is refused is not changed at all.
    """
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    if not (log.exists() and log.stat().st_size) or index.exists() or not os.access(path, os.W_OK):
        return
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    with reading_errors(str(path)), contextlib.closing(apsw.Connection(str(path), flags=flags)) as db:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Another process has just opened it.
        with contextlib.suppress(apsw.BusyError):
            recognise(db, str(path))


def _migrate(connection: SqliteConnection, location: str, files: list[Path]) -> None:
    with write_transaction(connection):
        # Another process may have migrated it meanwhile.
        version = recognise(connection, location, newest=len(files))
        if 0 < version < len(files) and location != ":memory:":
            _back_up(location, version)
        missing = files[version:]
        for file in missing:
            connection.execute(file.read_text(encoding="utf-8"))
        # After all SQL, because memories are read with all current columns.
        for file in missing:
            if file.name in _BUILDERS:
                _BUILDERS[file.name](connection)
        connection.pragma("user_version", len(files))
        connection.pragma("application_id", APPLICATION_ID)


def _back_up(location: str, version: int) -> None:
    """Back up a store before a migration. The caller has the write lock. Existing backups are not replaced."""
    target = Path(f"{location}.schema-{version}.backup")
    number = 1
    while target.exists():
        number += 1
        target = Path(f"{location}.schema-{version}-{number}.backup")
    # A separate connection, because the one with the lock is inside a transaction.
    with contextlib.closing(connect(location, readonly=True)) as source:
        copy_to_new_file(source, target)


# Creating, checking and restoring files.


def make_ready(path: Path, *, create: bool) -> bool:
    """Create the file if it is missing, and refuse a file that is not a store. Returns whether it is read-only."""
    if not path.exists() and not create:
        raise InputError(f"there is no store at {path}; `satchel add` makes one")
    _check_place(path)
    if not path.exists():
        create_file(path)
    _look_first(path)
    return not os.access(path, os.W_OK)


def restore(backup: Path, location: str, *, replace: bool = False) -> Path | None:
    """Replace a store by a backup. The old store is first copied beside it; returns the path of that copy."""
    if not backup.is_file():
        raise InputError(f"there is no backup at {backup}")
    target = expanded(location)
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
        if not target.exists():
            # It appears complete or not at all, and is upgraded when it is opened.
            copy_to_new_file(source, target)
            return None
        # Copied by SQLite, not by moving files, because other processes may have the store open.
        with contextlib.closing(connect(str(target))) as destination:
            trust(destination)
            copy_into(source, destination)
            # It is restored now. If there is no room to upgrade it, that is done when it is opened.
            with contextlib.suppress(StoreFullError):
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


def _look_first(path: Path) -> None:
    """Refuse a file that is not a store before SQLite opens it."""
    refuse_strange_file(path, newest=SCHEMA_VERSION)
    recognise_abandoned(path)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if path.exists() and not path.is_file():
        # Opening a named pipe would wait for a process at its other end.
        raise InputError(f"{path} is a pipe, a socket or a device, not a file; give another name")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; make it first")
