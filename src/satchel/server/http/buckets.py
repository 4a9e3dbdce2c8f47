"""How often somebody may ask: a bucket of leaves that fills again at a steady rate."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["Buckets"]

MOST_BUCKETS = 10_000


class Buckets:
    """One bucket for each name; of those that were not asked for the longest the fullest is assumed."""

    def __init__(self, rate: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> int:
        """0 where one may ask now, which counts; else after how many seconds."""
        now = self._clock()
        level, at = self._levels.get(name, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        wait = 0 if level >= 1 else math.ceil((1 - level) / self._rate)
        self._levels[name] = (level if wait else level - 1, now)
        self._levels.move_to_end(name)
        if len(self._levels) > MOST_BUCKETS:
            self._levels.popitem(last=False)
        return wait
