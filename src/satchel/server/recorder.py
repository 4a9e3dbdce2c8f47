"""Recording answers in a session's ledger in the background, soon after they are given."""

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
from satchel.session.session import Session, ToolAnswer

__all__ = ["BackgroundWriter", "Recorder"]

# How long closing waits for what is still to be written.
CLOSING_SECONDS = 1.0

# Items that come together are written together: a commit costs more than what it writes.
GATHERING_SECONDS = 0.02
# Each try waits as long as the store does for a lock.
TRIES = 5
# Only readers of the ledger need these entries; written seldom and together, they slow no search.
RECORDING_SECONDS = 0.5

T = TypeVar("T")


class Recorder:
    """Enters the answers of the MCP server into the ledger of a session, which is begun with the first of them."""

    def __init__(self, bag: Satchel, name: str) -> None:
        self._bag = bag
        self._name = name
        self._writer: BackgroundWriter[ToolAnswer] = BackgroundWriter(
            self._write, gathering_seconds=RECORDING_SECONDS
        )

    def enter(self, tool: str, text: str, *, error: bool = False) -> None:
        self._writer.put(ToolAnswer(tool.strip() or "(no name)", text, error))

    def close(self) -> None:
        """Wait until all answers so far are entered; the store may be closed then."""
        self._writer.close()

    def _write(self, answers: list[ToolAnswer]) -> None:
        self._session.answered(answers)

    @cached_property
    def _session(self) -> Session:
        return self._bag.session(self._name, holds="whole")


class BackgroundWriter(Generic[T]):
    """Hands items to `write` in batches, in a thread of its own, in the order they come.

    Nobody waits for a write. A batch that fails is tried item by item, and a failure is reported in one line on
    stderr, once until a write succeeds again.
    """

    def __init__(self, write: Callable[[list[T]], object], *, gathering_seconds: float = GATHERING_SECONDS) -> None:
        self._write = write
        self._gathering_seconds = gathering_seconds
        self._waiting: SimpleQueue[T | _Flush] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._failing = False

    def put(self, item: T) -> None:
        """Write the item soon."""
        self._waiting.put(item)
        if self._thread is None:
            self._start()

    def flush(self, seconds: float = CLOSING_SECONDS) -> None:
        """Wait until all items so far are written, for at most so many seconds."""
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
            batch: list[T] = []
            flush = self._gathered(batch)
            if batch:
                self._write_batch(batch)
            if flush is not None:
                flush.done.set()

    def _gathered(self, batch: list[T]) -> "_Flush | None":
        """Collect what comes within a moment of the first item; a flush ends that moment and is returned."""
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

    def _write_batch(self, batch: list[T]) -> None:
        try:
            self._write_patiently(batch)
            self._failing = False
        except Exception as error:
            if os.environ.get("SATCHEL_DEBUG"):
                raise
            if len(batch) > 1:
                # One that cannot be written does not take the others along.
                for item in batch:
                    self._write_batch([item])
                return
            if not self._failing:
                print(f"satchel: answers are not recorded: {short_line(str(error))}", file=sys.stderr)
            self._failing = True

    def _write_patiently(self, batch: list[T]) -> None:
        """Try again while another process holds the lock: only later items wait for this thread."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(StoreBusyError):
                self._write(batch)
                return
        self._write(batch)


class _Flush:
    """A mark in the queue: `done` is set when all items before it are written."""

    def __init__(self) -> None:
        self.done = threading.Event()
