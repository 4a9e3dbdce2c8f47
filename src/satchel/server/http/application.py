"""The service as an ASGI application: checks a request, has its work done in turn, and answers."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from http import HTTPStatus
from typing import NamedTuple

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
from satchel.model.invisible import json_bytes
from satchel.server.http.access import Caller
from satchel.server.http.gate import Gate
from satchel.server.http.mcp_endpoint import Endpoint, McpEndpoints
from satchel.server.http.metrics import METRICS_MEDIA_TYPE as METRICS_TYPE
from satchel.server.http.problems import MEDIA_TYPE, SOON, Refusal, RefusedError, as_problem, unexpected
from satchel.server.http.routes import Matched, openapi, route_for
from satchel.server.http.scheduling import CallQueue, Turn
from satchel.server.http.work import Call, Done, RouteCall, Work
from satchel.server.http.workers import Runner, Threads, no_worker
from satchel.server.jsonrpc import repeated_key_response
from satchel.server.listening import WELL_KNOWN

__all__ = [
    "Application",
    "ClientDisconnected",
    "Health",
    "Limits",
    "check_framing",
    "read_body",
]

_log = logging.getLogger(__name__)

# Python runs one thread of a process at a time, so more calls would only take the processor from each other. Two of
# them, so that one runs while the other waits for the disk or the database.
BRISK_CALLS = 2


class Limits(NamedTuple):
    """Limits of the service."""

    rate: float = 1_000.0
    """Requests per second for one token."""
    most_bytes: int = 4 * 1024 * 1024
    most_answer: int = 16 * 1024 * 1024
    """Maximum response size in bytes for reads; the response to a write is about as large as its request."""
    body_seconds: float = 20.0
    processes: int = 1
    threads: int = 8
    """Calls that one process runs at a time."""
    waiting: int = 256


class Reply(NamedTuple):
    status: int
    body: bytes = b""
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Application:
    """Serves `/v1`, `/mcp`, `/metrics`, `/openapi.json` and `/healthz`.

    After `stop`, it only finishes the requests in progress.
    """

    def __init__(
        self,
        bag: Satchel,
        gate: Gate,
        *,
        security: TransportSecuritySettings,
        limits: Limits,
        runner: Runner | None = None,
    ) -> None:
        self.metrics = gate.metrics
        self._gate = gate
        self._limits = limits
        self._security = TransportSecurityMiddleware(security)
        self._health = Health(bag)
        self._runner = runner or Threads(Work(bag, most_answer=limits.most_answer), threads=limits.threads)
        self._queue = CallQueue(
            gate.metrics,
            slots=limits.processes * limits.threads,
            brisk=limits.processes * BRISK_CALLS,
            waiting=limits.waiting,
            shared=not gate.one_org,
        )
        self._endpoints = McpEndpoints(self._run, self.metrics, security=security, most_bytes=limits.most_bytes)
        gate.on_change(self._endpoints.keep_only)
        self._lifespan = Starlette(lifespan=self._running)
        self._tasks: TaskGroup | None = None
        self._stopping = False
        self._reading: set[anyio.CancelScope] = set()

    @asynccontextmanager
    async def _running(self, app: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    def stop(self) -> None:
        """Reject new requests, and those whose body is still being received."""
        self._stopping = True
        for scope in self._reading:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http":
            try:
                reply = await self._reply(scope, receive, send)
            except ClientDisconnected:
                return
            except SatchelError as error:
                reply = self._refused(as_problem(error))
            except asyncio.CancelledError:
                # Only the server cancels requests, when its grace period is over.
                reply = self._refused(as_problem(_unfinished()))
            except Exception as error:
                if os.environ.get("SATCHEL_DEBUG"):
                    raise
                reply = self._refused(unexpected(error))
            if reply is not None:
                await _send(send, reply)

    async def _reply(self, scope: Scope, receive: Receive, send: Send) -> Reply | None:
        """Return the response to a request; None if the MCP server has sent its own."""
        method, path, headers = scope["method"], scope["path"], Headers(scope=scope)
        if self._stopping:
            raise _stopping()
        check_framing(headers)
        if path == "/healthz":
            _only_get(method)
            return await self._health_check()
        await self._check_host_and_origin(scope)
        if path == "/openapi.json":
            _only_get(method)
            return Reply(HTTPStatus.OK, self._description)
        if path.startswith(WELL_KNOWN):
            _only_get(method)
            return self._well_known(path)
        caller = await self._gate.caller(headers, scope)
        if path == "/metrics":
            _only_get(method)
            self._gate.check(caller, "metrics")
            return Reply(HTTPStatus.OK, self.metrics.text().encode(), METRICS_TYPE)
        if path == "/mcp":
            self._gate.check(caller, "read")
            await self._serve_mcp(caller, scope, receive, send)
            return None
        matched = route_for(method, scope["raw_path"])
        self._gate.check(caller, matched.route.access)
        return await self._called(matched, caller, scope, receive)

    async def _called(self, matched: Matched, caller: Caller, scope: Scope, receive: Receive) -> Reply:
        """Run the call of a request, and count it."""
        started, headers = time.perf_counter(), Headers(scope=scope)
        operation, status = matched.route.operation, HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            body = await self._body(receive, headers)
            content_type = headers.get("content-type", "")
            call = RouteCall(operation, dict(matched.names), caller, scope["query_string"], content_type, body)
            with self._queue.admitted(caller.org):
                done = await self._run(call)
            if done.refusal is not None:
                status = HTTPStatus(done.refusal.problem.status)
                return self._refused(done.refusal)
            status = matched.route.status
        except SatchelError as error:
            status = HTTPStatus(as_problem(error).problem.status)
            raise
        finally:
            self.metrics.called(operation, str(int(status)), time.perf_counter() - started)
        self.metrics.spent(operation, done.spent)
        return Reply(status, done.content)

    async def _run(self, call: Call) -> Done:
        """Run a call that was admitted, in its turn."""
        turn = await self._queue.turn(call.caller.org)
        # It is finished, even if nobody waits for the answer any more: a write may have begun.
        return await asyncio.shield(self._finished(call, turn))

    async def _finished(self, call: Call, turn: Turn) -> Done:
        try:
            return await self._runner.run(call, org=call.caller.org)
        finally:
            turn.end()

    async def _serve_mcp(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the MCP server; an open event stream occupies no thread."""
        assert self._tasks is not None
        if scope["method"] != "POST":
            async with (
                self._endpoints.of(self._tasks, caller, is_stream=True) as endpoint,
                _ended_properly(send) as noted,
            ):
                await endpoint.handle(scope, receive, noted)
            return
        async with self._endpoints.of(self._tasks, caller, is_stream=False) as endpoint:
            await self._call_mcp(endpoint, caller, scope, receive, send)

    async def _call_mcp(
        self, endpoint: Endpoint, caller: Caller, scope: Scope, receive: Receive, send: Send
    ) -> None:
        body = await self._body(receive, Headers(scope=scope))
        with self._queue.admitted(caller.org):
            if (refused := await anyio.to_thread.run_sync(repeated_key_response, body)) is not None:
                await _send(send, Reply(HTTPStatus.BAD_REQUEST, msgspec.json.encode(refused)))
                return
            await endpoint.handle(scope, _replayed(body, receive), send)

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

    def _well_known(self, path: str) -> Reply:
        """Return the OAuth metadata, or 404: asking for a token would tell a client that there is some."""
        if (metadata := self._gate.metadata_at(path)) is not None:
            return Reply(HTTPStatus.OK, metadata)
        raise RefusedError(HTTPStatus.NOT_FOUND, "unknown-path", "there is nothing at this path")

    async def _health_check(self) -> Reply:
        self._gate.check_token_file()
        if not self._runner.is_ready:
            raise no_worker()
        if await self._health.is_healthy():
            return Reply(HTTPStatus.OK, b'{"status":"ok"}')
        raise RefusedError(
            HTTPStatus.SERVICE_UNAVAILABLE, "unreachable", "the store cannot be reached", Retry_After=str(SOON)
        )

    async def _check_host_and_origin(self, scope: Scope) -> None:
        refusal = await self._security.validate_request(Request(scope))
        if refusal is not None:
            kind = "other-host" if refusal.status_code == HTTPStatus.MISDIRECTED_REQUEST else "other-origin"
            raise RefusedError(
                HTTPStatus(refusal.status_code), kind, f"{bytes(refusal.body).decode()}; allow it with --allow-host"
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
        return Reply(problem.status, json_bytes(problem), MEDIA_TYPE, tuple(headers.items()))


# Statuses of requests that were rejected before they were processed.
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
        "the service is stopping; try another instance",
        Retry_After=str(SOON),
        Connection="close",
    )


def _unfinished() -> RefusedError:
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "unfinished",
        "the service stopped before this call ended; it may still have taken effect",
        Connection="close",
    )


def _only_get(method: str) -> None:
    if method != "GET":
        raise RefusedError(
            HTTPStatus.METHOD_NOT_ALLOWED, "unknown-method", "this path supports only GET", Allow="GET"
        )


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that replays a body that was already read, then continues."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


@asynccontextmanager
async def _ended_properly(send: Send) -> AsyncIterator[Send]:
    """Return a `send` that ends the response properly if the service stops in the middle of a stream."""
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


# Receiving a request


class ClientDisconnected(Exception):  # noqa: N818  # not an error: nobody waits for an answer
    """The client disconnected before its request was complete."""


def check_framing(headers: Headers) -> None:
    """Reject a request with two lengths (request smuggling): a proxy might see a second request in the body."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise RefusedError(
            HTTPStatus.BAD_REQUEST,
            "malformed-body",
            "the request has both Content-Length and Transfer-Encoding; send only one",
            Connection="close",
        )


async def read_body(receive: Receive, headers: Headers, *, most_bytes: int, seconds: float) -> bytes:
    """Return the whole body, with or without Content-Length; rejects one that is too large or too slow."""
    announced = headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > most_bytes:
        raise _too_large(most_bytes)
    body = bytearray()
    with anyio.move_on_after(seconds):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            body += message.get("body", b"")
            if len(body) > most_bytes:
                raise _too_large(most_bytes)
            if not message.get("more_body", False):
                return bytes(body)
    raise RefusedError(
        HTTPStatus.REQUEST_TIMEOUT, "slow-body", f"the body did not arrive within {seconds:g} s", Connection="close"
    )


def _too_large(most_bytes: int) -> RefusedError:
    # The connection stays open and the rest is discarded: a client cut off while sending would not read the
    # response.
    detail = f"the body has more than the limit of {most_bytes:,} bytes"
    return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "large-body", detail)


# Health check

CACHE_SECONDS = 1.0
TIMEOUT_SECONDS = 5.0


class Health:
    """Health check: whether the store can be read. Cached for a second, because `/healthz` needs no token."""

    def __init__(self, bag: Satchel, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bag = bag
        self._clock = clock
        self._until = float("-inf")
        self._healthy = False
        self._lock = anyio.Lock()
        # Its own threads: blocked calls must not make the store look unreachable, and vice versa.
        self._limiter = anyio.CapacityLimiter(4)

    async def is_healthy(self) -> bool:
        async with self._lock:
            if self._clock() >= self._until:
                self._healthy = await self._is_reachable()
                self._until = self._clock() + CACHE_SECONDS
            return self._healthy

    async def _is_reachable(self) -> bool:
        with anyio.move_on_after(TIMEOUT_SECONDS):
            return await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True, limiter=self._limiter)
        _log.warning("health check: the store did not answer within %g s", TIMEOUT_SECONDS)
        return False

    def _read(self) -> bool:
        try:
            # Reads one row, whatever the size of the store.
            _ = self._bag.embedder
        except SatchelError as error:
            _log.warning("health check: the store cannot be read: %s", error)
            return False
        return True
