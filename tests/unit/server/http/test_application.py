"""The application without a socket: error responses, a full queue, slow bodies, large responses."""

import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import anyio
import pytest
from mcp.server.transport_security import TransportSecuritySettings

import satchel
from mcp_pipe import HELLO, request
from satchel import errors
from satchel.errors import SatchelError
from satchel.server.http import application, mcp_endpoint
from satchel.server.http.application import Application, Limits
from satchel.server.http.gate import Gate
from satchel.server.http.problems import NAMESPACE, RefusedError, as_problem
from satchel.server.listening import listen
from tables import each_row

SECURITY = TransportSecuritySettings(allowed_hosts=["here"])
Message = dict[str, Any]
BEGINNING = request(1, "initialize", HELLO)


def made(bag: satchel.Satchel, **limits: Any) -> Application:
    return Application(bag, Gate(None, rate=1000.0), security=SECURITY, limits=Limits(**limits))


async def asked(
    app: Application,
    method: str,
    path: str,
    *,
    receive: Callable[[], Awaitable[Message]] | None = None,
    **more: str,
) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Message] = []

    async def empty() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    headers = [(b"host", b"here"), (b"content-type", b"application/json")]
    headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": headers, "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await app(scope, receive or empty, send)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


@asynccontextmanager
async def running(app: Application) -> AsyncIterator[None]:
    async with app._running(app._lifespan):
        yield


def every_error() -> list[type[SatchelError]]:
    return [getattr(errors, name) for name in errors.__all__]


@each_row("error", every_error())
def test_every_error_has_a_type_and_a_status(error: type[SatchelError]):
    problem, headers, complaint = as_problem(error("what happened"))
    assert problem.type.startswith(NAMESPACE)
    assert problem.title
    told = issubclass(error, errors.InputError)
    assert (problem.status < 500) == told
    # Where the store is, say, is no business of its tenants.
    assert (problem.detail == "what happened") == told
    assert complaint == (None if told else "what happened")
    assert ("Retry-After" in headers) == (problem.status == 503)


def test_no_two_errors_have_the_same_type():
    kinds = {as_problem(error("x")).problem.type for error in every_error()}
    assert len(kinds) == len(every_error())
    assert f"{NAMESPACE}unknown-id" in kinds


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (errors.StoreBusyError("/srv/notes.db is held"), 503, "store-busy"),
        (errors.StoreFullError("/srv/notes.db is full"), 507, "store-full"),
        (errors.EmbedderError("http://models/ is gone"), 503, "embedder"),
        (ZeroDivisionError("the words of a memory"), 500, "unexpected"),
    ],
)
def test_what_fails_inside_is_told_without_a_traceback(
    bag: satchel.Satchel, monkeypatch: pytest.MonkeyPatch, caplog, error: Exception, status: int, kind: str
):
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(satchel.Satchel, "stats", fail)
    app = made(bag)

    async def ask() -> tuple[int, dict[bytes, bytes], bytes]:
        async with running(app):
            return await asked(app, "GET", "/v1/stats")

    told, headers, body = anyio.run(ask)
    assert told == status
    assert f"{NAMESPACE}{kind}".encode() in body
    assert headers[b"content-type"] == b"application/problem+json"
    assert (b"retry-after" in headers) == (status == 503)
    assert "the words of a memory" not in caplog.text
    assert (str(error) if status != 500 else "unexpected ZeroDivisionError") in caplog.text
    assert str(error).encode() not in body


def test_when_the_line_is_full_the_next_one_is_sent_away(bag: satchel.Satchel, monkeypatch: pytest.MonkeyPatch):
    begun, leave = threading.Semaphore(0), threading.Event()

    def wait(self: satchel.Satchel) -> Any:
        begun.release()
        leave.wait(60)
        return real(self)

    real = satchel.Satchel.stats
    monkeypatch.setattr(satchel.Satchel, "stats", wait)
    app = made(bag, threads=1, waiting=1)
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append((await asked(app, "GET", "/v1/stats"))[0])

    async def crowd() -> tuple[int, bytes]:
        async with running(app), anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
            await anyio.to_thread.run_sync(begun.acquire, limiter=anyio.CapacityLimiter(1))
            refused, headers, body = await asked(app, "GET", "/v1/stats")
            assert headers[b"retry-after"] == b"1"
            leave.set()
            return refused, body

    refused, body = anyio.run(crowd)
    assert refused == 503
    assert b"urn:satchel:problem:busy" in body
    assert statuses == [200, 200]


def test_a_body_that_does_not_come_is_not_waited_for(bag: satchel.Satchel):
    app = made(bag, body_seconds=0.02)

    async def silent() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    async def ask() -> tuple[int, dict[bytes, bytes], bytes]:
        return await asked(app, "POST", "/v1/memories", receive=silent)

    status, headers, body = anyio.run(ask)
    assert status == 408
    assert headers[b"connection"] == b"close"
    assert b"urn:satchel:problem:slow-body" in body


def test_who_hangs_up_before_the_end_gets_no_answer(bag: satchel.Satchel):
    app = made(bag)

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def ask() -> None:
        with pytest.raises(IndexError):
            await asked(app, "POST", "/v1/memories", receive=gone)

    anyio.run(ask)


def test_a_store_that_cannot_be_read_is_not_healthy(bag: satchel.Satchel, monkeypatch: pytest.MonkeyPatch, caplog):
    reads = 0

    def fail(*_: Any, **__: Any) -> None:
        nonlocal reads
        reads += 1
        raise errors.StoreError("it is gone")

    monkeypatch.setattr(satchel.Satchel, "embedder", property(fail))
    app = made(bag)

    async def ask() -> list[int]:
        return [(await asked(app, "GET", "/healthz"))[0] for _ in range(3)]

    assert anyio.run(ask) == [503, 503, 503]
    assert reads == 1
    assert "it is gone" in caplog.text


def test_a_store_that_does_not_answer_is_not_healthy(bag: satchel.Satchel, monkeypatch: pytest.MonkeyPatch):
    leave = threading.Event()
    monkeypatch.setattr(application, "TIMEOUT_SECONDS", 0.02)
    monkeypatch.setattr(satchel.Satchel, "embedder", property(lambda _: leave.wait(60)))
    app = made(bag)

    async def ask() -> int:
        try:
            return (await asked(app, "GET", "/healthz"))[0]
        finally:
            leave.set()

    assert anyio.run(ask) == 503


def test_a_refusal_keeps_its_own_headers():
    problem, headers, _ = as_problem(RefusedError(HTTPStatus.GONE, "long-gone", "it went", Retry_After="3"))
    assert (problem.status, problem.title, headers) == (410, "Long gone", {"Retry-After": "3"})


def test_the_body_of_an_answer_is_not_held_back_until_its_head_is_acknowledged():
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_length_that_is_said_twice_is_refused(bag: satchel.Satchel):
    async def ask() -> list[tuple[int, dict[bytes, bytes], bytes]]:
        both = {"content_length": "2", "transfer_encoding": "chunked"}
        return [await asked(made(bag), "POST", path, **both) for path in ("/v1/search", "/mcp", "/healthz")]

    for status, headers, body in anyio.run(ask):
        assert status == 400
        assert headers[b"connection"] == b"close"
        assert b"urn:satchel:problem:malformed-body" in body


def post(body: Any) -> Callable[[], Awaitable[Message]]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    return receive


def test_an_answer_that_is_too_large_is_not_given(bag: satchel.Satchel):
    memories = [satchel.Draft(text=f"{number} {'quince ' * 700}") for number in range(20)]
    kept = bag.scoped(org="default").add_many(memories)
    app = made(bag, most_answer=40_000)
    one = f"/v1/memories/{kept[10].id}"

    async def ask() -> list[tuple[int, bytes]]:
        wide = {"query": "quince", "token_budget": None}
        replies = [
            await asked(app, "GET", "/v1/memories?limit=4"),
            await asked(app, "GET", f"{one}/timeline?before=2&after=2"),
            await asked(app, "POST", "/v1/search", receive=post({"query": "quince", "limit": 2})),
            await asked(app, "POST", "/v1/context", receive=post({"query": "quince", "token_budget": 900})),
            # What is stored is answered: nobody may think that it was refused.
            await asked(app, "POST", "/v1/memories", receive=post({"text": "medlar " * 6_000})),
            await asked(app, "GET", "/v1/memories"),
            await asked(app, "GET", f"{one}/timeline?before=9&after=9"),
            await asked(app, "POST", "/v1/search", receive=post(wide)),
            await asked(app, "POST", "/v1/context", receive=post(wide)),
            await asked(app, "POST", "/v1/pack", receive=post(wide)),
        ]
        return [(status, body) for status, _, body in replies]

    async def run() -> list[tuple[int, bytes]]:
        async with running(app):
            return await ask()

    replies = anyio.run(run)
    assert [status for status, _ in replies] == [200, 200, 200, 200, 201, 422, 422, 422, 422, 422]
    assert all(b"urn:satchel:problem:large-answer" in body for _, body in replies[5:])
    assert all(b"more than 40,000 bytes; ask for fewer" in body for _, body in replies[5:])


def test_a_session_too_many_ends_the_one_that_has_rested_longest(
    bag: satchel.Satchel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mcp_endpoint, "MAX_SESSIONS", 2)
    app = made(bag)

    async def posted(message: bytes, **headers: str) -> tuple[int, str]:
        accept = "application/json, text/event-stream"
        status, sent, _ = await asked(app, "POST", "/mcp", receive=post(message), accept=accept, **headers)
        return status, sent.get(b"mcp-session-id", b"").decode()

    async def talk() -> tuple[list[int], list[int]]:
        async with running(app):
            first, second = [(await posted(BEGINNING))[1] for _ in range(2)]
            ping = request(2, "ping", {})
            await posted(ping, mcp_session_id=first)
            third = (await posted(BEGINNING))[1]
            names = (first, second, third)
            return [len(name) for name in names], [(await posted(ping, mcp_session_id=name))[0] for name in names]

    assert anyio.run(talk) == ([32] * 3, [200, 404, 200])
