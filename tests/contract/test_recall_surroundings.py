"""Recall includes the neighbours of a match in the same session or document, and from nowhere else."""

from datetime import UTC, datetime, timedelta

import pytest

from satchel import Draft, Satchel
from satchel.model.filters import Filter
from satchel.model.memory import utc_now
from satchel.recall import ranking
from satchel.recall.question import read_question
from satchel.recall.ranking import examine

START = datetime(2024, 3, 1, 9, tzinfo=UTC)
ASKED = "Where did you park the scooter?"
ANSWER = "Behind the bakery, by the red door."


def told(*lines: str, **place: str) -> list[Draft]:
    return [Draft(line, at=START + timedelta(minutes=number), **place) for number, line in enumerate(lines)]


def scores(bag: Satchel, query: str, **options) -> dict[str, float]:
    """The scores of all that a context brings, by their ref."""
    return {hit.memory.ref or "": hit.score for hit in bag.context(query, token_budget=None, **options).hits}


@pytest.mark.parametrize("place", [{"session": "s1", "tier": "conversation"}, {"source": "diary.md"}])
def test_an_answer_that_shares_no_word_is_brought_by_its_question(words: Satchel, place):
    words.add_many(told("It may rain.", "So it seems.", ASKED, ANSWER, "Fine.", "See you there.", **place))
    brought = words.context("the scooter, where is it parked", token_budget=None).hits
    # The opening of a session counts, too.
    assert brought[0].memory.text == ASKED
    assert ANSWER in {hit.memory.text for hit in brought[:3]}
    assert [hit.memory.text for hit in words.search("scooter")] == [ASKED]


@pytest.mark.parametrize("field", ["session", "project", "user", "agent"])
def test_what_is_said_elsewhere_at_the_same_time_does_not_stand_beside_it(words: Satchel, field):
    here = {"session": "s1", "tier": "conversation", "project": "p", "user": "u", "agent": "a", field: "here"}
    there = here | {field: "there"}
    lines = [
        Draft("Good morning.", at=START, **here),
        Draft("Good morning.", at=START, **there),
        Draft(ASKED, at=START + timedelta(minutes=1), **here),
        # Were these one session, the other answer would stand right after the question.
        Draft(ANSWER, at=START + timedelta(minutes=2), ref="there", **there),
        Draft(ANSWER, at=START + timedelta(minutes=3), ref="here", **here),
    ]
    words.add_many(lines)
    found = scores(words, "scooter")
    assert found["here"] > found.get("there", 0.0)
    columns = examined(words, "scooter")
    beside = {at for at, value in zip(columns.sheet.at.tolist(), columns.columns["before"], strict=True) if value}
    assert beside == {int((START + timedelta(minutes=3)).timestamp() * 1e6)}


def test_a_document_within_a_session_is_a_part_of_it_and_no_thread_of_its_own(words: Satchel):
    minute = timedelta(minutes=1)
    words.add_many(
        [
            Draft(ASKED, at=START, session="s1", tier="conversation", source="diary.md"),
            Draft(ANSWER, at=START + minute, ref="session", session="s1", tier="conversation", source="other.md"),
            Draft(ANSWER, at=START + minute, ref="document", source="diary.md"),
        ]
    )
    found = scores(words, "scooter")
    assert found["session"] > found.get("document", 0.0)


def test_notes_of_no_session_or_document_do_not_stand_beside_each_other(words: Satchel):
    words.add_many([*told(ASKED), Draft(ANSWER, at=START + timedelta(minutes=1), ref="after")])
    words.add("On the way back.", at=START + timedelta(days=9), ref="stranger")
    found = scores(words, "scooter")
    assert found.get("after", 0.0) == pytest.approx(found.get("stranger", 0.0), abs=0.002)


def test_nothing_is_brought_where_nothing_matches(words: Satchel):
    words.add_many(told(ASKED, ANSWER, session="s1", tier="conversation"))
    assert words.context("zeppelin").hits == ()


def test_what_a_filter_leaves_out_is_not_brought_as_a_neighbour(words: Satchel):
    words.add_many(told(ASKED, session="s1", tier="conversation"))
    words.add_many(
        [Draft(ANSWER, at=START + timedelta(minutes=1), session="s1", tier="conversation", kind="fact", ref="fact")]
    )
    words.add_many(
        [
            Draft(
                ANSWER,
                at=START + timedelta(minutes=2),
                session="s1",
                tier="conversation",
                kind="observation",
                ref="seen",
            )
        ]
    )
    assert "fact" in scores(words, "scooter")
    assert scores(words, "scooter", kind="observation").keys() == {"", "seen"}


def examined(bag: Satchel, query: str, **chosen):
    question = read_question(query, now=utc_now())
    return examine(bag._store, question, Filter(**chosen), wanted=10)


def test_what_a_filter_leaves_out_does_not_come_between_neighbours(words: Satchel):
    place = {"session": "s1", "tier": "conversation"}
    lines = [
        Draft(f"{text} {n}", kind="fact" if n % 2 else "todo", at=START + timedelta(minutes=n), **place)
        for n, text in enumerate(("one", "two", "scooter", "three", "four"))
    ]
    words.add_many(lines)
    columns = examined(words, "scooter", kinds=("todo",)).columns
    assert columns["before"].tolist() == [0, 0, 1]
    assert columns["after"].tolist() == [1, 0, 0]


def test_runs_that_are_far_apart_do_not_touch(bag: Satchel, monkeypatch):
    """Of a long session the indexes bring two stretches; what lies between them is not here."""
    lines = [f"line {number}" for number in range(60)]
    lines[10] = lines[50] = "the scooter"
    bag.add_many(told(*lines, session="s1", tier="conversation"))
    whole = examined(bag, "scooter")
    monkeypatch.setattr(ranking, "SMALL", 0)
    found = examined(bag, "scooter")
    minutes = [int(at - START.timestamp() * 1e6) // 60_000_000 for at in found.sheet.at]
    assert minutes == [*range(6, 15), *range(46, 55)]
    assert whole.sheet.size == 60
    for name in ("before", "after", "before2", "after2", "around_cover", "far_cover"):
        assert found.columns[name].tolist() == [whole.columns[name][minute] for minute in minutes], name
    assert found.columns["opening"].tolist() == [minute in (6, 46) for minute in minutes]


def test_what_follows_a_match_is_after_it_and_what_precedes_it_before(words: Satchel):
    lines = ["one", "two", "the scooter", "three", "four"]
    words.add_many(told(*lines, session="s1", tier="conversation"))
    columns = examined(words, "scooter").columns
    assert columns["before"].tolist() == [0, 0, 0, 1, 0]
    assert columns["after"].tolist() == [0, 1, 0, 0, 0]
    assert columns["before2"].tolist() == [0, 0, 0, 0, 1]
    assert columns["after2"].tolist() == [1, 0, 0, 0, 0]
    assert columns["near/top"].argsort(kind="stable").tolist() == [2, 0, 4, 1, 3]


def test_what_follows_a_question_is_its_answer(words: Satchel):
    words.add_many(told("Is it late?", "It is.", ASKED, ANSWER, "Thanks.", session="s1", tier="conversation"))
    columns = examined(words, "scooter").columns
    assert columns["answer"].tolist() == [0, 1, 0, 1, 0]
    assert columns["answer*before"].tolist() == [0, 0, 0, 1, 0]
