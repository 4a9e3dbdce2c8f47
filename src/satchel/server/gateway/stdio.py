"""Serve the gateway's client over standard input and output."""

import asyncio
import contextlib
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence

from satchel.server.gateway.router import Router
from satchel.server.gateway.servers import Server
from satchel.server.jsonrpc import LineBuffer, Message, encode
from satchel.server.process import claim_stdio, configure_logging, exit_within, short_line
from satchel.server.recorder import BackgroundWriter
from satchel.session.session import Session, enter_all

__all__ = ["serve_gateway"]

# The process exits within five seconds: upstream processes get three seconds to exit and one to be killed.
LAST_RESPONSES_SECONDS = 0.7
LAST_SECONDS = 4.8
# Backpressure: above this many queued messages, notifications and log lines are dropped; responses never are.
MAX_QUEUED = 1_000
FINISH_SECONDS = 0.3
READ_BYTES = 256 * 1024
# The number of bytes that POSIX guarantees to write to a ready pipe without blocking.
ATOMIC_WRITE = getattr(select, "PIPE_BUF", 512)


def serve_gateway(servers: Sequence[Server], session: Session, *, start_seconds: float) -> int:
    """Serve until standard input closes or a signal arrives, and return the exit code."""
    reading, writing = claim_stdio()
    configure_logging()
    return asyncio.run(_serve(reading, writing, servers, session, start_seconds))


async def _serve(
    reading: int,
    writing: int,
    servers: Sequence[Server],
    session: Session,
    start_seconds: float,
) -> int:
    loop = asyncio.get_running_loop()
    over: asyncio.Future[int] = loop.create_future()

    def end(code: int) -> None:
        if not over.done():
            over.set_result(code)

    outgoing = _Outgoing(writing, lambda: loop.call_soon_threadsafe(end, 1))
    router = Router(
        servers,
        session,
        BackgroundWriter(enter_all),
        send=outgoing.send,
        log=outgoing.log,
        start_seconds=start_seconds,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, end, 128 + number)
    router.fleet.start()
    _Incoming(reading, router.received, end)
    code = await over
    exit_within(LAST_SECONDS, code)
    if code == 0:
        await router.answered(LAST_RESPONSES_SECONDS)
    await router.stop()
    outgoing.finish()
    return code


class _Incoming:
    """Splits standard input into lines, on the event loop if it supports the descriptor, otherwise in a thread."""

    def __init__(self, reading: int, received: Callable[[bytes], None], end: Callable[[int], None]) -> None:
        self._reading = reading
        self._received = received
        self._end = end
        self._lines = LineBuffer()
        self._loop = asyncio.get_running_loop()
        try:
            self._loop.add_reader(reading, self._readable)
        except (OSError, NotImplementedError):
            # For example a regular file, which the event loop cannot poll.
            threading.Thread(target=self._drain, daemon=True).start()

    def _readable(self) -> None:
        if data := self._read():
            self._take(data)
        else:
            self._loop.remove_reader(self._reading)
            self._end(0)

    def _drain(self) -> None:
        # The loop may be closed already, and needs no more lines.
        with contextlib.suppress(RuntimeError):
            while data := self._read():
                self._loop.call_soon_threadsafe(self._take, data)
            self._loop.call_soon_threadsafe(self._end, 0)

    def _take(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._received(line)

    def _read(self) -> bytes:
        try:
            return os.read(self._reading, READ_BYTES)
        except OSError:
            # For example a closed terminal or a directory: treat it as end of input.
            return b""


class _Outgoing:
    """Writes messages to the client and log lines to stderr in threads, so that a slow reader blocks no caller."""

    def __init__(self, writing: int, broken: Callable[[], object]) -> None:
        self._writing = writing
        self._broken = broken
        self._busy = threading.Lock()
        self._waiting = threading.Lock()
        self._unwritten = 0
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._log_lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._write, daemon=True),
            threading.Thread(target=self._write_log, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, message: Message) -> None:
        if "method" in message and "id" not in message and self._lines.qsize() >= MAX_QUEUED:
            return
        line = encode(message)
        if not self._write_now(line):
            with self._waiting:
                self._unwritten += 1
            self._lines.put(line)

    def log(self, line: str) -> None:
        if self._log_lines.qsize() < MAX_QUEUED:
            self._log_lines.put(line)

    def finish(self) -> None:
        """Wait briefly until queued lines are written."""
        self._lines.put(None)
        self._log_lines.put(None)
        for thread in self._threads:
            thread.join(FINISH_SECONDS)

    def _write_now(self, line: bytes) -> bool:
        """Write a short line immediately if nothing is queued, which is faster than waking the thread."""
        if len(line) > ATOMIC_WRITE or not self._busy.acquire(blocking=False):
            return False
        try:
            # A line that the thread has taken but not written yet must come first.
            if self._unwritten or not select.select((), (self._writing,), (), 0)[1]:
                return False
            os.write(self._writing, line)
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
                        left = left[os.write(self._writing, left) :]
                with self._waiting:
                    self._unwritten -= 1
        except OSError:
            with contextlib.suppress(RuntimeError):
                self._broken()

    def _write_log(self) -> None:
        while (line := self._log_lines.get()) is not None:
            with contextlib.suppress(OSError, ValueError):
                if sys.stderr is not None:
                    sys.stderr.write(f"satchel: {short_line(line)}\n")
                    sys.stderr.flush()
