"""A value that is made in a thread, and calls that run in threads."""

import threading
from queue import SimpleQueue

import pytest

from satchel.errors import StoreBusyError
from satchel.server.loading import Loading, Workers

PATIENCE = 60


def test_whoever_asks_waits_for_the_one_attempt_that_is_under_way():
    begin, made = threading.Event(), []

    def make() -> object:
        begin.wait(PATIENCE)
        made.append(object())
        return made[-1]

    loading = Loading(make)
    loading.start()
    found: SimpleQueue[object] = SimpleQueue()
    askers = [threading.Thread(target=lambda: found.put(loading.get())) for _ in range(8)]
    for asker in askers:
        asker.start()
    assert loading.made() is None
    begin.set()
    assert {id(found.get(timeout=PATIENCE)) for _ in askers} == {id(each) for each in made}
    assert len(made) == 1


def test_all_who_wait_get_the_error_and_the_next_one_tries_again():
    attempts = []

    def make() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise StoreBusyError("locked")
        return "open"

    loading = Loading(make)
    with pytest.raises(StoreBusyError, match="locked"):
        loading.get()
    assert isinstance(loading.failure, StoreBusyError)
    assert loading.get() == "open"
    assert (loading.failure, len(attempts)) == (None, 2)


def test_the_end_waits_for_an_attempt_but_begins_none():
    loading = Loading(lambda: "made")
    assert loading.finish(PATIENCE) is None
    told = threading.Event()
    loading.start(then=told.set)
    assert loading.finish(PATIENCE) == "made"
    assert told.wait(PATIENCE)


def test_calls_run_side_by_side_up_to_the_number_of_threads():
    workers, busy, release = Workers(2), threading.Semaphore(0), threading.Event()
    done: SimpleQueue[int] = SimpleQueue()

    def call(number: int) -> None:
        busy.release()
        release.wait(PATIENCE)
        done.put(number)

    for number in range(5):
        workers.run(lambda number=number: call(number))
    assert busy.acquire(timeout=PATIENCE)
    assert busy.acquire(timeout=PATIENCE)
    assert not busy.acquire(timeout=0.05)
    release.set()
    assert sorted(done.get(timeout=PATIENCE) for _ in range(5)) == [0, 1, 2, 3, 4]
