"""The thread limiter and its queue: no org can use all threads."""

import threading
from typing import Any

import anyio
import pytest

from satchel.server.http.application import ThreadLimiter
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import RefusedError


def outcomes(limiter: ThreadLimiter, calls: list[str]) -> tuple[list[str], list[str]]:
    """Calls of `slow` wait until all others are done: who was answered before that, and who was refused."""
    leave = threading.Event()
    done: list[str] = []
    refused: list[str] = []

    def work(org: str) -> None:
        if org == "slow":
            assert leave.wait(60)
        done.append(org)

    async def call(org: str) -> None:
        try:
            await limiter.run(org, lambda: work(org))
        except RefusedError as error:
            refused.append(f"{org}, again in {error.headers['Retry-After']}")

    async def run() -> list[str]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = 4
        async with anyio.create_task_group() as slow:
            with anyio.fail_after(10):
                async with anyio.create_task_group() as others:
                    for org in calls:
                        (slow if org == "slow" else others).start_soon(call, org)
                        await anyio.sleep(0)
            before = list(done)
            leave.set()
        return before

    return anyio.run(run), refused


def test_calls_of_one_org_that_all_wait_leave_threads_for_others():
    metrics = Metrics()
    limiter = ThreadLimiter(metrics, threads=4, waiting=20, shared=True)
    before, refused = outcomes(limiter, ["slow"] * 12 + ["quick"] * 3)
    assert (before, refused) == (["quick"] * 3, [])
    assert metrics.in_flight == 0
    assert limiter._queues == {}


def test_one_org_does_not_fill_the_line():
    before, refused = outcomes(
        ThreadLimiter(Metrics(), threads=4, waiting=6, shared=True), ["slow"] * 8 + ["quick"] * 2
    )
    # Two run and three wait.
    assert (before, refused) == (["quick"] * 2, ["slow, again in 1"] * 3)


@pytest.mark.parametrize(("shared", "at_once"), [(True, 2), (False, 4)])
def test_the_only_org_has_all_threads(shared: bool, at_once: int):
    running, most = 0, 0
    limiter = ThreadLimiter(Metrics(), threads=4, waiting=20, shared=shared)

    async def call() -> None:
        nonlocal running, most
        async with limiter.turn("acme"):
            running += 1
            most = max(most, running)
            await anyio.sleep(0.001)
            running -= 1

    async def run() -> Any:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(call)

    anyio.run(run)
    assert most == at_once
