"""What the servers offer together, under names that tell them apart, and who has what."""

import asyncio
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple

from satchel.server.gateway.names import exposed
from satchel.server.gateway.upstream import RefusedError, UnavailableError, Upstream
from satchel.server.gateway.wire import Message

__all__ = ["Kind", "Offers", "Route"]

MOST_PAGES = 1_000

Kind = Literal["tools", "prompts", "resources", "resourceTemplates"]

_METHODS: dict[Kind, tuple[str, str]] = {
    "tools": ("tools", "tools/list"),
    "prompts": ("prompts", "prompts/list"),
    "resources": ("resources", "resources/list"),
    "resourceTemplates": ("resources", "resources/templates/list"),
}
_IN_BRACES = re.compile(r"\{([^}]*)\}")


class Route(NamedTuple):
    """Who has something, what it is called there, and how it is described."""

    upstream: Upstream
    name: str
    definition: Message


class Offers:
    """The lists of all servers; each is asked again only when it says that its list has changed."""

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        complain: Callable[[str], None],
        *,
        reserved: Collection[str],
        list_seconds: float,
    ) -> None:
        self._upstreams = upstreams
        self._complain = complain
        self._reserved = reserved
        self._list_seconds = list_seconds
        self._fresh: dict[tuple[str, Kind], list[Message]] = {}
        self._last: dict[tuple[str, Kind], list[Message]] = {}
        self._changes = 0
        self._locks = {upstream.name: asyncio.Lock() for upstream in upstreams}
        # What was ever shown under a name stays reachable by it: a client may not have asked again.
        self._routes: dict[Kind, dict[str, Route]] = {"tools": {}, "prompts": {}}
        self._clashes: set[str] = set()

    def changed(self, upstream: Upstream, *kinds: Kind) -> None:
        """What it offers is asked for again when it is needed."""
        self._changes += 1
        for kind in kinds or _METHODS:
            self._fresh.pop((upstream.name, kind), None)

    async def is_news(self, upstream: Upstream, kind: Kind) -> bool:
        """Whether it offers something else than it did when it was last asked."""
        before = self._last.get((upstream.name, kind), [])
        return await self._list(upstream, kind) != before

    async def named(self, kind: Literal["tools", "prompts"]) -> list[tuple[str, Route]]:
        """The tools or prompts of all, under the names that a client sees."""
        lists = await self._lists(kind)
        reserved = self._reserved if kind == "tools" else ()
        names = exposed(
            [(upstream.name, [each["name"] for each in found]) for upstream, found in lists], reserved=reserved
        )
        by_name = {
            (upstream.name, each["name"]): Route(upstream, each["name"], each)
            for upstream, found in reversed(lists)
            for each in reversed(found)
        }
        shown = [(each.shown, by_name[each.server, each.name]) for each in names]
        self._routes[kind].update(shown)
        return shown

    async def route(self, kind: Literal["tools", "prompts"], name: str) -> Route | None:
        """Who has the tool or prompt that a client calls so."""
        if (found := self._routes[kind].get(name)) is None:
            await self.named(kind)
            found = self._routes[kind].get(name)
        return found

    async def listed(self, kind: Literal["resources", "resourceTemplates"]) -> list[Message]:
        """The resources of all; of those with the same address, the first."""
        shown: dict[str, Message] = {}
        holders: dict[str, str] = {}
        for upstream, found in await self._lists(kind):
            for each in found:
                address = each["uri" if kind == "resources" else "uriTemplate"]
                if holders.setdefault(address, upstream.name) == upstream.name:
                    shown.setdefault(address, each)
                elif address not in self._clashes:
                    self._clashes.add(address)
                    self._complain(
                        f"{holders[address]} and {upstream.name} both have {address}; the first gives it"
                    )
        return list(shown.values())

    async def holders(self, address: str) -> list[Upstream]:
        """Who may have a resource, the likeliest first."""
        certain = [each for each, found in await self._lists("resources") if _has(found, "uri", address)]
        templates = await self._lists("resourceTemplates")
        matching = [each for each, found in templates if any(_matches(one, address) for one in found)]
        named = [each for each, found in templates if _has(found, "uriTemplate", address)]
        rest = [each for each in self._upstreams if "resources" in each.capabilities]
        return certain[:1] or list(dict.fromkeys([*named, *matching, *rest]))

    async def _lists(self, kind: Kind) -> list[tuple[Upstream, list[Message]]]:
        found = await asyncio.gather(*(self._list(upstream, kind) for upstream in self._upstreams))
        return list(zip(self._upstreams, found, strict=True))

    async def _list(self, upstream: Upstream, kind: Kind) -> list[Message]:
        """Its list as it is now, or as it was last known where it does not say."""
        key = upstream.name, kind
        if (fresh := self._fresh.get(key)) is not None:
            return fresh
        await upstream.settled()
        async with self._locks[upstream.name]:
            if (fresh := self._fresh.get(key)) is not None:
                return fresh
            if not upstream.is_ready:
                return self._last.get(key, [])
            before = self._changes
            try:
                found = await asyncio.wait_for(_read(upstream, kind), self._list_seconds)
            except (RefusedError, UnavailableError, TimeoutError) as error:
                why = str(error) or f"no answer for {self._list_seconds:g} s"
                self._complain(f"the server {upstream.name} does not list its {kind}: {why}")
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
    for _ in range(MOST_PAGES):
        page = await upstream.ask(method, params)
        page = page if isinstance(page, dict) else {}
        each_of = page.get(kind)
        found += _labelled(each_of if isinstance(each_of, list) else [], label)
        if kind == "tools":
            found = [each for each in found if each["name"] in upstream.server.tools]
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or params == {"cursor": cursor}:
            break
        params = {"cursor": cursor}
    return found


def _labelled(entries: list[object], label: str) -> Iterator[Message]:
    """Those that can be called by anything."""
    return (each for each in entries if isinstance(each, dict) and isinstance(each.get(label), str))


def _has(found: list[Message], label: str, address: str) -> bool:
    return any(each[label] == address for each in found)


def _matches(template: Message, address: str) -> bool:
    """Whether an address may be made by a template; which values it takes is the server's business."""
    literal = [re.escape(part) for part in _IN_BRACES.split(template["uriTemplate"])[::2]]
    return re.fullmatch(".*?".join(literal), address, re.DOTALL) is not None
