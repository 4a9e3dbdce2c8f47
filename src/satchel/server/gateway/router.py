"""The gateway's router: sends each client message to the right server, and the response back.

Tool calls pass through a session, which keeps their results within the token budget. The gateway adds three tools
of its own for reading the rest of a long result.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Unpack

from satchel.errors import BudgetError, InputError, SatchelError, StoreError
from satchel.fitting.cutting import truncate
from satchel.fitting.listing import as_json
from satchel.model.checks import check_offset
from satchel.server.arguments import MAX_TOKENS, Parameter, line, number, read_arguments, remark_on, schema
from satchel.server.gateway.delivery import Call, Delivered, Delivery, is_small, tool_error
from satchel.server.gateway.fleet import Fleet, Offer, Offers
from satchel.server.gateway.greeting import GUIDE, initialize_result, window_told
from satchel.server.gateway.remembered import Catalog, Remembered
from satchel.server.gateway.servers import Server
from satchel.server.gateway.upstream import ClientInfo, UnavailableError, Upstream, UpstreamError
from satchel.server.handshake import agreed_version
from satchel.server.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Message,
    RequestError,
    RequestId,
    as_request_id,
    error_response,
    notification,
    read_message,
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
    "instructions_of",
    "taken_arguments",
]


# How long `initialize` waits for the instructions of servers if none are known from an earlier run.
INSTRUCTIONS_SECONDS = 0.5

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
        remembered: Remembered,
        start_seconds: float,
        list_seconds: float,
    ) -> None:
        self._send = send
        self._remembered = remembered
        self._known = remembered.read()
        self._counter = session.counter
        self._tasks: dict[RequestId, asyncio.Task[None]] = {}
        self.fleet = Fleet(
            servers,
            send,
            log,
            reserved=NAMES,
            start_seconds=start_seconds,
            list_seconds=list_seconds,
            known={} if self._known is None else self._known.lists,
            on_settled=self._remember,
        )
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
            message = read_message(line)
        except RequestError as error:
            self._send(error.response(error.identifier))
            return
        if "method" not in message:
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
        await self.greet(params)
        if self._known is not None:
            return initialize_result(params, self._known.instructions)
        await self.fleet.settled(INSTRUCTIONS_SECONDS)
        return initialize_result(params, self._instructions())

    async def greet(self, params: Message) -> None:
        """Note what a client says in `initialize`."""
        self.fleet.introduce(client_info(params))
        if (window := window_told(params)) is not None:
            await self._calls.learn_window(window)

    def _instructions(self) -> str:
        said = [(each.name, each.instructions) for each in self.fleet.upstreams]
        return instructions_of(said, self._counter)

    async def _remember(self) -> None:
        """Keep what the servers offer, for the client that starts this gateway next."""
        self._known = Catalog(self._instructions(), await self._calls.definitions(), self._offers.known())
        await asyncio.get_running_loop().run_in_executor(None, self._remembered.write, self._known)

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


def client_info(params: Message) -> ClientInfo:
    """Read the parameters of `initialize` that servers need; an unknown protocol version becomes our latest."""
    capabilities = params.get("capabilities")
    known = capabilities if isinstance(capabilities, dict) else {}
    return ClientInfo(
        version=agreed_version(params.get("protocolVersion")),
        capabilities={name: known[name] for name in _FORWARDED if isinstance(known.get(name), dict)},
    )


def instructions_of(servers: Iterable[tuple[str, str]], counter: Counter) -> str:
    """Return the gateway's own instructions, followed by those of the servers that are ready."""
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
    return taken, f"[{remark_on(ignored, properties if isinstance(properties, dict) else ())}]"


def _forbidden(schema: Any, arguments: Mapping[str, Any]) -> list[str]:
    if not isinstance(schema, dict) or schema.get("additionalProperties") is not False:
        return []
    properties = schema.get("properties")
    if schema.get("patternProperties") or not isinstance(properties, dict | None):
        return []
    return [name for name in arguments if name not in (properties or {})]


# The gateway's own tools: next page, search in a result, budget

_MOST = MAX_TOKENS._replace(python_name=None)


class _OwnTool(NamedTuple):
    """A tool of the gateway itself."""

    about: str
    parameters: Mapping[str, Parameter]
    required: tuple[str, ...] = ()

    def definition(self, name: str) -> Message:
        return {
            "name": name,
            "description": self.about,
            "inputSchema": schema(self.parameters, self.required),
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }


_TOOLS = {
    "result_page": _OwnTool(
        "The next page of a tool result that was too long to be shown whole.",
        {"cursor": line("From the end of the previous page."), "max_tokens": _MOST},
        ("cursor",),
    ),
    "result_find": _OwnTool(
        "Matches of a regular expression in a stored tool result, with the text around them.",
        {
            "handle": line("From the result's note; a cursor does too."),
            "pattern": line("Regular expression; case counts if it has capitals."),
            "start": number(
                partial(check_offset, least=1),
                "Number of the first match to show, to go on. Default: 1.",
                whole=True,
                takes_zero=False,
            ),
            "max_tokens": _MOST,
        },
        ("handle", "pattern"),
    ),
    "budget_status": _OwnTool(
        "Tokens used in this session, tokens left if known, and the state of each server.", {}
    ),
}
DEFINITIONS = tuple(tool.definition(name) for name, tool in _TOOLS.items())
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
        tool = _TOOLS[name]
        given = read_arguments(name, tool.parameters, tool.required, arguments)
        if name == "budget_status":
            return as_json(self._status() | ({"remark": given.remark} if given.remark else {}))
        read = self._page if name == "result_page" else self._find
        options = given.values | ({"remark": f"[{given.remark}]"} if given.remark else {})
        try:
            return read(**options)
        except StoreError:
            return read(**options, record=False)

    def _page(self, cursor: str, **options: Unpack[ReadOptions]) -> str:
        shown = self._session.page(cursor, **options)
        if not shown.text:
            raise BudgetError(shown.budget_note or "nothing fitted")
        return shown.text

    def _find(self, handle: str, pattern: str, start: int = 1, **options: Unpack[ReadOptions]) -> str:
        found = self._session.find(handle, pattern, start=start, **options)
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
