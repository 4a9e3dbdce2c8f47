"""Lines in a file that is complete or not there at all."""

import os
from collections.abc import Iterable
from pathlib import Path

from satchel.errors import InputError, SatchelError

__all__ = ["write_lines"]


def write_lines(target: Path, lines: Iterable[bytes]) -> int:
    """Write or replace a file in one step; the number of lines. Only its owner can read it, as with a store."""
    target = target.resolve()
    if target.is_dir():
        raise InputError(f"{target} is a folder, not a file")
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist; make it first")
    if target.exists() and not target.is_file():
        return _write_into(target, lines)
    if target.exists() and _is_database(target):
        raise InputError(f"{target} is a database and not replaced by an export; give another file")
    # A half-written export would import as a smaller store.
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    count = 0
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            for line in lines:
                file.write(line)
                count += 1
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        raise SatchelError(f"cannot write {target}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def _write_into(device: Path, lines: Iterable[bytes]) -> int:
    """A pipe or a device is written to, never replaced by a file."""
    try:
        with open(device, "wb") as file:
            return sum(file.write(line) > 0 for line in lines)
    except OSError as error:
        raise SatchelError(f"cannot write {device}: {error.strerror}") from error


def _is_database(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(16).startswith(b"SQLite format 3")
