"""Threads for calls of the library, which wait for disks and locks: so many at once, and so many more in line."""

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

import anyio.to_thread

from satchel.http.metrics import Metrics
from satchel.http.problems import SOON, RefusedError

__all__ = ["Crew"]

T = TypeVar("T")


class Crew:
    """Runs calls in threads. Who comes when the line is full is told to come again."""

    def __init__(self, metrics: Metrics, *, threads: int, waiting: int) -> None:
        self._metrics = metrics
        self._most = threads + waiting

    async def do(self, work: Callable[[], T]) -> T:
        with self:
            # A write that has begun is finished, whether anyone waits for its answer or not.
            return await anyio.to_thread.run_sync(work)

    def __enter__(self) -> None:
        if self._metrics.in_flight >= self._most:
            self._metrics.refused("busy")
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "busy", "too many calls wait already", Retry_After=str(SOON)
            )
        self._metrics.in_flight += 1

    def __exit__(self, *_: object) -> None:
        self._metrics.in_flight -= 1
