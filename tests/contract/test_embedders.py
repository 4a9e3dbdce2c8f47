"""Stores and the embedders they are opened with: what is recorded, rejected, queued and re-embedded."""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import satchel
from call_by_call import CallByCall
from embedding_server import DIMENSIONS, Server, plain_environment, server, status, well
from in_step import Letters, differences
from satchel import Draft, Satchel
from satchel.errors import EmbedderError
from satchel.recall.indexer import LONGEST_KEPT, PAUSE_SECONDS, QUESTIONS_KEPT, Indexer
from satchel.store.contract import Embedding
from satchel.store.locations import open_store
from satchel.text.tokens import DEFAULT_COUNTER, counter

# Fixtures, which the tests ask for by name.
__all__ = ["plain_environment", "server"]

STATIC = Embedding("static:wordllama-l2-supercat-256", 256)


class Moody(Letters):
    """Fails whenever it is told to."""

    name = "moody"

    def __init__(self) -> None:
        self.failing = False
        self.asked = 0

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += 1
        if self.failing:
            raise EmbedderError("the embedder is down")
        return super().embed(texts)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def open_with(location: Path | str, embedder: object, clock: Clock) -> Satchel:
    """As `satchel.open` does, with a clock that stands still."""
    store = open_store(str(location))
    return Satchel(store, counter=counter(DEFAULT_COUNTER), indexer=Indexer(store, embedder, clock=clock))


def waiting(bag: Satchel) -> list[str]:
    return [memory.text for _, memory in CallByCall(bag._store).backlog(limit=99)]


def found(bag: Satchel, query: str) -> list[str]:
    return [hit.memory.text for hit in bag.search(query)]


def test_a_store_records_the_default_embedder_with_its_first_memory(location: Path | str):
    with satchel.open(location) as bag:
        assert CallByCall(bag._store).embedding() is None
        bag.add("one")
        assert CallByCall(bag._store).embedding() == STATIC
        assert differences(bag) == []
    for spec in (None, "static", STATIC.name):
        with satchel.open(location, embedder=spec) as bag:
            assert bag.add("two")
            assert waiting(bag) == []


def test_a_store_without_an_embedder_is_searched_by_its_words(location: Path | str):
    with satchel.open(location, embedder="none") as bag:
        bag.add("apple")
        assert CallByCall(bag._store).embedding() == Embedding("none", 0)
        assert (found(bag, "apple"), waiting(bag)) == (["apple"], [])
    with satchel.open(location) as bag:
        bag.add("apple pie")
        assert CallByCall(bag._store).embedding() == Embedding("none", 0)
        assert differences(bag) == []


@pytest.mark.parametrize("other", ["none", "openai:tiny@http://127.0.0.1:9/v1"])
def test_another_embedder_than_the_stores_own_is_refused_in_one_line(
    location: Path | str, other, plain_environment
):
    with satchel.open(location) as bag:
        bag.add("one")
    with pytest.raises(satchel.InputError, match=f"`satchel reembed --embedder {other}`") as refusal:
        satchel.open(location, embedder=other)
    assert "\n" not in str(refusal.value)
    assert STATIC.name in str(refusal.value)


def test_an_embedder_of_ones_own_that_is_refused_is_not_said_to_be_a_name_for_the_command(location: Path | str):
    with satchel.open(location) as bag:
        bag.add("one")
    with pytest.raises(satchel.InputError, match="pass this embedder to `reembed`") as refusal:
        satchel.open(location, embedder=Letters())
    assert "satchel reembed" not in str(refusal.value)


def test_an_embedder_of_ones_own_is_used_and_needed_only_to_embed(location: Path | str):
    with satchel.open(location, embedder=Letters()) as bag:
        bag.add("apple")
        assert CallByCall(bag._store).embedding() == Embedding("letters", 20)
        assert bag._indexer.query_vector("apple") is not None
        assert found(bag, "apple") == ["apple"]
    with satchel.open(location) as bag:
        assert found(bag, "apple") == ["apple"]
        bag.add("pear")
        assert waiting(bag) == ["pear"]
        with pytest.raises(satchel.InputError, match="embedder letters; name it"):
            bag.reembed()
    with satchel.open(location, embedder=Letters()) as bag:
        bag.add("plum")
        assert waiting(bag) == []
        assert bag.reembed() == 3
        assert differences(bag) == []


def test_an_embedder_that_fails_costs_no_memory(location: Path | str, clock: Clock):
    moody = Moody()
    with open_with(location, moody, clock) as bag:
        bag.add("apple")
        moody.failing = True
        memory = bag.add("pear tree")
        assert bag.get(memory.id).text == "pear tree"
        assert found(bag, "pear") == ["pear tree"]
        assert waiting(bag) == ["pear tree"]
        bag.update(memory.id, text="pear trees")
        bag.import_([b'{"text": "plum"}\n'])
        assert waiting(bag) == ["pear trees", "plum"]
        assert differences(bag) == []


class Asked(Letters):
    """Notes what it embeds, and always returns the same array."""

    name = "asked"

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._rows = np.zeros((0, self.dimensions), np.float32)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += texts
        rows = super().embed(texts)
        if len(self._rows) != len(rows):
            self._rows = rows
        self._rows[:] = rows
        return self._rows


def test_a_question_that_is_asked_again_is_embedded_once(location: Path | str):
    embedder = Asked()
    with satchel.open(location, embedder=embedder) as bag:
        bag.add("apple")
        embedder.texts.clear()
        before = [(hit.memory.text, hit.score) for hit in bag.search("which apple")]
        bag.search("another question")
        bag.context("which apple", token_budget=200)
        assert [(hit.memory.text, hit.score) for hit in bag.search("which apple")] == before
        assert embedder.texts == ["which apple", "another question"]


def test_the_question_of_another_org_is_embedded_again(location: Path | str):
    embedder = Asked()
    with satchel.open(location, embedder=embedder) as bag:
        views = [bag.scoped(org="one"), bag.scoped(org="two")]
        for view in views:
            view.add("apple")
        embedder.texts.clear()
        for view in (*views, *views):
            view.search("which apple")
        assert embedder.texts == ["which apple"] * 2


def test_only_the_last_questions_are_kept_and_no_long_ones(location: Path | str):
    embedder = Asked()
    with satchel.open(location, embedder=embedder) as bag:
        bag.add("apple")
        questions = [f"apple {number}" for number in range(QUESTIONS_KEPT)]
        for question in (*questions, questions[0], "one more apple"):
            bag.search(question)
        embedder.texts.clear()
        for question in (questions[0], questions[1], "apple " * LONGEST_KEPT, "apple " * LONGEST_KEPT):
            bag.search(question)
        assert [text[:8] for text in embedder.texts] == ["apple 1", "apple ap", "apple ap"]


def test_a_question_is_embedded_again_by_another_embedder(location: Path | str):
    with satchel.open(location, embedder="static") as bag:
        bag.add("apple")
        bag.search("which apple")
        embedder = Asked()
        bag.reembed(embedder)
        embedder.texts.clear()
        bag.search("which apple")
        assert embedder.texts == ["which apple"]


def test_a_search_follows_when_another_process_changes_the_embedder(location: Path | str):
    def meaning(bag: satchel.Satchel) -> float:
        (hit, *_) = bag.search("a pear", explain=True, min_relevance=0)
        assert hit.parts is not None
        return hit.parts["meaning"]

    with satchel.open(location, embedder=Letters()) as bag, satchel.open(location, embedder=Letters()) as other:
        bag.add_many([Draft("pears and plums ripen late"), Draft("a boat"), Draft("the pear of the year")])
        meaning(bag)
        other.reembed("static")
        assert meaning(bag) == meaning(other) > 1
        other.reembed("none")
        assert meaning(bag) == 0


def test_after_a_failure_the_embedder_is_left_alone_for_a_while(location: Path | str, clock: Clock):
    moody = Moody()
    with open_with(location, moody, clock) as bag:
        bag.add("apple")
        moody.failing = True
        asked = moody.asked
        bag.add_many([Draft("pear"), Draft("plum")])
        bag.add("fig")
        bag.search("pear")
        assert moody.asked == asked + 1
        moody.failing = False
        bag.add("date")
        assert len(waiting(bag)) == 4
        clock.now += PAUSE_SECONDS
        bag.add("quince")
        assert waiting(bag) == []
        assert differences(bag) == []


def test_a_query_that_cannot_be_embedded_is_answered_by_its_words(location: Path | str, clock: Clock):
    moody = Moody()
    with open_with(location, moody, clock) as bag:
        bag.add("apple pie")
        moody.failing = True
        assert found(bag, "apple") == ["apple pie"]
        asked = moody.asked
        assert found(bag, "apple") == ["apple pie"]
        assert moody.asked == asked


@pytest.mark.parametrize(
    "bad",
    [
        lambda rows: rows[:, :-1],
        lambda rows: rows[:-1],
        lambda rows: rows * np.nan,
        lambda rows: rows[0],
    ],
)
def test_vectors_that_cannot_be_kept_cost_no_memory(location: Path | str, bad):
    class Bad(Letters):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            return bad(super().embed(texts))

    with satchel.open(location, embedder=Letters()) as bag:
        bag.add("apple")
    with satchel.open(location, embedder=Bad()) as bag:
        bag.add_many([Draft("pear"), Draft("plum")])
        assert waiting(bag) == ["pear", "plum"]
        assert found(bag, "pear") == ["pear"]
        with pytest.raises(EmbedderError, match="letters returned vectors of shape"):
            bag.reembed()
        assert differences(bag) == []


def test_a_failure_to_catch_up_does_not_look_like_a_failure_to_store(
    location: Path | str, clock: Clock, monkeypatch
):
    moody = Moody()
    with open_with(location, moody, clock) as bag:
        moody.failing = True
        bag.add("apple")
        moody.failing = False
        clock.now += PAUSE_SECONDS

        def fail(*_: object) -> int:
            raise satchel.StoreBusyError("locked")

        monkeypatch.setattr("satchel.store.index.embed_backlog", fail)
        assert bag.add("pear").text == "pear"
        assert waiting(bag) == ["apple"]


def test_a_process_follows_when_another_changes_the_embedder(location: Path | str):
    with satchel.open(location) as bag, satchel.open(location) as other:
        bag.add("apple")
        other.reembed("none")
        bag.add("pear")
        assert differences(bag) == []
        other.reembed(Letters())
        bag.add("plum")
        assert waiting(bag) == ["plum"]
        other.add("fig")
        assert waiting(bag) == []
        other.reembed("static")
        bag.add("date")
        assert waiting(bag) == []
        assert bag._indexer.query_vector("apple") is not None
        assert differences(bag) == []


def test_an_endpoint_embeds_what_is_stored_and_asked(location: Path | str, server: Server):
    name = f"openai:tiny@{server.base}"
    with satchel.open(location, embedder=name) as bag:
        bag.add("apple pie")
        assert CallByCall(bag._store).embedding() == Embedding(name, DIMENSIONS)
        assert found(bag, "apple") == ["apple pie"]
        assert [asked["input"] for _, _, asked in server.seen][-2:] == [["apple pie"], ["apple"]]
        assert (waiting(bag), differences(bag)) == ([], [])


def test_a_server_is_asked_nothing_more_when_another_process_has_left_it(location: Path | str, server: Server):
    name = f"openai:tiny@{server.base}"
    with satchel.open(location, embedder=name) as bag, satchel.open(location, embedder=name) as other:
        bag.add("apple pie")
        bag.search("an apple")
        other.reembed("static")
        seen = len(server.seen)
        assert found(bag, "pie") == ["apple pie"]
        assert len(server.seen) == seen


def test_a_server_that_goes_down_and_comes_back_costs_nothing(location: Path | str, server: Server, clock: Clock):
    with open_with(location, f"openai:tiny@{server.base}", clock) as bag:
        bag.add("apple")
        server.for_ever = status(503)
        bag.add_many(Draft(f"pear {number}") for number in range(3))
        asked = len(server.seen)
        bag.add("plum")
        assert found(bag, "pear")
        assert len(server.seen) == asked
        assert len(waiting(bag)) == 4
        server.for_ever = None
        clock.now += PAUSE_SECONDS
        bag.add("fig")
        assert (waiting(bag), differences(bag)) == ([], [])


def test_a_reembedding_goes_on_after_its_server_was_down(location: Path | str, server: Server, monkeypatch):
    monkeypatch.setattr("satchel.recall.indexer.BATCH", 4)
    name = f"openai:tiny@{server.base}"
    with satchel.open(location) as bag:
        bag.add_many(Draft(f"note {number}") for number in range(10))
        # The first is asked for the size of its vectors; then come two batches of three.
        server.misbehave = [well] * 3 + [status(500)] * 9
        with pytest.raises(EmbedderError, match="answered 500"):
            bag.reembed(name)
        assert CallByCall(bag._store).embedding() == STATIC
        assert found(bag, "note")
        assert differences(bag) == []
        server.misbehave = []
        seen = len(server.seen)
        assert bag.reembed(name) == 2
        embedded = [text for _, _, asked in server.seen[seen:] for text in asked["input"]]
        assert [text for text in embedded if text.startswith("note")] == ["note 8", "note 9"]
        assert CallByCall(bag._store).embedding() == Embedding(name, DIMENSIONS)
        assert (waiting(bag), differences(bag)) == ([], [])


def test_a_server_that_only_the_store_names_is_never_asked(location: Path | str, server: Server):
    """A store may come from anyone, and its texts are its owner's."""
    with satchel.open(location, embedder=f"openai:tiny@{server.base}") as bag:
        memory = bag.add("apple pie")
    seen = len(server.seen)
    with satchel.open(location) as bag:
        assert found(bag, "apple") == ["apple pie"]
        bag.add("pear")
        bag.update(memory.id, text="apple tart")
        bag.import_([b'{"text": "plum"}\n'])
        with pytest.raises(satchel.InputError, match="name it to create them again"):
            bag.reembed()
        assert waiting(bag) == ["apple tart", "pear", "plum"]
        (check,) = [check for check in bag.checks() if check.name == "vectors"]
        assert f"satchel reembed --embedder openai:tiny@{server.base}" in check.detail
        assert differences(bag) == []
    assert len(server.seen) == seen
    with satchel.open(location, embedder=f"openai:tiny@{server.base}") as bag:
        bag.add("fig")
        assert (waiting(bag), differences(bag)) == ([], [])


def test_no_lock_is_held_while_a_server_is_asked(location: Path | str, server: Server):
    with satchel.open(location, embedder=f"openai:tiny@{server.base}") as bag:
        bag.add("apple")
        seen = len(server.seen)
        with bag.transaction():
            bag.add("pear")
            bag.add("plum")
            assert len(server.seen) == seen
            assert waiting(bag) == ["pear", "plum"]
        # As soon as the lock is let go.
        assert len(server.seen) > seen
        assert (waiting(bag), differences(bag)) == ([], [])


def test_8_threads_add_and_search_at_once(location: Path | str):
    with satchel.open(location) as bag:
        failures: list[Exception] = []
        start = threading.Barrier(8)

        def work(who: int) -> None:
            try:
                start.wait(30)
                for number in range(12):
                    memory = bag.add(f"thread {who} apple {number}")
                    assert memory.id in {hit.memory.id for hit in bag.search(memory.text, limit=20)}
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        crew = [threading.Thread(target=work, args=(who,)) for who in range(8)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join(60)
        assert failures == []
        assert bag.stats().memories == 96
        assert (waiting(bag), differences(bag)) == ([], [])
