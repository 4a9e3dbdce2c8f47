"""Connections: headers that never end, responses that nobody reads, unsupported protocols."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn

from satchel.server import connections
from satchel.server.connections import Connection, ConnectionGuard, ConnectionLimits

USUAL = ConnectionLimits()
LARGE = 8 * 1024 * 1024
GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
Accepted = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def large(scope: Any, receive: Any, send: Any) -> None:
    size = 2 if scope["path"] == "/small" else LARGE
    headers = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"x" * size})


@contextlib.asynccontextmanager
async def served(
    made: list[Connection] | None = None, *, limits: ConnectionLimits = USUAL, app: Any = None
) -> AsyncIterator[Callable[[], Any]]:
    guard = ConnectionGuard(limits)

    def protocol(*given: Any, **options: Any) -> Connection:
        one = guard.protocol(*given, **options)
        if made is not None:
            made.append(one)
        return one

    listener = socket.create_server(("127.0.0.1", 0))
    config = guard.config(app or large, log_config=None, lifespan="off", ws="none")
    config.http = protocol  # type: ignore[assignment]
    server = uvicorn.Server(config)
    serves = asyncio.create_task(server._serve([listener]))
    lines: list[asyncio.StreamWriter] = []

    async def connect() -> Accepted:
        # Small buffers, so that what is not read stays with the server.
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        line.setblocking(False)
        await asyncio.get_running_loop().sock_connect(line, listener.getsockname())
        reader, writer = await asyncio.open_connection(sock=line, limit=4096)
        lines.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for line in lines:
            line.close()
        server.should_exit = True
        await serves


def test_headers_that_never_end_are_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)

    async def slow() -> tuple[bytes, bytes]:
        async with served() as connect:
            reader, writer = await connect()
            # A whole request is answered, and its connection may be used again.
            writer.write(GET.replace(b"/ ", b"/small "))
            answered = await reader.readuntil(b"\r\n")
            await reader.readuntil(b"\r\n\r\nxx")
            writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")
            return answered, await asyncio.wait_for(reader.read(), 10)

    answered, rest = asyncio.run(slow())
    assert answered == b"HTTP/1.1 200 OK\r\n"
    assert rest == b""


def test_headers_have_less_time_when_many_connections_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 3_600)
    monkeypatch.setattr(connections, "PRESSED_HEAD_SECONDS", 0.1)

    async def crowded() -> list[bool]:
        async with served(limits=ConnectionLimits(100, 8)) as connect:
            lines = [await connect() for _ in range(6)]
            for _, writer in lines:
                writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")
            # More than half of the address's connections wait: the fifth and the sixth have less time.
            ends = [await asyncio.wait_for(reader.read(), 10) for reader, _ in lines[4:]]
            return [end == b"" for end in ends] + [reader.at_eof() for reader, _ in lines[:4]]

    assert asyncio.run(crowded()) == [True, True, False, False, False, False]


def test_a_connection_over_the_limit_replaces_the_one_that_waits_longest():
    async def crowded() -> tuple[bytes, bytes, bytes]:
        async with served(limits=ConnectionLimits(100, 2)) as connect:
            (first, _), (second, writer), (third, other) = [await connect() for _ in range(3)]
            gone = await asyncio.wait_for(first.read(), 10)
            for line in (writer, other):
                line.write(GET.replace(b"/ ", b"/small "))
            return gone, await second.readline(), await third.readline()

    assert asyncio.run(crowded()) == (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("limits", [ConnectionLimits(2, 0), ConnectionLimits(100, 2)])
def test_a_connection_over_the_limit_is_refused_if_all_others_are_busy(
    limits: ConnectionLimits, caplog: pytest.LogCaptureFixture
):
    async def crowded() -> tuple[bytes, list[bytes]]:
        done = asyncio.Event()
        running = asyncio.Semaphore(0)

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            running.release()
            await done.wait()
            await large(scope, receive, send)

        async with served(limits=limits, app=slow) as connect:
            lines = [await connect() for _ in range(2)]
            for _, writer in lines:
                writer.write(GET.replace(b"/ ", b"/small "))
                await asyncio.wait_for(running.acquire(), 10)
            refused = await asyncio.wait_for((await connect())[0].read(), 10)
            done.set()
            return refused, [await reader.readline() for reader, _ in lines]

    refused, answers = asyncio.run(crowded())
    assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"urn:satchel:problem:too-many-connections" in refused
    assert answers == [b"HTTP/1.1 200 OK\r\n"] * 2
    assert "all connections are in use" in caplog.text


def test_connections_with_a_valid_token_do_not_count_for_their_address():
    async def known(scope: Any, receive: Any, send: Any) -> None:
        connections.mark_trusted(scope)
        await large(scope, receive, send)

    async def shared() -> list[bool]:
        async with served(limits=ConnectionLimits(100, 2), app=known) as connect:
            lines = []
            for _ in range(5):
                reader, writer = await connect()
                writer.write(GET.replace(b"/ ", b"/small "))
                await asyncio.wait_for(reader.readuntil(b"xx"), 10)
                lines.append(reader)
            return [reader.at_eof() for reader in lines]

    assert asyncio.run(shared()) == [False] * 5


def test_a_server_keeps_descriptors_for_its_store(monkeypatch: pytest.MonkeyPatch):
    resource = pytest.importorskip("resource")
    for soft, wanted, most in [(1_024, 1_000, 832), (64, 1_000, 32), (100_000, 1_000, 1_000), (1_024, 20, 20)]:
        monkeypatch.setattr(resource, "getrlimit", lambda what, soft=soft: (soft, soft))
        assert connections.most_connections(wanted) == most
    # 256 worker processes have two pipes each.
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1_024, 1_024))
    assert connections.most_connections(1_000, reserved=512) == 320


def test_an_answer_that_nobody_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.1)
    made: list[Connection] = []

    async def unread() -> int:
        async with served(made) as connect:
            _, writer = await connect()
            writer.write(GET)
            async with asyncio.timeout(10):
                while not (made and made[0].cycle and made[0].cycle.response_complete):
                    await asyncio.sleep(0.005)
                held = made[0].transport.get_write_buffer_size()
                while made[0] in made[0].connections:
                    await asyncio.sleep(0.005)
            return held

    assert asyncio.run(unread()) > 0
    assert made[0].transport.get_write_buffer_size() == 0


class Line:
    """A transport that holds so much of an answer at each look, and the clock of its loop."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.due: list[Callable[[], None]] = []
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.sizes[0]

    def abort(self) -> None:
        self.aborted = True

    def call_later(self, seconds: float, work: Callable[..., None], *given: Any) -> asyncio.TimerHandle:
        assert seconds == connections.READ_SECONDS
        self.due.append(lambda: work(*given))
        return NotImplemented

    def looks(self) -> int:
        """How often it is looked at before it is let go, or hung up."""
        watched = Connection.__new__(Connection)
        watched.transport, watched.loop = self, self  # type: ignore[assignment]
        watched._expect_reader()
        count = 0
        while self.due:
            count += 1
            self.sizes.pop(0)
            self.due.pop()()
        return count


@pytest.mark.parametrize(
    ("sizes", "looks", "hung_up"),
    [
        ([0], 0, False),
        ([9_000, 0], 1, False),
        ([500_000, 400_000, 200_000, 0], 3, False),
        ([500_000, 500_000], 1, True),
        # A little at a time, for ever.
        ([500_000, 499_000], 1, True),
        ([500_000, 20_000, 20_000], 2, True),
    ],
)
def test_who_reads_slowly_is_waited_for_as_long_as_they_read(sizes: list[int], looks: int, hung_up: bool):
    line = Line(*sizes)
    assert (line.looks(), line.aborted) == (looks, hung_up)


def test_another_protocol_is_not_spoken_and_not_complained_of(caplog: pytest.LogCaptureFixture):
    async def upgrading() -> bytes:
        async with served() as connect:
            reader, writer = await connect()
            writer.write(b"GET /small HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            return await reader.readuntil(b"\r\n")

    assert asyncio.run(upgrading()) == b"HTTP/1.1 200 OK\r\n"
    assert [record.getMessage() for record in caplog.records if record.levelname != "INFO"] == []
