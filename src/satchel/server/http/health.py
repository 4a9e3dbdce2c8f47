"""Whether the store can be reached, asked seldom however often others ask."""

import logging
import time
from collections.abc import Callable

import anyio
import anyio.to_thread

from satchel.api.satchel import Satchel
from satchel.errors import SatchelError

__all__ = ["Health"]

FRESH_SECONDS = 1.0
PATIENCE_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Health:
    """Remembers its last finding for a second: whoever asks needs no token, and must not keep the store busy."""

    def __init__(self, bag: Satchel, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bag = bag
        self._clock = clock
        self._until = float("-inf")
        self._well = False
        self._asking = anyio.Lock()
        # Of its own: threads that all wait for the store must not let it seem unreachable, nor the other way round.
        self._limiter = anyio.CapacityLimiter(4)

    async def well(self) -> bool:
        async with self._asking:
            if self._clock() >= self._until:
                self._well = await self._reached()
                self._until = self._clock() + FRESH_SECONDS
            return self._well

    async def _reached(self) -> bool:
        with anyio.move_on_after(PATIENCE_SECONDS):
            return await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True, limiter=self._limiter)
        _log.warning("the store has not answered within %g s", PATIENCE_SECONDS)
        return False

    def _read(self) -> bool:
        try:
            # One row, whatever the store holds.
            _ = self._bag.embedder
        except SatchelError as error:
            _log.warning("the store cannot be read: %s", error)
            return False
        return True
