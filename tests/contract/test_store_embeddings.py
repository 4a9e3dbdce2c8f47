"""Which embedder a store's vectors come from, what waits to be embedded, and how the embedder is replaced."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import satchel
from call_by_call import CallByCall
from in_step import Letters, differences
from satchel import Draft, Satchel
from satchel.model.filters import Filter
from satchel.recall.indexer import packed
from satchel.store import index
from satchel.store.contract import Candidate, Embedded, Embedding
from satchel.store.locations import open_store

LETTERS = Embedding(Letters.name, Letters.dimensions)


class Digits(Letters):
    name = "digits"


@pytest.fixture
def store(bag: Satchel) -> CallByCall:
    return CallByCall(bag._store)


def letters(passages: Sequence[tuple[int, str]]) -> Embedded:
    texts = [text for _, text in passages]
    return Embedded(*LETTERS, {}, dict(zip(texts, packed(Letters().embed(texts)), strict=True)))


def numbers(passages: Sequence[tuple[int, str]]) -> list[int]:
    return [number for number, _ in passages]


def vectors(store: CallByCall) -> set[int]:
    """The sizes of the vectors that ranking sees."""
    return {len(passage.vector or b"") for trace in store.traces(Filter()) for passage in trace.passages}


def test_an_embedder_is_recorded_once(location: Path | str):
    store = CallByCall(open_store(str(location)))
    assert store.embedding() is None
    store.adopt(LETTERS)
    store.adopt(Embedding("another", 3))
    assert store.embedding() == LETTERS
    store.close()


def test_what_was_stored_before_there_was_an_embedder_waits_for_it(location: Path | str):
    with satchel.open(location) as bag:
        bag._indexer.embedder = None
        CallByCall(bag._store).add([candidate(bag, "one"), candidate(bag, "two")])
        assert CallByCall(bag._store).embedding() is None
        waiting = CallByCall(bag._store).backlog(limit=9)
        assert [memory.text for _, memory in waiting] == ["one", "two"]
        assert len(CallByCall(bag._store).backlog(limit=1)) == 1
        assert differences(bag) == []
        memories = [memory for _, memory in waiting]
        embedded = letters([(0, memory.text) for memory in memories])
        assert CallByCall(bag._store).embed_backlog([waiting[0][0], 12345], embedded) == 1
        assert CallByCall(bag._store).embedding() == LETTERS
        assert [memory.text for _, memory in CallByCall(bag._store).backlog(limit=9)] == ["two"]
        assert CallByCall(bag._store).embed_backlog([key for key, _ in waiting], embedded) == 1
        assert CallByCall(bag._store).backlog(limit=9) == []
        assert differences(bag) == []


def candidate(bag: Satchel, text: str) -> Candidate:
    from satchel.api.saving import new_candidate

    return new_candidate(Draft(text), bag.scope)


def test_to_adopt_no_embedder_ends_all_waiting(location: Path | str):
    store = CallByCall(open_store(str(location)))
    with satchel.open(":memory:") as other:
        store.add([candidate(other, "one")])
    assert len(store.backlog(limit=9)) == 1
    store.adopt(Embedding("none", 0))
    assert store.backlog(limit=9) == []
    store.close()


def test_vectors_of_another_embedder_are_not_taken(bag: Satchel, store: CallByCall):
    bag.add("one")
    store.add([candidate(bag, "two")], letters([(0, "two")]))
    assert [memory.text for _, memory in store.backlog(limit=9)] == ["two"]
    keys = [key for key, _ in store.backlog(limit=9)]
    assert store.embed_backlog(keys, letters([(0, "two")])) == 0
    assert differences(bag) == []
    bag.add("three")
    assert store.backlog(limit=9) == []
    assert differences(bag) == []


def test_the_old_vectors_serve_until_the_new_ones_are_complete(bag: Satchel, store: CallByCall):
    bag.add_many(Draft(f"note {number}") for number in range(10))
    assert store.begin_reembedding(LETTERS) == 10
    first = store.unembedded(LETTERS, after=-1, limit=4)
    assert store.fill(numbers(first), letters(first)) == 4
    assert vectors(store) == {256}
    assert store.embedding() != LETTERS
    assert not store.finish_reembedding(LETTERS)
    assert differences(bag) == []
    rest = store.unembedded(LETTERS, after=first[-1][0], limit=99)
    assert len(rest) == 6
    store.fill(numbers(rest), letters(rest))
    assert store.finish_reembedding(LETTERS)
    assert store.embedding() == LETTERS
    assert vectors(store) == {20}
    assert differences(bag) == []


def test_a_reembedding_that_was_stopped_goes_on(location: Path | str):
    with satchel.open(location) as bag:
        bag.add_many(Draft(f"note {number}") for number in range(10))
        CallByCall(bag._store).begin_reembedding(LETTERS)
        first = CallByCall(bag._store).unembedded(LETTERS, after=-1, limit=4)
        CallByCall(bag._store).fill(numbers(first), letters(first))
    seen: list[tuple[int, int]] = []
    with satchel.open(location) as bag:
        assert CallByCall(bag._store).begin_reembedding(LETTERS) == 6
        assert bag.reembed(Letters(), progress=lambda done, total: seen.append((done, total))) == 6
        assert seen == [(6, 6)]
        assert differences(bag) == []


def test_another_embedder_begins_anew(bag: Satchel, store: CallByCall):
    bag.add("one")
    store.begin_reembedding(Embedding("digits", 20))
    passages = store.unembedded(Embedding("digits", 20), after=-1, limit=9)
    assert bag.reembed(Letters()) == 1
    with pytest.raises(satchel.StoreError, match="digits; run only one of them"):
        store.fill(numbers(passages), Embedded("digits", 20, {}, {}))
    assert differences(bag) == []


def test_what_is_written_during_a_reembedding_is_embedded_too(bag: Satchel, store: CallByCall):
    """Each batch is embedded while others write, also what is just being embedded."""
    kept, changed, purged = bag.add_many(Draft(text) for text in ("kept", "changed", "purged"))

    class Busy(Letters):
        rounds = 0

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            self.rounds += 1
            if self.rounds == 1:
                bag.update(changed.id, text="changed meanwhile")
                bag.forget(purged.id, purge=True)
                bag.add("added meanwhile")
            if self.rounds == 2:
                bag.update(kept.id, title="A title", tags=["t"])
            return super().embed(texts)

    assert bag.reembed(Busy()) == 4
    assert {memory.text for memory in bag.recent()} == {"kept", "changed meanwhile", "added meanwhile"}
    assert store.embedding() == LETTERS
    assert differences(bag) == []
    assert store.backlog(limit=9) == []


def test_a_store_can_do_without_vectors_and_have_them_again(bag: Satchel, store: CallByCall):
    bag.add("one")
    bag.reembed("none")
    assert (store.embedding(), vectors(store)) == (Embedding("none", 0), {0})
    assert store.nearest(Filter(), bytes(32), limit=5) == []
    bag.add("two")
    assert store.backlog(limit=9) == []
    assert differences(bag) == []
    assert bag.reembed("static") == 2
    assert vectors(store) == {256}
    assert differences(bag) == []


def test_the_same_embedder_can_make_its_vectors_again(bag: Satchel):
    bag.add_many(Draft(f"note {number}") for number in range(5))
    assert bag.reembed() == 5
    assert differences(bag) == []


def test_an_empty_store_is_reembedded_in_no_time(bag: Satchel, store: CallByCall):
    assert bag.reembed(Letters()) == 0
    assert store.embedding() == LETTERS
    assert bag.add("one")
    assert differences(bag) == []


def test_reembedding_inside_a_transaction_is_refused(bag: Satchel, store: CallByCall):
    bag.add("one")
    with bag.transaction(), pytest.raises(satchel.StoreError, match="leave it first"):
        bag.reembed(Letters())
    assert differences(bag) == []


REEMBED = """
import sys
sys.path.append(sys.argv[2])
import satchel
from in_step import Letters
with satchel.open(sys.argv[1]) as bag:
    print("ready", flush=True)
    sys.stdin.readline()
    print(bag.reembed(Letters()))
"""


def test_several_processes_can_reembed_at_once(location: Path | str):
    with satchel.open(location) as bag:
        bag.add_many(Draft(f"note {number}") for number in range(600))
    arguments = [sys.executable, "-c", REEMBED, str(location), str(Path(__file__).parent.parent)]
    pipe = subprocess.PIPE
    crew = [subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(3)]
    for process in crew:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in crew:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outcomes = [process.communicate(timeout=60) for process in crew]
    assert [complaint for _, complaint in outcomes] == [""] * 3
    assert sum(int(output) for output, _ in outcomes) >= 600
    with satchel.open(location) as bag:
        assert CallByCall(bag._store).embedding() == LETTERS
        assert differences(bag) == []


def test_a_reader_is_not_disturbed_when_its_vectors_are_replaced(location: Path | str):
    """It reads which table to ask, and another process drops that table before it asks."""
    with satchel.open(location) as reader, satchel.open(location) as other:
        reader.add_many(Draft(f"apple {number}") for number in range(20))
        code = packed(np.ones((1, 256), np.float32))[0][1]
        for embedder in (Letters(), "static"):
            assert len(reader._store.traces(Filter())) == 20
            assert len(reader._store.nearest(Filter(), code, limit=5)) in (0, 5)
            other.reembed(embedder)
            assert len(reader._store.traces(Filter())) == 20
            reader._store.nearest(Filter(), code, limit=5)
            reader.add("apple pie")
            reader.forget(reader.recent(limit=1)[0].id, purge=True)
            assert differences(reader) == []


def test_reads_go_on_while_another_thread_changes_the_embedder(location: Path | str):
    code = bytes(32)
    with satchel.open(location) as bag, satchel.open(location) as other:
        bag.add_many(Draft(f"apple {number}") for number in range(50))
        ended = threading.Event()
        failures: list[Exception] = []

        def read() -> None:
            while not ended.is_set():
                try:
                    assert len(bag._store.traces(Filter())) == 50
                    bag._store.nearest(Filter(), code, limit=5)
                except Exception as error:  # noqa: BLE001
                    failures.append(error)
                    return

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        try:
            for embedder in (Letters(), "static", "none", "static", Letters(), "static"):
                other.reembed(embedder)
        finally:
            ended.set()
            for reader in readers:
                reader.join(30)
        assert failures == []


def test_dropped_vectors_come_back_with_what_was_rolled_back(bag: Satchel, store: CallByCall):
    bag.add_many(Draft(f"note {number}") for number in range(5))
    with contextlib.suppress(ZeroDivisionError), store.writing() as db:
        found = db.vectors.generation()
        assert found is not None
        db.vectors.drop(found)
        assert index.begin_reembedding(db, LETTERS) == 5
        raise ZeroDivisionError
    assert differences(bag) == []
    assert vectors(store) == {256}
    bag.add("goes on")
    assert differences(bag) == []
