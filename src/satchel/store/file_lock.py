"""Lock a folder, so that one process at a time works in it."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["PATIENCE", "locked"]

PATIENCE = 5.0


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder. Raises an OSError if it cannot be opened, a BlockingIOError if another process keeps the lock.

    Windows has no locks on folders, so nothing is locked there.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)
