"""A proxy in front of PostgreSQL that kills a client at its Nth statement."""

import contextlib
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import BinaryIO, Self
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

__all__ = ["Proxy"]

CHUNK = 1 << 20
# Requests for an encrypted connection, after which the login follows.
ENCRYPTION = (struct.pack(">I", 80877103), struct.pack(">I", 80877104))


def socket_name(folder: str, port: int) -> str:
    return str(Path(folder, f".s.PGSQL.{port}"))


def messages(asked: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield the messages of a client, and whether each has a statement executed.

    Before its login a client sends messages without a type (https://www.postgresql.org/docs/current/protocol.html).
    """
    kind = b""
    while len(head := kind + asked.read(4)) >= 4:
        (length,) = struct.unpack(">I", head[-4:])
        body = asked.read(length - 4)
        yield head + body, kind in (b"Q", b"E")
        if kind or body[:4] not in ENCRYPTION:
            kind = asked.read(1)
            if not kind:
                return


class Proxy:
    """Passes on what clients and server say, and counts the statements.

    At the Nth statement the client is killed. Every second time the server still gets that statement, and does what
    nobody waits for any more.
    """

    def __init__(self, url: str) -> None:
        told = conninfo_to_dict(url)
        self._host, self._port = str(told["host"]), int(told.get("port") or 5432)
        self._folder = TemporaryDirectory()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(socket_name(self._folder.name, self._port))
        self._socket.listen()
        login = f"{quote(str(told['user']))}:{quote(str(told.get('password', '')))}"
        self.url = (
            f"postgresql://{login}@/{quote(str(told['dbname']))}"
            f"?host={quote(self._folder.name, safe='')}&port={self._port}"
        )
        self._lock = threading.Lock()
        self._known = threading.Event()
        self._victim = 0
        self._step = 0
        self.points = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._folder.cleanup()

    def arm(self, step: int) -> None:
        """Kill the next client at a statement; at none for 0."""
        self._known.clear()
        self._step, self.points = step, 0

    def aim(self, victim: int) -> None:
        self._victim = victim
        self._known.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                server = self._connect()
                threading.Thread(target=self._ask, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(socket_name(self._host, self._port))
        return server

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError), client.makefile("rb") as asked:
            for message, is_statement in messages(asked):
                with self._lock:
                    self.points += is_statement
                    due = is_statement and self.points == self._step
                if due:
                    self._known.wait()
                    os.kill(self._victim, signal.SIGKILL)
                    if self._step % 2:
                        break
                server.sendall(message)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while message := server.recv(CHUNK):
                client.sendall(message)
        for each in (server, client):
            each.close()
