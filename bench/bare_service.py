"""A service that only reads the rows: the reference for `python -m bench.service`.

python -m bench.bare_service LOCATION PROCESSES

It runs uvicorn in as many processes on one listener. A request to any path names its org in the bearer token. The
handler reads the id, title and text of all memories of the org from a file or a PostgreSQL database, and answers
with as many of the newest as have 8,000 characters. There is no ranking, no counting and no check of the token.
"""

import multiprocessing
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio.to_thread
import apsw
import msgspec
import psycopg
import uvicorn
from psycopg import sql

from satchel.store.locations import is_address

__all__: list[str] = []

MOST_CHARACTERS = 8_000
THREADS = 4
ROWS = "SELECT id, title, text FROM {schema}memory WHERE org = {org} ORDER BY at, id"

Read = Callable[[str], Sequence[tuple[str, str | None, str]]]


def main() -> None:
    location, processes = sys.argv[1], int(sys.argv[2])
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    # Accepted connections inherit it; asyncio does not set it on sockets made without a protocol number.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    children = [
        multiprocessing.get_context("spawn").Process(target=_serve, args=(location, listener), daemon=True)
        for _ in range(processes)
    ]
    for child in children:
        child.start()
    print(f"bare: serving http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    for child in children:
        child.join()


def _serve(location: str, listener: socket.socket) -> None:
    config = uvicorn.Config(_application(_reader(location)), log_level="warning", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


def _reader(location: str) -> Read:
    """Return a function that reads the rows of an org, with one connection for each thread."""
    local = threading.local()

    def of_file(org: str) -> Any:
        if not hasattr(local, "db"):
            local.db = apsw.Connection(location, flags=apsw.SQLITE_OPEN_READONLY)
        return local.db.execute(ROWS.format(schema="", org="?"), (org,)).fetchall()

    def of_server(org: str) -> Any:
        if not hasattr(local, "db"):
            local.db = psycopg.connect(location, autocommit=True)
        with local.db.transaction():
            # Without it, row-level security shows nothing.
            local.db.execute(sql.SQL("SET LOCAL satchel.org TO {}").format(org))
            return local.db.execute(ROWS.format(schema="satchel.", org="%s"), (org,)).fetchall()

    return of_server if is_address(location) else of_file


def _application(read: Read) -> Any:
    limiter = anyio.CapacityLimiter(THREADS)

    def answer(org: str) -> bytes:
        shown, size = [], 0
        if not (rows := read(org)):
            raise LookupError(f"no rows of {org}")
        for identifier, title, text in reversed(rows):
            size += len(text)
            if size > MOST_CHARACTERS:
                break
            shown.append({"id": identifier, "title": title, "text": text})
        return msgspec.json.encode(shown)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        org = next(value for name, value in scope["headers"] if name == b"authorization").decode().split()[1]
        body = await anyio.to_thread.run_sync(answer, org, limiter=limiter)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return application


if __name__ == "__main__":
    main()
