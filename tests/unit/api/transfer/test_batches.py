"""Importing in batches: the next one is prepared in a thread while one is stored."""

import json
import threading
from collections.abc import Iterable, Iterator

import pytest

from satchel import InputError, Memory, Satchel
from satchel.api import transfer
from satchel.recall.indexer import Indexer
from satchel.store.contract import Embedded


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BATCH", 3)


def lines(count: int) -> list[bytes]:
    return [json.dumps({"text": f"note {number}", "ref": f"r{number}"}).encode() + b"\n" for number in range(count)]


def test_bad_lines_of_all_batches_are_listed_in_order_and_the_others_stored(bag: Satchel):
    given = lines(11)
    given[1] = b"{"
    given[10] = b'{"txt": 1}\n'
    done = bag.import_(given)
    assert (done.added, [problem.line for problem in done.problems]) == (9, [2, 11])
    assert bag.import_(given).kept == 9


def test_the_lines_are_read_in_the_thread_of_the_caller(bag: Satchel):
    threads = set()

    def read() -> Iterator[bytes]:
        for line in lines(8):
            threads.add(threading.current_thread())
            yield line

    assert bag.import_(read()).added == 8
    assert threads == {threading.current_thread()}


def test_progress_counts_the_bytes_of_each_batch_after_it_is_stored(bag: Satchel):
    told: list[tuple[int, int]] = []
    bag.import_(lines(7), progress=lambda size: told.append((size, bag.stats().memories)))
    sizes = [sum(map(len, lines(7)[start : start + 3])) for start in (0, 3, 6)]
    assert [size for size, _ in told] == sizes
    assert [stored for _, stored in told] == [3, 6, 7]


def test_an_import_inside_a_transaction_is_a_part_of_it(bag: Satchel):
    def imported_and_undone() -> None:
        with bag.transaction():
            assert bag.import_(lines(8)).added == 8
            raise KeyError

    with pytest.raises(KeyError):
        imported_and_undone()
    assert bag.stats().memories == 0


def test_inside_a_transaction_vectors_are_made_in_its_thread_which_knows_that_a_lock_is_held(
    bag: Satchel, monkeypatch: pytest.MonkeyPatch
):
    inside: list[bool] = []
    embedded = Indexer.embedded

    def watched(self: Indexer, memories: Iterable[Memory]) -> Embedded | None:
        inside.append(self._store.in_transaction)
        return embedded(self, memories)

    monkeypatch.setattr(Indexer, "embedded", watched)
    with bag.transaction():
        bag.import_(lines(8))
    assert inside == [True] * 3


def test_an_error_in_the_lines_leaves_the_batches_before_it_and_no_thread(bag: Satchel):
    def broken() -> Iterator[bytes]:
        yield from lines(6)
        raise InputError("the source broke")

    with pytest.raises(InputError, match="the source broke"):
        bag.import_(broken())
    assert bag.stats().memories in (3, 6)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("satchel-import")]


def test_the_next_batch_is_prepared_while_one_is_stored(bag: Satchel, monkeypatch: pytest.MonkeyPatch):
    prepared: list[int] = []
    begun = threading.Event()
    prepare, stored = transfer._Run._prepare, transfer._Run._stored

    def counted(self: transfer._Run, sources: list[transfer._Source]) -> transfer._Batch:
        prepared.append(sources[0].number)
        if len(prepared) == 2:
            begun.set()
        return prepare(self, sources)

    def after_the_next(self: transfer._Run, *args: object) -> object:
        assert begun.wait(10)
        return stored(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(transfer._Run, "_prepare", counted)
    monkeypatch.setattr(transfer._Run, "_stored", after_the_next)
    assert bag.import_(lines(6)).added == 6
    assert prepared == [1, 4]
