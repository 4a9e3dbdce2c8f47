"""Which call runs next: few at a time, shared fairly between the orgs, with a bounded queue."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import SOON, RefusedError

__all__ = ["CallQueue", "Turn"]

LONG_SECONDS = 0.1
# How much the last call counts in the expected time of an org's next one.
NEWEST = 0.2
MOST_ORGS = 10_000


class _Org:
    """The calls of one org, and the time that they have used."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.calls = 0
        self.running = 0
        self.waiting: deque[asyncio.Future[Turn]] = deque()
        self.used = 0.0
        self.expected = 0.0

    @property
    def is_idle(self) -> bool:
        return not (self.calls or self.running or self.waiting)


class Turn:
    """The right of a call to run, until `end`."""

    def __init__(self, queue: "CallQueue", org: _Org) -> None:
        self._queue = queue
        self._org = org
        self._charged = org.expected
        self._started = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(LONG_SECONDS, self._is_long)
        self._brisk = True
        org.running += 1
        org.used += self._charged

    def end(self) -> None:
        self._timer.cancel()
        spent = time.monotonic() - self._started
        self._org.running -= 1
        self._org.used += spent - self._charged
        self._org.expected += NEWEST * (spent - self._org.expected)
        self._queue.ended(self._org, brisk=self._brisk)

    def _is_long(self) -> None:
        self._brisk = False
        self._queue.became_long()


class CallQueue:
    """Lets calls run in turn; when too many wait, a call is rejected as busy.

    At most `brisk` calls run at a time, because more of them would only take the processor from each other. A call
    that has run for `LONG_SECONDS` does not count any more, because it may be waiting for a lock or for the
    database; with such calls at most `slots` run.

    The next call is one of the org whose calls have used the least time (start-time fair queueing), so an org with
    many or slow calls does not delay the calls of others. With several orgs (`shared`), each has at most half of
    the slots and of the queue: one org whose calls all wait for a lock cannot block the others.
    """

    def __init__(self, metrics: Metrics, *, slots: int, brisk: int, waiting: int, shared: bool) -> None:
        self._metrics = metrics
        self._slots = slots
        self._most_brisk = min(brisk, slots)
        self._most = slots + waiting
        self._width = max(1, slots // 2) if shared else slots
        self._longest = self._width + ((waiting + 1) // 2 if shared else waiting)
        self._orgs: dict[str | None, _Org] = {}
        self._waiting: dict[_Org, None] = {}
        self._running = 0
        self._brisk = 0
        # The time that the org of the last call had used: an org that comes back starts from here.
        self._now = 0.0

    @contextmanager
    def admitted(self, org: str | None) -> Iterator[None]:
        """Count a call of an org from its arrival to its answer; rejects it if too many are waiting."""
        found = self._orgs.get(org) or _Org(org)
        if self._metrics.in_flight >= self._most or found.calls >= self._longest:
            self._metrics.refused("busy")
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "busy", "too many calls are waiting", Retry_After=str(SOON)
            )
        self._orgs[org] = found
        self._metrics.in_flight += 1
        found.calls += 1
        try:
            yield
        finally:
            self._metrics.in_flight -= 1
            found.calls -= 1
            self._drop_if_idle(found)

    async def turn(self, org: str | None) -> Turn:
        """Wait until a call of an org may run."""
        # Who was admitted may have left before it asks for its turn.
        found = self._orgs.setdefault(org, _Org(org))
        if not found.running and not found.waiting:
            found.used = max(found.used, self._now)
        given: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        found.waiting.append(given)
        self._waiting[found] = None
        self._start_waiting()
        try:
            return await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():
                given.result().end()
            elif given in found.waiting:
                found.waiting.remove(given)
                self._note_waiting(found)
            raise

    def ended(self, org: _Org, *, brisk: bool) -> None:
        self._running -= 1
        self._brisk -= brisk
        self._drop_if_idle(org)
        self._start_waiting()

    def became_long(self) -> None:
        self._brisk -= 1
        self._start_waiting()

    def _note_waiting(self, org: _Org) -> None:
        if not org.waiting:
            self._waiting.pop(org, None)

    def _drop_if_idle(self, org: _Org) -> None:
        """Forget an org without calls, unless it has used more time than others that are waiting."""
        if not self._running:
            self._orgs = {name: each for name, each in self._orgs.items() if not each.is_idle}
        elif org.is_idle and (org.used <= self._now or len(self._orgs) > MOST_ORGS):
            self._orgs.pop(org.name, None)

    def _start_waiting(self) -> None:
        """Let waiting calls run while there is room for them."""
        while self._running < self._slots and self._brisk < self._most_brisk:
            ready = [each for each in self._waiting if each.running < self._width]
            if not ready:
                return
            chosen = min(ready, key=lambda each: each.used)
            given = chosen.waiting.popleft()
            self._note_waiting(chosen)
            if given.cancelled():
                continue
            self._now = max(self._now, chosen.used)
            self._running += 1
            self._brisk += 1
            given.set_result(Turn(self, chosen))
