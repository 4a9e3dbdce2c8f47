"""The process of the HTTP service: listens, serves, and shuts down after requests in flight are answered."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator, Sequence

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from satchel.api.satchel import Satchel
from satchel.server.http.application import Application, Limits
from satchel.server.http.gate import Gate
from satchel.server.listening import Address, listen, security_of
from satchel.server.process import configure_logging, exit_within

__all__ = ["Connection", "serve"]


HEAD_SECONDS = 10.0
READ_SECONDS = 30.0
LEAST_READ = 64 * 1024


class Connection(H11Protocol):
    """An HTTP connection with timeouts: it is closed if a request head is late or the client stops reading."""

    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def handle_events(self) -> None:
        super().handle_events()
        if self._late is not None and self.cycle is not None and not self.cycle.response_complete:
            self._late.cancel()
            self._late = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._expect_head()
            self._expect_reader()

    # A response is buffered whole until the client has read it; the code that sends it does not wait.
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()
        if self.cycle is not None and self.cycle.response_complete:
            self._expect_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)
        self._stop_watching()

    def _unsupported_upgrade_warning(self) -> None:
        """No warning: an upgrade request is answered over plain HTTP, and nobody needs to act on it."""

    def _expect_head(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _expect_reader(self) -> None:
        if (size := self.transport.get_write_buffer_size()) and self._unread is None:
            self._unread = self.loop.call_later(READ_SECONDS, self._check_reader, size)

    def _check_reader(self, before: int) -> None:
        """Abort if the client has read nothing; closing would wait until it has read everything."""
        self._unread = None
        if self.transport.get_write_buffer_size() > max(0, before - LEAST_READ):
            self.transport.abort()
        else:
            self._expect_reader()

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


# The process


LAST_SECONDS = 2.0
BACKLOG = 128
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(
    bag: Satchel,
    gate: Gate,
    address: Address,
    *,
    limits: Limits,
    grace: float,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve until a signal arrives; calls in flight get `grace` seconds to finish."""
    application = Application(bag, gate, security=security_of(address, allowed_hosts), limits=limits)
    configure_logging()
    with listen(*address) as listener:
        config = uvicorn.Config(
            application,
            http=Connection,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            # uvicorn takes whole seconds, and 0 would mean no grace period at all.
            timeout_graceful_shutdown=max(1, round(grace)),
        )
        server = Server(config, application)
        print(f"satchel: serving http://{address.shown}:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
        server.run(sockets=[listener])


class Server(uvicorn.Server):
    """A uvicorn server that exits with code 0 on a signal instead of raising it again."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # A thread that waits for a lock cannot be stopped in any other way.
        exit_within((self.config.timeout_graceful_shutdown or 0) + LAST_SECONDS, 1)
        self._application.stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
