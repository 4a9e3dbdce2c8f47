"""The process of the service: it listens, answers, and ends when all that was begun is done."""

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn

from satchel.api.satchel import Satchel
from satchel.errors import InputError
from satchel.server.http.application import Application, Limits
from satchel.server.http.connection import Connection
from satchel.server.http.gate import Gate
from satchel.server.mcp.process import leave_within, log_in_lines
from satchel.server.mcp.web import Address, _listening, security_of

__all__ = ["check_reach", "serve"]

LAST_SECONDS = 2.0
BACKLOG = 128
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def check_reach(address: Address, tokens: Path | None) -> None:
    """Beyond this machine only with tokens."""
    if tokens is None and not address.is_loopback:
        raise InputError(
            f"listening on {address[0]} lets others in; name a file of tokens with --tokens "
            "(`satchel token create` makes one), or listen on 127.0.0.1"
        )


def serve(
    bag: Satchel,
    gate: Gate,
    address: Address,
    *,
    limits: Limits,
    grace: float,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve until told to stop; calls in flight have `grace` seconds to finish."""
    application = Application(bag, gate, security=security_of(address, allowed_hosts), limits=limits)
    log_in_lines()
    with _listening(*address) as listener:
        config = uvicorn.Config(
            application,
            http=Connection,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            # It is told in whole seconds, and 0 would mean none at all.
            timeout_graceful_shutdown=max(1, round(grace)),
        )
        server = Server(config, application)
        print(f"satchel: serving http://{address.shown}:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
        server.run(sockets=[listener])


class Server(uvicorn.Server):
    """Ends with 0 when it is told to: the signal is not raised once more."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # A thread that waits for a lock cannot be ended otherwise.
        leave_within((self.config.timeout_graceful_shutdown or 0) + LAST_SECONDS, 1)
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
