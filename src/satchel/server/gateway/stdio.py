"""Serving the client of the gateway over standard input and output."""

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
from satchel.server.process import leave_within, log_in_lines, short_line, taken_streams
from satchel.server.recorder import BackgroundWriter
from satchel.session.session import Session, enter_all

__all__ = ["serve_gateway"]

# The process ends within five seconds: the servers have three of them to end, and one to be killed.
LAST_ANSWERS_SECONDS = 0.7
LAST_SECONDS = 4.8
# Notifications and log lines beyond this many unread ones are dropped; responses never are.
MOST_REPORTS = 1_000
FINISH_SECONDS = 0.3
READ_BYTES = 256 * 1024
# What a pipe that can be written to takes without waiting, on any POSIX system.
AT_ONCE = getattr(select, "PIPE_BUF", 512)


def serve_gateway(servers: Sequence[Server], session: Session, *, start_seconds: float) -> int:
    """Serve until standard input closes or a signal comes; returns the exit code."""
    reading, writing = taken_streams()
    log_in_lines()
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
    leave_within(LAST_SECONDS, code)
    if code == 0:
        await router.answered(LAST_ANSWERS_SECONDS)
    await router.stop()
    outgoing.finish()
    return code


class _Incoming:
    """Splits standard input into lines, on the event loop if that can wait for it, else in a thread."""

    def __init__(self, reading: int, received: Callable[[bytes], None], end: Callable[[int], None]) -> None:
        self._reading = reading
        self._received = received
        self._end = end
        self._lines = LineBuffer()
        self._loop = asyncio.get_running_loop()
        try:
            self._loop.add_reader(reading, self._readable)
        except (OSError, NotImplementedError):
            # A file, or whatever else cannot be waited for.
            threading.Thread(target=self._drain, daemon=True).start()

    def _readable(self) -> None:
        if data := self._read():
            self._take(data)
        else:
            self._loop.remove_reader(self._reading)
            self._end(0)

    def _drain(self) -> None:
        # The loop may have ended, and needs no more lines.
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
            # A terminal that is gone, a folder: there is no more to come.
            return b""


class _Outgoing:
    """Writes messages to the client and log lines to stderr, from threads: no caller waits for a slow reader."""

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
        if "method" in message and "id" not in message and self._lines.qsize() >= MOST_REPORTS:
            return
        line = encode(message)
        if not self._put_at_once(line):
            with self._waiting:
                self._unwritten += 1
            self._lines.put(line)

    def log(self, line: str) -> None:
        if self._log_lines.qsize() < MOST_REPORTS:
            self._log_lines.put(line)

    def finish(self) -> None:
        """Wait for a moment for what is still to be written."""
        self._lines.put(None)
        self._log_lines.put(None)
        for thread in self._threads:
            thread.join(FINISH_SECONDS)

    def _put_at_once(self, line: bytes) -> bool:
        """Write a short line right away if nothing waits before it: waking the thread would take longer."""
        if len(line) > AT_ONCE or not self._busy.acquire(blocking=False):
            return False
        try:
            # A line that the thread has taken and not written yet comes first, too.
            if self._unwritten or not select.select((), (self._writing,), (), 0)[1]:
                return False
            os.write(self._writing, line)
        except (OSError, ValueError):
            # The thread meets the same error, and reports it.
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
