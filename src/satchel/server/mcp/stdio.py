"""Serving one client over standard input and output."""

import contextlib
import os
import select
import signal
import threading
from collections.abc import Mapping
from functools import partial
from typing import BinaryIO

import anyio
from mcp.server.stdio import stdio_server

from satchel.errors import SatchelError
from satchel.server.mcp.desk import Desk
from satchel.server.mcp.lines import IncomingLines, OutgoingLines, Traffic
from satchel.server.mcp.process import INTERRUPTED_SECONDS, leave_within, log_in_lines, taken_streams
from satchel.server.mcp.server import build_server
from satchel.server.mcp.tool import Tool

__all__ = ["serve_stdio"]

# Of the five in which it ends, two are left for a start that was not over and for a machine that is busy.
LAST_SECONDS = 3.0


def serve_stdio(desk: Desk, tools: Mapping[str, Tool]) -> None:
    """Serve until standard input closes; what was asked before that is still answered."""
    taken = taken_streams()
    reading, writing = os.fdopen(taken[0], "rb"), os.fdopen(taken[1], "wb")
    log_in_lines()

    async def serve() -> None:
        server = build_server(desk, tools)
        traffic = Traffic()
        outgoing = OutgoingLines(writing, traffic)
        incoming = IncomingLines(reading, outgoing, traffic, at_end=partial(leave_within, LAST_SECONDS, 0))
        with outgoing.readable:
            async with stdio_server(incoming, outgoing) as (messages, answers):  # type: ignore[arg-type]
                threading.Thread(target=_watch, args=(reading,), daemon=True).start()
                # While the client says hello.
                threading.Thread(target=_warm_up, args=(desk,), daemon=True).start()
                await server.run(messages, answers, server.create_initialization_options())
        if outgoing.failure is not None:
            raise outgoing.failure

    try:
        anyio.run(serve)
    except KeyboardInterrupt:
        leave_within(INTERRUPTED_SECONDS, 128 + signal.SIGINT)
        raise
    except OSError:
        leave_within(INTERRUPTED_SECONDS, 1)
        raise


def _watch(reading: BinaryIO) -> None:
    """Leave in time also where lines are left to be read: an answer that nobody reads holds them up."""
    if hasattr(select, "poll"):
        end = select.poll()
        end.register(reading, 0)
        end.poll()
        leave_within(LAST_SECONDS, 0)


def _warm_up(desk: Desk) -> None:
    # A client that leaves at once closes the store meanwhile; what else is wrong, the first search will say.
    with contextlib.suppress(SatchelError):
        desk.bag.warm_up()
