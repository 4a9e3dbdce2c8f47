"""Whole copies of a store, made from one snapshot while others go on writing."""

import contextlib
import os
import threading
from pathlib import Path

import apsw

from satchel.errors import InputError
from satchel.store.sqlite.connection import connect, create_file, file_errors, reading_errors, trust

__all__ = ["copy_into", "copy_to_new_file"]


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
