"""The service as an ASGI application: who asks, for what, and the answer."""

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from satchel.api.satchel import Satchel
from satchel.errors import SatchelError
from satchel.server.http.access import Caller
from satchel.server.http.answers import spent
from satchel.server.http.bodies import Gone, asked, check_framing, read_body
from satchel.server.http.crew import Crew
from satchel.server.http.endpoints import Endpoints
from satchel.server.http.gate import Gate
from satchel.server.http.health import Health
from satchel.server.http.metrics import MEDIA_TYPE as METRICS_TYPE
from satchel.server.http.openapi import openapi
from satchel.server.http.places import Places
from satchel.server.http.problems import MEDIA_TYPE, SOON, Refusal, RefusedError, as_problem, unexpected
from satchel.server.http.routes import Matched, Route, route_for
from satchel.server.http.sizes import check_size, collected

__all__ = ["Application", "Limits"]

_log = logging.getLogger(__name__)


class Limits(NamedTuple):
    """How much the service takes on."""

    rate: float = 1_000.0
    """Requests of one token in a second."""
    most_bytes: int = 4 * 1024 * 1024
    most_answer: int = 16 * 1024 * 1024
    """Bytes of an answer to what only reads; what writes answers with about as much as it was sent."""
    body_seconds: float = 20.0
    threads: int = 8
    waiting: int = 256


class Reply(NamedTuple):
    status: int
    body: bytes = b""
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Application:
    """Answers requests until it is told to stop; then it only finishes what it has begun."""

    def __init__(self, bag: Satchel, gate: Gate, *, security: TransportSecuritySettings, limits: Limits) -> None:
        self.metrics = gate.metrics
        self._gate = gate
        self._limits = limits
        self._security = TransportSecurityMiddleware(security)
        self._places = Places(bag)
        self._health = Health(bag)
        self._crew = Crew(gate.metrics, threads=limits.threads, waiting=limits.waiting, shared=not gate.one_org)
        self._endpoints = Endpoints(self._places, self.metrics, security=security, most_bytes=limits.most_bytes)
        gate.on_change(self._endpoints.keep_only)
        self._lifespan = Starlette(lifespan=self._running)
        self._tasks: TaskGroup | None = None
        self._stopping = False
        self._reading: set[anyio.CancelScope] = set()

    @asynccontextmanager
    async def _running(self, app: Starlette) -> AsyncIterator[None]:
        # The MCP server's calls run in the same threads as ours.
        anyio.to_thread.current_default_thread_limiter().total_tokens = self._limits.threads
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    def stop(self) -> None:
        """Take nothing on any more; what is still being sent is not waited for."""
        self._stopping = True
        for scope in self._reading:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http":
            try:
                reply = await self._reply(scope, receive, send)
            except Gone:
                return
            except SatchelError as error:
                reply = self._refused(as_problem(error))
            except asyncio.CancelledError:
                # Nobody cancels a request but the server, when it has waited long enough.
                reply = self._refused(as_problem(_unfinished()))
            except Exception as error:
                if os.environ.get("SATCHEL_DEBUG"):
                    raise
                reply = self._refused(unexpected(error))
            if reply is not None:
                await _send(send, reply)

    async def _reply(self, scope: Scope, receive: Receive, send: Send) -> Reply | None:
        """What is answered; None where the MCP server has answered by itself."""
        method, path, headers = scope["method"], scope["path"], Headers(scope=scope)
        if self._stopping:
            raise _stopping()
        check_framing(headers)
        if path == "/healthz":
            _only_get(method)
            return await self._healthy()
        await self._check_names(scope)
        if path == "/openapi.json":
            _only_get(method)
            return Reply(HTTPStatus.OK, self._description)
        caller = self._gate.caller(headers, scope)
        if path == "/metrics":
            _only_get(method)
            self._gate.check(caller, "metrics")
            return Reply(HTTPStatus.OK, self.metrics.text().encode(), METRICS_TYPE)
        if path == "/mcp":
            self._gate.check(caller, "read")
            await self._talk(caller, scope, receive, send)
            return None
        matched = route_for(method, scope["raw_path"])
        self._gate.check(caller, matched.route.access)
        return await self._called(matched, caller, scope, receive)

    async def _called(self, matched: Matched, caller: Caller, scope: Scope, receive: Receive) -> Reply:
        """One call of the library, in a thread, with its way in and out of JSON."""
        started, headers = time.perf_counter(), Headers(scope=scope)
        operation, status = matched.route.operation, HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            body = await self._body(receive, headers)
            work = partial(self._work, matched, caller, scope["query_string"], headers, body)
            content = await self._crew.do(caller.org, work)
            status = matched.route.status
        except SatchelError as error:
            status = HTTPStatus(as_problem(error).problem.status)
            raise
        finally:
            self.metrics.called(operation, str(int(status)), time.perf_counter() - started)
        return Reply(status, content)

    def _work(self, matched: Matched, caller: Caller, query_string: bytes, headers: Headers, sent: bytes) -> bytes:
        route, names = matched
        query, body = asked(route, query_string, headers, sent)
        view = self._places.within(caller, query, body)
        read = partial(_worked, route, view, body, names)
        most = self._limits.most_answer if route.access == "read" else None
        value = read(query) if most is None else collected(read, query, most)
        self.metrics.spent(route.operation, spent(value))
        content = b"" if value is None else _encoded(value)
        if most is not None:
            check_size(len(content), most)
        return content

    async def _talk(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a message to the MCP server; a stream that a client listens to is not counted as a call."""
        assert self._tasks is not None
        if scope["method"] != "POST":
            async with _whole(send) as noted:
                await self._endpoints.handle(self._tasks, caller, scope, receive, noted)
            return
        body = await self._body(receive, Headers(scope=scope))
        async with self._crew.turn(caller.org):
            replay = _replayed(body, receive)
            await self._endpoints.handle(self._tasks, caller, scope, replay, send)

    async def _body(self, receive: Receive, headers: Headers) -> bytes:
        with anyio.CancelScope() as reading:
            self._reading.add(reading)
            try:
                return await read_body(
                    receive, headers, most_bytes=self._limits.most_bytes, seconds=self._limits.body_seconds
                )
            finally:
                self._reading.discard(reading)
        raise _stopping()

    async def _healthy(self) -> Reply:
        if await self._health.well():
            return Reply(HTTPStatus.OK, b'{"status":"ok"}')
        raise RefusedError(
            HTTPStatus.SERVICE_UNAVAILABLE, "unreachable", "the store cannot be reached", Retry_After=str(SOON)
        )

    async def _check_names(self, scope: Scope) -> None:
        refusal = await self._security.validate_request(Request(scope))
        if refusal is not None:
            kind = "other-host" if refusal.status_code == HTTPStatus.MISDIRECTED_REQUEST else "other-origin"
            raise RefusedError(
                HTTPStatus(refusal.status_code), kind, f"{bytes(refusal.body).decode()}; --allow-host names others"
            )

    @cached_property
    def _description(self) -> bytes:
        return msgspec.json.encode(openapi())

    def _refused(self, refusal: Refusal) -> Reply:
        problem, headers, complaint = refusal
        if problem.status in _COUNTED:
            self.metrics.refused(problem.type.rpartition(":")[2])
        if complaint is not None:
            _log.warning("%s", complaint)
        return Reply(problem.status, msgspec.json.encode(problem), MEDIA_TYPE, tuple(headers.items()))


# Whom the service turned away before it looked at what was asked.
_COUNTED = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.MISDIRECTED_REQUEST,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
}


def _stopping() -> RefusedError:
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "stopping",
        "the service is stopping; ask the next one",
        Retry_After=str(SOON),
        Connection="close",
    )


def _unfinished() -> RefusedError:
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "unfinished",
        "the service stops before this has ended; it may be done all the same",
        Connection="close",
    )


def _worked(route: Route, view: Satchel, body: Any, names: Mapping[str, str], query: Any) -> Any:
    return route.work(view, *(each for each in (query, body) if each is not None), **names)


def _only_get(method: str) -> None:
    if method != "GET":
        raise RefusedError(
            HTTPStatus.METHOD_NOT_ALLOWED, "unknown-method", "this path takes GET alone", Allow="GET"
        )


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # Half a surrogate pair, which a tool's output may hold and UTF-8 does not know, is spelled out.
        return json.dumps(msgspec.to_builtins(value)).encode()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What was read already, then whatever comes."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


@asynccontextmanager
async def _whole(send: Send) -> AsyncIterator[Send]:
    """Ends what was begun: a stream of events is cut short when the service stops."""
    unfinished = False

    async def noted(message: Message) -> None:
        nonlocal unfinished
        unfinished = message["type"] == "http.response.start" or message.get("more_body", False)
        await send(message)

    yield noted
    if unfinished:
        await send({"type": "http.response.body", "body": b""})


async def _send(send: Send, reply: Reply) -> None:
    headers = [*reply.headers, ("Cache-Control", "no-store")]
    if reply.status != HTTPStatus.NO_CONTENT:
        headers += [("Content-Type", reply.media_type), ("Content-Length", str(len(reply.body)))]
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": int(reply.status), "headers": raw})
    await send({"type": "http.response.body", "body": reply.body})
