"""A server in a process of its own, spoken to over its standard input and output."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import cast

from satchel.server.gateway.link import Listener
from satchel.server.gateway.servers import INSIDE_VARIABLE, CommandServer
from satchel.server.gateway.wire import LONGEST_LINE, Lines, Message, UnreadableLineError, call_in, decoded, encoded

__all__ = ["Piped", "start"]

STOP_SECONDS = 2.0
TERMINATE_SECONDS = 1.0
# What it wrote last may still be in the pipe when its end is seen; what it started may hold the pipe open.
LAST_WORDS_SECONDS = 0.3
LONGEST_REMARK = 10_000

Complain = Callable[[str], None]


async def start(server: CommandServer, listener: Listener, complain: Complain) -> "Piped":
    """Start the command; an OSError says why it cannot be."""
    environment = os.environ | server.env | {INSIDE_VARIABLE: server.name}
    loop = asyncio.get_running_loop()
    _, link = await loop.subprocess_exec(
        lambda: Piped(listener, complain),
        server.command,
        *server.args,
        env=environment,
        cwd=server.cwd,
        # A process group of its own, so that all it starts can be ended with it, and Ctrl-C is ours alone.
        start_new_session=True,
    )
    return link


class Piped(asyncio.SubprocessProtocol):
    """The process and its pipes."""

    def __init__(self, listener: Listener, complain: Complain) -> None:
        self._listener = listener
        self._complain = complain
        self._lines = Lines()
        self._remarks = Lines(LONGEST_REMARK)
        self._over = asyncio.Event()
        self._silent = False
        self._told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._input = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    def send(self, message: Message) -> None:
        if not self._input.is_closing():
            self._input.write(encoded(message))

    def agreed(self, version: str) -> None:
        """Lines carry no version."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            for line in self._remarks.fed(data):
                self._complain(line.decode("utf-8", "replace"))
            return
        for line in self._lines.fed(data):
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        if len(line) > LONGEST_LINE:
            self._listener.misheard(call_in(line), f"a line of more than {LONGEST_LINE >> 20} MB")
            return
        try:
            message = decoded(line)
        except UnreadableLineError as error:
            self._listener.misheard(call_in(line), f"a line that is {error}")
            return
        # Batches were part of one version of the protocol.
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict):
                self._listener.heard(each)
            else:
                self._listener.misheard(None, "a line that is no message")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 2 and (last := self._remarks.rest()):
            self._complain(last.decode("utf-8", "replace"))
        if fd == 1:
            self._silent = True
            if self._over.is_set():
                self._tell()
            else:
                asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self._tell)

    def process_exited(self) -> None:
        self._over.set()
        if self._silent:
            self._tell()
        else:
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self._tell)

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._listener.lost(self._end())

    def _end(self) -> str:
        code = self._process.get_returncode()
        if code is None:
            return "closed its output"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-code).name}"
        return f"ended (exit code {code})"

    async def close(self) -> None:
        self._told = True
        self._input.close()
        if not await self._ends_within(STOP_SECONDS):
            self._signal(signal.SIGTERM)
            await self._ends_within(TERMINATE_SECONDS)
        # Also what it started and left behind.
        self._signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
        await self._ends_within(TERMINATE_SECONDS)
        with contextlib.suppress(PermissionError):
            self._process.close()

    async def _ends_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)
        return self._over.is_set()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.get_pid(), number)
            elif not self._over.is_set():
                self._process.send_signal(number)
