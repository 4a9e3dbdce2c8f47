"""The age, importance and confidence of a memory each change its rank, all else being equal.

Notes with the same text are of different speakers here, since a search would show only one of them otherwise.
"""

from datetime import timedelta

import pytest

from satchel import Draft, Satchel
from satchel.model.memory import utc_now
from satchel.recall.sheet import Sheet
from satchel.store.contract import Trace, TracedPassage

pytestmark = pytest.mark.usefixtures("all_matches")

DAY = "2024-03-01"


def days_ago(days: float):
    return utc_now() - timedelta(days=days)


def refs(hits) -> list[str | None]:
    return [hit.memory.ref for hit in hits]


def test_a_time_named_in_a_question_finds_what_is_of_that_time_without_a_shared_word(words: Satchel):
    words.add_many(
        [
            Draft("Lunch with Bo", at="2021-03-10", ref="then"),
            Draft("Lunch with Chidi", at="2021-04-10", ref="after"),
            Draft("Lunch with Dagny", at="2020-03-10", ref="before"),
        ]
    )
    assert refs(words.search("What happened in March 2021?")) == ["then"]
    assert refs(words.search("on 10 April 2021")) == ["after"]
    assert list(words.search("What happened in May 2021?")) == []


def test_of_two_equal_notes_the_one_of_the_named_time_ranks_first(words: Satchel):
    words.add_many(
        [
            Draft("Lunch with Bo", at="2021-03-10", ref="then", speaker="Ana"),
            Draft("Lunch with Bo", at="2023-03-10", ref="later", speaker="Ben"),
        ]
    )
    assert refs(words.search("Lunch with Bo")) == ["later", "then"]
    hits = words.search("Lunch with Bo in March 2021")
    assert refs(hits) == ["then", "later"]
    assert hits[0].score > hits[1].score


def test_the_end_of_a_time_does_not_belong_to_it(words: Satchel):
    words.add_many([Draft("x", at="2021-04-01T00:00:00Z"), Draft("y", at="2021-03-31T23:59:59Z")])
    assert [hit.memory.text for hit in words.search("in March 2021")] == ["y"]


def test_of_two_equal_notes_the_newer_ranks_first(words: Satchel):
    for days in (400, 3, 40):
        words.add("The crane is blue", at=days_ago(days), ref=str(days), speaker=f"speaker {days}")
    hits = words.search("crane")
    assert refs(hits) == ["3", "40", "400"]
    assert hits[0].score > hits[1].score > hits[2].score


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"importance": 0.9}, {"importance": 0.2}),
        ({"importance": 0.6}, {}),
        ({}, {"confidence": 0.5}),
        ({"confidence": 0.5}, {"confidence": 0.1}),
        ({"pinned": True}, {}),
    ],
)
def test_what_its_keeper_said_of_a_memory_moves_its_rank(words: Satchel, better, worse):
    """Of equal scores the first would come first."""
    words.add("The crane is blue", at=DAY, ref="worse", speaker="Ana", **worse)
    words.add("The crane is blue", at=DAY, ref="better", speaker="Ben", **better)
    hits = words.search("crane")
    assert refs(hits) == ["better", "worse"]
    assert hits[0].score > hits[1].score


def test_what_was_used_more_ranks_higher(words: Satchel):
    words.add("The crane is blue", at=DAY, ref="rarely", speaker="Ana")
    often = words.add("The crane is blue", at=DAY, ref="often", speaker="Ben")
    for _ in range(5):
        words.get(often.id)
    words.add("Uses are written along with this.")
    hits = words.search("crane")
    assert refs(hits) == ["often", "rarely"]
    assert hits[0].score > hits[1].score


def test_use_counts_less_and_less_and_only_up_to_a_point():
    passage = TracedPassage(0, 1, 0, b"", None)
    traces = [
        Trace(
            key,
            0,
            str(key),
            None,
            None,
            "fact",
            "knowledge",
            0.5,
            1.0,
            0,
            1,
            "active",
            None,
            None,
            uses,
            (passage,),
        )
        for key, uses in enumerate((0, 1, 2, 20, 5000))
    ]
    used = Sheet.of(traces).used
    assert used[0] == 0
    assert used[1] - used[0] > used[2] - used[1] > 0
    assert used[3] == used[4]


def test_doubt_grows_with_age(words: Satchel):
    for days in (1, 300):
        for confidence in (1.0, 0.4):
            name = f"{days} {confidence}"
            words.add(
                "The crane is blue", at=days_ago(days), confidence=confidence, ref=name, speaker=f"speaker {name}"
            )
    trust = {hit.memory.ref: hit.parts["trust"] for hit in words.search("crane", explain=True)}
    assert trust["1 1.0"] == trust["300 1.0"]
    assert trust["1 1.0"] > trust["1 0.4"] > trust["300 0.4"]


def test_what_is_from_the_future_is_no_more_recent_than_now(words: Satchel):
    words.add("The crane is blue", at=days_ago(-1000), ref="future", speaker="Ana")
    words.add("The crane is blue", at=days_ago(0), ref="now", speaker="Ben")
    future, now = words.search("crane")
    assert future.score == pytest.approx(now.score, abs=1e-3)


def test_what_no_longer_or_not_yet_holds_is_not_found(words: Satchel):
    words.add("The crane was red", invalid_at=days_ago(1))
    words.add("The crane will be green", valid_from=days_ago(-1))
    words.add("The crane is blue", valid_from=days_ago(1), invalid_at=days_ago(-1))
    assert [hit.memory.text for hit in words.search("crane")] == ["The crane is blue"]
    assert len(words.search("crane", ended=True)) == 3
