"""Writes that nobody waits for: the server's answers entered into a session's ledger soon after they are given."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cached_property
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from satchel.api.satchel import Satchel
from satchel.errors import StoreBusyError
from satchel.server.process import short_line
from satchel.session.session import Answer, Session

__all__ = ["Behind", "Recorder"]


# Closing waits this long for what is still to be written.
CLOSING_SECONDS = 1.0

# Those that come together are written together: a commit costs more than what it writes.
GATHERING_SECONDS = 0.02
# Each waits as long as the store does for a lock.
TRIES = 5

Entry = TypeVar("Entry")


class Behind(Generic[Entry]):
    """Hands entries to `write` in a thread of its own, in the order they come; a failure is told in one line."""

    def __init__(
        self, write: Callable[[list[Entry]], object], *, gathering_seconds: float = GATHERING_SECONDS
    ) -> None:
        self._write = write
        self._gathering_seconds = gathering_seconds
        self._waiting: SimpleQueue[Entry | _Flush] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._failing = False

    def do(self, entry: Entry) -> None:
        """Have it written soon."""
        self._waiting.put(entry)
        if self._thread is None:
            self._start()

    def flush(self, seconds: float = CLOSING_SECONDS) -> None:
        """Wait until what has come so far is written, but not for longer."""
        if self._thread is not None:
            self._waiting.put(flush := _Flush())
            flush.done.wait(seconds)

    close = flush

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            batch: list[Entry] = []
            flush = self._gathered(batch)
            if batch:
                self._written(batch)
            if flush is not None:
                flush.done.set()

    def _gathered(self, batch: list[Entry]) -> "_Flush | None":
        """All that comes within a moment of the first; whoever waits ends that moment."""
        until: float | None = None
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                each = self._waiting.get(timeout=left)
            except Empty:
                return None
            if isinstance(each, _Flush):
                return each
            batch.append(each)
            if until is None:
                until = time.monotonic() + self._gathering_seconds

    def _written(self, batch: list[Entry]) -> None:
        try:
            self._write_patiently(batch)
            self._failing = False
        except Exception as error:
            if os.environ.get("SATCHEL_DEBUG"):
                raise
            if len(batch) > 1:
                # One that cannot be written does not take the others along.
                for entry in batch:
                    self._written([entry])
                return
            if not self._failing:
                print(f"satchel: answers are not recorded: {short_line(str(error))}", file=sys.stderr)
            self._failing = True

    def _write_patiently(self, batch: list[Entry]) -> None:
        """What others lock is free again some time; nobody waits here but what comes after."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(StoreBusyError):
                self._write(batch)
                return
        self._write(batch)


class _Flush:
    """Somebody waits for all that came before it."""

    def __init__(self) -> None:
        self.done = threading.Event()


# The server's own answers in the books of a session.


# Nothing is known by these entries but by who looks at the books; seldom and together they slow no search.
RECORDING_SECONDS = 0.5


class Recorder:
    """Enters answers after they are given; no session is begun before the first."""

    def __init__(self, bag: Satchel, name: str) -> None:
        self._bag = bag
        self._name = name
        self._behind: Behind[Answer] = Behind(self._write, gathering_seconds=RECORDING_SECONDS)

    def enter(self, tool: str, text: str, *, error: bool = False) -> None:
        self._behind.do(Answer(tool.strip() or "(no name)", text, error))

    def close(self) -> None:
        """Enter what has come so far; the store may be closed then."""
        self._behind.close()

    def _write(self, answers: list[Answer]) -> None:
        self._session.answered(answers)

    @cached_property
    def _session(self) -> Session:
        return self._bag.session(self._name, holds="whole")
