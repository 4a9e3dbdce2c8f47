"""A `satchel serve` in a separate process, used over real sockets, with tokens for two tenants."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from email.message import Message
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from conftest import clean_environment
from mcp_pipe import LONGEST_WAIT, SATCHEL
from satchel.server.http.access import Access, add_token, new_token

__all__ = ["Reply", "Served", "token_in", "until"]

TOKEN = re.compile(r"satchel_[0-9a-f]{10}_")


def children_of(process: int) -> list[int]:
    return [
        int(child)
        for thread in Path(f"/proc/{process}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]


class Reply(NamedTuple):
    status: int
    headers: Message
    content: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.content)


def token_in(path: Path, org: str | None, access: Access = "write", **bounds: Any) -> str:
    """Create a token in a file, as `satchel token create` does."""
    token, kept = new_token(access=access, org=org, **bounds)
    add_token(path, kept)
    return token


def until(condition: Callable[[], bool]) -> None:
    """Wait for what comes soon."""
    give_up = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


class Served:
    """The service on a free port, which it prints on standard error; with a token file unless told otherwise.

    With one process, it runs calls itself; None leaves the number to the command.
    """

    def __init__(
        self, folder: Path, *options: str, guarded: bool = True, processes: int | None = 1, **environment: str
    ) -> None:
        self.folder = folder
        self.store = folder / "notes.db"
        self.tokens = folder / "tokens.jsonl"
        self.token = token_in(self.tokens, "acme") if guarded else None
        self.process = subprocess.Popen(
            [
                *(SATCHEL, "serve", "--http", "127.0.0.1:0"),
                *(() if processes is None else ("--processes", str(processes))),
                *(("--tokens", self.tokens) if guarded else ()),
                *options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=clean_environment(folder) | environment,
        )
        self.complaints: list[str] = []
        self._watcher: str | None = None
        self._told = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.wait_for_line("satchel: serving http://127.0.0.1:")
        self.url = self.complaints[0].split()[-1]
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Check that it printed nothing on stdout, no traceback and no token."""
        self.process.kill()
        self.process.wait(LONGEST_WAIT)
        self._listener.join(LONGEST_WAIT)
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            assert printed.read() == ""
        assert all(line.startswith("satchel: ") for line in self.complaints), self.complaints
        assert not any(TOKEN.search(line) for line in self.complaints), self.complaints

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                with self._told:
                    self.complaints.append(line)
                    self._told.notify_all()

    def wait_for_line(self, words: str) -> None:
        with self._told:
            heard = self._told.wait_for(lambda: any(words in line for line in self.complaints), LONGEST_WAIT)
        assert heard, self.complaints

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request on its own connection, with the first token unless another or none is given."""
        sent = {"Content-Type": "application/json"} if body is not None else {}
        if (carried := self.token if token == "" else token) is not None:
            sent["Authorization"] = f"Bearer {carried}"
        content = body if body is None or isinstance(body, bytes) or hasattr(body, "__next__") else json.dumps(body)
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST_WAIT)
        with contextlib.closing(line):
            line.request(method, path, content, sent | dict(headers or {}))
            answer = line.getresponse()
            return Reply(answer.status, answer.headers, answer.read())

    def done(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the value of a response that must be successful."""
        reply = self.ask(method, path, body, **options)
        assert 200 <= reply.status < 300, (reply.status, reply.content)
        return reply.value if reply.content else None

    @property
    def workers(self) -> list[int]:
        """The ids of its worker processes."""
        return children_of(self.process.pid)

    def metric(self, name: str) -> float:
        """The value of a series, such as `satchel_in_flight` or `satchel_calls_total{operation=…}`."""
        if self._watcher is None and self.token is not None:
            self._watcher = token_in(self.tokens, None, "metrics")
        text = self.ask("GET", "/metrics", token=self._watcher).content.decode()
        found = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0

    def ended(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal; returns the exit code and the seconds until exit."""
        started = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(LONGEST_WAIT), time.monotonic() - started
