"""The service as an ASGI application: checks a request, calls the library in a thread, and answers."""

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
import msgspec
import msgspec.inspect
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
from satchel.server.http.gate import Gate, TenantViews
from satchel.server.http.mcp_endpoint import Endpoint, McpEndpoints
from satchel.server.http.metrics import METRICS_MEDIA_TYPE as METRICS_TYPE
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import MEDIA_TYPE, SOON, Refusal, RefusedError, as_problem, unexpected
from satchel.server.http.responses import check_size, read_within, spent
from satchel.server.http.routes import ROUTES, Matched, Route, openapi, route_for
from satchel.server.jsonrpc import repeated_key, repeated_key_fault, repeated_key_response
from satchel.server.listening import WELL_KNOWN

__all__ = [
    "Application",
    "ClientDisconnected",
    "Health",
    "Limits",
    "ThreadLimiter",
    "check_framing",
    "parse_request",
    "read_body",
]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Limits(NamedTuple):
    """Limits of the service."""

    rate: float = 1_000.0
    """Requests per second for one token."""
    most_bytes: int = 4 * 1024 * 1024
    most_answer: int = 16 * 1024 * 1024
    """Maximum response size in bytes for reads; the response to a write is about as large as its request."""
    body_seconds: float = 20.0
    threads: int = 8
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

    def __init__(self, bag: Satchel, gate: Gate, *, security: TransportSecuritySettings, limits: Limits) -> None:
        self.metrics = gate.metrics
        self._gate = gate
        self._limits = limits
        self._security = TransportSecurityMiddleware(security)
        self._views = TenantViews(bag)
        self._health = Health(bag)
        self._threads = ThreadLimiter(
            gate.metrics, threads=limits.threads, waiting=limits.waiting, shared=not gate.one_org
        )
        self._endpoints = McpEndpoints(self._views, self.metrics, security=security, most_bytes=limits.most_bytes)
        gate.on_change(self._endpoints.keep_only)
        self._lifespan = Starlette(lifespan=self._running)
        self._tasks: TaskGroup | None = None
        self._stopping = False
        self._reading: set[anyio.CancelScope] = set()

    @asynccontextmanager
    async def _running(self, app: Starlette) -> AsyncIterator[None]:
        # Calls of the MCP server share this thread pool.
        anyio.to_thread.current_default_thread_limiter().total_tokens = self._limits.threads
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
        """Call the library in a thread, and count the call."""
        started, headers = time.perf_counter(), Headers(scope=scope)
        operation, status = matched.route.operation, HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            body = await self._body(receive, headers)
            work = partial(self._work, matched, caller, scope["query_string"], headers, body)
            content = await self._threads.run(caller.org, work)
            status = matched.route.status
        except SatchelError as error:
            status = HTTPStatus(as_problem(error).problem.status)
            raise
        finally:
            self.metrics.called(operation, str(int(status)), time.perf_counter() - started)
        return Reply(status, content)

    def _work(self, matched: Matched, caller: Caller, query_string: bytes, headers: Headers, sent: bytes) -> bytes:
        route, names = matched
        query, body = parse_request(route, query_string, headers, sent)
        view = self._views.within(caller, query, body)
        read = partial(_run_route, route, view, body, names)
        most = self._limits.most_answer if route.access == "read" else None
        value = read(query) if most is None else read_within(read, query, most)
        self.metrics.spent(route.operation, spent(value))
        content = b"" if value is None else json_bytes(value)
        if most is not None:
            check_size(len(content), most)
        return content

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
        async with self._threads.turn(caller.org):
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


def _run_route(route: Route, view: Satchel, body: Any, names: Mapping[str, str], query: Any) -> Any:
    # Beside a body the query only names the scope, in which the view is already.
    return route.work(view, query if body is None else body, **names)


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


# Parsing a request: query and body

MAX_PARAMETERS = 200
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_Read = Callable[[str], Any]

_DECODERS = {route.body: msgspec.json.Decoder(route.body) for route in ROUTES if route.body is not None}


def _parameter_reader(field: msgspec.inspect.Field) -> _Read:
    """Return the function that converts the text of a parameter; invalid text is left for validation to reject."""
    kind = _plain(field.type)
    kinds = tuple(map(_plain, kind.types)) if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    if any(isinstance(each, msgspec.inspect.IntType) for each in kinds):
        return _number
    if any(isinstance(each, msgspec.inspect.DictType) for each in kinds):
        return _object
    return _truth if any(isinstance(each, msgspec.inspect.BoolType) for each in kinds) else str


def _plain(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    return kind.type if isinstance(kind, msgspec.inspect.Metadata) else kind


def _object(words: str) -> Any:
    try:
        return msgspec.json.decode(words)
    except (msgspec.DecodeError, RecursionError):
        return words


def _number(words: str) -> int | str:
    return int(words) if _WHOLE.fullmatch(words) else words


def _truth(words: str) -> bool | str:
    return {"true": True, "false": False}.get(words, words)


_READERS = {
    query: {field.encode_name: _parameter_reader(field) for field in msgspec.inspect.type_info(query).fields}  # type: ignore[attr-defined]
    for query in {route.query for route in ROUTES if route.query is not None}
}
_REPEATED = {
    query: {field.encode_name for field in msgspec.structs.fields(query) if isinstance(field.default, tuple)}
    for query in _READERS
}
for _query in _READERS:
    # Registers the type with msgspec before threads start; queries are converted without a decoder.
    msgspec.json.Decoder(_query)


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


def parse_request(route: Route, query_string: bytes, headers: Headers, body: bytes) -> tuple[Any, Any]:
    """Return the query and the body as values; None where the route has none."""
    return _query_of(route, query_string), _body_of(route, headers, body)


def _query_of(route: Route, query_string: bytes) -> Any:
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
        )
    except ValueError as error:
        raise _bad_query(f"the query cannot be read: {error}") from None
    if route.query is None:
        if pairs:
            raise _bad_query(f"unknown parameter {pairs[0][0][:40]!r}; this operation takes its fields in the body")
        return None
    repeated, readers = _REPEATED[route.query], _READERS[route.query]
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in readers:
            raise _bad_query(f"unknown parameter {name[:40]!r}; known: {', '.join(sorted(readers))}")
        if name in repeated:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise _bad_query(f"the parameter {name!r} is given twice")
        else:
            values[name] = readers[name](value)
            if isinstance(values[name], dict) and (key := repeated_key(value)) is not None:
                raise _bad_query(f"in the parameter {name!r}, {repeated_key_fault(key)}")
    try:
        return msgspec.convert(values, route.query)
    except msgspec.ValidationError as error:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-query", f"the query is invalid: {error}"
        ) from error


def _body_of(route: Route, headers: Headers, body: bytes) -> Any:
    if route.body is None:
        if body.strip():
            raise RefusedError(HTTPStatus.BAD_REQUEST, "unexpected-body", f"{route.operation} takes no body")
        return None
    media, _, rest = headers.get("content-type", "").partition(";")
    charset = rest.strip().lower().removeprefix("charset=").strip('"')
    if media.strip().lower() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unknown-media-type",
            "the body must be JSON; send Content-Type: application/json",
        )
    try:
        value = _DECODERS[route.body].decode(body)
    except msgspec.ValidationError as error:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-body", f"the body is invalid: {error}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "malformed-body", f"the body is not JSON: {error}") from error
    if (key := repeated_key(body)) is not None:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "malformed-body", f"in the body, {repeated_key_fault(key)}")
    return value


def _bad_query(detail: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, "malformed-query", detail)


def _too_large(most_bytes: int) -> RefusedError:
    # The connection stays open and the rest is discarded: a client cut off while sending would not read the
    # response.
    detail = f"the body has more than the limit of {most_bytes:,} bytes"
    return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "large-body", detail)


# Threads for calls of the library, which block on disks and locks


class _OrgQueue:
    """The calls of one org, running and waiting."""

    def __init__(self, width: int) -> None:
        self.limiter = anyio.CapacityLimiter(width)
        self.calls = 0


class ThreadLimiter:
    """Runs calls in a bounded thread pool with a bounded queue; when the queue is full, calls are rejected as busy.

    With several orgs, each may use at most half of the threads and of the queue, so that one org whose calls all
    wait for a lock cannot block the others.
    """

    def __init__(self, metrics: Metrics, *, threads: int, waiting: int, shared: bool) -> None:
        self._metrics = metrics
        self._most = threads + waiting
        self._width = max(1, threads // 2) if shared else threads
        self._longest = self._width + ((waiting + 1) // 2 if shared else waiting)
        self._queues: dict[str | None, _OrgQueue] = {}

    async def run(self, org: str | None, work: Callable[[], T]) -> T:
        async with self.turn(org):
            # A write that has begun is finished, even if the client is gone.
            return await anyio.to_thread.run_sync(work)

    @asynccontextmanager
    async def turn(self, org: str | None) -> AsyncIterator[None]:
        """Wait for a free thread slot of the org."""
        queue = self._queues.get(org) or _OrgQueue(self._width)
        if self._metrics.in_flight >= self._most or queue.calls >= self._longest:
            self._metrics.refused("busy")
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "busy", "too many calls are waiting", Retry_After=str(SOON)
            )
        self._queues[org] = queue
        self._metrics.in_flight += 1
        queue.calls += 1
        try:
            async with queue.limiter:
                yield
        finally:
            self._metrics.in_flight -= 1
            queue.calls -= 1
            if not queue.calls:
                del self._queues[org]


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
