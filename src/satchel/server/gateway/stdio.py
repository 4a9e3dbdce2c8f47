"""Serve the gateway's client over standard input and output, at once.

What the servers offered when the gateway last ran is told to the client before anything else is loaded. Then the
router takes over, which starts the servers.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from satchel.server.gateway.greeting import initialize_result
from satchel.server.gateway.remembered import Catalog, Remembered
from satchel.server.gateway.servers import Server
from satchel.server.jsonrpc import Message, RequestError, read_message, response
from satchel.server.loading import Loading
from satchel.server.process import claim_stdio, exit_within
from satchel.server.stdio import LineReader, LineWriter

if TYPE_CHECKING:
    from satchel.server.gateway.routing import Routing
    from satchel.session.session import Session

__all__ = ["serve_gateway"]

# A client that is silent for so long waits for nothing, and loading delays nobody.
IDLE_SECONDS = 0.01
LAST_SECONDS = 3.0


def serve_gateway(
    servers: Sequence[Server],
    open_session: Callable[[], "Session"],
    remembered: Remembered,
    *,
    start_seconds: float,
    list_seconds: float,
    at_once: bool,
) -> int:
    """Serve until standard input closes or a signal arrives, and return the exit code.

    With `at_once`, and if it is known what the servers offer, a client is answered before the session is open.
    """

    def load() -> "Routing":
        from satchel.server.gateway.routing import Routing
        from satchel.server.logs import configure_logging

        session = open_session()
        configure_logging()
        return Routing(servers, session, remembered, start_seconds=start_seconds, list_seconds=list_seconds)

    loading = Loading(load)
    known = remembered.read() if at_once else None
    if known is None:
        loading.get()
    reading, writing = claim_stdio()
    reader, over = LineReader(reading), threading.Event()

    def broken() -> None:
        over.set()
        reader.wake()
        if (routing := loading.made()) is not None:
            routing.end(1)

    writer = LineWriter(writing, broken=broken)
    reception = Reception(known, writer.send)
    with _exit_on_terminate():
        if known is not None and not _receive(reader, reception, loading, over):
            code = 1 if over.is_set() else 0
            exit_within(LAST_SECONDS, code)
            loading.finish(LAST_SECONDS)
            writer.finish()
            return code
    return loading.get().run(reader, writer, reception)


def _receive(
    reader: LineReader, reception: "Reception", loading: "Loading[Routing]", over: threading.Event
) -> bool:
    """Answer what can be answered until all is loaded; False if the client has gone and nothing is to be done."""
    idle = reader.waits
    while loading.made() is None and loading.failure is None and not over.is_set():
        if not reader.wait(IDLE_SECONDS if idle else None):
            if idle:
                idle = False
                loading.start(then=reader.wake)
            continue
        if (lines := reader.read()) is None:
            reception.has_ended = True
            return bool(reception.later)
        for line in lines:
            reception.receive(line)
        if reception.later and idle:
            idle = False
            loading.start(then=reader.wake)
        if not reader.waits:
            break
    return not over.is_set()


@contextlib.contextmanager
def _exit_on_terminate() -> Iterator[None]:
    """Exit with the usual code on SIGTERM, as the router does later."""

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Reception:
    """Answers a client before the router is there, and keeps what only that can answer."""

    def __init__(self, known: Catalog | None, send: Callable[[Message], None]) -> None:
        self._known = known
        self._send = send
        self.hello: Message | None = None
        """What the client said in `initialize`, if that was answered here."""
        self.lists_tools = False
        """Whether the client has been told the tools."""
        self.later: list[bytes] = []
        """Lines for the router, in the order of their arrival."""
        self.has_ended = False

    def receive(self, line: bytes) -> None:
        try:
            message = read_message(line)
        except RequestError as error:
            self._send(error.response(error.identifier))
            return
        result = self._result(message.get("method"), message) if "id" in message else None
        if result is not None:
            self._send(response(message["id"], result))
        elif message.get("method") != "notifications/initialized":
            self.later.append(line)

    def _result(self, method: str | None, message: Message) -> Message | None:
        assert self._known is not None
        params = message.get("params") or {}
        if method == "ping":
            return {}
        if method == "initialize":
            self.hello = params
            return initialize_result(params, self._known.instructions)
        if method == "tools/list" and params.get("cursor") is None:
            self.lists_tools = True
            return {"tools": self._known.tools}
        return None
