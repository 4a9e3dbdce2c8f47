"""Files that are complete or not there at all."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from satchel.errors import InputError, SatchelError

__all__ = ["check_target", "write_atomically"]


def write_atomically(target: Path, chunks: Iterable[bytes]) -> int:
    """Write or replace a file in one step; the number of chunks. Only its owner can read it, as with a store.

    Where that fails half-way, what was there before is there still. A pipe or a device is written to.
    """
    try:
        target = check_target(target)
        if target.exists() and not target.is_file():
            with open(target, "wb") as device:
                return _written(device, chunks)
        return _replaced(target, chunks)
    except OSError as error:
        raise SatchelError(f"cannot write {target}: {error.strerror or error}") from error


def check_target(target: Path) -> Path:
    """Where a link leads to, if a file may be written there; else an error that says why not."""
    target = Path(os.path.realpath(target))
    if target.is_dir():
        raise InputError(f"{target} is a folder, not a file")
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist; make it first")
    if target.is_file() and _is_database(target):
        raise InputError(f"{target} is a database and not replaced by something else; give another file")
    return target


def _replaced(target: Path, chunks: Iterable[bytes]) -> int:
    # Beside it, since a file moves in one step only within its file system.
    descriptor, name = tempfile.mkstemp(prefix=".satchel-", suffix=".partial", dir=target.parent)
    partial = Path(name)
    try:
        with open(descriptor, "wb") as file:
            count = _written(file, chunks)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _written(file: IO[bytes], chunks: Iterable[bytes]) -> int:
    count = 0
    for chunk in chunks:
        file.write(chunk)
        count += 1
    return count


def _is_database(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(16).startswith(b"SQLite format 3")
