"""One server behind the gateway: kept running, asked under ids of our own."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Any, Literal, Protocol

from satchel import __version__
from satchel.errors import SatchelError
from satchel.server.gateway.link import Link
from satchel.server.gateway.piped import start
from satchel.server.gateway.servers import CommandServer, Server, WebServer
from satchel.server.gateway.wire import INTERNAL_ERROR, Message, notification, request

__all__ = ["Events", "Hello", "RefusedError", "UnavailableError", "Upstream"]

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
HEALTHY_SECONDS = 60.0
WAIT_SECONDS = 10.0

State = Literal["starting", "ready", "restarting", "failed"]
Progress = Callable[[Message], None]


class RefusedError(SatchelError):
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


class Hello(Protocol):
    """What a client has said of itself."""

    @property
    def version(self) -> str: ...

    @property
    def capabilities(self) -> Message: ...


class Events(Protocol):
    """Who is told what a server says of its own accord."""

    def asked(self, upstream: "Upstream", message: Message) -> None: ...

    def noted(self, upstream: "Upstream", method: str, params: Message) -> None: ...

    def came(self, upstream: "Upstream") -> None:
        """It is ready, for the first time or again."""

    def went(self, upstream: "Upstream") -> None:
        """What it asked is of no use any more."""


class Upstream:
    """A server with its state; `run` keeps it going until it is cancelled."""

    def __init__(
        self, server: Server, events: Events, complain: Callable[[str], None], *, start_seconds: float
    ) -> None:
        self.name = server.name
        self.server = server
        self.state: State = "starting"
        self.why: str | None = None
        self.capabilities: Message = {}
        self.instructions = ""
        self._events = events
        self._complain = complain
        self._start_seconds = start_seconds
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._progress: dict[int, Progress] = {}
        self._link: Link | None = None
        self._lost: asyncio.Future[str] | None = None
        self._ready = asyncio.Event()
        self._settled = asyncio.Event()
        self._wanted = asyncio.Event()

    async def run(self, hello: "asyncio.Future[Hello]") -> None:
        """Start it, and start it again whenever it ends, after a pause that doubles while it fails."""
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            why = await self._one_life(hello)
            if time.monotonic() - began >= HEALTHY_SECONDS:
                pause = FIRST_PAUSE
            self._fall("restarting", why)
            await self._rest(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def give_up(self, why: str) -> None:
        """It cannot be started, and there is no use in trying."""
        self._fall("failed", why)

    async def settled(self) -> None:
        """Wait until it is known what it offers, or that it takes too long to say so."""
        await self._settled.wait()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def ask(self, method: str, params: Message | None, *, progress: Progress | None = None) -> Any:
        """What it answers; one that is down is waited for, for a while."""
        if not self._ready.is_set():
            await self._wait_for_it()
        assert self._link is not None
        return await self._asked(self._link, method, params, progress)

    def tell(self, method: str, params: Message | None = None) -> None:
        """A notification, if it is there to hear it."""
        if self._link is not None and self._ready.is_set():
            self._link.send(notification(method, params))

    def reply(self, message: Message) -> None:
        if self._link is not None:
            self._link.send(message)

    def heard(self, message: Message) -> None:
        method = message.get("method")
        if isinstance(method, str):
            params = message.get("params")
            if "id" in message:
                self._events.asked(self, message)
            elif method == "notifications/progress":
                self._report(params)
            else:
                self._events.noted(self, method, params if isinstance(params, dict) else {})
            return
        waiting = self._pending.get(message["id"]) if isinstance(message.get("id"), int) else None
        if waiting is None or waiting.done():
            return
        if "result" in message:
            waiting.set_result(message["result"])
        else:
            waiting.set_exception(RefusedError(message.get("error")))

    def misheard(self, call: int | None, why: str) -> None:
        waiting = None if call is None else self._pending.get(call)
        if waiting is None or waiting.done():
            self._complain(f"the server {self.name} wrote {why}")
        else:
            waiting.set_exception(UnavailableError(self.name, f"answered with {why}"))

    def lost(self, why: str) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(why)

    async def _one_life(self, hello: "asyncio.Future[Hello]") -> str:
        """From a start to an end: why it ended."""
        self._lost = asyncio.get_running_loop().create_future()
        try:
            self._link = await self._opened()
        except (OSError, ValueError) as error:
            return f"cannot be started: {getattr(error, 'strerror', None) or error}"
        greeting = asyncio.create_task(self._greet(self._link, hello))
        try:
            waited: list[asyncio.Future[Any]] = [greeting, self._lost]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if greeting.done() and not self._lost.done():
                greeting.result()
                await self._lost
            return self._lost.result()
        except RefusedError as error:
            return f"refused to start: {error}"
        except UnavailableError as error:
            return error.what
        finally:
            greeting.cancel()
            link, self._link = self._link, None
            self._ready.clear()
            self._abandon()
            await link.close()

    async def _opened(self) -> Link:
        if isinstance(self.server, CommandServer):
            return await start(self.server, self, lambda line: self._complain(f"{self.name}: {line}"))
        # The SDK, which takes its time to load, only for those who need it.
        from satchel.server.gateway.remote import connect

        assert isinstance(self.server, WebServer)
        return await connect(self.server, self)

    async def _greet(self, link: Link, hello: "asyncio.Future[Hello]") -> None:
        client = await asyncio.shield(hello)
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
        link.agreed(str(said.get("protocolVersion", client.version)))
        link.send(notification("notifications/initialized"))
        self.state, self.why = "ready", None
        self._ready.set()
        self._settled.set()
        self._events.came(self)

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
        """Until it is time to try again; one that is asked for is tried sooner, but not at once."""
        await asyncio.sleep(FIRST_PAUSE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), max(0.0, pause - FIRST_PAUSE))
        self._wanted.clear()

    def _report(self, params: Any) -> None:
        token = params.get("progressToken") if isinstance(params, dict) else None
        if isinstance(token, int) and (report := self._progress.get(token)) is not None:
            report(params)

    def _be_late(self) -> None:
        """It may still come; nobody waits for it any longer."""
        self._fall(self.state, f"has not answered initialize for {self._start_seconds:g} s")

    def _fall(self, state: State, why: str) -> None:
        if (self.state, self.why) != (state, why):
            self._complain(f"the server {self.name} {why}")
        self.state, self.why = state, why
        self._settled.set()

    def _abandon(self) -> None:
        assert self._lost is not None
        why = self._lost.result() if self._lost.done() and not self._lost.cancelled() else "is ended"
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(UnavailableError(self.name, f"{why} during this call; it is being restarted"))
        self._events.went(self)
