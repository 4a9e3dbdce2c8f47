"""The first bytes of a SQLite file, and which of them a store has (https://sqlite.org/fileformat.html).

Opening and closing a database can checkpoint its log, which changes the file. A file that is not a store must not
be changed, so its header is read first. This module imports next to nothing, so that a server can look at its store
before it loads the rest.
"""

import os
import struct
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "APPLICATION_ID",
    "MAGIC",
    "MIGRATIONS",
    "SCHEMA_VERSION",
    "Header",
    "first_bytes",
    "is_current_store",
    "migration_files",
    "parse_header",
]

APPLICATION_ID = 0x5A7C4E1B
MIGRATIONS = Path(__file__).with_name("sql")

MAGIC = b"SQLite format 3\0"
_SIZE = 100


def migration_files(folder: Path = MIGRATIONS) -> list[Path]:
    """Return the migrations in order. Their number is the version of the schema."""
    return sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))


SCHEMA_VERSION = len(migration_files())


class Header(NamedTuple):
    """What the header of a database says of it."""

    page_size: int
    pages: int
    schema_cookie: int
    user_version: int
    application_id: int


def first_bytes(path: Path) -> bytes:
    """Return the bytes of the header, or none if there is no file."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return os.read(handle, _SIZE)
    finally:
        os.close(handle)


def parse_header(content: bytes) -> Header:
    field = content.ljust(_SIZE, b"\0")
    page_size, pages, cookie, version, application = (
        struct.unpack_from(form, field, offset)[0]
        for form, offset in ((">H", 16), (">I", 28), (">I", 40), (">I", 60), (">I", 68))
    )
    return Header(65536 if page_size == 1 else page_size, pages, cookie, version, application)


def is_current_store(path: Path) -> bool:
    """Whether a file is a store of this version that can be read and written, as far as its header shows.

    Takes a fraction of a millisecond. False means only that this is not certain: the file may be missing, in need
    of an upgrade, damaged or foreign, and opening it tells which.
    """
    try:
        content = first_bytes(path)
    except OSError:
        return False
    header = parse_header(content)
    return (
        content.startswith(MAGIC)
        and (header.application_id, header.user_version) == (APPLICATION_ID, SCHEMA_VERSION)
        and os.access(path, os.R_OK | os.W_OK)
        and os.access(path.parent, os.W_OK)
    )
