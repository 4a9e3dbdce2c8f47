"""Calls of tools: to the server that has the tool, and its result through the session."""

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from satchel.fitting.as_json import as_json
from satchel.server.gateway.delivery import Call, Delivered, Delivery, is_small, tool_error
from satchel.server.gateway.offers import Offers, Route
from satchel.server.gateway.own import DEFINITIONS, NAMES, OwnTools
from satchel.server.gateway.schemas import allowing_pages
from satchel.server.gateway.upstream import RefusedError, UnavailableError, Upstream
from satchel.server.gateway.wire import Message
from satchel.server.mcp.behind import Behind
from satchel.session.prepared import Prepared
from satchel.session.session import Session

__all__ = ["Calls"]

THREADS = 8
# A longer error would flood the window as a result does.
LONGEST_ERROR = 2_000

_CALL_ID = "claudecode/toolUseId"

Forward = Callable[[Upstream, str, Message], Any]


class Calls:
    """The tools of all servers and our own, called."""

    def __init__(
        self,
        session: Session,
        offers: Offers,
        forward: Forward,
        states: Callable[[], Message],
        behind: Behind[Prepared],
    ) -> None:
        self._session = session
        self._behind = behind
        self._offers = offers
        self._forward = forward
        self._delivery = Delivery(session)
        self._own = OwnTools(session, states, settle=behind.flush)
        self._threads = ThreadPoolExecutor(THREADS, "satchel-session")
        self._in_flight = 0
        self._turn_is_due = False

    async def definitions(self) -> list[Message]:
        """All tools as a client sees them."""
        found = [self._shown(name, route) for name, route in await self._offers.named("tools")]
        if self._session.hints == "schema":
            found = await self._in_thread(lambda: [self._session.tool_schema(each) for each in found])
        return [*found, *DEFINITIONS]

    async def call(self, name: str, params: Message) -> Message:
        """What a tool answers; a server that fails gives an error that a model can read."""
        # Calls that are made at once belong to one turn of the model.
        self._turn_is_due = self._turn_is_due or not self._in_flight
        self._in_flight += 1
        try:
            if name in NAMES:
                return await self._delivered(partial(self._own, name, params.get("arguments") or {}), at_once=False)
            if (route := await self._offers.route("tools", name)) is None:
                return tool_error(f"there is no tool {name[:80]!r}; the list of tools may have changed")
            try:
                result = await self._forward(route.upstream, "tools/call", params | {"name": route.name})
            except UnavailableError as error:
                return tool_error(str(error))
            except RefusedError as error:
                if len(said := as_json(error.error)) <= LONGEST_ERROR:
                    raise
                result = {"content": [{"type": "text", "text": said}], "isError": True}
            deliver = partial(self._delivery, _call(name, params, route), result)
            return await self._delivered(deliver, at_once=is_small(result))
        finally:
            self._in_flight -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._behind.close()

    async def _delivered(self, work: Callable[..., Delivered], *, at_once: bool) -> Message:
        begins_turn, self._turn_is_due = self._turn_is_due, False

        def done() -> Delivered:
            try:
                return work(new_turn=begins_turn)
            except Exception as error:
                if os.environ.get("SATCHEL_DEBUG"):
                    raise
                print(f"satchel: unexpected {type(error).__name__}", file=sys.stderr)
                said = f"unexpected {type(error).__name__}: {error}; SATCHEL_DEBUG=1 shows where"
                return Delivered(tool_error(said))

        delivered: Delivered = done() if at_once else await self._in_thread(done)
        if delivered.afterwards is not None:
            # After the answer is written, which happens before the loop turns again.
            asyncio.get_running_loop().call_soon(self._behind.do, delivered.afterwards)
        return delivered.answer

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @staticmethod
    def _shown(name: str, route: Route) -> Message:
        # A tool that runs as a task is called as any other: tasks are not passed on.
        definition = {field: value for field, value in route.definition.items() if field != "execution"}
        definition["name"] = name
        if not isinstance(definition.get("inputSchema"), dict):
            # One tool without it, and a client may refuse the whole list.
            definition["inputSchema"] = {"type": "object"}
        if isinstance(schema := definition.get("outputSchema"), dict):
            definition["outputSchema"] = allowing_pages(schema)
        return definition


def _call(name: str, params: Message, route: Route) -> Call:
    meta = params.get("_meta")
    call_id = meta.get(_CALL_ID) if isinstance(meta, dict) else None
    return Call(
        tool=name,
        arguments=params.get("arguments") or {},
        call_id=call_id if isinstance(call_id, str) else None,
        promises_structure=isinstance(route.definition.get("outputSchema"), dict),
    )
