"""A `satchel mcp` in a separate process, addressed with lines of JSON, without the overhead of a client."""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import mkstemp
from types import TracebackType
from typing import Any, Self

import apsw

from conftest import clean_environment

__all__ = ["HELLO", "LONGEST_WAIT", "SATCHEL", "Pipe", "assert_protocol", "lock_held", "request", "tool_call"]

LONGEST_WAIT = 60.0
SATCHEL = Path(sys.executable).with_name("satchel")
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "pipe", "version": "1"}}


class Pipe:
    """A running server. Its stdout must contain only the protocol, and its stderr no traceback."""

    def __init__(
        self,
        folder: Path,
        *options: str | Path,
        python: Iterable[str] = (),
        greets: bool = True,
        reads: bool = True,
        **environment: str,
    ) -> None:
        interpreter = [sys.executable, *python] if python else []
        descriptor, errors = mkstemp(".errors", dir=folder)
        self.process = Popen(
            [*interpreter, str(SATCHEL), "mcp", *map(str, options)],
            stdin=PIPE,
            stdout=PIPE,
            stderr=descriptor,
            cwd=folder,
            env=clean_environment(folder) | environment,
        )
        open(descriptor).close()
        self._errors = Path(errors)
        self.lines: list[bytes] = []
        self.answers: dict[str | int, dict[str, Any]] = {}
        self._number = 0
        self._news = threading.Condition()
        self._silent = not reads
        # Its output is read as it comes, so that it never blocks on a full pipe.
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reads:
            self._reader.start()
        if greets:
            self.greet()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.ended()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        if error is None:
            assert_protocol(self.lines)
            assert "Traceback" not in self.errors

    @property
    def errors(self) -> str:
        """What it has written to standard error so far."""
        return self._errors.read_text("utf-8", "replace")

    def greet(self) -> None:
        identifier = self.ask("initialize", HELLO)
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        self.answer(identifier)

    def send(self, *lines: bytes) -> None:
        """Send raw lines in one write."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def ask(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request and return its id."""
        identifier = self.reserve(1)
        self.send(request(identifier, method, params))
        return identifier

    def reserve(self, number: int) -> int:
        """Reserve ids for requests and return the first."""
        first = self._number + 1
        self._number += number
        return first

    def start(self, tool: str, /, **arguments: Any) -> int:
        """Call a tool without waiting, and return the id of the call."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer, which must not be an error."""
        return self.result(self.start(tool, **arguments))

    def result(self, identifier: int) -> dict[str, Any]:
        answer = self.answer(identifier)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        assert not result.get("isError"), result
        return result

    def answer(self, identifier: str | int) -> dict[str, Any]:
        self.wait_until(lambda: identifier in self.answers)
        return self.answers[identifier]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true or no more output can come."""
        with self._news:
            assert self._news.wait_for(lambda: condition() or self._silent, LONGEST_WAIT), "no answer"
            assert condition(), f"it ended with {self.process.wait(LONGEST_WAIT)}: {self.errors}"

    def hang_up(self) -> tuple[int, float]:
        """Close its standard input; returns the exit code and the seconds until exit."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.ended()

    def signalled(self, number: int) -> tuple[int, float]:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, float]:
        """Wait for its exit and its last output."""
        started = time.monotonic()
        code = self.process.wait(LONGEST_WAIT)
        took = time.monotonic() - started
        if self._reader.is_alive():
            self._reader.join(LONGEST_WAIT)
        return code, took

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = _message(line)
            with self._news:
                self.lines.append(line)
                if (identifier := message.get("id")) is not None:
                    self.answers[identifier] = message
                self._news.notify_all()
        with self._news:
            self._silent = True
            self._news.notify_all()


def request(identifier: object, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}).encode()


def tool_call(identifier: object, tool: str, /, **arguments: Any) -> bytes:
    return request(identifier, "tools/call", {"name": tool, "arguments": arguments})


def assert_protocol(lines: list[bytes]) -> None:
    """Check that each line is JSON-RPC 2.0; only a killed process may leave a partial line."""
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n") and number == len(lines):
            continue
        message = json.loads(line.decode("utf-8"))
        assert message["jsonrpc"] == "2.0", line
        answers = [name for name in ("result", "error") if name in message]
        assert len(answers) == (0 if "method" in message else 1), line
        if "error" in message:
            assert isinstance(message["error"]["code"], int), line
            assert message["error"]["message"].strip(), line


def _message(line: bytes) -> dict[str, Any]:
    """Return the message, or an empty one if the line is invalid, which `assert_protocol` reports."""
    try:
        message = json.loads(line) if line.endswith(b"\n") else {}
    except ValueError:
        message = {}
    return message if isinstance(message, dict) else {}


@contextlib.contextmanager
def lock_held(path: Path) -> Iterator[None]:
    """Hold the write lock while the block runs."""
    with contextlib.closing(apsw.Connection(str(path))) as holder:
        # The server may still be writing its last answer.
        holder.set_busy_timeout(5_000)
        holder.execute("BEGIN IMMEDIATE")
        yield
