"""A proxy in front of PostgreSQL that kills a client at its Nth message."""

import contextlib
import os
import signal
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

__all__ = ["Proxy"]

CHUNK = 1 << 20


def socket_name(folder: str, port: int) -> str:
    return str(Path(folder, f".s.PGSQL.{port}"))


class Proxy:
    """Passes on what clients and server say, and counts what clients send.

    At the Nth message the client is killed. Every second time the server still gets that message, and does what
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
        """Kill the next client at a message; at none for 0."""
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
        with contextlib.suppress(OSError):
            while message := client.recv(CHUNK):
                with self._lock:
                    self.points += 1
                    due = self.points == self._step
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
