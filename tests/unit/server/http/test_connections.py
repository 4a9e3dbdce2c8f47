"""Connections: headers that never end, responses that nobody reads, unsupported protocols."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn

from satchel.server.http import serving
from satchel.server.http.serving import Connection

LARGE = 8 * 1024 * 1024
GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
Accepted = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def large(scope: Any, receive: Any, send: Any) -> None:
    size = 2 if scope["path"] == "/small" else LARGE
    headers = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"x" * size})


@contextlib.asynccontextmanager
async def served(made: list[Connection] | None = None) -> AsyncIterator[Callable[[], Any]]:
    def protocol(*given: Any, **options: Any) -> Connection:
        one = Connection(*given, **options)
        if made is not None:
            made.append(one)
        return one

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(large, http=protocol, log_config=None, lifespan="off", ws="none")  # type: ignore[arg-type]
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
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.1)

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


def test_an_answer_that_nobody_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serving, "READ_SECONDS", 0.1)
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
        assert seconds == serving.READ_SECONDS
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
