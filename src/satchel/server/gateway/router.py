"""The gateway's router: sends each client message to the right server, and the response back.

Tool calls pass through a session, which keeps their results within the token budget. The gateway adds three tools
of its own for reading the rest of a long result.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from satchel import __version__
from satchel.errors import BudgetError, InputError, SatchelError, StoreError
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
from satchel.session.results import ReadOptions
from satchel.session.session import Prepared, Session
from satchel.text.tokens import Counter

__all__ = [
    "DEFINITIONS",
    "NAMES",
    "OwnTools",
    "Router",
    "ToolCalls",
    "client_info",
    "initialize_result",
    "taken_arguments",
    "window_told",
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
        self._calls = ToolCalls(session, self._offers, self._forward, self.fleet.states, writer, log)
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
        if (window := window_told(params)) is not None:
            await self._calls.learn_window(window)
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
result_find(handle, pattern) the matches in the whole; budget_status() tells what is used."""


def client_info(params: Message) -> ClientInfo:
    """Read the parameters of `initialize` that servers need; an unknown protocol version becomes our latest."""
    version, capabilities = params.get("protocolVersion"), params.get("capabilities")
    known = capabilities if isinstance(capabilities, dict) else {}
    return ClientInfo(
        version=version if version in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[-1],
        capabilities={name: known[name] for name in _FORWARDED if isinstance(known.get(name), dict)},
    )


def window_told(params: Message) -> int | str | None:
    """Return the context window that a client names, as a number of tokens or as the name of its model.

    The protocol has no field for it, so it is an experimental capability: `{"satchel": {"window": 200000}}` or
    `{"satchel": {"model": "claude-sonnet-5"}}`.
    """
    told: Any = params
    for name in ("capabilities", "experimental", "satchel"):
        told = told.get(name) if isinstance(told, dict) else None
    window = (told.get("window") or told.get("model")) if isinstance(told, dict) else None
    return window if isinstance(window, int | str) and not isinstance(window, bool) else None


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
# A tool that can run as a task is called like any other, because tasks are not forwarded. A tool with an output
# schema would have to return structured content even for a page of a result, and some clients show nothing else.
_NOT_SHOWN = ("execution", "outputSchema")

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
        log: Callable[[str], None],
    ) -> None:
        self._session = session
        self._writer = writer
        self._log = log
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
            taken, remark = taken_arguments(name, offer.definition, params.get("arguments") or {})
            if remark is not None:
                params = params | {"arguments": taken}
            try:
                result = await self._forward(offer.upstream, "tools/call", params | {"name": offer.name})
            except UnavailableError as error:
                return tool_error(str(error))
            except UpstreamError as error:
                if len(said := as_json(error.error)) <= LONGEST_ERROR:
                    raise
                result = {"content": [{"type": "text", "text": said}], "isError": True}
            deliver = partial(self._delivery, _call(name, params, remark), result)
            return await self._delivered(deliver, at_once=is_small(result))
        finally:
            self._in_flight -= 1

    async def learn_window(self, window: int | str) -> None:
        """Note the client's context window. One that is not known changes nothing."""

        def learn() -> None:
            try:
                self._session.learn_window(window)
            except SatchelError as error:
                self._log(f"the client's context window is not used: {error}")

        await self._in_thread(learn)

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
        definition = {field: value for field, value in offer.definition.items() if field not in _NOT_SHOWN}
        definition["name"] = name
        if not isinstance(definition.get("inputSchema"), dict):
            # One tool without an input schema can make a client reject the whole list.
            definition["inputSchema"] = {"type": "object"}
        return definition


def _call(name: str, params: Message, remark: str | None) -> Call:
    meta = params.get("_meta")
    call_id = meta.get(_CALL_ID) if isinstance(meta, dict) else None
    return Call(
        tool=name,
        arguments=params.get("arguments") or {},
        call_id=call_id if isinstance(call_id, str) else None,
        remark=remark,
    )


# Arguments that a tool does not take

# Gemini CLI adds this parameter to the schema of every tool, and forwards it.
_ADDED_BY_CLIENTS = frozenset({"wait_for_previous"})
_MOST_NAMED, _LONGEST_NAMED = 3, 40


def taken_arguments(
    tool: str, definition: Message, arguments: Mapping[str, Any]
) -> tuple[Mapping[str, Any], str | None]:
    """Return the arguments to pass to a server's tool, and a remark about those that are left out.

    An argument is left out only if the tool's schema forbids it, so that the server would reject the call, and if
    the call means the same without it: the client added it, or the tool only reads. A misspelt filter of a tool
    that deletes must reach the server, which then refuses to delete.
    """
    annotations = definition.get("annotations")
    reads = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
    forbidden = _forbidden(definition.get("inputSchema"), arguments)
    ignored = [name for name in forbidden if reads or name in _ADDED_BY_CLIENTS]
    if not ignored:
        return arguments, None
    properties = definition["inputSchema"].get("properties")
    taken = {name: value for name, value in arguments.items() if name not in ignored}
    return taken, _remark(ignored, properties if isinstance(properties, dict) else {})


def _forbidden(schema: Any, arguments: Mapping[str, Any]) -> list[str]:
    if not isinstance(schema, dict) or schema.get("additionalProperties") is not False:
        return []
    properties = schema.get("properties")
    if schema.get("patternProperties") or not isinstance(properties, dict | None):
        return []
    return [name for name in arguments if name not in (properties or {})]


def _remark(ignored: Sequence[str], known: Collection[str]) -> str:
    """Return a line that names the ignored arguments and, if there is one, a similar name that the tool takes."""
    from difflib import get_close_matches

    names = [" ".join(name.split())[:_LONGEST_NAMED] for name in ignored[:_MOST_NAMED]]
    more = f" and {len(ignored) - _MOST_NAMED} more" if len(ignored) > _MOST_NAMED else ""
    near = [found[0] for name in names if (found := get_close_matches(name, known, n=1))]
    return f"[ignored: {', '.join(names)}{more}{f'; did you mean {near[0]}?' if near else ''}]"


# The gateway's own tools: next page, search in a result, budget

_MOST = {"type": "integer", "description": "Limit of the answer in tokens."}


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
        cursor={"type": "string", "description": "From the end of the previous page."},
        max_tokens=_MOST,
    ),
    _tool(
        "result_find",
        "Matches of a regular expression in a stored tool result, with the text around them.",
        ["handle", "pattern"],
        handle={"type": "string", "description": "From the result's note; a cursor does too."},
        pattern={"type": "string", "description": "Regular expression; case counts if it has capitals."},
        start={"type": "integer", "description": "Number of the first match to show, to go on. Default: 1."},
        max_tokens=_MOST,
    ),
    _tool("budget_status", "Tokens used in this session, tokens left if known, and the state of each server.", []),
)
_PARAMETERS = {each["name"]: tuple(each["inputSchema"]["properties"]) for each in DEFINITIONS}
NAMES = frozenset(definition["name"] for definition in DEFINITIONS)
# Fields of the budget's state that would only cost a model tokens, and those that are unknown without a window.
_NOT_FOR_MODELS = ("project", "created_at", "updated_at", "assumed")
_OF_A_WINDOW = ("total_budget", "remaining", "warning")
_NO_WINDOW = "unknown, so what is left is too; --total or --model of the gateway names it"


class OwnTools:
    """Answers calls to the gateway's own tools. Each call runs in a thread."""

    def __init__(self, session: Session, servers: Callable[[], Message], *, settle: Callable[[], object]) -> None:
        self._session = session
        self._servers = servers
        self._settle = settle
        """Waits until earlier results are in the ledger."""

    def __call__(self, name: str, arguments: Mapping[str, Any], *, new_turn: bool) -> Delivered:
        try:
            return Delivered({"content": [{"type": "text", "text": self._text(name, arguments, new_turn)}]})
        except SatchelError as error:
            return Delivered(tool_error(str(error)))

    def _text(self, name: str, arguments: Mapping[str, Any], new_turn: bool) -> str:
        self._settle()
        if new_turn:
            # A store that cannot be written can often be read.
            with contextlib.suppress(StoreError):
                self._session.next_turn()
        ignored = [each for each, value in arguments.items() if each not in _PARAMETERS[name] and value is not None]
        if name == "budget_status":
            remark = {"ignored": [each[:_LONGEST_NAMED] for each in ignored[:_MOST_NAMED]]} if ignored else {}
            return as_json(self._status() | remark)
        options: ReadOptions = {
            # Models that must fill in every parameter give 0 for a number that they do not want to set.
            "max_tokens": arguments.get("max_tokens") or None,
            "remark": _remark(ignored, _PARAMETERS[name]) if ignored else None,
        }
        read = self._page if name == "result_page" else self._find
        try:
            return read(arguments, options)
        except StoreError:
            return read(arguments, {**options, "record": False})

    def _page(self, arguments: Mapping[str, Any], options: ReadOptions) -> str:
        shown = self._session.page(_argument(arguments, "cursor"), **options)
        if not shown.text:
            raise BudgetError(shown.budget_note or "nothing fitted")
        return shown.text

    def _find(self, arguments: Mapping[str, Any], options: ReadOptions) -> str:
        handle, pattern = _argument(arguments, "handle"), _argument(arguments, "pattern")
        found = self._session.find(handle, pattern, start=arguments.get("start") or 1, **options)
        if not found.text:
            raise BudgetError(f"nothing fitted into {found.allocation} tokens; give max_tokens of 100 or more")
        return found.text

    def _status(self) -> Message:
        told = self._session.state().to_dict() | {"servers": self._servers()}
        if told["assumed"]:
            used = {name: tokens for name, tokens in told["used"].items() if name != "response_reserve"}
            told = {name: value for name, value in told.items() if name not in _OF_A_WINDOW}
            told |= {"used": used, "window": _NO_WINDOW}
        return {name: value for name, value in told.items() if name not in _NOT_FOR_MODELS}


def _argument(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} is missing; give it as a string")
    return value
