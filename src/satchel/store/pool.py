"""The connections of one store, handed to whichever thread asks."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from satchel.errors import StoreBusyError, StoreError

__all__ = ["Pool"]


class Closable(Protocol):
    def close(self) -> Any: ...


C = TypeVar("C", bound=Closable)

# A forked child must neither use nor close its parent's connections: closing would drop locks.
_abandoned: list[object] = []


class Pool(Generic[C]):
    """Opens connections as threads need them, up to a limit, and reuses the idle ones."""

    def __init__(self, connect: Callable[[], C], *, limit: int, patience: float | None = None) -> None:
        self._connect = connect
        self._limit = limit
        self._patience = patience
        """For how many seconds a thread waits for one; None for as long as it takes."""
        self._idle: list[C] = []
        self._busy = 0
        self._closed = False
        self._changed = threading.Condition()
        self._writer = threading.RLock()
        self._pid = os.getpid()

    @contextlib.contextmanager
    def connection(self) -> Iterator[C]:
        connection = self.take()
        try:
            yield connection
        finally:
            self.give_back(connection)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One thread writes at a time; those that wait for their turn leave the connections to readers."""
        self._leave_to_parent()
        with self._writer:
            yield

    def close(self) -> None:
        """Close every connection, after those in use have come back."""
        self._leave_to_parent()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._busy == 0)
            while self._idle:
                self._idle.pop().close()

    def take(self) -> C:
        self._leave_to_parent()
        with self._changed:
            free = self._changed.wait_for(
                lambda: self._closed or self._idle or self._busy < self._limit, self._patience
            )
            if self._closed:
                raise StoreError("this store is closed; open it again")
            if not free:
                raise StoreBusyError(
                    f"all {self._limit} connections were in use for {self._patience:.0f} s; try again"
                )
            self._busy += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect()
        except BaseException:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()
            raise

    def give_back(self, connection: C) -> None:
        with self._changed:
            self._busy -= 1
            self._idle.append(connection)
            self._changed.notify_all()

    def adopt(self, connection: C) -> None:
        """Take in one that was made elsewhere."""
        with self._changed:
            self._idle.append(connection)
            self._changed.notify_all()

    def discard(self, connection: C) -> None:
        """Give back one that is of no more use."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()
        connection.close()

    def _leave_to_parent(self) -> None:
        """In a forked child: begin anew, with locks that no thread of the parent holds."""
        if self._pid != os.getpid():
            _abandoned.extend(self._idle)
            self._idle, self._busy = [], 0
            self._changed, self._writer = threading.Condition(), threading.RLock()
            self._pid = os.getpid()
