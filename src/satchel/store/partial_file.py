"""Files that appear complete or not at all: written beside their target, then renamed."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["PREFIX", "partial_file"]

PREFIX = ".satchel-partial-"
# SQLite writes its journal or log beside a file, under the file's name and one of these.
_BESIDE = ("", "-journal", "-wal", "-shm")


@contextlib.contextmanager
def partial_file(folder: Path) -> Iterator[Path]:
    """Create an empty file in a folder, to be filled and renamed. If it is not renamed, it is removed at the end.

    A killed process leaves its partial file; the next call for the same folder removes it. A file is locked while
    it is in use, and the system releases the lock when the process ends.
    """
    _remove_abandoned(folder)
    path, descriptor = _create(folder)
    try:
        yield path
    finally:
        try:
            _remove(path)
        finally:
            os.close(descriptor)


def _create(folder: Path) -> tuple[Path, int]:
    while True:
        path = folder / f"{PREFIX}{os.urandom(8).hex()}"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, stat.S_IRUSR | stat.S_IWUSR)
        try:
            # Before it was locked, another process may have taken it for abandoned.
            if _lock(descriptor) and path.exists():
                return path, descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _remove_abandoned(folder: Path) -> None:
    """Remove the partial files of ended processes. What cannot be removed stays, because nothing depends on it."""
    for path in sorted(folder.glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):
            if not path.name.endswith(_BESIDE[1:]):
                _remove_unlocked(path)
            elif not path.with_name(path.name.rpartition("-")[0]).exists():
                path.unlink()


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        if _lock(descriptor, unsupported=False):
            _remove(path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, unsupported: bool = True) -> bool:
    """Try to lock a file. Where files cannot be locked, return the value of `unsupported`."""
    if sys.platform == "win32":
        # There an open file cannot be removed, so no lock is needed.
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unsupported
    return True


def _remove(path: Path) -> None:
    for end in _BESIDE:
        Path(f"{path}{end}").unlink(missing_ok=True)
