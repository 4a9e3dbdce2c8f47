"""Serve one client over standard input and output.

What needs no store is answered at once, in the main thread. The store and the tools are loaded in a thread when the
client has nothing to ask, or when it asks for them; calls that need them wait.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from satchel.errors import SatchelError
from satchel.server.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Message,
    RequestError,
    RequestId,
    as_request_id,
    read_message,
    response,
)
from satchel.server.loading import Loading, Workers
from satchel.server.mcp.methods import Method, Served, mcp_methods
from satchel.server.mcp.protocol import Connection
from satchel.server.process import INTERRUPTED_SECONDS, claim_stdio, exit_within, short_line
from satchel.server.stdio import LineReader, LineWriter

if TYPE_CHECKING:
    from satchel.server.mcp.tool_context import ToolContext

__all__ = ["Opened", "StdioServer", "serve_stdio"]

# How long the last answers are waited for once the input has ended.
LONGEST_WAIT = 3.8
# The process ends within five seconds; one is left for a busy machine. The store may have to be opened first.
LAST_SECONDS = 4.0
# A client that is silent for so long reads an answer or waits for its user, and loading delays nobody.
IDLE_SECONDS = 0.01
# How often a client that does not read its answers is looked at.
FULL_SECONDS = 0.05
THREADS = 16
# How long after the start what searches keep in memory is read.
READING_AHEAD = 1.0


class Opened(NamedTuple):
    """The open store with its tools, and how it is closed."""

    served: Served
    closing: ExitStack


def serve_stdio(names: Sequence[str], open_store: Callable[[], Opened], *, at_once: bool) -> int:
    """Serve until standard input closes, and return the exit code. Requests before that are still answered.

    With `at_once` the client is answered before the store is open. If the store cannot be opened then, calls are
    answered with the reason, and each tries again. Otherwise the error is raised before anything is answered.
    """
    loading = Loading(open_store)
    if not at_once:
        loading.get()
    reader, writing = _claimed()
    writer = LineWriter(writing, broken=partial(_client_gone, reader))
    server = StdioServer(names, loading, writer.send)
    try:
        _serve(reader, writer, server)
        opened = loading.finish(LAST_SECONDS)
        if opened is not None:
            opened.closing.close()
        writer.finish()
    except KeyboardInterrupt:
        exit_within(INTERRUPTED_SECONDS, 128 + signal.SIGINT)
        raise
    if writer.failure is not None:
        exit_within(INTERRUPTED_SECONDS, 1)
        raise writer.failure
    return 0 if loading.failure is None else 1


def _claimed() -> tuple[LineReader, int]:
    reading, writing = claim_stdio()
    return LineReader(reading), writing


def _client_gone(reader: LineReader) -> None:
    """End the process, since nobody reads its answers: now if the main thread waits for input, or else soon."""
    exit_within(LAST_SECONDS, 1)
    reader.wake()


def _serve(reader: LineReader, writer: LineWriter, server: "StdioServer") -> None:
    if not reader.waits:
        server.load()
    while writer.failure is None:
        if not reader.wait(IDLE_SECONDS if server.may_load else None):
            server.load()
            continue
        if (lines := reader.read()) is None:
            break
        for line in lines:
            server.receive(line)
        while writer.is_full and not reader.has_ended():
            time.sleep(FULL_SECONDS)
    exit_within(LAST_SECONDS, 0 if writer.failure is None else 1)
    server.finish(LONGEST_WAIT if writer.failure is None else 0.0)


class StdioServer:
    """Answers the messages of one client. Answers go to `send`, in the order in which they are ready."""

    def __init__(self, names: Sequence[str], loading: Loading[Opened], send: Callable[[Message], None]) -> None:
        self._send = send
        self._loading = loading
        self._connection = Connection(mcp_methods(names, self._served))
        self._workers = Workers(THREADS)
        self._pending: dict[RequestId, object] = {}
        self._changed = threading.Condition()
        self.may_load = True
        """Whether nothing has been loaded yet, so that a pause of the client is a good time for it."""

    def load(self) -> None:
        """Load the store and the tools in a thread, and then what the first search needs."""
        if self.may_load:
            self.may_load = False
            threading.Thread(target=self._warm_up, daemon=True).start()

    def receive(self, line: bytes) -> None:
        """Handle a line of the client: answer it, or see to it that it is answered."""
        try:
            message = read_message(line)
        except RequestError as error:
            self._send(error.response(error.identifier))
            return
        params = message.get("params") or {}
        if message.get("method") == "notifications/cancelled":
            self._cancel(as_request_id(params.get("requestId")))
        elif "method" in message and "id" in message:
            self._answer(message["id"], message["method"], params)

    def finish(self, seconds: float) -> None:
        """Wait at most `seconds` until every request is answered."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pending, seconds)

    def _answer(self, identifier: RequestId, name: str, params: Message) -> None:
        try:
            method = self._connection.method(name, params)
            if not method.needs_store:
                self._send(response(identifier, method.answer(params)))
                return
            if identifier in self._pending:
                raise RequestError(INVALID_REQUEST, "a request with this id is still being processed")
        except RequestError as error:
            self._send(error.response(identifier))
            return
        self.load()
        self._pending[identifier] = call = object()
        self._workers.run(partial(self._work, identifier, call, method, params))

    def _work(self, identifier: RequestId, call: object, method: Method, params: Message) -> None:
        # The client may have cancelled the call, and may have used its id again.
        if self._pending.get(identifier) is not call:
            return
        try:
            answer = response(identifier, method.answer(params))
        except RequestError as error:
            answer = error.response(identifier)
        except SatchelError as error:
            answer = RequestError(INTERNAL_ERROR, short_line(str(error))).response(identifier)
        except Exception as error:  # noqa: BLE001 - outermost handler of a thread
            if os.environ.get("SATCHEL_DEBUG"):
                sys.excepthook(type(error), error, error.__traceback__)
            what = f"unexpected {type(error).__name__}: {error}; SATCHEL_DEBUG=1 shows where"
            answer = RequestError(INTERNAL_ERROR, short_line(what)).response(identifier)
        with self._changed:
            if self._pending.get(identifier) is call:
                self._send(answer)
                del self._pending[identifier]
                self._changed.notify_all()

    def _cancel(self, identifier: RequestId | None) -> None:
        """Forget a call: it is not answered, and if it has not begun, it never begins."""
        with self._changed:
            if identifier is not None and self._pending.pop(identifier, None) is not None:
                self._changed.notify_all()

    def _served(self) -> Served:
        return self._loading.get().served

    def _warm_up(self) -> None:
        from satchel.server.logs import configure_logging

        configure_logging()
        try:
            context = self._loading.get().served.context
        except SatchelError as error:
            _complain(error)
            return
        self._wait_for_calls()
        warm_up(context)
        # Reading a large store would slow down the first calls.
        time.sleep(READING_AHEAD)
        self._wait_for_calls()
        warm_up(context, whole=True)

    def _wait_for_calls(self) -> None:
        """Let calls that wait come first: they load what they need, and in the right order."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pending)


def warm_up(context: "ToolContext", *, whole: bool = False) -> None:
    """Load what the first search needs, and what records its answer. `whole` is that of `Satchel.warm_up`."""
    # A client that leaves at once closes the store meanwhile; any other trouble shows at the first search.
    with suppress(SatchelError):
        context.bag.warm_up(whole=whole)
    if context.recorder is not None:
        context.recorder.warm_up()


def _complain(error: SatchelError) -> None:
    if sys.stderr is not None:
        print(f"satchel: {short_line(str(error))}", file=sys.stderr, flush=True)
