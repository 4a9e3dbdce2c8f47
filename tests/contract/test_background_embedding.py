"""Background embedding: a slow embedder blocks no write, and nothing is lost."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import satchel
from call_by_call import CallByCall
from in_step import Letters, differences
from satchel import Draft, Satchel
from satchel.recall.indexer import BackgroundThread
from satchel.store.contract import Embedding

pytestmark = pytest.mark.usefixtures("all_matches")

MANY = 40


class Slow(Letters):
    """Takes four passages at once; in the background it waits at a gate, and fails when it is told to."""

    passages_inline = 4

    def __init__(self) -> None:
        self.entered, self.gate = threading.Event(), threading.Event()
        self.failure: Exception | None = None
        self.here: list[int] = []
        self.behind: list[int] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if threading.current_thread().name != "satchel-background":
            self.here.append(len(texts))
        else:
            self.behind.append(len(texts))
            self.entered.set()
            assert self.gate.wait(30)
            if self.failure is not None:
                raise self.failure
        return super().embed(texts)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("satchel.recall.indexer.IN_BACKGROUND", 6)
    monkeypatch.setattr("satchel.recall.indexer.PASSAGES_AT_ONCE", 2)


@pytest.fixture
def slow() -> Iterator[Slow]:
    embedder = Slow()
    yield embedder
    embedder.gate.set()


def drafts(count: int = MANY) -> list[Draft]:
    return [Draft(f"{'abcdefghij'[number % 10]} apple number {number}") for number in range(count)]


def thread_of(bag: Satchel) -> threading.Thread:
    worker = bag._indexer._background._worker
    assert worker is not None
    return worker.thread


def finish(bag: Satchel, slow: Slow) -> None:
    """Let the thread do all that waits."""
    thread = thread_of(bag)
    slow.gate.set()
    thread.join(30)
    assert not thread.is_alive()


def open_gate_when_it_should_stop(bag: Satchel, slow: Slow) -> None:
    worker = bag._indexer._background._worker
    assert worker is not None
    stopping = worker.stopping

    def wait() -> None:
        assert stopping.wait(30)
        slow.gate.set()

    threading.Thread(target=wait, daemon=True).start()


def test_few_passages_are_embedded_before_the_write_returns(location: Path | str, slow: Slow):
    with satchel.open(location, embedder=slow) as bag:
        bag.add_many(drafts(4))
        assert (bag.waiting, slow.here, slow.behind) == (0, [4], [])
        assert not bag._indexer._background.awake
        assert differences(bag) == []


def by_add_many(bag: Satchel) -> None:
    bag.add_many(drafts())


def by_import(bag: Satchel) -> None:
    bag.import_(f'{{"text": "{draft.text}"}}\n'.encode() for draft in drafts())


def by_strict_import(bag: Satchel) -> None:
    bag.import_([f'{{"text": "{draft.text}"}}\n'.encode() for draft in drafts()], strict=True)


def by_transaction(bag: Satchel) -> None:
    with bag.transaction():
        for draft in drafts():
            bag.add_many([draft])


def by_one_long_text(bag: Satchel) -> None:
    bag.add("\n\n".join(draft.text * 30 for draft in drafts()))


@pytest.mark.parametrize("write", [by_add_many, by_import, by_strict_import, by_transaction, by_one_long_text])
def test_many_are_stored_at_once_found_by_their_words_and_embedded_behind_the_write(
    location: Path | str, slow: Slow, write: Callable[[Satchel], None]
):
    with satchel.open(location, embedder=slow) as bag:
        write(bag)
        assert slow.entered.wait(30)
        assert bag.waiting == bag.stats().memories > 0
        assert slow.here == []
        assert bag.search("apple number 7")
        assert CallByCall(bag._store).embedding() == Embedding("letters", 20)
        finish(bag, slow)
        assert (bag.waiting, differences(bag), bag.embedder_trouble) == (0, [], None)
        assert max(slow.behind) == 2
    with satchel.open(location) as bag:
        assert bag.stats().memories in (1, MANY)


def test_nothing_is_embedded_inside_a_transaction_and_little_right_after_it(location: Path | str, slow: Slow):
    with satchel.open(location, embedder=slow) as bag:
        with bag.transaction():
            bag.add("apple")
            bag.add("pear")
            assert slow.here == []
            assert not bag._indexer._background.awake
        assert (slow.here, slow.behind, bag.waiting) == ([2], [], 0)
        assert differences(bag) == []


def test_a_small_write_is_embedded_at_once_while_many_wait(location: Path | str, slow: Slow):
    with satchel.open(location, embedder=slow) as bag:
        bag.add_many(drafts())
        assert slow.entered.wait(30)
        bag.add("pear")
        assert (slow.here, bag.waiting) == ([1], MANY)
        finish(bag, slow)
        assert (bag.waiting, differences(bag)) == (0, [])


def test_closing_waits_for_a_few_passages_only_and_what_is_left_goes_on_with_a_search(
    location: Path | str, slow: Slow
):
    with satchel.open(location, embedder=slow) as bag:
        bag.add_many(drafts())
        assert slow.entered.wait(30)
        thread = thread_of(bag)
        open_gate_when_it_should_stop(bag, slow)
    assert not thread.is_alive()
    assert slow.behind == [2]
    with satchel.open(location) as bag:
        # Two passages were made, and are kept.
        assert (bag.waiting, bag.stats().memories, differences(bag)) == (MANY - 2, MANY, [])
    again = Slow()
    with satchel.open(location, embedder=again) as bag:
        assert not bag._indexer._background.awake
        assert bag.search("apple")
        finish(bag, again)
        assert (bag.waiting, differences(bag)) == (0, [])


def test_what_another_process_left_goes_on_with_a_write(location: Path | str, slow: Slow):
    with satchel.open(location, embedder=Letters()) as bag:
        bag.add("first")
    with satchel.open(location) as bag:
        bag.add_many(drafts())
        assert bag.waiting == MANY
    with satchel.open(location, embedder=slow) as bag:
        bag.add("pear")
        finish(bag, slow)
        assert (bag.waiting, differences(bag)) == (0, [])


def test_catching_up_takes_over_from_the_thread_and_returns_when_all_is_done(location: Path | str, slow: Slow):
    with satchel.open(location, embedder=slow) as bag:
        bag.add_many(drafts())
        assert slow.entered.wait(30)
        open_gate_when_it_should_stop(bag, slow)
        told: list[int] = []
        assert bag.catch_up(progress=told.append) == MANY - 2
        assert told == sorted(set(told))
        assert told[-1] == MANY - 2
        assert (bag.waiting, differences(bag), bag.catch_up()) == (0, [], 0)
        assert not bag._indexer._background.awake
        # It starts again when it is needed.
        slow.entered.clear()
        bag.add_many(Draft(f"plum {number}") for number in range(10))
        assert slow.entered.wait(30)
        assert bag.catch_up() <= 10
        assert (bag.waiting, differences(bag)) == (0, [])


@pytest.mark.parametrize("failure", [RuntimeError("broken on purpose"), satchel.EmbedderError("down on purpose")])
def test_an_error_in_the_thread_is_recorded_and_nothing_else(
    location: Path | str, slow: Slow, failure: Exception, capfd: pytest.CaptureFixture[str]
):
    with satchel.open(location, embedder=slow) as bag:
        slow.failure = failure
        bag.add_many(drafts())
        finish(bag, slow)
        assert bag.embedder_trouble == str(failure)
        assert (bag.waiting, differences(bag)) == (MANY, [])
        assert bag.search("apple")
        assert bag.add("pear").text == "pear"
    assert capfd.readouterr() == ("", "")


def test_two_that_embed_the_same_at_once_do_not_disturb_each_other(location: Path | str):
    class Meeting(Letters):
        """Those who embed begin together, as long as there are two of them."""

        passages_inline = 4
        both = threading.Barrier(2)

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            if threading.current_thread().name == "satchel-background":
                with contextlib.suppress(threading.BrokenBarrierError):
                    self.both.wait(2)
            return super().embed(texts)

    with satchel.open(location, embedder=Meeting()) as bag, satchel.open(location, embedder=Meeting()) as other:
        bag.add_many(drafts())
        other._indexer.catch_up()
        for each in (bag, other):
            worker = each._indexer._background._worker
            if worker is not None:
                worker.thread.join(60)
                assert not worker.thread.is_alive()
        assert (bag.embedder_trouble, other.embedder_trouble) == (None, None)
        assert (bag.waiting, differences(bag)) == (0, [])


def test_what_is_changed_or_purged_meanwhile_keeps_the_right_vectors(location: Path | str, slow: Slow):
    with satchel.open(location, embedder=slow) as bag:
        first, second, third, *_ = bag.add_many(drafts())
        assert slow.entered.wait(30)
        bag.update(first.id, text="quite another text")
        bag.forget(second.id, purge=True)
        with bag.transaction():
            bag.update(third.id, text="changed, and to be embedded again")
        finish(bag, slow)
        assert (bag.waiting, differences(bag), bag.embedder_trouble) == (0, [], None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_while_the_thread_runs_has_one_of_its_own(path: Path, slow: Slow):
    with satchel.open(path, embedder=slow) as bag:
        bag.add_many(drafts())
        assert slow.entered.wait(30)
        child = os.fork()
        if not child:
            code = 1
            try:
                slow.gate.set()
                assert not bag._indexer._background.awake
                bag.add("of the child")
                thread_of(bag).join(30)
                code = 0 if bag.waiting == 0 else 2
                bag.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finish(bag, slow)
        assert (bag.waiting, differences(bag), bag.stats().memories) == (0, [], MANY + 1)


LEAVING = """
import sys, satchel
from satchel import Draft
bag = satchel.open(sys.argv[1], embedder="minilm")
bag.add_many(Draft(f"note {number}") for number in range(400))
assert bag._indexer._background.awake
"""


def test_a_program_that_ends_without_closing_leaves_nothing_broken(path: Path):
    done = subprocess.run([sys.executable, "-c", LEAVING, str(path)], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    with satchel.open(path, create=False) as bag:
        assert bag.stats().memories == 400
        assert bag.embedder == "minilm-l6-v2-int8"
        assert {check.state for check in bag.checks() if check.name != "vectors"} == {"ok"}
        assert 0 < bag.waiting <= 400


def test_a_step_that_is_wanted_while_it_runs_is_run_once_more():
    background = BackgroundThread()
    entered, go_on = threading.Event(), threading.Event()
    runs: list[bool] = []

    def step(stopping: threading.Event) -> bool:
        runs.append(stopping.is_set())
        entered.set()
        assert go_on.wait(30)
        return False

    background.wake(step)
    assert entered.wait(30)
    background.wake(step)
    background.wake(step)
    worker = background._worker
    assert worker is not None
    go_on.set()
    worker.thread.join(30)
    assert runs == [False, False]
    assert not background.awake
    background.stop()
    background.wake(step)
    assert not background.awake


def test_a_step_that_never_ends_is_not_repeated_once_it_should_stop():
    background = BackgroundThread()
    entered = threading.Event()

    def step(stopping: threading.Event) -> bool:
        entered.set()
        return True

    background.wake(step)
    assert entered.wait(30)
    stopper = threading.Thread(target=background.stop, daemon=True)
    stopper.start()
    stopper.join(30)
    assert not stopper.is_alive()


STEP_AT_THE_END = """
import threading
from satchel.recall.indexer import BackgroundThread
begun = threading.Event()

def step(stopping):
    begun.set()
    if stopping.wait(30):
        print("over", flush=True)
    return True

background = BackgroundThread()
background.wake(step)
assert begun.wait(30)
"""


def test_the_end_of_a_program_waits_for_the_step_that_runs():
    done = subprocess.run([sys.executable, "-c", STEP_AT_THE_END], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"over\n", b"")
