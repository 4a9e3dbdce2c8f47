"""Every mutator alone, inside another transaction, and rolled back, checked through a second connection."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import satchel
from satchel import Draft, Satchel

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


class UndoError(Exception):
    pass


def seeded(location: Path | str) -> Satchel:
    bag = satchel.open(location)
    bag.add("apple", ref="a")
    bag.add("pear", ref="p")
    bag.add("quince", ref="q")
    bag.relate(by_ref(bag, "p").id, by_ref(bag, "q").id, "supersedes")
    bag.add("medlar", ref="m")
    bag.forget(by_ref(bag, "m").id)
    return bag


def by_ref(bag: Satchel, ref: str) -> satchel.Memory:
    return next(memory for memory in bag.recent(status=["active", "superseded"], ended=True) if memory.ref == ref)


MUTATORS: dict[str, Callable[[Satchel], object]] = {
    "add": lambda bag: bag.add("plum"),
    "add_many": lambda bag: bag.add_many([Draft("plum"), Draft("fig")]),
    "add of the same ref": lambda bag: bag.add("apple pie", ref="a"),
    "update": lambda bag: bag.update(by_ref(bag, "a").id, text="apple tart"),
    "forget": lambda bag: bag.forget(by_ref(bag, "a").id),
    "purge": lambda bag: bag.forget(by_ref(bag, "a").id, purge=True),
    "unforget": lambda bag: bag.unforget(by_ref(bag, "m").id),
    "relate": lambda bag: bag.relate(by_ref(bag, "a").id, by_ref(bag, "p").id),
    "supersede": lambda bag: bag.relate(by_ref(bag, "a").id, by_ref(bag, "p").id, "supersedes"),
    "unrelate": lambda bag: bag.unrelate(by_ref(bag, "p").id, by_ref(bag, "q").id),
    "import_": lambda bag: bag.import_([b'{"text": "plum"}', b'{"text": "fig"}']),
    "strict import_": lambda bag: bag.import_([b'{"text": "plum"}'], strict=True),
}


def undone(bag: Satchel, name: str) -> None:
    with bag.transaction():
        MUTATORS[name](bag)
        raise UndoError


def state(bag: Satchel) -> bytes:
    """All that is stored, the uses aside."""
    return b"".join(bag.export())


@pytest.mark.parametrize("name", MUTATORS)
def test_alone_it_is_seen_by_others_at_once(location: Path | str, name):
    with seeded(location) as bag, satchel.open(location) as other:
        before = state(other)
        MUTATORS[name](bag)
        assert state(other) != before
        assert state(other) == state(bag)
        assert all(check.state == "ok" for check in other.checks())


@pytest.mark.parametrize("name", MUTATORS)
def test_inside_a_transaction_others_see_it_only_when_that_ends(location: Path | str, name):
    with seeded(location) as bag, satchel.open(location) as other:
        before = state(other)
        with bag.transaction():
            bag.add("cherry")
            MUTATORS[name](bag)
            assert state(other) == before
        assert state(other) == state(bag) != before
        assert all(check.state == "ok" for check in other.checks())


@pytest.mark.parametrize("name", MUTATORS)
def test_rolled_back_it_leaves_nothing(location: Path | str, name):
    with seeded(location) as bag, satchel.open(location) as other:
        before = state(other)
        with pytest.raises(UndoError):
            undone(bag, name)
        assert state(bag) == state(other) == before
        assert all(check.state == "ok" for check in bag.checks())
        assert [hit.memory.text for hit in bag.search("apple pear plum fig cherry", limit=9)] != []


@pytest.mark.parametrize("name", MUTATORS)
def test_an_inner_transaction_that_fails_takes_only_itself_back(location: Path | str, name):
    with seeded(location) as bag:
        with bag.transaction():
            bag.add("cherry")
            with pytest.raises(UndoError):
                undone(bag, name)
            bag.add("date")
        texts = [memory.text for memory in bag.recent()]
        assert texts == ["date", "cherry", "pear", "apple"]
        assert all(check.state == "ok" for check in bag.checks())


def test_one_bad_draft_of_many_stores_none(location: Path | str):
    with seeded(location) as bag:
        bag.add("rhubarb", topic_key="t")
        before = state(bag)
        with pytest.raises(satchel.InputError, match="two different memories"):
            bag.add_many([Draft("plum"), Draft("both", ref="a", topic_key="t")])
        assert state(bag) == before


def test_a_transaction_in_one_thread_does_not_hold_up_readers_in_another(location: Path | str):
    from concurrent.futures import ThreadPoolExecutor

    with seeded(location) as bag, bag.transaction(), ThreadPoolExecutor(4) as threads:
        bag.add("unseen")
        found = list(threads.map(lambda _: bag.stats().memories, range(8)))
        assert found == [4] * 8
        assert bag.stats().memories == 5


def test_threads_share_one_satchel_without_losing_a_write(location: Path | str):
    from concurrent.futures import ThreadPoolExecutor

    with satchel.open(location) as bag, ThreadPoolExecutor(12) as threads:
        ids = list(threads.map(lambda number: bag.add(f"note {number}").id, range(240)))
        assert len(set(ids)) == 240
        assert bag.stats().memories == 240


def test_threads_share_a_store_in_memory_too():
    from concurrent.futures import ThreadPoolExecutor

    with satchel.open(":memory:") as bag, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: (bag.add(f"note {number}"), bag.search("note")), range(100)))
        assert bag.stats().memories == 100


def test_a_closed_store_says_so(location: Path | str):
    bag = satchel.open(location)
    bag.close()
    with pytest.raises(satchel.StoreError, match="closed"):
        bag.add("too late")
