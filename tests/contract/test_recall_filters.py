"""Filters apply before ranking, on every path by which a memory can be found."""

import pytest

import satchel
from satchel import Draft, Satchel
from satchel.recall import ranking

pytestmark = pytest.mark.usefixtures("all_matches")

DAY = "2024-03-01"


def texts(hits) -> list[str]:
    return sorted(hit.memory.text for hit in hits)


@pytest.fixture(scope="module")
def crowded():
    """Three memories of one project among five thousand that match better."""
    with satchel.open(":memory:") as bag:
        bag.add_many(Draft(f"apple pie {number}", project="large") for number in range(5000))
        bag.add_many(
            Draft(f"Among much else, note {number} says that an apple fell far from its tree.", project="small")
            for number in ["one", "two", "three"]
        )
        yield bag


@pytest.mark.parametrize("small", [ranking.SMALL, 0])
def test_a_small_project_in_a_large_store_gets_all_of_its_own(crowded: Satchel, small, monkeypatch):
    monkeypatch.setattr(ranking, "SMALL", small)
    view = crowded.scoped(project="small")
    for found in (view.search("apple pie"), view.context("apple pie").hits):
        assert len(found) == 3
        assert {hit.memory.scope.project for hit in found} == {"small"}


def test_the_indexes_of_a_large_scope_are_asked_inside_it(crowded: Satchel, monkeypatch):
    monkeypatch.setattr(ranking, "LEXICAL", 3)
    monkeypatch.setattr(ranking, "NEAREST", 3)
    monkeypatch.setattr(ranking, "SMALL", 0)
    assert len(crowded.scoped(project="small").search("apple pie", limit=3)) == 3


def test_who_wants_a_long_list_gets_it(words: Satchel, monkeypatch):
    monkeypatch.setattr(ranking, "LEXICAL", 3)
    words.add_many(Draft(f"apple {number}", at=DAY) for number in range(20))
    assert len(words.search("apple", limit=10)) == 10


def test_the_limit_takes_the_best_whenever_they_are_from(words: Satchel):
    words.add_many(Draft(f"apple among other fruit {number}", at=f"2024-03-0{number}") for number in range(1, 9))
    words.add("apple pie", at="2024-03-09", speaker="Ana")
    words.add("apple pie", at="2024-02-01", speaker="Ben")
    assert [hit.memory.text for hit in words.search("apple pie", limit=2)] == ["apple pie"] * 2


@pytest.fixture
def hidden(notes: Satchel) -> Satchel:
    """One memory that may be found, and others that every way of finding leads to but none may show."""
    seen = notes.add("The crane is painted blue.", session="s1", at=DAY, ref="seen")
    place = {"session": "s1", "at": DAY}
    for status in ("archived", "pending"):
        other = notes.add(f"The {status} crane is painted blue.", status=status, **place)
        notes.relate(seen.id, other.id)
    old = notes.add("The superseded crane is painted blue.", **place)
    notes.relate(seen.id, old.id, "supersedes")
    forgotten = notes.add("The forgotten crane is painted blue.", **place)
    notes.relate(seen.id, forgotten.id)
    notes.forget(forgotten.id)
    over = notes.add("The crane that was is painted blue.", invalid_at="2024-04-01", **place)
    notes.relate(seen.id, over.id)
    ahead = notes.add("The crane to come is painted blue.", valid_from="2999-01-01", **place)
    notes.relate(seen.id, ahead.id)
    notes.scoped(org="rival").add("The crane of a rival is painted blue.", **place)
    return notes


@pytest.mark.parametrize("query", ["crane painted blue", "painted", "What was there on 1 March 2024?", "crnae"])
def test_what_ended_or_belongs_to_others_never_appears(hidden: Satchel, query):
    assert texts(hidden.search(query)) == ["The crane is painted blue."]
    assert texts(hidden.context(query).hits) == ["The crane is painted blue."]


def test_what_ended_appears_where_it_is_asked_for(hidden: Satchel):
    assert texts(hidden.search("crane", status="archived")) == ["The archived crane is painted blue."]
    assert texts(hidden.search("crane", status="superseded")) == ["The superseded crane is painted blue."]
    assert len(hidden.search("crane", ended=True)) == 4


def test_what_held_at_an_earlier_moment_is_brought_back_and_nothing_later(notes: Satchel):
    old = notes.add("The port is 8000.", at="2024-01-01", session="s1")
    new = notes.add("The port is 9000.", at="2024-06-01", session="s1")
    notes.relate(new.id, old.id, "supersedes")
    notes.add("The port was 7000.", at="2023-01-01", invalid_at="2024-01-01", session="s1")
    assert texts(notes.search("port", as_of="2024-03-01")) == ["The port is 8000."]
    assert texts(notes.search("port", as_of="2023-06-01")) == ["The port was 7000."]
    assert texts(notes.search("port")) == ["The port is 9000."]
    assert list(notes.search("port", as_of="2022-01-01")) == []


def test_a_question_about_last_week_counts_from_the_moment_that_is_asked_about(words: Satchel):
    words.add_many([Draft("Rain.", at="2024-02-27"), Draft("Snow.", at="2024-01-27")])
    assert texts(words.search("What happened last week?", as_of="2024-03-05")) == ["Rain."]


@pytest.mark.parametrize(
    "chosen", [{"kind": "fix"}, {"tier": "working"}, {"tags": ["red"]}, {"kind": ["fix", "error"], "tags": "red"}]
)
def test_kinds_tiers_and_tags_hold_for_whatever_is_near_or_related(notes: Satchel, chosen):
    place = {"session": "s1", "at": DAY}
    meant = notes.add("apple", kind="fix", tier="working", tags=["red", "round"], speaker="Ana", **place)
    for text in ("apple", "pear"):
        other = notes.add(text, kind="decision", tier="knowledge", tags=["round"], speaker="Ben", **place)
        notes.relate(meant.id, other.id)
    assert len(notes.search("apple")) == 3
    for found in (notes.search("apple", **chosen), notes.context("apple", **chosen).hits):
        assert [hit.memory.id for hit in found] == [meant.id]
