"""One server behind the gateway: kept running, initialized, and sent requests under ids of the gateway's own.

`Upstream` is the server with its state. A `Link` is an open connection to it: `ProcessLink` here, for a server that
the gateway starts, and `HttpLink` for one that runs elsewhere.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, Protocol, cast

import msgspec

from satchel import __version__
from satchel.errors import SatchelError
from satchel.server.gateway.servers import INSIDE_VARIABLE, CommandServer, Server, WebServer
from satchel.server.jsonrpc import (
    INTERNAL_ERROR,
    LONGEST_LINE,
    LineBuffer,
    Message,
    UnreadableLineError,
    decode,
    encode,
    find_response_id,
    notification,
    request,
)

__all__ = [
    "ClientInfo",
    "Events",
    "Link",
    "Listener",
    "ProcessLink",
    "UnavailableError",
    "Upstream",
    "UpstreamError",
    "start_process",
]


# Up to the last version that begins with a handshake; clients of later ones fall back to it.
PROTOCOL_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
HEALTHY_SECONDS = 60.0
WAIT_SECONDS = 10.0

State = Literal["starting", "ready", "restarting", "failed"]
Progress = Callable[[Message], None]


class UpstreamError(SatchelError):
    """Catch this to pass on the error that a server answered."""

    def __init__(self, said: Any) -> None:
        error = said if isinstance(said, dict) else {}
        code, message = error.get("code"), error.get("message")
        # What a client would choke on is made good.
        self.error = error | {
            "code": code if isinstance(code, int) else INTERNAL_ERROR,
            "message": message if isinstance(message, str) else "there is neither a result nor a reason",
        }
        super().__init__(self.error["message"])


class UnavailableError(SatchelError):
    """Catch this to say that a server is not there, or no longer."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"the server {name} {what}")
        self.what = what


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The protocol version and the capabilities of the client, which every server is told in `initialize`."""

    version: str = PROTOCOL_VERSIONS[-1]
    capabilities: Message = {}


class Events(Protocol):
    """Receives the requests and notifications of servers, and whether they are there."""

    def on_request(self, upstream: "Upstream", message: Message) -> None: ...

    def on_notification(self, upstream: "Upstream", method: str, params: Message) -> None: ...

    def on_ready(self, upstream: "Upstream") -> None:
        """The server is ready, for the first time or again."""

    def on_disconnect(self, upstream: "Upstream") -> None:
        """The server disconnected; its pending requests are dropped."""


class Listener(Protocol):
    """Receives what comes over a link; called on the event loop."""

    def on_message(self, message: Message) -> None: ...

    def on_unreadable(self, call: int | None, why: str) -> None:
        """Something that is no message came; `call` is the id of the request it answers, where that can be told."""

    def on_closed(self, why: str) -> None:
        """The link is closed, and why."""


class Link(Protocol):
    """An open connection to a server."""

    def send(self, message: Message) -> None:
        """Send a message; if the server is gone it is dropped, and `on_closed` tells."""

    def set_protocol_version(self, version: str) -> None:
        """Note the version of the protocol that was agreed on."""

    async def close(self) -> None:
        """Close the link, and end a process and all that it started."""


class Upstream:
    """A server with its state. `run` starts it, and restarts it when it ends, until the task is cancelled."""

    def __init__(self, server: Server, events: Events, log: Callable[[str], None], *, start_seconds: float) -> None:
        self.name = server.name
        self.server = server
        self.state: State = "starting"
        self.why: str | None = None
        self.capabilities: Message = {}
        self.instructions = ""
        self._events = events
        self._log = log
        self._start_seconds = start_seconds
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._progress: dict[int, Progress] = {}
        self._link: Link | None = None
        self._lost: asyncio.Future[str] | None = None
        self._ready = asyncio.Event()
        self._settled = asyncio.Event()
        self._wanted = asyncio.Event()

    async def run(self, client: "asyncio.Future[ClientInfo]") -> None:
        """Start it, and start it again whenever it ends, after a pause that doubles while it fails."""
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            why = await self._one_life(client)
            if time.monotonic() - began >= HEALTHY_SECONDS:
                pause = FIRST_PAUSE
            self._fall("restarting", why)
            await self._rest(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def give_up(self, why: str) -> None:
        """Mark it as failed: it cannot be started, and is not tried again."""
        self._fall("failed", why)

    async def settled(self) -> None:
        """Wait until it is ready, has failed, or has taken too long to initialize."""
        await self._settled.wait()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def ask(self, method: str, params: Message | None, *, progress: Progress | None = None) -> Any:
        """The result of a request; a server that is down is waited for up to `WAIT_SECONDS`.

        An error it answers raises `UpstreamError`, and its absence `UnavailableError`.
        """
        if not self._ready.is_set():
            await self._wait_for_it()
        assert self._link is not None
        return await self._asked(self._link, method, params, progress)

    def tell(self, method: str, params: Message | None = None) -> None:
        """Send a notification, if the server is ready."""
        if self._link is not None and self._ready.is_set():
            self._link.send(notification(method, params))

    def reply(self, message: Message) -> None:
        if self._link is not None:
            self._link.send(message)

    def on_message(self, message: Message) -> None:
        method = message.get("method")
        if isinstance(method, str):
            params = message.get("params")
            if "id" in message:
                self._events.on_request(self, message)
            elif method == "notifications/progress":
                self._report(params)
            else:
                self._events.on_notification(self, method, params if isinstance(params, dict) else {})
            return
        waiting = self._pending.get(message["id"]) if isinstance(message.get("id"), int) else None
        if waiting is None or waiting.done():
            return
        if "result" in message:
            waiting.set_result(message["result"])
        else:
            waiting.set_exception(UpstreamError(message.get("error")))

    def on_unreadable(self, call: int | None, why: str) -> None:
        waiting = None if call is None else self._pending.get(call)
        if waiting is None or waiting.done():
            self._log(f"the server {self.name} wrote {why}")
        else:
            waiting.set_exception(UnavailableError(self.name, f"answered with {why}"))

    def on_closed(self, why: str) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(why)

    async def _one_life(self, client: "asyncio.Future[ClientInfo]") -> str:
        """Run it once, from its start to its end; returns why it ended."""
        self._lost = asyncio.get_running_loop().create_future()
        try:
            self._link = await self._opened()
        except (OSError, ValueError) as error:
            return f"cannot be started: {getattr(error, 'strerror', None) or error}"
        starting = asyncio.create_task(self._initialize(self._link, client))
        try:
            waited: list[asyncio.Future[Any]] = [starting, self._lost]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not self._lost.done():
                starting.result()
                await self._lost
            return self._lost.result()
        except UpstreamError as error:
            return f"refused to start: {error}"
        except UnavailableError as error:
            return error.what
        finally:
            starting.cancel()
            link, self._link = self._link, None
            self._ready.clear()
            self._abandon()
            await link.close()

    async def _opened(self) -> Link:
        if isinstance(self.server, CommandServer):
            return await start_process(self.server, self, lambda line: self._log(f"{self.name}: {line}"))
        # The SDK, which takes its time to load, only for those who need it.
        from satchel.server.gateway.http_link import HttpLink

        assert isinstance(self.server, WebServer)
        return HttpLink(self.server, self)

    async def _initialize(self, link: Link, introduced: "asyncio.Future[ClientInfo]") -> None:
        client = await asyncio.shield(introduced)
        params = {
            "protocolVersion": client.version,
            "capabilities": client.capabilities,
            "clientInfo": {"name": "satchel-gateway", "version": __version__},
        }
        late = asyncio.get_running_loop().call_later(self._start_seconds, self._be_late)
        try:
            said = await self._asked(link, "initialize", params, None)
        finally:
            late.cancel()
        said = said if isinstance(said, dict) else {}
        capabilities, instructions = said.get("capabilities"), said.get("instructions")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.instructions = instructions if isinstance(instructions, str) else ""
        link.set_protocol_version(str(said.get("protocolVersion", client.version)))
        link.send(notification("notifications/initialized"))
        self.state, self.why = "ready", None
        self._ready.set()
        self._settled.set()
        self._events.on_ready(self)

    async def _asked(self, link: Link, method: str, params: Message | None, progress: Progress | None) -> Any:
        number = next(self._ids)
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = waiting
        if progress is not None and params is not None:
            self._progress[number] = progress
            params = params | {"_meta": params["_meta"] | {"progressToken": number}}
        link.send(request(number, method, params))
        try:
            return await waiting
        except asyncio.CancelledError:
            if method != "initialize":
                link.send(notification("notifications/cancelled", {"requestId": number}))
            raise
        finally:
            del self._pending[number]
            self._progress.pop(number, None)

    async def _wait_for_it(self) -> None:
        self._wanted.set()
        if self.state != "failed":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), WAIT_SECONDS)
        if not self._ready.is_set():
            raise UnavailableError(self.name, f"is not running: it {self.why or 'does not answer'}")

    async def _rest(self, pause: float) -> None:
        """Wait until it is time to try again; a request for it shortens the wait, but not below the first pause."""
        await asyncio.sleep(FIRST_PAUSE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), max(0.0, pause - FIRST_PAUSE))
        self._wanted.clear()

    def _report(self, params: Any) -> None:
        token = params.get("progressToken") if isinstance(params, dict) else None
        if isinstance(token, int) and (report := self._progress.get(token)) is not None:
            report(params)

    def _be_late(self) -> None:
        """It may still become ready; nobody waits for it any longer."""
        self._fall(self.state, f"has not answered initialize for {self._start_seconds:g} s")

    def _fall(self, state: State, why: str) -> None:
        if (self.state, self.why) != (state, why):
            self._log(f"the server {self.name} {why}")
        self.state, self.why = state, why
        self._settled.set()

    def _abandon(self) -> None:
        assert self._lost is not None
        why = self._lost.result() if self._lost.done() and not self._lost.cancelled() else "is ended"
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(UnavailableError(self.name, f"{why} during this call; it is being restarted"))
        self._events.on_disconnect(self)


# A server in a process of its own, over its standard input and output


STOP_SECONDS = 2.0
TERMINATE_SECONDS = 1.0
# What it wrote last may still be in the pipe when its end is seen; what it started may hold the pipe open.
LAST_WORDS_SECONDS = 0.3
LONGEST_REMARK = 10_000

Log = Callable[[str], None]


async def start_process(server: CommandServer, listener: Listener, log: Log) -> "ProcessLink":
    """Start the command of a server; raises OSError if it cannot be started."""
    environment = os.environ | server.env | {INSIDE_VARIABLE: server.name}
    loop = asyncio.get_running_loop()
    _, link = await loop.subprocess_exec(
        lambda: ProcessLink(listener, log),
        server.command,
        *server.args,
        env=environment,
        cwd=server.cwd,
        # A process group of its own, so that all it starts can be ended with it, and Ctrl-C is ours alone.
        start_new_session=True,
    )
    return link


class ProcessLink(asyncio.SubprocessProtocol):
    """A server process and its three pipes; what it writes to stderr goes to the log of the gateway."""

    def __init__(self, listener: Listener, log: Log) -> None:
        self._listener = listener
        self._log = log
        self._lines = LineBuffer()
        self._remarks = LineBuffer(LONGEST_REMARK)
        self._over = asyncio.Event()
        self._silent = False
        self._told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._input = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    def send(self, message: Message) -> None:
        if not self._input.is_closing():
            self._input.write(encode(message))

    def set_protocol_version(self, version: str) -> None:
        """Over a pipe, nothing carries the version."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            for line in self._remarks.feed(data):
                self._log(line.decode("utf-8", "replace"))
            return
        for line in self._lines.feed(data):
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        if len(line) > LONGEST_LINE:
            self._listener.on_unreadable(find_response_id(line), f"a line of more than {LONGEST_LINE >> 20} MB")
            return
        try:
            message = decode(line)
        except UnreadableLineError as error:
            self._listener.on_unreadable(find_response_id(line), f"a line that is {error}")
            return
        # Batches were part of one version of the protocol.
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict):
                self._listener.on_message(each)
            else:
                self._listener.on_unreadable(None, "a line that is no message")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 2 and (last := self._remarks.rest()):
            self._log(last.decode("utf-8", "replace"))
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
            self._listener.on_closed(self._end())

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
