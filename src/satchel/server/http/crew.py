"""Threads for calls of the library, which wait for disks and locks: so many at once, and so many more in line."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeVar

import anyio
import anyio.to_thread

from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import SOON, RefusedError

__all__ = ["Crew"]

T = TypeVar("T")


class _Lane:
    """The calls of one org: those that run, and those that wait behind them."""

    def __init__(self, width: int) -> None:
        self.limiter = anyio.CapacityLimiter(width)
        self.calls = 0


class Crew:
    """Runs calls in threads. Who comes when the line is full is told to come again.

    Where there may be several orgs, one has half of the threads and of the line: its calls may all wait for a lock.
    """

    def __init__(self, metrics: Metrics, *, threads: int, waiting: int, shared: bool) -> None:
        self._metrics = metrics
        self._most = threads + waiting
        self._width = max(1, threads // 2) if shared else threads
        self._longest = self._width + ((waiting + 1) // 2 if shared else waiting)
        self._lanes: dict[str | None, _Lane] = {}

    async def do(self, org: str | None, work: Callable[[], T]) -> T:
        async with self.turn(org):
            # A write that has begun is finished, whether anyone waits for its answer or not.
            return await anyio.to_thread.run_sync(work)

    @asynccontextmanager
    async def turn(self, org: str | None) -> AsyncIterator[None]:
        """Wait for an org's turn to use a thread."""
        lane = self._lanes.get(org) or _Lane(self._width)
        if self._metrics.in_flight >= self._most or lane.calls >= self._longest:
            self._metrics.refused("busy")
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "busy", "too many calls wait already", Retry_After=str(SOON)
            )
        self._lanes[org] = lane
        self._metrics.in_flight += 1
        lane.calls += 1
        try:
            async with lane.limiter:
                yield
        finally:
            self._metrics.in_flight -= 1
            lane.calls -= 1
            if not lane.calls:
                del self._lanes[org]
