"""Serve one client over standard input and output."""

import contextlib
import json
import os
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
from satchel.server.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    RequestId,
    UnreadableLineError,
    as_request_id,
    check_utf8,
    decode_text,
    error_response,
    find_text_response_id,
    json_type,
    repair_escapes,
    repeated_key,
    repeated_key_fault,
    request_fault,
)
from satchel.server.mcp.server import build_server
from satchel.server.mcp.tool import Tool
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.process import INTERRUPTED_SECONDS, claim_stdio, configure_logging, exit_within

__all__ = ["IncomingLines", "OutgoingLines", "PendingRequests", "serve_stdio"]

# How long the last answers are waited for once the input has ended.
LONGEST_WAIT = 3.0
# The process ends within five seconds; two are left for a start that was not over and for a busy machine.
LAST_SECONDS = 3.0


def serve_stdio(context: ToolContext, tools: Mapping[str, Tool]) -> None:
    """Serve until standard input closes. Requests that arrived before that are still answered."""
    taken = claim_stdio()
    reading, writing = os.fdopen(taken[0], "rb"), os.fdopen(taken[1], "wb")
    configure_logging()

    async def serve() -> None:
        server = build_server(context, tools)
        pending = PendingRequests()
        outgoing = OutgoingLines(writing, pending)
        incoming = IncomingLines(reading, outgoing, pending, at_end=partial(exit_within, LAST_SECONDS, 0))
        with outgoing.readable:
            async with stdio_server(incoming, outgoing) as (messages, answers):  # type: ignore[arg-type]
                threading.Thread(target=_watch, args=(reading,), daemon=True).start()
                # While the client sends `initialize`.
                threading.Thread(target=_warm_up, args=(context,), daemon=True).start()
                await server.run(messages, answers, server.create_initialization_options())
        if outgoing.failure is not None:
            raise outgoing.failure

    try:
        anyio.run(serve)
    except KeyboardInterrupt:
        exit_within(INTERRUPTED_SECONDS, 128 + signal.SIGINT)
        raise
    except OSError:
        exit_within(INTERRUPTED_SECONDS, 1)
        raise


def _watch(reading: BinaryIO) -> None:
    """Exit on time even if lines are left to read, because a client that reads no answers blocks them."""
    if hasattr(select, "poll"):
        end = select.poll()
        end.register(reading, 0)
        end.poll()
        exit_within(LAST_SECONDS, 0)


def _warm_up(context: ToolContext) -> None:
    # A client that leaves at once closes the store meanwhile; any other trouble shows at the first search.
    with contextlib.suppress(SatchelError):
        context.bag.warm_up()


# The two streams, as the SDK's transport reads and writes them


class PendingRequests:
    """The ids of requests that have no answer yet."""

    def __init__(self) -> None:
        self._waiting: set[RequestId] = set()
        self._quiet = anyio.Event()

    def add(self, identifier: RequestId) -> None:
        self._waiting.add(identifier)

    def discard(self, identifier: RequestId | None) -> None:
        """Note that a request was answered or cancelled."""
        if identifier is not None:
            self._waiting.discard(identifier)
        if not self._waiting:
            self._quiet.set()

    async def finish(self) -> None:
        """Wait until every request is answered, for at most `LONGEST_WAIT` seconds."""
        if self._waiting:
            self._quiet = anyio.Event()
            with anyio.move_on_after(LONGEST_WAIT):
                await self._quiet.wait()


class OutgoingLines:
    """Writes answers to the client, one per line, until the client stops reading."""

    def __init__(self, stream: BinaryIO, pending: PendingRequests) -> None:
        self._stream = stream
        self._pending = pending
        self._limiter = anyio.CapacityLimiter(1)
        self.readable = anyio.CancelScope()
        """Cancelled when the client stops reading."""
        self.failure: OSError | None = None

    async def write(self, text: str) -> None:
        try:
            await anyio.to_thread.run_sync(self._put, text, abandon_on_cancel=True, limiter=self._limiter)
        except OSError as error:
            self.failure = error
            self.readable.cancel()
        self._pending.discard(find_text_response_id(text))

    async def flush(self) -> None:
        """Do nothing: each line is flushed when it is written."""

    async def refuse(self, identifier: RequestId | None, code: int, message: str) -> None:
        await self.write(json.dumps(error_response(identifier, code, message)) + "\n")

    def _put(self, text: str) -> None:
        self._stream.write(text.encode("utf-8", "replace"))
        self._stream.flush()


class IncomingLines:
    """Iterates over the client's messages that the SDK can parse; others get an error response here."""

    def __init__(
        self, stream: BinaryIO, outgoing: OutgoingLines, pending: PendingRequests, *, at_end: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._outgoing = outgoing
        self._pending = pending
        self._at_end = at_end
        # A limiter of its own: calls that wait for the store may hold all threads of the default one.
        self._limiter = anyio.CapacityLimiter(1)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            line = await anyio.to_thread.run_sync(self._get, abandon_on_cancel=True, limiter=self._limiter)
            if not line:
                self._at_end()
                await self._pending.finish()
                raise StopAsyncIteration
            if line.strip() and (message := await self._readable(line)) is not None:
                return message

    def _get(self) -> bytes:
        try:
            return self._stream.readline()
        except OSError:
            # A terminal that is gone, or a folder: there is no more to come.
            return b""

    async def _readable(self, line: bytes) -> str | None:
        """Return the line in a form that the SDK can parse, or None if it was answered here."""
        text = repair_escapes(line.decode("utf-8", "replace"))
        try:
            message = decode_text(text)
        except UnreadableLineError as error:
            await self._outgoing.refuse(None, PARSE_ERROR, f"a line is {error}")
            return None
        try:
            check_utf8(line)
        except UnreadableLineError as error:
            await self._outgoing.refuse(_request_id(message), PARSE_ERROR, f"a line is {error}")
            return None
        if (fault := _fault(message) or _key_fault(text) or _sdk_fault(text)) is not None:
            await self._outgoing.refuse(_request_id(message), *fault)
            return None
        self._note(message)
        return text

    def _note(self, message: dict[str, Any]) -> None:
        """Track whether a request still needs an answer."""
        if message.get("method") == "notifications/cancelled":
            self._pending.discard(as_request_id((message.get("params") or {}).get("requestId")))
        elif "method" in message and (identifier := _request_id(message)) is not None:
            self._pending.add(identifier)


# What the SDK would only call invalid, or leave without an answer


def _fault(message: Any) -> tuple[int, str] | None:
    """Return the error code and text for JSON that is not a valid message."""
    if not isinstance(message, dict):
        return INVALID_REQUEST, f"a message is an object, not {json_type(message)}; batches are not taken"
    if "method" not in message:
        return None
    if "id" in message and _request_id(message) is None:
        return INVALID_REQUEST, f"an id is a string or a whole number, not {json_type(message['id'])}"
    if (fault := request_fault(message)) is not None:
        return fault.code, fault.with_type
    return _call_fault(message.get("params")) if message["method"] == "tools/call" else None


def _call_fault(params: dict[str, Any] | None) -> tuple[int, str] | None:
    if params is None or not isinstance(params.get("name"), str):
        return INVALID_PARAMS, "tools/call needs params with the name of a tool"
    arguments = params.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        return INVALID_PARAMS, f"arguments must be an object, not {json_type(arguments)}"
    return None


def _key_fault(text: str) -> tuple[int, str] | None:
    key = repeated_key(text)
    return None if key is None else (INVALID_REQUEST, repeated_key_fault(key))


def _sdk_fault(text: str) -> tuple[int, str] | None:
    """Return the error code and text for anything else that the SDK cannot parse."""
    try:
        types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            return PARSE_ERROR, f"a line cannot be read: {first['msg']}"
        return INVALID_REQUEST, "this is no message of JSON-RPC 2.0"
    return None


def _request_id(message: Any) -> RequestId | None:
    """Return the id of a request; a response has one of the server's own ids, or an unknown one."""
    if not isinstance(message, dict) or "result" in message or "error" in message:
        return None
    return as_request_id(message.get("id"))
