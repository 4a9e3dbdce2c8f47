"""Faults at the Nth change of a disk: it fails, is full, or the process is killed there.

The changes are the system calls with which SQLite writes, and what Python does to files in a watched folder.
"""

import contextlib
import ctypes
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from satchel.store.sqlite.connection import SqliteConnection


class Weather:
    """When the disk fails: at its Nth change, once or from then on."""

    deadly = False
    """Whether the process is killed instead."""

    def __init__(self) -> None:
        self.points = 0
        self.left: int | None = None
        self.lasting = False
        self.reached = False
        self.reason = errno.EIO

    def arm(self, step: int, *, lasting: bool, reason: int = errno.EIO) -> Callable[[], None]:
        def begin() -> None:
            self.left, self.lasting, self.reason, self.reached = step, lasting, reason, False

        return begin

    def disarm(self) -> bool:
        self.left = None
        reached, self.reached = self.reached, False
        return reached

    def fails(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        self.points += 1
        failing = self.left == 0 or (self.left < 0 and self.lasting)
        self.reached = self.reached or failing
        if failing and self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return failing

    def watch(self, folder: Path) -> None:
        """Also count what Python does to files in a folder. This cannot be undone, so use it in a fork."""
        changing = os.O_CREAT | os.O_TRUNC

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            making = event == "open" and arguments[2] & changing
            if not (making or event in ("os.rename", "os.remove")):
                return
            full = self.reason == errno.ENOSPC and not self.deadly
            if str(arguments[0]).startswith(str(folder)) and (making or not full) and self.fails():
                raise OSError(self.reason, os.strerror(self.reason), str(arguments[0]))

        sys.addaudithook(hook)


# The calls through which SQLite changes a disk, below anything that Python could see or soften.
SYSTEM_CALLS = {
    "write": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t),
    "pwrite": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64),
    "pwrite64": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64),
    "ftruncate": (ctypes.c_int, ctypes.c_int, ctypes.c_int64),
    "unlink": (ctypes.c_int, ctypes.c_char_p),
}


def faulty_call(weather: Weather, name: str, kind: Any, original: Any) -> Any:
    def call(*arguments: Any) -> int:
        # A full disk can still shrink and delete.
        if ("write" in name or weather.reason != errno.ENOSPC) and weather.fails():
            ctypes.set_errno(weather.reason)
            return -1
        return int(original(*arguments))

    return kind(call)


@contextlib.contextmanager
def faulty_disk() -> Iterator[Weather]:
    weather = Weather()
    system = apsw.VFS("system", "unix")
    calls = []
    for name, signature in SYSTEM_CALLS.items():
        if address := system.xGetSystemCall(name):
            kind = ctypes.CFUNCTYPE(*signature, use_errno=True)
            calls.append(faulty_call(weather, name, kind, kind(address)))
            system.xSetSystemCall(name, ctypes.cast(calls[-1], ctypes.c_void_p).value)
    assert len(calls) >= 3
    yield weather
    system.xSetSystemCall(None, 0)
    system.unregister()


@pytest.fixture
def weather() -> Iterator[Weather]:
    with faulty_disk() as found:
        yield found


class UnsyncedFile(apsw.VFSFile):
    def __init__(self, base: str, weather: Weather, name: Any, flags: list[int]) -> None:
        super().__init__(base, name, flags)
        self.weather = weather

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self.weather.fails():
            raise apsw.IOError("the disk failed")
        super().xSync(flags)

    def excepthook(self, *_: object) -> None:
        """SQLite passes the error on as it sees fit; Python need not print it."""


class UnsyncedDisk(apsw.VFS):
    """The system's files, on a disk that cannot say that it has written them."""

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.base = apsw.vfs_names()[0]
        super().__init__("unsynced", self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return UnsyncedFile(self.base, self.weather, name, flags)


def close_anyway(connection: SqliteConnection, force: bool = False) -> None:
    """SQLite closes whatever the disk says; only APSW raises what a disk written in Python raised."""
    with contextlib.suppress(apsw.IOError):
        apsw.Connection.close(connection, force)


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Weather]:
    monkeypatch.setattr(SqliteConnection, "close", close_anyway)
    weather = Weather()
    disk = UnsyncedDisk(weather)
    yield weather
    disk.unregister()
