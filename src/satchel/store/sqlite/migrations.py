"""The schema and its versions: forward only, backed up first, a newer file left alone."""

from pathlib import Path

import apsw

from satchel.errors import StoreFormatError, StoreReadOnlyError, StoreVersionError
from satchel.store.sqlite.connection import reading_errors, use_wal, write_transaction
from satchel.store.sqlite.copy import copy_to_new_file

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "prepare", "recognise"]

APPLICATION_ID = 0x5A7C4E1B
MIGRATIONS = Path(__file__).with_name("sql")
SCHEMA_VERSION = 1


def prepare(connection: apsw.Connection, location: str, folder: Path = MIGRATIONS) -> None:
    """Bring a store to the newest version; a file that is not ours or newer is refused untouched."""
    files = _files(folder)
    with reading_errors(location):
        version = recognise(connection, location, newest=len(files))
        if version == len(files):
            return
        if connection.readonly("main"):
            raise StoreReadOnlyError(f"{location} can only be read, and needs an upgrade first")
        use_wal(connection)
        if version > 0 and location != ":memory:":
            _back_up(connection, location, version)
        with write_transaction(connection):
            # Another process may have been faster.
            version = recognise(connection, location, newest=len(files))
            for number, file in enumerate(files[version:], start=version + 1):
                connection.execute(file.read_text(encoding="utf-8"))
                connection.pragma("user_version", number)
            connection.pragma("application_id", APPLICATION_ID)


def recognise(connection: apsw.Connection, location: str, *, newest: int = SCHEMA_VERSION) -> int:
    """The schema version of a store; 0 for an empty file."""
    application, version, objects = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
        "FROM pragma_application_id, pragma_user_version"
    ).get
    if application == APPLICATION_ID:
        if version > newest:
            raise StoreVersionError(
                f"{location} was made by a newer Satchel (schema {version}, this one knows "
                f"{newest}); it was not changed: upgrade Satchel"
            )
        return int(version)
    if objects or application or version:
        raise StoreFormatError(
            f"{location} is the database of another program; it was not changed: give another file"
        )
    return 0


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))


def _back_up(connection: apsw.Connection, location: str, version: int) -> None:
    target = Path(f"{location}.schema-{version}.backup")
    if not target.exists():
        copy_to_new_file(connection, target)
