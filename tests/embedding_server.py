"""A real local embedding server that embeds by hashing, and misbehaves when told to."""

import hashlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from satchel.embed import endpoint

DIMENSIONS = 16


def hashed(text):
    return [byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()[:DIMENSIONS]]


def unit(text):
    vector = np.array(hashed(text))
    return vector / np.linalg.norm(vector)


class Server(ThreadingHTTPServer):
    """Answers each request with the next behaviour in `misbehave`, then normally."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, dict, dict]] = []
        self.misbehave: list[Callable[[Handler, dict], None]] = []
        self.for_ever: Callable[[Handler, dict], None] | None = None
        self.closing = threading.Event()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        """Ignore disconnected clients, which some of these tests are about."""


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), asked))
        turn = self.server.misbehave.pop(0) if self.server.misbehave else self.server.for_ever
        (turn or well)(self, asked)

    def answer(self, body, status=200, **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def vectors(asked):
    return [{"object": "embedding", "index": i, "embedding": hashed(t)} for i, t in enumerate(asked["input"])]


def well(handler, asked):
    handler.answer(
        {"object": "list", "data": vectors(asked), "model": asked["model"], "usage": {"total_tokens": 1}}
    )


def status(code, message="the server's own words", **headers):
    return lambda handler, asked: handler.answer({"error": {"message": message}}, code, **headers)


@pytest.fixture
def plain_environment(monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "SATCHEL_EMBED_API_KEY", "SATCHEL_EMBED_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(endpoint, "_RETRY_PAUSES", (0.01, 0.02))


@pytest.fixture
def server(plain_environment):
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.closing.set()
        running.shutdown()
        thread.join(10)
