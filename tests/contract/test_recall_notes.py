"""Ranking of notes: the distinctive word, kind, time and order in a question decide what comes first."""

from datetime import UTC, datetime, timedelta

import pytest

from satchel import Draft, Satchel
from tables import each_row

pytestmark = pytest.mark.usefixtures("as_installed")

NOW = datetime(2026, 10, 15, 10, tzinfo=UTC)

HOUSEHOLD = (
    ("2025-08-28", "fact", "Dr. Hollis started me on lisinopril 5 mg, one in the morning. Measure twice a week."),
    ("2026-01-13", "fact", "Because of the dry cough we changed from lisinopril to losartan 50 mg, evenings."),
    ("2026-02-12", "fact", "Insurer pays €1,940 for the claim, deductible of €250 already taken off."),
    ("2026-02-20", "decision", "We take Daklux for the roof although dearer: twice the guarantee."),
    ("2026-03-23", "decision", "From April 300 euros a month go into the children's investment plan."),
    ("2026-09-16", "decision", "Mortgage renewal: 3.4% fixed for ten years with the same bank."),
    ("2025-11-08", "preference", "I eat everything except pork and offal."),
    ("2026-05-02", "preference", "Aisle seats on long flights, never the last row."),
    ("2026-10-01", "todo", "Clean the filter of the heat pump in the first week of November."),
    ("2026-10-07", "todo", "Send the tax papers to Mrs. Aalto."),
    ("2026-04-19", "lesson", "Only three places in two weeks; luggage sent ahead."),
    ("2026-10-08", "observation", "The Haddads put our bins out while we were away."),
    ("2026-06-30", "observation", "Tom gets sick in the car after half an hour."),
)  # fmt: skip


@pytest.fixture
def household(notes: Satchel) -> Satchel:
    notes.add_many([Draft(text, kind=kind, at=at) for at, kind, text in HOUSEHOLD])
    notes.catch_up()
    return notes


def found(bag: Satchel, question: str, **options: object) -> list[str]:
    return [hit.memory.text for hit in bag.search(question, as_of=NOW, **options)]  # type: ignore[arg-type]


def test_a_note_with_the_rare_word_stands_above_those_with_common_ones(household):
    texts = found(household, "Why was I taken off lisinopril?")
    assert all("lisinopril" in text for text in texts[:2])
    assert HOUSEHOLD[2][2] not in texts[:2]


@each_row(
    ("question", "kind", "count"),
    [
        ("What are my preferences?", "preference", 2),
        ("open todos", "todo", 2),
        ("what should I do next?", "todo", 2),
        ("lessons learned", "lesson", 1),
        ("Was haben wir beschlossen?", "decision", 3),
    ],
)
def test_a_kind_that_is_asked_for_comes_first(household, question, kind, count):
    kinds = [hit.memory.kind for hit in household.search(question, as_of=NOW)]
    assert kinds[:count] == [kind] * count


def test_the_newest_of_a_kind_is_found(household):
    assert "Mortgage" in found(household, "What did we decide most recently?")[0]
    assert "Mortgage" in found(household, "What is our latest decision?")[0]
    assert "tax papers" in found(household, "What is my newest todo?")[0]


def test_a_date_in_the_question_selects_before_words_rank(household):
    assert set(found(household, "What did we decide before March 2026?")[:1]) == {HOUSEHOLD[3][2]}
    assert set(found(household, "anything from last week?")[:2]) == {HOUSEHOLD[9][2], HOUSEHOLD[11][2]}
    assert found(household, "What did we decide in September 2026?")[0] == HOUSEHOLD[5][2]
    assert found(household, "Was haben wir im Februar 2026 beschlossen?")[0] == HOUSEHOLD[3][2]


def test_a_filter_is_never_answered_with_nothing_while_something_passes_it(household):
    for given in ({"kind": "lesson"}, {"since": "2026-10-01"}, {"tier": "knowledge"}, {"until": "2025-12-31"}):
        hits = household.search("zyzzyva quokka", as_of=NOW, **given)
        assert (len(hits) > 0, hits.matched) == (True, False), given
        block = household.context("zyzzyva quokka", as_of=NOW, **given)
        assert (block.facts_included > 0, block.matched) == (True, False), given
    newest = household.search("zyzzyva quokka", as_of=NOW, kind="decision")
    assert [hit.memory.text for hit in newest] == [HOUSEHOLD[5][2], HOUSEHOLD[4][2], HOUSEHOLD[3][2]]


def test_without_a_filter_nothing_still_means_nothing(words):
    words.add("Tom gets sick in the car.")
    assert not words.search("zyzzyva quokka")
    assert words.search("zyzzyva quokka").matched
    assert not words.search("zyzzyva", tags=["absent"])


def test_what_matches_inside_a_filter_is_said_to_match(household):
    hits = household.search("roof guarantee", kind="decision", as_of=NOW)
    assert hits.matched
    assert "Daklux" in hits[0].memory.text


def test_the_same_store_and_call_give_the_same_text(household):
    for question in (
        "What did we decide most recently?",
        "Why was I taken off lisinopril?",
        "anything from last week?",
    ):
        texts = {household.context(question, as_of=NOW, token_budget=300).text for _ in range(3)}
        assert len(texts) == 1


def test_an_explanation_names_kind_time_and_currency(household):
    parts = household.search("What did we decide most recently?", as_of=NOW, explain=True)[0].parts
    assert parts is not None
    assert parts["kind"] > 0
    assert {"time", "currency", "words", "meaning"} <= parts.keys()


def test_a_note_of_a_session_stands_for_itself(notes):
    """An agent saves many unrelated notes in one session: one that matches does not lift the others."""
    when = datetime(2026, 5, 1, tzinfo=UTC)
    texts = [
        "The gateway listens on port 8443.",
        "Iris prefers tea.",
        "The roof was repaired.",
        "Pepper weighs 14 kg.",
    ]
    notes.add_many(
        [Draft(text, session="s1", at=when + timedelta(minutes=number)) for number, text in enumerate(texts)]
    )
    parts = {hit.memory.text: hit.parts for hit in notes.search("Which port does the gateway use?", explain=True)}
    assert parts[texts[0]]["surroundings"] == parts[texts[0]]["session"] == 0


def test_a_note_that_shares_no_word_is_found_by_what_it_means(notes):
    notes.add("The pump is broken.")
    assert [hit.memory.text for hit in notes.search("What needs repair?")] == ["The pump is broken."]
    assert not notes.search("Who won the chess match?")
