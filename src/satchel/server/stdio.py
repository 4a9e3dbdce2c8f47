"""Lines from a client on standard input, and lines to it on standard output: for the MCP server and the gateway.

A server reads in its main thread, which can wait for a line, for a moment, and for another thread. It writes from
any thread, and no caller waits for a client that is slow to read.
"""

import contextlib
import os
import queue
import select
import sys
import threading
from collections.abc import Callable

from satchel.server.jsonrpc import LineBuffer, Message, encode
from satchel.server.process import short_line

__all__ = ["LineReader", "LineWriter"]

READ_BYTES = 256 * 1024
# Above this many queued messages, notifications and log lines are dropped; responses never are.
MAX_QUEUED = 1_000
# Above this many bytes that the client has not read, no more of its requests are read.
MAX_UNREAD = 64 * 1024 * 1024
FINISH_SECONDS = 0.3
# The number of bytes that POSIX guarantees to write to a ready pipe without blocking.
ATOMIC_WRITE = getattr(select, "PIPE_BUF", 512)


class LineReader:
    """Splits what arrives on a descriptor into lines."""

    waits = hasattr(select, "poll")
    """Whether it can wait for something other than input. On Windows a pipe can only be read."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.lines = LineBuffer()
        self._woken, self._waking = os.pipe()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for input, and return whether there is some. False: the time has passed, or `wake` was called."""
        if not self.waits:
            return True
        ready, _, _ = select.select((self.descriptor, self._woken), (), (), seconds)
        if self._woken in ready:
            os.read(self._woken, 1)
        return self.descriptor in ready

    def wake(self) -> None:
        """Make `wait` return, in whichever thread it waits."""
        os.write(self._waking, b"\0")

    def read(self) -> list[bytes] | None:
        """Return the lines that are complete now; None at the end of the input."""
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except OSError:
            # For example a closed terminal or a directory: there is no more to come.
            data = b""
        if not data:
            # The last line may end without a newline.
            return [rest] if (rest := self.lines.rest()) else None
        return list(self.lines.feed(data))

    def has_ended(self) -> bool:
        """Whether the client has closed its end, even if there are lines left to read."""
        if not self.waits:
            return False
        end = select.poll()
        end.register(self.descriptor, 0)
        return bool(end.poll(0))


class LineWriter:
    """Writes messages to the client and log lines to stderr in threads, so that a slow reader blocks no caller."""

    def __init__(self, descriptor: int, *, broken: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._broken = broken
        self.failure: OSError | None = None
        """Why nothing more can be written, once `broken` was called."""
        self._busy = threading.Lock()
        self._counting = threading.Lock()
        self._unwritten = 0
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._log_lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._threads: dict[str, threading.Thread] = {}

    @property
    def is_full(self) -> bool:
        """Whether the client should read before it asks for more."""
        return self._unwritten > MAX_UNREAD

    def send(self, message: Message) -> None:
        if "method" in message and "id" not in message and self._lines.qsize() >= MAX_QUEUED:
            return
        line = encode(message)
        if not self._write_now(line):
            with self._counting:
                self._unwritten += len(line)
            self._lines.put(line)
            self._start("lines", self._write)

    def log(self, line: str) -> None:
        if self._log_lines.qsize() < MAX_QUEUED:
            self._log_lines.put(line)
            self._start("log", self._write_log)

    def finish(self) -> None:
        """Wait briefly until queued lines are written."""
        self._lines.put(None)
        self._log_lines.put(None)
        for thread in self._threads.values():
            thread.join(FINISH_SECONDS)

    def _start(self, name: str, work: Callable[[], None]) -> None:
        with self._counting:
            if name not in self._threads:
                self._threads[name] = threading.Thread(target=work, daemon=True)
                self._threads[name].start()

    def _write_now(self, line: bytes) -> bool:
        """Write a short line immediately if nothing is queued, which is faster than waking the thread."""
        if len(line) > ATOMIC_WRITE or not self._busy.acquire(blocking=False):
            return False
        try:
            # A line that the thread has taken but not written yet must come first.
            if self._unwritten or not select.select((), (self._descriptor,), (), 0)[1]:
                return False
            os.write(self._descriptor, line)
        except (OSError, ValueError):
            # The thread will hit the same error and report it.
            return False
        finally:
            self._busy.release()
        return True

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                with self._busy:
                    left = memoryview(line)
                    while left:
                        left = left[os.write(self._descriptor, left) :]
                with self._counting:
                    self._unwritten -= len(line)
        except OSError as error:
            self.failure = error
            with contextlib.suppress(RuntimeError):
                self._broken()

    def _write_log(self) -> None:
        while (line := self._log_lines.get()) is not None:
            with contextlib.suppress(OSError, ValueError):
                if sys.stderr is not None:
                    sys.stderr.write(f"satchel: {short_line(line)}\n")
                    sys.stderr.flush()
