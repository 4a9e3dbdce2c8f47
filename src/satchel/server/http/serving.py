"""The process of the HTTP service: listens, serves, and shuts down after requests in flight are answered."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator, Sequence

import uvicorn

from satchel.api.satchel import Satchel
from satchel.server.connections import BACKLOG, ConnectionGuard, ConnectionLimits
from satchel.server.http.application import Application, Limits
from satchel.server.http.gate import Gate
from satchel.server.http.worker_process import WorkerSettings
from satchel.server.http.workers import Crew
from satchel.server.listening import Address, listen, security_of
from satchel.server.logs import configure_logging
from satchel.server.process import exit_within
from satchel.text.redact import load_rules

__all__ = ["serve"]


LAST_SECONDS = 2.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(
    bag: Satchel,
    gate: Gate,
    address: Address,
    *,
    limits: Limits,
    connections: ConnectionLimits,
    grace: float,
    allowed_hosts: Sequence[str] = (),
    workers: WorkerSettings | None = None,
) -> None:
    """Serve until a signal arrives; calls in flight get `grace` seconds to finish.

    With `workers`, calls run in as many worker processes as the limits say; otherwise in threads of this process.
    Exits with code 1 if a worker process had to be killed because its calls did not end.
    """
    guard = ConnectionGuard(connections, on_refusal=gate.metrics.refused)
    crew = None if workers is None else Crew(workers, limits.processes, gate.metrics)
    application = Application(bag, gate, security=security_of(address, allowed_hosts), limits=limits, runner=crew)
    configure_logging()
    load_rules()
    with listen(*address) as listener:
        config = guard.config(
            application,
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

        async def run() -> bool:
            if crew is not None:
                await crew.start()
            shown = f"http://{address.shown}:{listener.getsockname()[1]}"
            print(f"satchel: serving {shown}", file=sys.stderr, flush=True)
            await server.serve(sockets=[listener])
            # The requests in flight are answered by now.
            return crew is None or await crew.close(LAST_SECONDS / 2)

        if not asyncio.run(run()):
            sys.exit(1)


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
