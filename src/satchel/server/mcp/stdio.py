"""Serving one client over standard input and output."""

import contextlib
import json
import os
import re
import select
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO, Self

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

from satchel.errors import SatchelError
from satchel.model.surrogates import repair_surrogates
from satchel.server.mcp.desk import Desk
from satchel.server.mcp.server import build_server
from satchel.server.mcp.tool import Tool
from satchel.server.process import INTERRUPTED_SECONDS, leave_within, log_in_lines, taken_streams

__all__ = ["IncomingLines", "OutgoingLines", "Traffic", "serve_stdio"]


LONGEST_WAIT = 3.0
DEEPEST = 200

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Traffic:
    """How many requests wait for their answers."""

    def __init__(self) -> None:
        self._waiting: set[str | int] = set()
        self._quiet = anyio.Event()

    def asked(self, identifier: str | int) -> None:
        self._waiting.add(identifier)

    def answered(self, identifier: str | int | None) -> None:
        if identifier is not None:
            self._waiting.discard(identifier)
        if not self._waiting:
            self._quiet.set()

    async def ends(self) -> None:
        """Wait until all is answered, but not for ever."""
        if self._waiting:
            self._quiet = anyio.Event()
            with anyio.move_on_after(LONGEST_WAIT):
                await self._quiet.wait()


class OutgoingLines:
    """Where answers are written, a line at a time, for as long as somebody reads them."""

    def __init__(self, stream: BinaryIO, traffic: Traffic) -> None:
        self._stream = stream
        self._traffic = traffic
        self._limiter = anyio.CapacityLimiter(1)
        self.readable = anyio.CancelScope()
        """What is of no use once nobody reads the answers."""
        self.failure: OSError | None = None

    async def write(self, text: str) -> None:
        try:
            await anyio.to_thread.run_sync(self._put, text, abandon_on_cancel=True, limiter=self._limiter)
        except OSError as error:
            self.failure = error
            self.readable.cancel()
        self._traffic.answered(_identifier(text))

    async def flush(self) -> None:
        """Each line is flushed as it is written."""

    async def refuse(self, identifier: str | int | None, code: int, message: str) -> None:
        error = {"jsonrpc": "2.0", "id": identifier, "error": {"code": code, "message": message}}
        await self.write(json.dumps(error) + "\n")

    def _put(self, text: str) -> None:
        self._stream.write(text.encode("utf-8", "replace"))
        self._stream.flush()


class IncomingLines:
    """The requests of a client, as far as they can be read as such."""

    def __init__(
        self, stream: BinaryIO, outgoing: OutgoingLines, traffic: Traffic, *, at_end: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._outgoing = outgoing
        self._traffic = traffic
        self._at_end = at_end
        # Of its own: calls that wait for the store may hold all threads of the usual one.
        self._limiter = anyio.CapacityLimiter(1)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            line = await anyio.to_thread.run_sync(self._get, abandon_on_cancel=True, limiter=self._limiter)
            if not line:
                self._at_end()
                await self._traffic.ends()
                raise StopAsyncIteration
            if line.strip() and (message := await self._readable(line)) is not None:
                return message

    def _get(self) -> bytes:
        try:
            return self._stream.readline()
        except OSError:
            # A terminal that is gone, a folder: there is no more to come.
            return b""

    async def _readable(self, line: bytes) -> str | None:
        """The line as the SDK can read it; None where it was answered here."""
        text = line.decode("utf-8", "replace")
        try:
            message = json.loads(text)
            if _SURROGATE.search(text):
                text = json.dumps(_repaired(message, DEEPEST))
        except (ValueError, RecursionError) as error:
            what = str(error) if isinstance(error, ValueError) else "nested too deeply"
            await self._outgoing.refuse(None, types.PARSE_ERROR, f"a line is not JSON: {what[:200]}")
            return None
        if (wrong := _not_utf8(line) or _complaint(message) or _unreadable(text)) is not None:
            await self._outgoing.refuse(_own_id(message), *wrong)
            return None
        self._note(message)
        return text

    def _note(self, message: dict[str, Any]) -> None:
        """Whether an answer will be due, or no longer."""
        if message.get("method") == "notifications/cancelled":
            self._traffic.answered(_as_id((message.get("params") or {}).get("requestId")))
        elif "method" in message and (identifier := _own_id(message)) is not None:
            self._traffic.asked(identifier)


def _not_utf8(line: bytes) -> tuple[int, str] | None:
    """Read with some other character in its place, it would be stored so."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return types.PARSE_ERROR, f"a line is not UTF-8: {error.reason} 0x{line[error.start]:02x}"
    return None


def _complaint(message: Any) -> tuple[int, str] | None:
    """What is wrong with a message, which the SDK would only call invalid, or leave without an answer."""
    if not isinstance(message, dict):
        return types.INVALID_REQUEST, f"a message is an object, not {_sort(message)}; batches are not taken"
    if "method" not in message:
        return None
    method, params = message["method"], message.get("params")
    if "id" in message and _own_id(message) is None:
        return types.INVALID_REQUEST, f"an id is a string or a whole number, not {_sort(message['id'])}"
    if not isinstance(method, str):
        return types.INVALID_REQUEST, f"method must be a string, not {_sort(method)}"
    if params is not None and not isinstance(params, dict):
        return types.INVALID_PARAMS, f"params must be an object, not {_sort(params)}"
    if method != "tools/call":
        return None
    if params is None or not isinstance(params.get("name"), str):
        return types.INVALID_PARAMS, "tools/call needs params with the name of a tool"
    arguments = params.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        return types.INVALID_PARAMS, f"arguments must be an object, not {_sort(arguments)}"
    return None


def _unreadable(text: str) -> tuple[int, str] | None:
    """What else the SDK cannot read."""
    try:
        types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            return types.PARSE_ERROR, f"a line cannot be read: {first['msg']}"
        return types.INVALID_REQUEST, "this is no message of JSON-RPC 2.0"
    return None


def _sort(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _own_id(message: Any) -> str | int | None:
    """The id of a request; that of an answer is one of ours, or nobody's."""
    if not isinstance(message, dict) or "result" in message or "error" in message:
        return None
    return _as_id(message.get("id"))


def _as_id(value: object) -> str | int | None:
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _identifier(text: str) -> str | int | None:
    """The id at the start of an answer, without reading the rest of it."""
    found = re.match(r'\{"jsonrpc":\s*"2\.0",\s*"id":\s*("(?:[^"\\]|\\.)*"|-?\d+)', text)
    return json.loads(found[1]) if found else None


def _repaired(value: Any, depth: int) -> Any:
    """Without lone surrogates, which are no text; what is nested more deeply the SDK does not read."""
    if depth == 0:
        return value
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, list):
        return [_repaired(each, depth - 1) for each in value]
    if isinstance(value, dict):
        return {repair_surrogates(name): _repaired(each, depth - 1) for name, each in value.items()}
    return value


# Serving one client over standard input and output.


# Of the five in which it ends, two are left for a start that was not over and for a machine that is busy.
LAST_SECONDS = 3.0


def serve_stdio(desk: Desk, tools: Mapping[str, Tool]) -> None:
    """Serve until standard input closes; what was asked before that is still answered."""
    taken = taken_streams()
    reading, writing = os.fdopen(taken[0], "rb"), os.fdopen(taken[1], "wb")
    log_in_lines()

    async def serve() -> None:
        server = build_server(desk, tools)
        traffic = Traffic()
        outgoing = OutgoingLines(writing, traffic)
        incoming = IncomingLines(reading, outgoing, traffic, at_end=partial(leave_within, LAST_SECONDS, 0))
        with outgoing.readable:
            async with stdio_server(incoming, outgoing) as (messages, answers):  # type: ignore[arg-type]
                threading.Thread(target=_watch, args=(reading,), daemon=True).start()
                # While the client says hello.
                threading.Thread(target=_warm_up, args=(desk,), daemon=True).start()
                await server.run(messages, answers, server.create_initialization_options())
        if outgoing.failure is not None:
            raise outgoing.failure

    try:
        anyio.run(serve)
    except KeyboardInterrupt:
        leave_within(INTERRUPTED_SECONDS, 128 + signal.SIGINT)
        raise
    except OSError:
        leave_within(INTERRUPTED_SECONDS, 1)
        raise


def _watch(reading: BinaryIO) -> None:
    """Leave in time also where lines are left to be read: an answer that nobody reads holds them up."""
    if hasattr(select, "poll"):
        end = select.poll()
        end.register(reading, 0)
        end.poll()
        leave_within(LAST_SECONDS, 0)


def _warm_up(desk: Desk) -> None:
    # A client that leaves at once closes the store meanwhile; what else is wrong, the first search will say.
    with contextlib.suppress(SatchelError):
        desk.bag.warm_up()
