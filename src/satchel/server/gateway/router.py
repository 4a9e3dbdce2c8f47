"""The gateway's router: sends each client message to the right server, and the response back.

Tool calls pass through a session, which keeps their results within the token budget. The gateway adds three tools
of its own for reading the rest of a long result.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from satchel import __version__
from satchel.errors import BudgetError, InputError, SatchelError
from satchel.fitting.cutting import truncate
from satchel.fitting.listing import as_json
from satchel.server.gateway.delivery import Call, Delivered, Delivery, is_small, tool_error
from satchel.server.gateway.fleet import Fleet, Offer, Offers
from satchel.server.gateway.servers import Server
from satchel.server.gateway.upstream import PROTOCOL_VERSIONS, ClientInfo, UnavailableError, Upstream, UpstreamError
from satchel.server.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Message,
    RequestId,
    UnreadableLineError,
    as_request_id,
    decode,
    error_response,
    notification,
    request_fault,
    response,
)
from satchel.server.process import short_line
from satchel.server.recorder import BackgroundWriter
from satchel.session.session import Prepared, Session
from satchel.text.tokens import Counter

__all__ = [
    "DEFINITIONS",
    "NAMES",
    "PAGE",
    "OwnTools",
    "Router",
    "ToolCalls",
    "allowing_pages",
    "client_info",
    "initialize_result",
]


# How long `initialize` waits for the instructions of servers. Slower servers are waited for when tools are listed.
INITIALIZE_SECONDS = 2.0

Handler = Callable[[Message], Awaitable[Any]]


class Router:
    """Serves one client from the servers behind the gateway.

    Each request runs as its own task, under the client's request id, until it is answered or cancelled.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        session: Session,
        writer: BackgroundWriter[Prepared],
        *,
        send: Callable[[Message], None],
        log: Callable[[str], None],
        start_seconds: float,
    ) -> None:
        self._send = send
        self._counter = session.counter
        self._tasks: dict[RequestId, asyncio.Task[None]] = {}
        self.fleet = Fleet(servers, send, log, reserved=NAMES, start_seconds=start_seconds)
        self._offers = self.fleet.offers
        self._calls = ToolCalls(session, self._offers, self._forward, self.fleet.states, writer)
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
        """Handle a line from the client: a request, a notification, or the response to a server's request."""
        try:
            message = decode(line)
        except UnreadableLineError as error:
            self._send(error_response(None, PARSE_ERROR, f"a line is {error}"))
            return
        if (fault := _fault(message)) is not None:
            identifier = as_request_id(message.get("id")) if isinstance(message, dict) else None
            self._send(error_response(identifier, *fault))
        elif "method" not in message:
            self.fleet.relay.on_response(message)
        elif "id" not in message:
            self._note(message["method"], message.get("params") or {})
        elif message["id"] in self._tasks:
            self._send(
                error_response(message["id"], INVALID_REQUEST, "a request with this id is still being processed")
            )
        else:
            identifier = message["id"]
            task = asyncio.create_task(self._serve(identifier, message["method"], message.get("params") or {}))
            self._tasks[identifier] = task
            # A callback, because a task that is cancelled before its first step never runs its own cleanup.
            task.add_done_callback(partial(self._finished, identifier))

    def _finished(self, identifier: RequestId, task: asyncio.Task[None]) -> None:
        if self._tasks.get(identifier) is task:
            del self._tasks[identifier]

    async def answered(self, seconds: float) -> None:
        """Wait at most `seconds` until all pending requests are answered."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await self.fleet.stop()
        self._calls.close()

    async def _serve(self, identifier: RequestId, method: str, params: Message) -> None:
        self._send(await self._answer(identifier, method, params))

    async def _answer(self, identifier: RequestId, method: str, params: Message) -> Message:
        if (handler := self._handlers.get(method)) is None:
            return error_response(identifier, METHOD_NOT_FOUND, f"there is no method {method[:80]!r}")
        if method != "initialize":
            self.fleet.introduce(ClientInfo())
        try:
            return response(identifier, await handler(params))
        except UpstreamError as error:
            return {"jsonrpc": "2.0", "id": identifier, "error": error.error}
        except UnavailableError as error:
            return error_response(identifier, INTERNAL_ERROR, short_line(str(error)))
        except InputError as error:
            return error_response(identifier, INVALID_PARAMS, short_line(str(error)))
        except Exception as error:
            if os.environ.get("SATCHEL_DEBUG"):
                raise
            what = f"unexpected {type(error).__name__}: {error}; set SATCHEL_DEBUG=1 for a traceback"
            return error_response(identifier, INTERNAL_ERROR, short_line(what))

    def _note(self, method: str, params: Message) -> None:
        if method == "notifications/cancelled":
            identifier = as_request_id(params.get("requestId"))
            # A client may reuse the id of a cancelled call at once.
            if identifier is not None and (task := self._tasks.pop(identifier, None)) is not None:
                task.cancel()
        elif method == "notifications/roots/list_changed":
            self.fleet.notify_all(method, params or None)

    async def _forward(self, upstream: Upstream, method: str, params: Message) -> Any:
        """Return a server's answer; its progress reports go to the client under the client's own token."""
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if token is None:
            return await upstream.request(method, params)

        def report(progress: Message) -> None:
            self._send(notification("notifications/progress", progress | {"progressToken": token}))

        return await upstream.request(method, params, progress=report)

    async def _initialize(self, params: Message) -> Message:
        client = client_info(params)
        self.fleet.introduce(client)
        await self.fleet.settled(INITIALIZE_SECONDS)
        said = [(each.name, each.instructions) for each in self.fleet.upstreams]
        return initialize_result(client, said, self._counter)

    async def _ping(self, params: Message) -> Message:
        return {}

    async def _list_tools(self, params: Message) -> Message:
        _reject_cursor(params)
        self.fleet.watch_list("tools")
        return {"tools": await self._calls.definitions()}

    async def _call_tool(self, params: Message) -> Message:
        name = _parameter(params, "name")
        if not isinstance(params.get("arguments", {}), dict | None):
            raise InputError("arguments must be an object")
        return await self._calls.call(name, params)

    async def _list_prompts(self, params: Message) -> Message:
        _reject_cursor(params)
        self.fleet.watch_list("prompts")
        found = await self._offers.named("prompts")
        return {"prompts": [offer.definition | {"name": name} for name, offer in found]}

    async def _get_prompt(self, params: Message) -> Any:
        name = _parameter(params, "name")
        if (offer := await self._offers.find("prompts", name)) is None:
            raise InputError(f"there is no prompt {name[:80]!r}")
        return await self._forward(offer.upstream, "prompts/get", params | {"name": offer.name})

    async def _list_resources(self, params: Message) -> Message:
        _reject_cursor(params)
        self.fleet.watch_list("resources")
        return {"resources": await self._offers.listed("resources")}

    async def _list_templates(self, params: Message) -> Message:
        _reject_cursor(params)
        self.fleet.watch_list("resourceTemplates")
        return {"resourceTemplates": await self._offers.listed("resourceTemplates")}

    async def _read(self, params: Message) -> Any:
        return (await self._by_holder(_parameter(params, "uri"), "resources/read", params))[1]

    async def _subscribe(self, params: Message) -> Any:
        address = _parameter(params, "uri")
        holder, result = await self._by_holder(address, "resources/subscribe", params)
        self.fleet.subscribed(address, holder)
        return result

    async def _unsubscribe(self, params: Message) -> Any:
        address = _parameter(params, "uri")
        self.fleet.unsubscribed(address)
        return (await self._by_holder(address, "resources/unsubscribe", params))[1]

    async def _complete(self, params: Message) -> Any:
        ref = params.get("ref")
        if not isinstance(ref, dict):
            raise InputError("completion/complete needs a ref, which is an object")
        if ref.get("type") == "ref/resource":
            return (await self._by_holder(_parameter(ref, "uri"), "completion/complete", params))[1]
        if (offer := await self._offers.find("prompts", name := _parameter(ref, "name"))) is None:
            raise InputError(f"there is no prompt {name[:80]!r}")
        return await self._forward(
            offer.upstream, "completion/complete", params | {"ref": ref | {"name": offer.name}}
        )

    async def _set_level(self, params: Message) -> Message:
        await self.fleet.set_level(_parameter(params, "level"))
        return {}

    async def _by_holder(self, address: str, method: str, params: Message) -> tuple[Upstream, Any]:
        """Ask the servers that may have a resource, and return the first that answers, with its answer."""
        refusal: UpstreamError | UnavailableError | None = None
        for upstream in await self._offers.holders(address):
            try:
                return upstream, await self._forward(upstream, method, params)
            except (UpstreamError, UnavailableError) as error:
                refusal = refusal or error
        raise refusal or InputError(f"there is no resource {address[:200]!r}")


def _fault(message: Any) -> tuple[int, str] | None:
    """Return the error code and message for a message that is JSON but not valid JSON-RPC."""
    if not isinstance(message, dict):
        return INVALID_REQUEST, f"a message is an object, not {type(message).__name__}; batches are not supported"
    if "method" not in message:
        return None if "result" in message or "error" in message else (INVALID_REQUEST, "a request needs a method")
    fault = request_fault(message)
    return None if fault is None else (fault.code, fault.rule)


def _parameter(params: Message, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise InputError(f"params.{name} is missing or not a string")
    return value


def _reject_cursor(params: Message) -> None:
    """Reject any cursor: lists are returned in one page, so the cursor cannot be from this gateway."""
    if params.get("cursor") is not None:
        raise InputError("unknown cursor; lists have only one page, so leave the cursor out")


# The handshake

MAX_INSTRUCTION_TOKENS = 1_000
_FORWARDED = ("roots", "sampling", "elicitation")

GUIDE = """Tool results too long for the token budget come in pages: result_page(cursor) gives the next one,
result_find(handle, pattern) the matching lines of the whole; budget_status() tells what is left."""


def client_info(params: Message) -> ClientInfo:
    """Read the parameters of `initialize` that servers need; an unknown protocol version becomes our latest."""
    version, capabilities = params.get("protocolVersion"), params.get("capabilities")
    known = capabilities if isinstance(capabilities, dict) else {}
    return ClientInfo(
        version=version if version in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[-1],
        capabilities={name: known[name] for name in _FORWARDED if isinstance(known.get(name), dict)},
    )


def initialize_result(client: ClientInfo, servers: Iterable[tuple[str, str]], counter: Counter) -> Message:
    """Return the result of `initialize`, with the instructions of the servers that are ready."""
    return {
        "protocolVersion": client.version,
        "capabilities": {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "logging": {},
            "completions": {},
        },
        "serverInfo": {"name": "satchel-gateway", "version": __version__},
        "instructions": _instructions(servers, counter),
    }


def _instructions(servers: Iterable[tuple[str, str]], counter: Counter) -> str:
    said = [f"{name}: {text.strip()}" for name, text in servers if text.strip()]
    if not said:
        return GUIDE
    room = MAX_INSTRUCTION_TOKENS - counter.count(f"{GUIDE}\n\n")
    return f"{GUIDE}\n\n" + truncate("\n\n".join(said), token_budget=room, counter=counter).text


# Tool calls: forwarded to the server that has the tool, results passed through the session

THREADS = 8
# A longer error is paged like a result, because it would fill the context just as much.
LONGEST_ERROR = 2_000

_CALL_ID = "claudecode/toolUseId"

Forward = Callable[[Upstream, str, Message], Any]


class ToolCalls:
    """Lists and calls the tools of all servers and the gateway's own. Results pass through the session."""

    def __init__(
        self,
        session: Session,
        offers: Offers,
        forward: Forward,
        states: Callable[[], Message],
        writer: BackgroundWriter[Prepared],
    ) -> None:
        self._session = session
        self._writer = writer
        self._offers = offers
        self._forward = forward
        self._delivery = Delivery(session)
        self._own = OwnTools(session, states, settle=writer.flush)
        self._threads = ThreadPoolExecutor(THREADS, "satchel-session")
        self._in_flight = 0
        self._turn_is_due = False

    async def definitions(self) -> list[Message]:
        """Return the definitions of all tools as the client sees them."""
        found = [self._shown(name, offer) for name, offer in await self._offers.named("tools")]
        if self._session.hints == "schema":
            found = await self._in_thread(lambda: [self._session.tool_schema(each) for each in found])
        return [*found, *DEFINITIONS]

    async def call(self, name: str, params: Message) -> Message:
        """Call a tool and return its answer; a server that fails gives an error that a model can read."""
        # Parallel calls belong to one turn of the model.
        self._turn_is_due = self._turn_is_due or not self._in_flight
        self._in_flight += 1
        try:
            if name in NAMES:
                return await self._delivered(partial(self._own, name, params.get("arguments") or {}), at_once=False)
            if (offer := await self._offers.find("tools", name)) is None:
                return tool_error(f"there is no tool {name[:80]!r}; the list of tools may have changed")
            try:
                result = await self._forward(offer.upstream, "tools/call", params | {"name": offer.name})
            except UnavailableError as error:
                return tool_error(str(error))
            except UpstreamError as error:
                if len(said := as_json(error.error)) <= LONGEST_ERROR:
                    raise
                result = {"content": [{"type": "text", "text": said}], "isError": True}
            deliver = partial(self._delivery, _call(name, params, offer), result)
            return await self._delivered(deliver, at_once=is_small(result))
        finally:
            self._in_flight -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._writer.close()

    async def _delivered(self, work: Callable[..., Delivered], *, at_once: bool) -> Message:
        begins_turn, self._turn_is_due = self._turn_is_due, False

        def done() -> Delivered:
            try:
                return work(new_turn=begins_turn)
            except Exception as error:
                if os.environ.get("SATCHEL_DEBUG"):
                    raise
                print(f"satchel: unexpected {type(error).__name__}", file=sys.stderr)
                said = f"unexpected {type(error).__name__}: {error}; set SATCHEL_DEBUG=1 for a traceback"
                return Delivered(tool_error(said))

        delivered: Delivered = done() if at_once else await self._in_thread(done)
        if delivered.to_enter is not None:
            # After the answer is written, which happens before the next iteration of the event loop.
            asyncio.get_running_loop().call_soon(self._writer.put, delivered.to_enter)
        return delivered.answer

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @staticmethod
    def _shown(name: str, offer: Offer) -> Message:
        # A tool that can run as a task is called like any other, because tasks are not forwarded.
        definition = {field: value for field, value in offer.definition.items() if field != "execution"}
        definition["name"] = name
        if not isinstance(definition.get("inputSchema"), dict):
            # One tool without an input schema can make a client reject the whole list.
            definition["inputSchema"] = {"type": "object"}
        if isinstance(schema := definition.get("outputSchema"), dict):
            definition["outputSchema"] = allowing_pages(schema)
        return definition


def _call(name: str, params: Message, offer: Offer) -> Call:
    meta = params.get("_meta")
    call_id = meta.get(_CALL_ID) if isinstance(meta, dict) else None
    return Call(
        tool=name,
        arguments=params.get("arguments") or {},
        call_id=call_id if isinstance(call_id, str) else None,
        promises_structure=isinstance(offer.definition.get("outputSchema"), dict),
    )


# The gateway's own tools: next page, search in a result, budget

_MOST = {"type": "integer", "minimum": 1}


def _tool(name: str, description: str, required: list[str], **properties: Message) -> Message:
    schema = {"type": "object", "properties": properties, "required": required}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


DEFINITIONS = (
    _tool(
        "result_page",
        "The next page of a tool result that was too long to be shown whole.",
        ["cursor"],
        cursor={"type": "string", "description": "From the end of the page before."},
        max_tokens=_MOST,
    ),
    _tool(
        "result_find",
        "Lines of a stored tool result that match a regular expression, without paging through it.",
        ["handle", "pattern"],
        handle={"type": "string", "description": "From the result's note; a cursor does too."},
        pattern={"type": "string"},
        max_tokens=_MOST,
    ),
    _tool("budget_status", "Tokens used and left in this session, and the state of each server.", []),
)
NAMES = frozenset(definition["name"] for definition in DEFINITIONS)
# Fields of the budget's state that would only cost a model tokens.
_NOT_FOR_MODELS = ("project", "created_at", "updated_at")


class OwnTools:
    """Answers calls to the gateway's own tools. Each call runs in a thread."""

    def __init__(self, session: Session, servers: Callable[[], Message], *, settle: Callable[[], object]) -> None:
        self._session = session
        self._servers = servers
        self._settle = settle
        """Waits until earlier results are in the ledger."""

    def __call__(self, name: str, arguments: Mapping[str, Any], *, new_turn: bool) -> Delivered:
        try:
            self._settle()
            if new_turn:
                self._session.next_turn()
            return Delivered({"content": [{"type": "text", "text": self._text(name, arguments)}]})
        except SatchelError as error:
            return Delivered(tool_error(str(error)))

    def _text(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name == "budget_status":
            told = self._session.state().to_dict() | {"servers": self._servers()}
            return as_json({name: value for name, value in told.items() if name not in _NOT_FOR_MODELS})
        most = arguments.get("max_tokens")
        if name == "result_page":
            shown = self._session.page(_argument(arguments, "cursor"), max_tokens=most)
            if not shown.text:
                raise BudgetError(shown.budget_note or "nothing fitted")
            return shown.text
        found = self._session.find(_argument(arguments, "handle"), _argument(arguments, "pattern"), max_tokens=most)
        if not found.text:
            raise BudgetError(f"nothing fitted into {found.allocation} tokens; give max_tokens of 100 or more")
        return found.text


def _argument(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} is missing; give it as a string")
    return value


# Output schemas that also allow a page, for results that are too large to be returned whole

Schema = dict[str, Any]

PAGE: Schema = {
    "type": "object",
    "properties": {
        "continuation_token": {"type": "string"},
        "total": {"type": "integer"},
        "returned": {"type": "integer"},
        "unit": {"type": "string"},
        "budget_note": {"type": "string"},
        "text": {"type": "string"},
    },
    "required": ["continuation_token"],
}

_DATA = frozenset({"const", "default", "enum", "examples"})
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_WHOLE = "#/anyOf/0"


def allowing_pages(schema: Schema) -> Schema:
    """Return a schema for a result or a page of it; references inside the schema still resolve."""
    own_base = "$id" in schema
    whole = schema if own_base else _moved(schema)
    dialect = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    return dialect | {"type": "object", "anyOf": [_without_dialect(whole), PAGE]}


def _without_dialect(schema: Schema) -> Schema:
    # Below the root, `$schema` is allowed only in a schema with its own `$id`.
    return schema if "$id" in schema else {name: value for name, value in schema.items() if name != "$schema"}


def _moved(value: Any) -> Any:
    if isinstance(value, list):
        return [_moved(each) for each in value]
    if not isinstance(value, dict) or "$id" in value:
        return value
    return {name: _moved_member(name, each) for name, each in value.items()}


def _moved_member(name: str, value: Any) -> Any:
    if name in _DATA:
        return value
    if name in _BY_NAME and isinstance(value, dict):
        return {key: _moved(each) for key, each in value.items()}
    if name == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return _WHOLE + value[1:]
    return _moved(value)
