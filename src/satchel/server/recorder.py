"""Record answers in a session's ledger in the background, soon after they are sent."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cached_property
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from satchel.errors import StoreBusyError
from satchel.server.process import short_line

if TYPE_CHECKING:
    from satchel.api.satchel import Satchel
    from satchel.session.session import Session

__all__ = ["BackgroundWriter", "Recorder"]

# How long `close` waits for unwritten items.
CLOSING_SECONDS = 1.0
# The same for a recorder, which may have to load sessions first.
RECORDER_SECONDS = 2.0

# Items that arrive together are written in one batch, because a commit costs more than the data.
GATHERING_SECONDS = 0.02
# Each attempt waits for a lock as long as the store does.
TRIES = 5
# Only readers of the ledger need these entries. Writing them seldom and in batches slows down no search.
RECORDING_SECONDS = 0.5

T = TypeVar("T")


class _Answered(NamedTuple):
    """The answer of a tool, before sessions are loaded."""

    tool: str
    text: str
    error: bool


class Recorder:
    """Enters the answers of the MCP server into the ledger of a session, which is opened with the first answer.

    Sessions are loaded then too: after the answer, for which the client waits.
    """

    def __init__(self, bag: "Satchel", name: str | None) -> None:
        self._bag = bag
        self._name = name
        """The session to continue; None for a new one."""
        self._writer: BackgroundWriter[_Answered] = BackgroundWriter(
            self._write, gathering_seconds=RECORDING_SECONDS
        )

    def enter(self, tool: str, text: str, *, error: bool = False) -> None:
        self._writer.put(_Answered(tool.strip() or "(no name)", text, error))

    def close(self) -> None:
        """Wait until all answers so far are entered; after that the store may be closed."""
        self._writer.close(RECORDER_SECONDS)

    @staticmethod
    def warm_up() -> None:
        """Load what the first entry needs."""
        import satchel.session.session  # noqa: F401

    def _write(self, answers: list[_Answered]) -> None:
        from satchel.session.session import ToolAnswer

        self._session.answered([ToolAnswer(*each) for each in answers])

    @cached_property
    def _session(self) -> "Session":
        from satchel.session.session import new_session_name

        return self._bag.session(self._name or new_session_name("mcp"), holds="whole")


class BackgroundWriter(Generic[T]):
    """Passes items to `write` in batches, in order, in its own thread.

    No caller waits for a write. If a batch fails, its items are tried one by one. A failure is reported in one line
    on stderr, once until a write succeeds again.
    """

    def __init__(self, write: Callable[[list[T]], object], *, gathering_seconds: float = GATHERING_SECONDS) -> None:
        self._write = write
        self._gathering_seconds = gathering_seconds
        self._waiting: SimpleQueue[T | _Flush] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._failing = False

    def put(self, item: T) -> None:
        """Queue the item to be written soon."""
        self._waiting.put(item)
        if self._thread is None:
            self._start()

    def flush(self, seconds: float = CLOSING_SECONDS) -> None:
        """Wait at most `seconds` until all items so far are written."""
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
        """Collect items for a short time after the first; a flush ends the collection and is returned."""
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
                # One item that cannot be written must not prevent the others.
                for item in batch:
                    self._write_batch([item])
                return
            if not self._failing:
                # Standard error may be a file on the same full disk.
                with contextlib.suppress(OSError):
                    print(f"satchel: answers are not recorded: {short_line(str(error))}", file=sys.stderr)
            self._failing = True

    def _write_patiently(self, batch: list[T]) -> None:
        """Retry while another process holds the lock; only later items wait for this thread."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(StoreBusyError):
                self._write(batch)
                return
        self._write(batch)


class _Flush:
    """A marker in the queue: `done` is set when all items before it are written."""

    def __init__(self) -> None:
        self.done = threading.Event()
