"""All servers behind a gateway: started together, with their tools under unambiguous names."""

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from satchel.server.gateway.servers import Server, can_start, why_not_started
from satchel.server.gateway.upstream import ClientInfo, UnavailableError, Upstream, UpstreamError
from satchel.server.jsonrpc import (
    METHOD_NOT_FOUND,
    Message,
    RequestId,
    as_request_id,
    error_response,
    notification,
    request,
    response,
)
from satchel.server.process import short_line

__all__ = ["LONGEST_NAME", "ExposedName", "Fleet", "Kind", "Offer", "Offers", "Relay", "exposed_names"]

Kind = Literal["tools", "prompts", "resources", "resourceTemplates"]

_CHANGES: dict[str, tuple[Kind, ...]] = {
    "notifications/tools/list_changed": ("tools",),
    "notifications/prompts/list_changed": ("prompts",),
    "notifications/resources/list_changed": ("resources", "resourceTemplates"),
}

Send = Callable[[Message], None]

# A broadcast request waits no longer than this for each server.
ANSWER_SECONDS = 5.0


class Fleet:
    """All upstream servers: starts and stops them, and brings a late one up to date.

    The log level and the subscriptions that the client requested also apply to servers that become ready later.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        send: Send,
        log: Callable[[str], None],
        *,
        reserved: frozenset[str],
        start_seconds: float,
        list_seconds: float,
        known: Mapping[str, Mapping[str, list[Message]]],
        on_settled: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._on_settled = on_settled
        """Called when a server has become ready and none is starting any more."""
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: asyncio.Future[ClientInfo] = asyncio.get_running_loop().create_future()
        self._level: str | None = None
        self._subscriptions: dict[str, Upstream] = {}
        self._asked_for: set[Kind] = set()
        self.relay = Relay(send)
        self.upstreams = [Upstream(each, self, log, start_seconds=start_seconds) for each in servers]
        self.offers = Offers(
            self.upstreams,
            log,
            reserved=reserved,
            answer_seconds=start_seconds,
            list_seconds=list_seconds,
            known=known,
        )

    def start(self) -> None:
        """Start all servers at once; each is initialized after the client has sent `initialize`."""
        for upstream in self.upstreams:
            if can_start(upstream.server):
                self._begin(upstream.run(self._client)).add_done_callback(partial(_report, upstream))
            else:
                upstream.give_up(why_not_started(upstream.server).removeprefix(f"the server {upstream.name} "))

    def introduce(self, client: ClientInfo) -> None:
        if not self._client.done():
            self.offers.begin_waiting()
            self.relay.capabilities = client.capabilities
            self._client.set_result(client)

    async def settled(self, seconds: float) -> None:
        """Wait at most `seconds` until each server is ready or has failed."""
        waiting = asyncio.gather(*(upstream.settled() for upstream in self.upstreams))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(waiting, seconds)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def states(self) -> Message:
        """Return the state of each server for the model, with secrets in URLs masked."""
        return {
            each.name: short_line(f"{each.state}: it {each.why}") if each.why else each.state
            for each in self.upstreams
        }

    def watch_list(self, kind: Kind) -> None:
        """Remember that the client has read this list, so that it is told about changes."""
        self._asked_for.add(kind)

    async def set_level(self, level: Any) -> None:
        """Set the log level of all servers, including those that become ready later."""
        self._level = level
        await asyncio.gather(*(self._set_level(upstream) for upstream in self._ready()))

    def subscribed(self, address: str, upstream: Upstream) -> None:
        self._subscriptions[address] = upstream

    def unsubscribed(self, address: str) -> None:
        self._subscriptions.pop(address, None)

    def notify_all(self, method: str, params: Message | None) -> None:
        for upstream in self._ready():
            upstream.notify(method, params)

    def on_request(self, upstream: Upstream, message: Message) -> None:
        self.relay.on_request(upstream, message)

    def on_notification(self, upstream: Upstream, method: str, params: Message) -> None:
        if (kinds := _CHANGES.get(method)) is not None:
            self.offers.changed(upstream, *kinds)
            self._send(notification(method))
        else:
            self.relay.on_notification(upstream, method, params)

    def on_ready(self, upstream: Upstream) -> None:
        self._begin(self._catch_up(upstream))

    def on_disconnect(self, upstream: Upstream) -> None:
        self.relay.drop(upstream)

    async def _catch_up(self, upstream: Upstream) -> None:
        """Send a server that became ready the client's settings, and tell the client which lists changed."""
        with contextlib.suppress(UnavailableError):
            if self._level is not None:
                await self._set_level(upstream)
            for address, holder in list(self._subscriptions.items()):
                if holder is upstream:
                    with contextlib.suppress(UpstreamError, TimeoutError):
                        asked = upstream.request("resources/subscribe", {"uri": address})
                        await asyncio.wait_for(asked, ANSWER_SECONDS)
            self.offers.changed(upstream)
            for method, kinds in _CHANGES.items():
                news = [await self.offers.has_changed(upstream, kind) for kind in kinds if kind in self._asked_for]
                if any(news):
                    self._send(notification(method))
            if all(each.is_settled for each in self.upstreams):
                # What a client may be told at once when the gateway is started again.
                for kind in _METHODS:
                    await asyncio.gather(*(self.offers.has_changed(each, kind) for each in self._ready()))
                await self._on_settled()

    async def _set_level(self, upstream: Upstream) -> None:
        if "logging" in upstream.capabilities:
            with contextlib.suppress(UpstreamError, UnavailableError, TimeoutError):
                await asyncio.wait_for(upstream.request("logging/setLevel", {"level": self._level}), ANSWER_SECONDS)

    def _ready(self) -> Iterator[Upstream]:
        return (upstream for upstream in self.upstreams if upstream.is_ready)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _report(upstream: Upstream, task: asyncio.Task[None]) -> None:
    """Mark a server as failed if its task ended with an error, so that no request waits for it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        upstream.give_up(f"cannot be kept running: {error}")


# The catalog: which server offers which tools, prompts and resources

MAX_PAGES = 1_000

_METHODS: dict[Kind, tuple[str, str]] = {
    "tools": ("tools", "tools/list"),
    "prompts": ("prompts", "prompts/list"),
    "resources": ("resources", "resources/list"),
    "resourceTemplates": ("resources", "resources/templates/list"),
}
_IN_BRACES = re.compile(r"\{([^}]*)\}")


class Offer(NamedTuple):
    """A tool or prompt: its server, its name there, and its definition."""

    upstream: Upstream
    name: str
    definition: Message


class Offers:
    """The tools, prompts and resources of all servers. A list is cached until its server reports a change."""

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        log: Callable[[str], None],
        *,
        reserved: Collection[str],
        answer_seconds: float,
        list_seconds: float,
        known: Mapping[str, Mapping[str, list[Message]]],
    ) -> None:
        self._upstreams = upstreams
        self._log = log
        self._reserved = reserved
        self._answer_seconds = answer_seconds
        self._list_seconds = list_seconds
        self._waits_until = 0.0
        self._fresh: dict[tuple[str, Kind], list[Message]] = {}
        self._last: dict[tuple[str, Kind], list[Message]] = {
            (upstream.name, kind): found
            for upstream in upstreams
            for kind in _METHODS
            if (found := known.get(upstream.name, {}).get(kind)) is not None
        }
        self._changes = 0
        self._locks = {upstream.name: asyncio.Lock() for upstream in upstreams}
        # Names that were shown once keep working: a client may not have read the list again.
        self._offers: dict[Kind, dict[str, Offer]] = {"tools": {}, "prompts": {}}
        self._clashes: set[str] = set()

    def begin_waiting(self) -> None:
        """Wait for servers that are starting from now on, but not for long: a client may give up."""
        self._waits_until = time.monotonic() + self._list_seconds

    def known(self) -> dict[str, dict[str, list[Message]]]:
        """Return what is known of the servers that are ready, by server and kind."""
        ready = {upstream.name for upstream in self._upstreams if upstream.is_ready}
        found: dict[str, dict[str, list[Message]]] = {name: {} for name in ready}
        for (name, kind), listed in self._last.items():
            if name in ready:
                found[name][kind] = listed
        return found

    def changed(self, upstream: Upstream, *kinds: Kind) -> None:
        """Drop the cached lists of a server, so that they are read again when needed."""
        self._changes += 1
        for kind in kinds or _METHODS:
            self._fresh.pop((upstream.name, kind), None)

    async def has_changed(self, upstream: Upstream, kind: Kind) -> bool:
        """Whether a list differs from when it was last read."""
        before = self._last.get((upstream.name, kind), [])
        return await self._list(upstream, kind) != before

    async def named(self, kind: Literal["tools", "prompts"], *, patient: bool = False) -> list[tuple[str, Offer]]:
        """Return the tools or prompts of all servers, under the names that the client sees.

        Servers that are starting are waited for a moment, or with `patient` until they are ready or have failed.
        """
        lists = await self._lists(kind, patient=patient)
        reserved = self._reserved if kind == "tools" else ()
        names = exposed_names(
            [(upstream.name, [each["name"] for each in found]) for upstream, found in lists], reserved=reserved
        )
        by_name = {
            (upstream.name, each["name"]): Offer(upstream, each["name"], each)
            for upstream, found in reversed(lists)
            for each in reversed(found)
        }
        shown = [(each.shown, by_name[each.server, each.name]) for each in names]
        self._offers[kind].update(shown)
        return shown

    async def find(self, kind: Literal["tools", "prompts"], name: str) -> Offer | None:
        """Return the tool or prompt with this client-side name, or None."""
        if (found := self._offers[kind].get(name)) is None:
            await self.named(kind)
            found = self._offers[kind].get(name)
        if found is None and not all(upstream.is_settled for upstream in self._upstreams):
            await self.named(kind, patient=True)
            found = self._offers[kind].get(name)
        return found

    async def listed(self, kind: Literal["resources", "resourceTemplates"]) -> list[Message]:
        """Return the resources of all servers; if several have the same URI, the first one."""
        shown: dict[str, Message] = {}
        holders: dict[str, str] = {}
        for upstream, found in await self._lists(kind):
            for each in found:
                address = each["uri" if kind == "resources" else "uriTemplate"]
                if holders.setdefault(address, upstream.name) == upstream.name:
                    shown.setdefault(address, each)
                elif address not in self._clashes:
                    self._clashes.add(address)
                    self._log(f"{holders[address]} and {upstream.name} both have {address}; the first is used")
        return list(shown.values())

    async def holders(self, address: str) -> list[Upstream]:
        """Return the servers that may have a resource, most likely first."""
        listed = await self._lists("resources", patient=True)
        certain = [each for each, found in listed if _has(found, "uri", address)]
        templates = await self._lists("resourceTemplates", patient=True)
        matching = [each for each, found in templates if any(_matches(one, address) for one in found)]
        named = [each for each, found in templates if _has(found, "uriTemplate", address)]
        rest = [each for each in self._upstreams if "resources" in each.capabilities]
        return certain[:1] or list(dict.fromkeys([*named, *matching, *rest]))

    async def _lists(self, kind: Kind, *, patient: bool = False) -> list[tuple[Upstream, list[Message]]]:
        found = await asyncio.gather(*(self._list(upstream, kind, patient=patient) for upstream in self._upstreams))
        return list(zip(self._upstreams, found, strict=True))

    async def _list(self, upstream: Upstream, kind: Kind, *, patient: bool = False) -> list[Message]:
        """Return the current list of one server, or the last known list if it does not answer."""
        key = upstream.name, kind
        if (fresh := self._fresh.get(key)) is not None:
            return fresh
        if not patient and not upstream.is_settled:
            if (known := self._last.get(key)) is not None:
                return known
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(upstream.settled(), max(0.0, self._waits_until - time.monotonic()))
        else:
            await upstream.settled()
        async with self._locks[upstream.name]:
            if (fresh := self._fresh.get(key)) is not None:
                return fresh
            if not upstream.is_ready:
                return self._last.get(key, [])
            before = self._changes
            try:
                found = await asyncio.wait_for(_read(upstream, kind), self._answer_seconds)
            except (UpstreamError, UnavailableError, TimeoutError) as error:
                why = str(error) or f"no answer within {self._answer_seconds:g} s"
                self._log(f"the server {upstream.name} did not list its {kind}: {why}")
                return self._last.get(key, [])
            self._last[key] = found
            if before == self._changes:
                self._fresh[key] = found
            return found


async def _read(upstream: Upstream, kind: Kind) -> list[Message]:
    capability, method = _METHODS[kind]
    if capability not in upstream.capabilities:
        return []
    label = {"resources": "uri", "resourceTemplates": "uriTemplate"}.get(kind, "name")
    found: list[Message] = []
    params: Message | None = None
    for _ in range(MAX_PAGES):
        page = await upstream.request(method, params)
        page = page if isinstance(page, dict) else {}
        each_of = page.get(kind)
        found += _labelled(each_of if isinstance(each_of, list) else [], label)
        if kind == "tools":
            found = [each for each in found if upstream.server.tools.offers(each["name"])]
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or params == {"cursor": cursor}:
            break
        params = {"cursor": cursor}
    return found


def _labelled(entries: list[object], label: str) -> Iterator[Message]:
    """Return the entries that have a name or a URI."""
    return (each for each in entries if isinstance(each, dict) and isinstance(each.get(label), str))


def _has(found: list[Message], label: str, address: str) -> bool:
    return any(each[label] == address for each in found)


def _matches(template: Message, address: str) -> bool:
    """Whether a template may produce this URI; the server checks the values."""
    literal = [re.escape(part) for part in _IN_BRACES.split(template["uriTemplate"])[::2]]
    return re.fullmatch(".*?".join(literal), address, re.DOTALL) is not None


# Requests and notifications from servers to the client, and the client's responses

_NEEDS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
_FORWARDED = frozenset(
    {"notifications/message", "notifications/resources/updated", "notifications/elicitation/complete"}
)


class _PendingRequest(NamedTuple):
    upstream: Upstream
    identifier: RequestId


class Relay:
    """Forwards requests of servers to the client under new ids, and the responses back."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._open: dict[str, _PendingRequest] = {}
        self._number = 0
        self.capabilities: Message = {}
        """The client's capabilities; it gets no requests that it does not support."""

    def on_request(self, upstream: Upstream, message: Message) -> None:
        method, identifier = message["method"], as_request_id(message["id"])
        if identifier is None:
            return
        if method == "ping":
            upstream.reply(response(identifier, {}))
        elif method in _NEEDS and _NEEDS[method] in self.capabilities:
            self._number += 1
            own = f"satchel-{self._number}"
            self._open[own] = _PendingRequest(upstream, identifier)
            self._send(request(own, method, message.get("params")))
        else:
            upstream.reply(
                error_response(identifier, METHOD_NOT_FOUND, f"the client does not support {str(method)[:80]}")
            )

    def on_response(self, message: Message) -> None:
        """Forward the client's response to the server that sent the request."""
        if isinstance(message.get("id"), str) and (pending := self._open.pop(message["id"], None)) is not None:
            pending.upstream.reply(message | {"id": pending.identifier})

    def on_notification(self, upstream: Upstream, method: str, params: Message) -> bool:
        """Forward a notification if it is meant for the client, and return whether it was."""
        if method == "notifications/cancelled":
            self._cancel(
                [own for own in self._of(upstream) if self._open[own].identifier == params.get("requestId")]
            )
            return True
        if method in _FORWARDED:
            self._send(notification(method, params))
            return True
        return False

    def drop(self, upstream: Upstream) -> None:
        """Cancel the pending requests of a server that disconnected."""
        self._cancel(list(self._of(upstream)))

    def _of(self, upstream: Upstream) -> Iterator[str]:
        return (own for own, pending in self._open.items() if pending.upstream is upstream)

    def _cancel(self, owns: list[str]) -> None:
        for own in owns:
            del self._open[own]
            self._send(notification("notifications/cancelled", {"requestId": own}))


# Unambiguous names

LONGEST_NAME = 64

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
# Some providers reject dots. They are replaced in prefixes, but not in a tool's own name.
_NOT_IN_PREFIXES = re.compile(r"[^A-Za-z0-9_-]")


class ExposedName(NamedTuple):
    """The name of a tool or prompt on its server, and the name that the client sees."""

    server: str
    name: str
    shown: str


def exposed_names(
    offers: Sequence[tuple[str, Iterable[str]]], *, reserved: Collection[str] = ()
) -> Iterator[ExposedName]:
    """Yield the names that the client sees.

    A name that only one server uses is kept. A name that several servers or the gateway itself use gets the
    server's name as a prefix.
    """
    offers = [(server, list(dict.fromkeys(names))) for server, names in offers]
    holders = Counter(name for _, names in offers for name in names)
    taken = set(reserved) | {name for name, number in holders.items() if number == 1}
    for server, names in offers:
        for name in names:
            if holders[name] == 1 and name not in reserved:
                yield ExposedName(server, name, name)
                continue
            shown = _prefixed(server, name)
            if shown in taken:
                shown = _hashed(server, name)
            taken.add(shown)
            yield ExposedName(server, name, shown)


def _prefixed(server: str, name: str) -> str:
    shown = f"{_NOT_IN_PREFIXES.sub('_', server)}__{_NOT_IN_NAMES.sub('_', name)}"
    return shown if len(shown) <= LONGEST_NAME else _hashed(server, name)


def _hashed(server: str, name: str) -> str:
    """Return a name that is short enough for every client and unique by a hash."""
    mark = sha256(f"{server}\0{name}".encode("utf-8", "replace")).hexdigest()[:8]
    start = f"{_NOT_IN_PREFIXES.sub('_', server)}__{_NOT_IN_NAMES.sub('_', name)}"[: LONGEST_NAME - len(mark) - 1]
    return f"{start}_{mark}"
