"""Files before SQLite opens them, and whole copies of a store.

Merely opening and closing a database can write back its log. A file that is not ours must not be changed by so much
as that, and what it is stands in its header (https://sqlite.org/fileformat.html).
"""

import contextlib
import os
import struct
import threading
from pathlib import Path
from typing import NamedTuple

import apsw

from satchel.errors import InputError, StoreFormatError, StoreVersionError
from satchel.store.sqlite.connection import connect, create_file, file_errors, reading_errors, trust

__all__ = [
    "APPLICATION_ID",
    "copy_into",
    "copy_to_new_file",
    "refuse_foreign",
    "refuse_newer",
    "refuse_strange_file",
]


APPLICATION_ID = 0x5A7C4E1B

_MAGIC = b"SQLite format 3\0"
_SMALLEST_PAGE = 512


class Header(NamedTuple):
    page_size: int
    pages: int
    schema_cookie: int
    user_version: int
    application_id: int


def refuse_strange_file(path: Path, *, newest: int) -> None:
    """Raise for what cannot be a store of a known version; a file that does not exist yet is fine."""
    location = str(path)
    # The log first: a new store has its first page before it has a log.
    log = Path(f"{path}-wal")
    logged = log.exists() and log.stat().st_size > 0
    with file_errors(location):
        content = _first_bytes(path)
        size = path.stat().st_size if path.exists() else 0
    if not content:
        if logged:
            raise _damaged(location, "it is empty, but its log is not")
        return
    if size < _SMALLEST_PAGE or not content.startswith(_MAGIC):
        raise _damaged(location, "it does not begin as a database does")
    header = _parse(content)
    refuse_foreign(location, header.application_id, header.user_version, header.schema_cookie)
    if header.application_id == APPLICATION_ID:
        refuse_newer(location, header.user_version, newest=newest)
    # With a log, pages may still stand there and not in the file.
    if not logged and (size % header.page_size or size < header.pages * header.page_size):
        raise _damaged(location, "its end is missing")


def refuse_foreign(location: str, application_id: int, version: int, has_schema: int) -> None:
    """Our id is set together with the first table: without it, anything else is another's."""
    if application_id != APPLICATION_ID and (application_id or version or has_schema):
        raise StoreFormatError(
            f"{location} is the database of another program; it was not changed: give another file"
        )


def refuse_newer(location: str, version: int, *, newest: int) -> None:
    if version > newest:
        raise StoreVersionError(
            f"{location} was made by a newer Satchel (schema {version}, this one knows {newest}); "
            "it was not changed: upgrade Satchel"
        )


def _first_bytes(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return os.read(handle, 100)
    finally:
        os.close(handle)


def _parse(content: bytes) -> Header:
    field = content.ljust(100, b"\0")
    page_size, pages, cookie, version, application = (
        struct.unpack_from(form, field, offset)[0]
        for form, offset in ((">H", 16), (">I", 28), (">I", 40), (">I", 60), (">I", 68))
    )
    return Header(65536 if page_size == 1 else page_size, pages, cookie, version, application)


def _damaged(location: str, reason: str) -> StoreFormatError:
    return StoreFormatError(
        f"{location} is damaged or not a Satchel store ({reason}); it was not changed: "
        "restore a backup, or give another file"
    )


# Whole copies of a store, made from one snapshot while others go on writing.


def copy_to_new_file(source: apsw.Connection, target: Path) -> int:
    """Copy into a file that does not exist yet; it appears complete or not at all."""
    _refuse_existing(target)
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist; make it first")
    partial = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.partial")
    create_file(partial)
    try:
        with contextlib.closing(connect(str(partial))) as copy:
            trust(copy)
            copy_into(source, copy)
            with reading_errors(str(target)):
                # A single file that can be moved about: no log beside it.
                copy.execute("PRAGMA journal_mode = DELETE")
        _refuse_existing(target)
        with file_errors(str(target)):
            _sync(partial)
            partial.rename(target)
            _sync(target.parent)
            return target.stat().st_size
    finally:
        for end in ("", "-journal", "-wal", "-shm"):
            Path(f"{partial}{end}").unlink(missing_ok=True)


def copy_into(source: apsw.Connection, target: apsw.Connection) -> None:
    """Replace the whole content of one database by that of another, in one transaction."""
    with reading_errors(target.filename), target.backup("main", source, "main") as backup:
        # All pages in one step: in several, a busy writer could make it start over for ever.
        backup.step()


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise InputError(f"{target} exists already; give another name or move it away")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
