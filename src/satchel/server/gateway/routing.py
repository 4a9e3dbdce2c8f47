"""Run the router on an event loop, from the first message that only it can answer to the end of the gateway."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Sequence

from satchel.server.gateway.remembered import Remembered
from satchel.server.gateway.router import Router
from satchel.server.gateway.servers import Server
from satchel.server.gateway.stdio import Reception
from satchel.server.process import exit_within
from satchel.server.recorder import BackgroundWriter
from satchel.server.stdio import LineReader, LineWriter
from satchel.session.session import Session, enter_all

__all__ = ["Routing"]

# The process exits within five seconds: upstream processes get three seconds to exit and one to be killed.
LAST_RESPONSES_SECONDS = 0.7
LAST_SECONDS = 4.8


class Routing:
    """A router that is ready to run, with its session open."""

    def __init__(
        self,
        servers: Sequence[Server],
        session: Session,
        remembered: Remembered,
        *,
        start_seconds: float,
        list_seconds: float,
    ) -> None:
        self._servers = servers
        self._session = session
        self._remembered = remembered
        self._start_seconds = start_seconds
        self._list_seconds = list_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Future[int] | None = None

    def run(self, reader: LineReader, writer: LineWriter, reception: Reception) -> int:
        """Serve until the input ends or a signal arrives, and return the exit code."""
        return asyncio.run(self._run(reader, writer, reception))

    def end(self, code: int) -> None:
        """End with this code, from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end, code)

    def _end(self, code: int) -> None:
        assert self._over is not None
        if not self._over.done():
            self._over.set_result(code)

    async def _run(self, reader: LineReader, writer: LineWriter, reception: Reception) -> int:
        self._loop = loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        router = Router(
            self._servers,
            self._session,
            BackgroundWriter(enter_all),
            send=writer.send,
            log=writer.log,
            remembered=self._remembered,
            start_seconds=self._start_seconds,
            list_seconds=self._list_seconds,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self._end, 128 + number)
        router.fleet.start()
        if reception.lists_tools:
            router.fleet.watch_list("tools")
        if reception.hello is not None:
            await router.greet(reception.hello)
        for line in reception.later:
            router.received(line)
        if writer.failure is not None:
            self._end(1)
        elif reception.has_ended:
            self._end(0)
        else:
            _Incoming(reader, router.received, self._end)
        code = await self._over
        exit_within(LAST_SECONDS, code)
        if code == 0:
            await router.answered(LAST_RESPONSES_SECONDS)
        await router.stop()
        writer.finish()
        return code


class _Incoming:
    """Reads lines on the event loop if that supports the descriptor, otherwise in a thread."""

    def __init__(self, reader: LineReader, received: Callable[[bytes], None], end: Callable[[int], None]) -> None:
        self._reader = reader
        self._received = received
        self._end = end
        self._loop = asyncio.get_running_loop()
        try:
            self._loop.add_reader(reader.descriptor, self._readable)
        except (OSError, NotImplementedError):
            # For example a regular file, which the event loop cannot poll.
            threading.Thread(target=self._drain, daemon=True).start()

    def _readable(self) -> None:
        if (lines := self._reader.read()) is not None:
            self._take(lines)
        else:
            self._loop.remove_reader(self._reader.descriptor)
            self._end(0)

    def _drain(self) -> None:
        # The loop may be closed already, and needs no more lines.
        with contextlib.suppress(RuntimeError):
            while (lines := self._reader.read()) is not None:
                self._loop.call_soon_threadsafe(self._take, lines)
            self._loop.call_soon_threadsafe(self._end, 0)

    def _take(self, lines: list[bytes]) -> None:
        for line in lines:
            self._received(line)
