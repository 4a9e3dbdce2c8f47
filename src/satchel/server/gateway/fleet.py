"""The servers behind a gateway as one: started together, told together, ended together."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

from satchel.server.gateway.offers import Kind, Offers
from satchel.server.gateway.relay import Relay
from satchel.server.gateway.servers import Server, is_there, missing
from satchel.server.gateway.upstream import Hello, RefusedError, UnavailableError, Upstream
from satchel.server.gateway.wire import Message, notification
from satchel.server.mcp.process import short_line

__all__ = ["Fleet"]

_CHANGES: dict[str, tuple[Kind, ...]] = {
    "notifications/tools/list_changed": ("tools",),
    "notifications/prompts/list_changed": ("prompts",),
    "notifications/resources/list_changed": ("resources", "resourceTemplates"),
}

Say = Callable[[Message], None]

# One that does not answer what all are asked holds up nobody for longer.
ANSWER_SECONDS = 5.0


class Fleet:
    """What all servers have in common: their offers, what they tell the client, what holds for each that comes."""

    def __init__(
        self,
        servers: Sequence[Server],
        say: Say,
        complain: Callable[[str], None],
        *,
        reserved: frozenset[str],
        start_seconds: float,
    ) -> None:
        self._say = say
        self._tasks: set[asyncio.Task[None]] = set()
        self._hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._level: str | None = None
        self._subscriptions: dict[str, Upstream] = {}
        self._asked_for: set[Kind] = set()
        self.relay = Relay(say)
        self.upstreams = [Upstream(each, self, complain, start_seconds=start_seconds) for each in servers]
        self.offers = Offers(self.upstreams, complain, reserved=reserved, list_seconds=start_seconds)

    def start(self) -> None:
        """Start all at once; what greets them is what the client says of itself."""
        for upstream in self.upstreams:
            if is_there(upstream.server):
                self._begin(upstream.run(self._hello)).add_done_callback(partial(_report, upstream))
            else:
                upstream.give_up(missing(upstream.server).removeprefix(f"the server {upstream.name} "))

    def greet(self, hello: Hello) -> None:
        if not self._hello.done():
            self.relay.capabilities = hello.capabilities
            self._hello.set_result(hello)

    async def settled(self, seconds: float) -> None:
        """Wait until each is ready or has failed, but not for longer."""
        waiting = asyncio.gather(*(upstream.settled() for upstream in self.upstreams))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(waiting, seconds)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def states(self) -> Message:
        """How each server is, for the model; without the secrets that an address may have in it."""
        return {
            each.name: short_line(f"{each.state}: it {each.why}") if each.why else each.state
            for each in self.upstreams
        }

    def will_list(self, kind: Kind) -> None:
        """The client has been told what there is, and is told when that changes."""
        self._asked_for.add(kind)

    async def set_level(self, level: Any) -> None:
        """From what level on each writes to the client's log, also those that come later."""
        self._level = level
        await asyncio.gather(*(self._set_level(upstream) for upstream in self._ready()))

    def subscribed(self, address: str, upstream: Upstream) -> None:
        self._subscriptions[address] = upstream

    def unsubscribed(self, address: str) -> None:
        self._subscriptions.pop(address, None)

    def tell_all(self, method: str, params: Message | None) -> None:
        for upstream in self._ready():
            upstream.tell(method, params)

    def asked(self, upstream: Upstream, message: Message) -> None:
        self.relay.asked(upstream, message)

    def noted(self, upstream: Upstream, method: str, params: Message) -> None:
        if (kinds := _CHANGES.get(method)) is not None:
            self.offers.changed(upstream, *kinds)
            self._say(notification(method))
        else:
            self.relay.passed(upstream, method, params)

    def came(self, upstream: Upstream) -> None:
        self._begin(self._welcome(upstream))

    def went(self, upstream: Upstream) -> None:
        self.relay.forget(upstream)

    async def _welcome(self, upstream: Upstream) -> None:
        """Make one that has come, or come again, what the others are, and say what it brings."""
        with contextlib.suppress(UnavailableError):
            if self._level is not None:
                await self._set_level(upstream)
            for address, holder in list(self._subscriptions.items()):
                if holder is upstream:
                    with contextlib.suppress(RefusedError, TimeoutError):
                        asked = upstream.ask("resources/subscribe", {"uri": address})
                        await asyncio.wait_for(asked, ANSWER_SECONDS)
            self.offers.changed(upstream)
            for method, kinds in _CHANGES.items():
                news = [await self.offers.is_news(upstream, kind) for kind in kinds if kind in self._asked_for]
                if any(news):
                    self._say(notification(method))

    async def _set_level(self, upstream: Upstream) -> None:
        if "logging" in upstream.capabilities:
            with contextlib.suppress(RefusedError, UnavailableError, TimeoutError):
                await asyncio.wait_for(upstream.ask("logging/setLevel", {"level": self._level}), ANSWER_SECONDS)

    def _ready(self) -> Iterator[Upstream]:
        return (upstream for upstream in self.upstreams if upstream.is_ready)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _report(upstream: Upstream, task: asyncio.Task[None]) -> None:
    """Whatever it was that ended it for good, nobody waits for a server that does not come."""
    if not task.cancelled() and (error := task.exception()) is not None:
        upstream.give_up(f"cannot be kept running: {error}")
