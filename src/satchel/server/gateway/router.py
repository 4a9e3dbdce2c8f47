"""The gateway itself: each message of the client to whom it concerns, and the answer back under its id."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from satchel.errors import InputError
from satchel.server.gateway.calls import Calls
from satchel.server.gateway.fleet import Fleet
from satchel.server.gateway.greeting import Greeting, greeting_of, welcome
from satchel.server.gateway.own import NAMES
from satchel.server.gateway.servers import Server
from satchel.server.gateway.upstream import RefusedError, UnavailableError, Upstream
from satchel.server.gateway.wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Identifier,
    Message,
    UnreadableLineError,
    answer,
    as_identifier,
    decoded,
    failure,
    notification,
)
from satchel.server.mcp.behind import Behind
from satchel.server.mcp.process import short_line
from satchel.session.prepared import Prepared
from satchel.session.session import Session

__all__ = ["Router"]

# For the instructions of servers that are quick to start; the others are waited for when their tools are listed.
GREETING_SECONDS = 2.0

Handler = Callable[[Message], Awaitable[Any]]


class Router:
    """One client, its servers, and what is on its way between them."""

    def __init__(
        self,
        servers: Sequence[Server],
        session: Session,
        behind: Behind[Prepared],
        *,
        say: Callable[[Message], None],
        complain: Callable[[str], None],
        start_seconds: float,
    ) -> None:
        self._say = say
        self._counter = session.counter
        self._tasks: dict[Identifier, asyncio.Task[None]] = {}
        self.fleet = Fleet(servers, say, complain, reserved=NAMES, start_seconds=start_seconds)
        self._offers = self.fleet.offers
        self._calls = Calls(session, self._offers, self._forward, self.fleet.states, behind)
        self._handlers: dict[str, Handler] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
        }

    def received(self, line: bytes) -> None:
        """A line from the client."""
        try:
            message = decoded(line)
        except UnreadableLineError as error:
            self._say(failure(None, PARSE_ERROR, f"a line is {error}"))
            return
        if (wrong := _complaint(message)) is not None:
            identifier = as_identifier(message.get("id")) if isinstance(message, dict) else None
            self._say(failure(identifier, *wrong))
        elif "method" not in message:
            self.fleet.relay.answered(message)
        elif "id" not in message:
            self._note(message["method"], message.get("params") or {})
        elif message["id"] in self._tasks:
            self._say(failure(message["id"], INVALID_REQUEST, "a request with this id is still being answered"))
        else:
            identifier = message["id"]
            task = asyncio.create_task(self._serve(identifier, message["method"], message.get("params") or {}))
            self._tasks[identifier] = task
            # Not by the task itself: one that is cancelled before its first step never takes any.
            task.add_done_callback(partial(self._finished, identifier))

    def _finished(self, identifier: Identifier, task: asyncio.Task[None]) -> None:
        if self._tasks.get(identifier) is task:
            del self._tasks[identifier]

    async def answered(self, seconds: float) -> None:
        """Wait until all that was asked is answered, but not for longer."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await self.fleet.stop()
        self._calls.close()

    async def _serve(self, identifier: Identifier, method: str, params: Message) -> None:
        self._say(await self._answer(identifier, method, params))

    async def _answer(self, identifier: Identifier, method: str, params: Message) -> Message:
        if (handler := self._handlers.get(method)) is None:
            return failure(identifier, METHOD_NOT_FOUND, f"there is no method {method[:80]!r}")
        if method != "initialize":
            self.fleet.greet(Greeting())
        try:
            return answer(identifier, await handler(params))
        except RefusedError as error:
            return {"jsonrpc": "2.0", "id": identifier, "error": error.error}
        except UnavailableError as error:
            return failure(identifier, INTERNAL_ERROR, short_line(str(error)))
        except InputError as error:
            return failure(identifier, INVALID_PARAMS, short_line(str(error)))
        except Exception as error:
            if os.environ.get("SATCHEL_DEBUG"):
                raise
            what = f"unexpected {type(error).__name__}: {error}; SATCHEL_DEBUG=1 shows where"
            return failure(identifier, INTERNAL_ERROR, short_line(what))

    def _note(self, method: str, params: Message) -> None:
        if method == "notifications/cancelled":
            identifier = as_identifier(params.get("requestId"))
            # Whoever gives a call up may use its id again at once.
            if identifier is not None and (task := self._tasks.pop(identifier, None)) is not None:
                task.cancel()
        elif method == "notifications/roots/list_changed":
            self.fleet.tell_all(method, params or None)

    async def _forward(self, upstream: Upstream, method: str, params: Message) -> Any:
        """What a server answers; what it reports meanwhile goes to the client under the client's own token."""
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if token is None:
            return await upstream.ask(method, params)

        def report(progress: Message) -> None:
            self._say(notification("notifications/progress", progress | {"progressToken": token}))

        return await upstream.ask(method, params, progress=report)

    async def _initialize(self, params: Message) -> Message:
        greeting = greeting_of(params)
        self.fleet.greet(greeting)
        await self.fleet.settled(GREETING_SECONDS)
        said = [(each.name, each.instructions) for each in self.fleet.upstreams]
        return welcome(greeting, said, self._counter)

    async def _ping(self, params: Message) -> Message:
        return {}

    async def _list_tools(self, params: Message) -> Message:
        _refuse_cursor(params)
        self.fleet.will_list("tools")
        return {"tools": await self._calls.definitions()}

    async def _call_tool(self, params: Message) -> Message:
        name = _word(params, "name")
        if not isinstance(params.get("arguments", {}), dict | None):
            raise InputError("arguments must be an object")
        return await self._calls.call(name, params)

    async def _list_prompts(self, params: Message) -> Message:
        _refuse_cursor(params)
        self.fleet.will_list("prompts")
        found = await self._offers.named("prompts")
        return {"prompts": [route.definition | {"name": name} for name, route in found]}

    async def _get_prompt(self, params: Message) -> Any:
        name = _word(params, "name")
        if (route := await self._offers.route("prompts", name)) is None:
            raise InputError(f"there is no prompt {name[:80]!r}")
        return await self._forward(route.upstream, "prompts/get", params | {"name": route.name})

    async def _list_resources(self, params: Message) -> Message:
        _refuse_cursor(params)
        self.fleet.will_list("resources")
        return {"resources": await self._offers.listed("resources")}

    async def _list_templates(self, params: Message) -> Message:
        _refuse_cursor(params)
        self.fleet.will_list("resourceTemplates")
        return {"resourceTemplates": await self._offers.listed("resourceTemplates")}

    async def _read(self, params: Message) -> Any:
        return (await self._by_holder(_word(params, "uri"), "resources/read", params))[1]

    async def _subscribe(self, params: Message) -> Any:
        address = _word(params, "uri")
        holder, result = await self._by_holder(address, "resources/subscribe", params)
        self.fleet.subscribed(address, holder)
        return result

    async def _unsubscribe(self, params: Message) -> Any:
        address = _word(params, "uri")
        self.fleet.unsubscribed(address)
        return (await self._by_holder(address, "resources/unsubscribe", params))[1]

    async def _complete(self, params: Message) -> Any:
        ref = params.get("ref")
        if not isinstance(ref, dict):
            raise InputError("completion/complete needs a ref")
        if ref.get("type") == "ref/resource":
            return (await self._by_holder(_word(ref, "uri"), "completion/complete", params))[1]
        if (route := await self._offers.route("prompts", name := _word(ref, "name"))) is None:
            raise InputError(f"there is no prompt {name[:80]!r}")
        return await self._forward(
            route.upstream, "completion/complete", params | {"ref": ref | {"name": route.name}}
        )

    async def _set_level(self, params: Message) -> Message:
        await self.fleet.set_level(_word(params, "level"))
        return {}

    async def _by_holder(self, address: str, method: str, params: Message) -> tuple[Upstream, Any]:
        """Who has a resource, and its answer: of several who may, the first that does not refuse."""
        refusal: RefusedError | UnavailableError | None = None
        for upstream in await self._offers.holders(address):
            try:
                return upstream, await self._forward(upstream, method, params)
            except (RefusedError, UnavailableError) as error:
                refusal = refusal or error
        raise refusal or InputError(f"there is no resource {address[:200]!r}")


def _complaint(message: Any) -> tuple[int, str] | None:
    """What is wrong with a message that is JSON."""
    if not isinstance(message, dict):
        return INVALID_REQUEST, f"a message is an object, not {type(message).__name__}; batches are not taken"
    if "method" not in message:
        return None if "result" in message or "error" in message else (INVALID_REQUEST, "a request needs a method")
    if "id" in message and as_identifier(message["id"]) is None:
        return INVALID_REQUEST, "an id is a string or a whole number"
    if not isinstance(message["method"], str):
        return INVALID_REQUEST, "method must be a string"
    if not isinstance(message.get("params"), dict | None):
        return INVALID_PARAMS, "params must be an object"
    return None


def _word(params: Message, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise InputError(f"params need a {name}, which is a string")
    return value


def _refuse_cursor(params: Message) -> None:
    """Lists are given whole, so that every cursor is another's."""
    if params.get("cursor") is not None:
        raise InputError("this cursor was not given here; lists come in one page")
