"""The queue of calls: how many run, whose turn it is, and who is rejected."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

import pytest

from satchel.server.http import scheduling
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import RefusedError
from satchel.server.http.scheduling import CallQueue


def queue_of(*, slots: int, brisk: int | None = None, waiting: int = 20, shared: bool = True) -> CallQueue:
    return CallQueue(Metrics(), slots=slots, brisk=brisk or slots, waiting=waiting, shared=shared)


async def steps(number: int = 20) -> None:
    """Let other tasks run."""
    for _ in range(number):
        await asyncio.sleep(0)


class Calls:
    """Calls that run until they are told to end."""

    def __init__(self, queue: CallQueue) -> None:
        self.queue = queue
        self.running: list[str] = []
        self.done: list[str] = []
        self.refused: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._ends: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def end(self, org: str) -> None:
        self._ends[org].set()

    async def begin(self, *orgs: str) -> None:
        for org in orgs:
            self.tasks.append(asyncio.create_task(self._call(org)))
            await steps()

    async def _call(self, org: str) -> None:
        try:
            with self.queue.admitted(org):
                turn = await self.queue.turn(org)
                self.running.append(org)
                await self._ends[org].wait()
                self.running.remove(org)
                self.done.append(org)
                turn.end()
        except RefusedError as error:
            self.refused.append(f"{org}, again in {error.headers['Retry-After']}")

    async def all_end(self) -> None:
        async with asyncio.timeout(10):
            while not all(task.done() for task in self.tasks):
                for org in self.running:
                    self.end(org)
                await asyncio.sleep(0)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def body() -> None:
        await work()

    asyncio.run(body())


def test_calls_of_one_org_that_all_wait_leave_slots_for_others():
    queue = queue_of(slots=4)

    async def work() -> None:
        calls = Calls(queue)
        calls.end("quick")
        await calls.begin(*["slow"] * 10, *["quick"] * 3)
        assert calls.running == ["slow"] * 2
        assert calls.done == ["quick"] * 3
        await calls.all_end()
        assert calls.refused == []

    run(work)
    assert queue._metrics.in_flight == 0
    assert queue._running == queue._brisk == 0


def test_one_org_does_not_fill_the_queue():
    async def work() -> None:
        calls = Calls(queue_of(slots=4, waiting=6))
        calls.end("quick")
        await calls.begin(*["slow"] * 8, *["quick"] * 2)
        # Two run and three wait.
        assert calls.refused == ["slow, again in 1"] * 3
        assert calls.done == ["quick"] * 2
        await calls.all_end()

    run(work)


def test_no_more_calls_are_admitted_than_run_and_wait():
    async def work() -> None:
        calls = Calls(queue_of(slots=2, waiting=2))
        await calls.begin(*"abcdef")
        assert calls.running == ["a", "b"]
        assert calls.refused == ["e, again in 1", "f, again in 1"]
        await calls.all_end()
        assert calls.done == ["a", "b", "c", "d"]

    run(work)


@pytest.mark.parametrize(("shared", "at_once"), [(True, 2), (False, 4)])
def test_one_org_has_half_of_the_slots_where_there_are_several(shared: bool, at_once: int):
    async def work() -> None:
        calls = Calls(queue_of(slots=4, shared=shared))
        await calls.begin(*["acme"] * 10)
        assert calls.running == ["acme"] * at_once
        await calls.all_end()

    run(work)


def test_more_calls_run_when_some_have_become_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scheduling, "LONG_SECONDS", 0.02)

    async def work() -> None:
        calls = Calls(queue_of(slots=3, brisk=1))
        await calls.begin("a", "b", "c", "d")
        assert calls.running == ["a"]
        async with asyncio.timeout(10):
            while len(calls.running) < 3:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.06)
        # Long calls take slots all the same.
        assert calls.running == ["a", "b", "c"]
        await calls.all_end()
        assert calls.done == ["a", "b", "c", "d"]

    run(work)


def test_the_org_that_has_used_the_least_time_is_next(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(scheduling.time, "monotonic", lambda: now[0])
    order: list[str] = []
    seconds = {"large": 0.9, "small": 0.1, "other": 0.1}

    async def call(queue: CallQueue, org: str) -> None:
        with queue.admitted(org):
            turn = await queue.turn(org)
            order.append(org)
            now[0] += seconds[org]
            await steps(1)
            turn.end()

    async def work() -> None:
        queue = queue_of(slots=1, waiting=200)
        each = [*["large"] * 20, *["small"] * 40, *["other"] * 40]
        await asyncio.gather(*(call(queue, org) for org in each))

    run(work)
    # While all have calls, each gets the same time: nine calls of a small one for a call of the large one.
    beginning = order[: order.index("large", 10) + 30]
    share = beginning.count("large") / len(beginning)
    assert share < 0.12, beginning
    assert abs(beginning.count("small") - beginning.count("other")) <= 2
    assert len(order) == 100


def test_an_org_that_was_away_does_not_make_up_for_it(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(scheduling.time, "monotonic", lambda: now[0])
    order: list[str] = []

    async def call(queue: CallQueue, org: str) -> None:
        with queue.admitted(org):
            turn = await queue.turn(org)
            order.append(org)
            now[0] += 0.1
            await steps(1)
            turn.end()

    async def work() -> None:
        queue = queue_of(slots=1, waiting=200)
        await asyncio.gather(*(call(queue, "busy") for _ in range(50)))
        both = [call(queue, org) for org in [*["busy"] * 10, *["back"] * 10]]
        await asyncio.gather(*both)

    run(work)
    # It is not served alone until it has had as much time as the other.
    assert 3 <= order[50:60].count("back") <= 7


def test_a_call_that_nobody_waits_for_any_more_gives_up_its_place():
    async def work() -> None:
        calls = Calls(queue_of(slots=1, shared=False))
        await calls.begin("a", "b", "c")
        calls.tasks[1].cancel()
        await asyncio.gather(calls.tasks[1], return_exceptions=True)
        calls.end("a")
        await steps()
        assert calls.running == ["c"]
        calls.end("c")
        await asyncio.gather(calls.tasks[0], calls.tasks[2])
        assert calls.queue._running == 0
        assert calls.queue._waiting == {}

    run(work)


def test_a_call_that_is_given_up_in_the_moment_of_its_turn_leaves_it_to_the_next():
    async def work() -> None:
        queue = queue_of(slots=1, shared=False)
        first = await queue.turn("a")
        waiting = [asyncio.create_task(queue.turn(org)) for org in "bc"]
        await steps()
        first.end()
        # The first that waited has its turn, but has not run yet.
        waiting[0].cancel()
        turn = await asyncio.wait_for(waiting[1], 10)
        turn.end()
        assert queue._running == queue._brisk == 0

    run(work)


def test_orgs_without_calls_are_forgotten():
    async def work() -> None:
        calls = Calls(queue_of(slots=4, waiting=1000))
        for number in range(300):
            calls.end(str(number))
        await calls.begin(*map(str, range(300)))
        await calls.all_end()
        assert calls.queue._orgs == calls.queue._waiting == {}

    run(work)
