"""Reranking of the best candidates, and memories that wait for their vectors."""

from datetime import UTC, datetime

import numpy as np
import pytest

import satchel
from satchel import Draft, Satchel
from satchel.model.filters import Filter
from satchel.recall import ranking
from satchel.recall.features import Evidence, Lexical, features
from satchel.recall.question import read_question
from satchel.recall.sheet import Sheet

NOW = datetime(2026, 10, 15, tzinfo=UTC)


def examined(bag: Satchel, text: str) -> Evidence:
    question = read_question(text, now=NOW, vector=bag._indexer.query_vector(text))
    return ranking.examine(bag._store, question, Filter(), wanted=10)


@pytest.fixture
def decisions():
    with satchel.open(":memory:", embedder="none") as bag:
        bag.add_many(Draft(f"Decision about rent {n}", kind="decision", at=f"2026-0{n}-01") for n in range(1, 6))
        yield bag


def newer_ones(bag: Satchel, text: str, odds: list[float]) -> list[float]:
    seen = examined(bag, text)
    ranking.rerank(seen, np.array(odds))
    return [float(value) for value in seen.columns["newer_ones"]]


def test_where_the_newest_is_asked_for_finds_that_are_about_as_good_count_those_newer(decisions):
    counted = newer_ones(decisions, "our latest decision about rent", [0, 0, 0, 0, 0])
    assert counted == pytest.approx(np.log1p([4, 3, 2, 1, 0]))
    # The last one is much worse than the best: it is not counted as newer.
    counted = newer_ones(decisions, "our latest decision about rent", [0, 0, 0, 0, -9])
    assert counted == pytest.approx(np.log1p([3, 2, 1, 0, 0]))


def test_where_the_oldest_is_asked_for_those_older_count(decisions):
    assert newer_ones(decisions, "What did we originally decide about rent?", [0] * 5) == pytest.approx(
        np.log1p([0, 1, 2, 3, 4])
    )


def test_without_an_order_word_time_does_not_count(decisions):
    assert newer_ones(decisions, "What did we decide about rent?", [0] * 5) == [0] * 5


def test_nothing_is_overtaken_for_a_question_about_reasons_or_the_course_of_things():
    with satchel.open(":memory:", embedder="none") as bag:
        bag.add("Our CI runs on Jenkins.", at="2026-01-01")
        bag.add("We moved CI from Jenkins to GitHub Actions.", at="2026-08-01")
        for text, overtaken in (
            ("What does our CI run on?", True),
            ("Why did we leave Jenkins for our CI?", False),
            ("How has our CI changed over time?", False),
        ):
            seen = examined(bag, text)
            ranking.rerank(seen, np.zeros(seen.sheet.size))
            assert (seen.columns["overtaken"].max() > 0) == overtaken, text


def test_what_waits_for_its_vector_counts_as_an_average_memory():
    with satchel.open(":memory:", embedder="static") as bag:
        bag.add_many(Draft(f"The {thing} is broken") for thing in ("pump", "winch", "sail", "hull"))
        question = read_question("broken pump", now=NOW, vector=bag._indexer.query_vector("broken pump"))
        traces = bag._store.traces(Filter())
        last = traces[-1]
        waiting = last._replace(passages=tuple(each._replace(vector=None) for each in last.passages))
        with_all, without = (
            features(Evidence(bag._store, Filter(), sheet, question, Lexical(sheet, question.terms)))
            for sheet in (Sheet.of(traces), Sheet.of([*traces[:-1], waiting]))
        )
        others = with_all["passage_meaning"][:-1]
        assert without["passage_meaning"][:-1] == pytest.approx(others)
        assert without["passage_meaning"][-1] == pytest.approx(others.mean())


def test_while_most_wait_for_their_vectors_words_alone_rank(monkeypatch):
    used = []
    monkeypatch.setattr(
        ranking, "weights", lambda family, known=ranking.weights: used.append(family) or known(family)
    )
    with satchel.open(":memory:", embedder="static") as bag:
        bag.add("The pump is broken")
        bag.search("pump")
        monkeypatch.setattr(bag._indexer, "embedded", lambda memories: None)
        monkeypatch.setattr(bag._indexer, "catch_up", lambda: None)
        bag.add_many(Draft(f"The {thing} is broken") for thing in ("winch", "sail", "hull"))
        bag.search("pump")
    assert used == ["static", "none"]
