"""One upstream server behind the gateway: started, initialized, restarted when it ends, and sent requests.

`Upstream` is the server and its state. A `Link` is an open connection to it: `ProcessLink`, here, for a server that
the gateway starts, and `HttpLink` for a remote one.
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
from satchel.server.gateway.servers import GATEWAY_VARIABLE, CommandServer, Server, WebServer
from satchel.server.handshake import PROTOCOL_VERSIONS
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


FIRST_BACKOFF = 0.5
MAX_BACKOFF = 30.0
HEALTHY_SECONDS = 60.0
WAIT_SECONDS = 10.0

State = Literal["starting", "ready", "restarting", "failed"]
Progress = Callable[[Message], None]


class UpstreamError(SatchelError):
    """Catch this to pass on an error response of a server."""

    def __init__(self, said: Any) -> None:
        error = said if isinstance(said, dict) else {}
        code, message = error.get("code"), error.get("message")
        # Repair invalid fields, so that the client accepts the error.
        self.error = error | {
            "code": code if isinstance(code, int) else INTERNAL_ERROR,
            "message": message if isinstance(message, str) else "the response has neither a result nor an error",
        }
        super().__init__(self.error["message"])


class UnavailableError(SatchelError):
    """Catch this to report that a server is not running or cannot be reached."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"the server {name} {what}")
        self.what = what


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The client's protocol version and capabilities, which every server gets in `initialize`."""

    version: str = PROTOCOL_VERSIONS[-1]
    capabilities: Message = {}


class Events(Protocol):
    """Receives requests, notifications and connection changes of servers."""

    def on_request(self, upstream: "Upstream", message: Message) -> None: ...

    def on_notification(self, upstream: "Upstream", method: str, params: Message) -> None: ...

    def on_ready(self, upstream: "Upstream") -> None:
        """The server is ready, for the first time or again."""

    def on_disconnect(self, upstream: "Upstream") -> None:
        """The server disconnected; its pending requests are dropped."""


class Listener(Protocol):
    """Receives what arrives over a link. Called on the event loop."""

    def on_message(self, message: Message) -> None: ...

    def on_unreadable(self, call: int | None, why: str) -> None:
        """Something arrived that is not a message; `call` is the id of the request it answers, if known."""

    def on_closed(self, why: str) -> None:
        """The link was closed, with the reason."""


class Link(Protocol):
    """An open connection to a server."""

    def send(self, message: Message) -> None:
        """Send a message. If the server is gone, the message is dropped and `on_closed` is called."""

    def set_protocol_version(self, version: str) -> None:
        """Set the negotiated protocol version."""

    async def close(self) -> None:
        """Close the link, and end the server's process and its children."""


class Upstream:
    """A server and its state. `run` starts it and restarts it when it ends, until the task is cancelled."""

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
        self._requested = asyncio.Event()

    async def run(self, client: "asyncio.Future[ClientInfo]") -> None:
        """Start the server, and restart it whenever it ends, with exponential backoff while it fails."""
        backoff = FIRST_BACKOFF
        while True:
            began = time.monotonic()
            why = await self._run_once(client)
            if time.monotonic() - began >= HEALTHY_SECONDS:
                backoff = FIRST_BACKOFF
            self._mark_down("restarting", why)
            await self._back_off(backoff)
            backoff = min(2 * backoff, MAX_BACKOFF)

    def give_up(self, why: str) -> None:
        """Mark the server as failed: it cannot be started and is not retried."""
        self._mark_down("failed", why)

    async def settled(self) -> None:
        """Wait until the server is ready, has failed, or has not initialized in time."""
        await self._settled.wait()

    @property
    def is_settled(self) -> bool:
        """Whether `settled` would return at once."""
        return self._settled.is_set()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def request(self, method: str, params: Message | None, *, progress: Progress | None = None) -> Any:
        """Send a request and return its result; waits up to `WAIT_SECONDS` for a server that is down.

        An error response raises `UpstreamError`; a server that is not available raises `UnavailableError`.
        """
        if not self._ready.is_set():
            await self._wait_until_ready()
        assert self._link is not None
        return await self._send_request(self._link, method, params, progress)

    def notify(self, method: str, params: Message | None = None) -> None:
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
            self._log(f"the server {self.name} sent {why}")
        else:
            waiting.set_exception(UnavailableError(self.name, f"answered with {why}"))

    def on_closed(self, why: str) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(why)

    async def _run_once(self, client: "asyncio.Future[ClientInfo]") -> str:
        """Run the server once, from start to end, and return why it ended."""
        self._lost = asyncio.get_running_loop().create_future()
        try:
            self._link = await self._open_link()
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
            self._fail_pending()
            await link.close()

    async def _open_link(self) -> Link:
        if isinstance(self.server, CommandServer):
            return await start_process(self.server, self, lambda line: self._log(f"{self.name}: {line}"))
        # The SDK is slow to import, so only remote servers load it.
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
        late = asyncio.get_running_loop().call_later(self._start_seconds, self._start_timed_out)
        try:
            said = await self._send_request(link, "initialize", params, None)
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

    async def _send_request(
        self, link: Link, method: str, params: Message | None, progress: Progress | None
    ) -> Any:
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

    async def _wait_until_ready(self) -> None:
        self._requested.set()
        if self.state != "failed":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), WAIT_SECONDS)
        if not self._ready.is_set():
            raise UnavailableError(self.name, f"is not running: it {self.why or 'does not answer'}")

    async def _back_off(self, backoff: float) -> None:
        """Wait before the next attempt; a new request shortens the wait, but not below the first backoff."""
        await asyncio.sleep(FIRST_BACKOFF)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._requested.wait(), max(0.0, backoff - FIRST_BACKOFF))
        self._requested.clear()

    def _report(self, params: Any) -> None:
        token = params.get("progressToken") if isinstance(params, dict) else None
        if isinstance(token, int) and (report := self._progress.get(token)) is not None:
            report(params)

    def _start_timed_out(self) -> None:
        """Stop waiting for a server that is slow to initialize; it may still become ready."""
        self._mark_down(self.state, f"has not answered initialize within {self._start_seconds:g} s")

    def _mark_down(self, state: State, why: str) -> None:
        if (self.state, self.why) != (state, why):
            self._log(f"the server {self.name} {why}")
        self.state, self.why = state, why
        self._settled.set()

    def _fail_pending(self) -> None:
        assert self._lost is not None
        why = self._lost.result() if self._lost.done() and not self._lost.cancelled() else "is ended"
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(UnavailableError(self.name, f"{why} during this call; it is being restarted"))
        self._events.on_disconnect(self)


# A server as a child process, over its standard input and output


STOP_SECONDS = 2.0
TERMINATE_SECONDS = 1.0
# The last output may still be in the pipe when the process has exited, and a grandchild may keep the pipe open.
DRAIN_SECONDS = 0.3
LONGEST_LOG_LINE = 10_000

Log = Callable[[str], None]


async def start_process(server: CommandServer, listener: Listener, log: Log) -> "ProcessLink":
    """Start the command of a server; raises OSError if it cannot be started."""
    environment = os.environ | dict(server.env) | {GATEWAY_VARIABLE: server.name}
    loop = asyncio.get_running_loop()
    _, link = await loop.subprocess_exec(
        lambda: ProcessLink(listener, log),
        server.command,
        *server.args,
        env=environment,
        cwd=server.cwd,
        # Its own process group, so that its children can be killed with it, and Ctrl-C reaches only the gateway.
        start_new_session=True,
    )
    return link


class ProcessLink(asyncio.SubprocessProtocol):
    """A server process and its three pipes. What it writes to stderr goes to the gateway's log."""

    def __init__(self, listener: Listener, log: Log) -> None:
        self._listener = listener
        self._log = log
        self._lines = LineBuffer()
        self._log_lines = LineBuffer(LONGEST_LOG_LINE)
        self._exited = asyncio.Event()
        self._output_closed = False
        self._closed_reported = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._input = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    def send(self, message: Message) -> None:
        if not self._input.is_closing():
            self._input.write(encode(message))

    def set_protocol_version(self, version: str) -> None:
        """Not needed: messages over a pipe do not carry the version."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            for line in self._log_lines.feed(data):
                self._log(line.decode("utf-8", "replace"))
            return
        for line in self._lines.feed(data):
            self._receive(line)

    def _receive(self, line: bytes) -> None:
        if len(line) > LONGEST_LINE:
            self._listener.on_unreadable(find_response_id(line), f"a line of more than {LONGEST_LINE >> 20} MB")
            return
        try:
            message = decode(line)
        except UnreadableLineError as error:
            self._listener.on_unreadable(find_response_id(line), f"a line that is {error}")
            return
        # One protocol version allowed batches.
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict):
                self._listener.on_message(each)
            else:
                self._listener.on_unreadable(None, "a line that is not a message")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 2 and (last := self._log_lines.rest()):
            self._log(last.decode("utf-8", "replace"))
        if fd == 1:
            self._output_closed = True
            if self._exited.is_set():
                self._report_closed()
            else:
                asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._report_closed)

    def process_exited(self) -> None:
        self._exited.set()
        if self._output_closed:
            self._report_closed()
        else:
            asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._report_closed)

    def _report_closed(self) -> None:
        if not self._closed_reported:
            self._closed_reported = True
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
        self._closed_reported = True
        self._input.close()
        if not await self._ends_within(STOP_SECONDS):
            self._signal(signal.SIGTERM)
            await self._ends_within(TERMINATE_SECONDS)
        # Kill remaining children too.
        self._signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
        await self._ends_within(TERMINATE_SECONDS)
        with contextlib.suppress(PermissionError):
            self._process.close()

    async def _ends_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), seconds)
        return self._exited.is_set()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.get_pid(), number)
            elif not self._exited.is_set():
                self._process.send_signal(number)
