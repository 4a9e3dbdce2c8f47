"""The MCP server at `/mcp`, one per token: its tools see what the token allows, and it has its own sessions."""

import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from satchel.server.http.access import Caller
from satchel.server.http.metrics import Metrics
from satchel.server.http.responses import Spent
from satchel.server.http.work import Done, McpCall, tools_for
from satchel.server.jsonrpc import INTERNAL_ERROR, RequestError
from satchel.server.jsonrpc import Message as JsonObject
from satchel.server.mcp.answers import PageCache
from satchel.server.mcp.methods import failed_call
from satchel.server.mcp.server import build_server

__all__ = ["Endpoint", "McpEndpoints", "Methods", "RecentSessions", "RunCall"]

MAX_SESSIONS = 1_000
MAX_OAUTH_CALLERS = 1_000
IDLE_SECONDS = 600.0

_log = logging.getLogger(__name__)


RunCall = Callable[[McpCall], Awaitable[Done]]
"""Runs a call in its turn."""


class McpEndpoints:
    """MCP servers by caller, each started with the first request of its token."""

    def __init__(
        self, run: RunCall, metrics: Metrics, *, security: TransportSecuritySettings, most_bytes: int
    ) -> None:
        self._run = run
        self._metrics = metrics
        self._security = security
        self._most_bytes = most_bytes
        self._endpoints: dict[Caller, Endpoint] = {}

    @asynccontextmanager
    async def of(self, tasks: TaskGroup, caller: Caller, *, is_stream: bool) -> AsyncIterator["Endpoint"]:
        """Return the caller's MCP server, which runs until the block ends even if the token is revoked in it.

        An event stream never ends by itself, so it does not keep the server running.
        """
        # Nothing may be awaited before the call is counted: a token that is revoked ends a server without calls.
        if (endpoint := self._endpoints.pop(caller, None)) is None:
            self._make_room(caller)
            endpoint = Endpoint(self._manager(caller))
        # At the end: the one used last.
        self._endpoints[caller] = endpoint
        with endpoint.call():
            await endpoint.start(tasks)
            if not is_stream:
                yield endpoint
        if is_stream:
            yield endpoint

    def keep_only(self, known: frozenset[str]) -> None:
        """End the sessions of revoked tokens, after their calls in flight are answered."""
        for caller in [each for each in self._endpoints if not each.is_oauth and each.id not in known]:
            self._endpoints.pop(caller).stop()

    def _make_room(self, caller: Caller) -> None:
        """End the sessions of the OAuth callers that were idle longest, whose number nothing else bounds."""
        if caller.is_oauth:
            others = [each for each in self._endpoints if each.is_oauth]
            for each in others[: max(0, len(others) - MAX_OAUTH_CALLERS + 1)]:
                self._endpoints.pop(each).stop()

    def _manager(self, caller: Caller) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            build_server(tuple(tools_for(caller)), Methods(caller, self._run, self._metrics).answer),
            # Event streams would be cut when the service stops; JSON responses are finished.
            json_response=True,
            security_settings=self._security,
            max_request_body_size=self._most_bytes,
            max_sessions=MAX_SESSIONS,
            session_idle_timeout=IDLE_SECONDS,
        )


class Endpoint:
    """The MCP server of one caller, with its sessions."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager
        self._recent = RecentSessions()
        self._ending = anyio.CancelScope()
        self._calls = 0
        self._revoked = False
        self._running = False
        self._starting = anyio.Lock()

    async def start(self, tasks: TaskGroup) -> None:
        async with self._starting:
            if not self._running:
                await tasks.start(self._run)
                self._running = True

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        with self._ending:
            async with self._manager.run():
                task_status.started()
                await anyio.sleep_forever()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session is not None:
            with self._recent.used(session):
                await self._manager.handle_request(scope, receive, send)
            return
        if (oldest := self._recent.evict(MAX_SESSIONS)) is not None:
            await self._end(oldest, scope)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.OK:
                started = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                if started is not None:
                    self._recent.started(started)
            await send(message)

        await self._manager.handle_request(scope, receive, noted)

    async def _end(self, session: str, scope: Scope) -> None:
        """End a session as its client would, with a DELETE request."""
        named = [pair for pair in scope["headers"] if pair[0] == b"host"]
        carried = (MCP_SESSION_ID_HEADER.encode(), session.encode())
        await self._manager.handle_request(
            {**scope, "method": "DELETE", "headers": [*named, carried]}, _empty_body, _discard
        )

    @contextmanager
    def call(self) -> Iterator[None]:
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._stop_if_idle()

    def stop(self) -> None:
        self._revoked = True
        self._stop_if_idle()

    def _stop_if_idle(self) -> None:
        if self._revoked and not self._calls:
            self._ending.cancel()


async def _empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(message: Message) -> None:
    pass


class Methods:
    """Answers the MCP methods of one caller that need the store, and keeps what is left of long answers."""

    def __init__(self, caller: Caller, run: RunCall, metrics: Metrics) -> None:
        self._caller = caller
        self._run = run
        self._metrics = metrics
        self._pages = PageCache()

    async def answer(self, method: str, params: JsonObject) -> JsonObject:
        """Return the result of a method; raises `RequestError` for parameters that it does not take."""
        started, cursor = time.perf_counter(), _cursor_of(params)
        rest = None if cursor is None else self._pages.find(cursor)
        # Without a remainder the cursor is one of the store's, and the method reads it from its parameters.
        known = None if rest is None else cursor
        done = await self._run(McpCall(method, json.dumps(params).encode(), self._caller, known, rest))
        if done.complaint is not None:
            _log.warning("%s", done.complaint)
        for left, remainder in done.pages:
            self._pages.put(left, remainder)
        result = _result(method, done)
        if method == "tools/call":
            self._count(params, result, time.perf_counter() - started, done.spent)
        return result

    def _count(self, params: JsonObject, result: JsonObject, seconds: float, spent: Spent) -> None:
        if (name := params.get("name")) in tools_for(self._caller):
            operation = f"mcp.{name}"
            self._metrics.called(operation, "error" if result["isError"] else "ok", seconds)
            self._metrics.spent(operation, spent)


def _result(method: str, done: Done) -> JsonObject:
    if done.fault is not None:
        raise RequestError(done.fault.code, done.fault.message, done.fault.data)
    if done.refusal is None:
        result: JsonObject = json.loads(done.content)
        return result
    if done.refusal.complaint is not None:
        _log.warning("%s", done.refusal.complaint)
    detail = done.refusal.problem.detail
    if method == "tools/call":
        return failed_call(detail)
    raise RequestError(INTERNAL_ERROR, detail)


def _cursor_of(params: JsonObject) -> str | None:
    arguments = params.get("arguments")
    cursor = arguments.get("cursor") if isinstance(arguments, dict) else None
    return cursor if isinstance(cursor, str) else None


# MCP sessions by last use


class RecentSessions:
    """MCP sessions in order of last use (LRU); an ended session stays until it is the oldest."""

    def __init__(self) -> None:
        self._idle: dict[str, None] = {}
        self._in_use: Counter[str] = Counter()

    def started(self, session: str) -> None:
        self._idle[session] = None

    @contextmanager
    def used(self, session: str) -> Iterator[None]:
        """Mark a session as in use while one of its requests or streams is being served."""
        self._in_use[session] += 1
        try:
            yield
        finally:
            self._in_use[session] -= 1
            if not self._in_use[session]:
                del self._in_use[session]
            if session in self._idle:
                del self._idle[session]
                self._idle[session] = None

    def evict(self, most: int) -> str | None:
        """If there are `most` sessions, remove and return the one idle longest; None if all are busy."""
        if len(self._idle) < most:
            return None
        oldest = next((each for each in self._idle if each not in self._in_use), None)
        if oldest is not None:
            del self._idle[oldest]
        return oldest
