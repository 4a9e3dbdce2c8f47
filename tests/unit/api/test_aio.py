"""The async API does what the sync API does."""

import asyncio
import inspect
from pathlib import Path

import satchel
from satchel.api.aio import AsyncSatchel


def public_methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_both_have_the_same_methods():
    assert public_methods(AsyncSatchel) - {"run"} == public_methods(satchel.Satchel) - {"transaction"}


def test_every_twin_is_awaited_and_keeps_its_signature():
    for name in public_methods(AsyncSatchel) - {"scoped", "run"}:
        twin = getattr(AsyncSatchel, name)
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(twin) == inspect.signature(getattr(satchel.Satchel, name))


def test_many_tasks_share_one_store(path: Path):
    async def work() -> tuple[int, int, list[bytes]]:
        async with await satchel.aopen(path) as bag:
            thesis = bag.scoped(project="thesis")
            await asyncio.gather(*(thesis.add(f"apple {number}") for number in range(50)))
            hits = await thesis.search("apple", limit=100)
            return len(hits), (await bag.stats()).memories, await bag.export()

    found, stored, lines = asyncio.run(work())
    assert (found, stored, len(lines)) == (50, 50, 51)


def test_a_transaction_runs_in_one_thread(path: Path):
    def both(bag: satchel.Satchel) -> int:
        with bag.transaction():
            bag.add("one")
            bag.add("two")
        return bag.stats().memories

    async def work() -> int:
        async with await satchel.aopen(path) as bag:
            return await bag.run(both)

    assert asyncio.run(work()) == 2


def test_a_store_is_opened_with_the_same_arguments_as_without_waiting() -> None:
    taken = [list(inspect.signature(each).parameters) for each in (satchel.open, satchel.aopen)]
    assert taken[0] == taken[1]

    async def limit() -> int:
        async with satchel.aopen(":memory:", cache_mb=7) as bag:
            return (await bag.stats()).cache_limit

    assert asyncio.run(limit()) == 7_000_000
