"""Memories with the same content are one hit with the ids of the others, before the limit is applied."""

import json

import msgspec
import pytest

import satchel
from satchel import Draft, Satchel
from satchel.api.filters import filter_for
from satchel.recall.finder import find

pytestmark = pytest.mark.usefixtures("all_matches")

SAME = [
    "The staging server is in Frankfurt.",
    "The staging server is in Frankfurt!",
    "Staging server: in Frankfurt",
    "the STAGING server is in Frankfurt",
]


def texts(hits: satchel.Hits) -> list[str]:
    return [hit.memory.text for hit in hits]


def test_what_says_the_same_is_one_hit_that_names_the_others(notes: Satchel):
    added = notes.add_many(Draft(text, project=f"p{place}") for place, text in enumerate(SAME))
    notes.add("The production server is in Dublin.")
    hits = notes.search("Where is the staging server?")
    assert len(hits) == 2
    assert {hits[0].memory.id, *hits[0].duplicates} == {memory.id for memory in added}
    assert hits[1].duplicates == ()


def test_the_best_of_them_stays(notes: Satchel):
    worse, best = notes.add(SAME[0], importance=0.1), notes.add(SAME[2], importance=1.0, pinned=True)
    (hit,) = notes.search("staging server Frankfurt")
    assert (hit.memory.id, hit.duplicates) == (best.id, (worse.id,))


def test_a_limit_is_filled_with_different_ones(notes: Satchel):
    notes.add_many(Draft(SAME[0], session=f"s{number}") for number in range(30))
    notes.add_many(Draft(f"The staging server number {number} is in Dublin.") for number in range(12))
    hits = notes.search("staging server in Frankfurt", limit=10)
    assert len(set(texts(hits))) == len(hits) == 10
    assert [len(hit.duplicates) for hit in hits] == [29] + [0] * 9
    assert len(notes.search("staging server in Frankfurt", limit=1)[0].duplicates) < 30
    assert len(notes.search("staging server in Frankfurt", limit=100)) == 13


def test_more_copies_than_there_are_candidates_do_not_hide_what_differs(notes: Satchel):
    notes.add_many(Draft(SAME[0], session=f"s{number}", title="Staging server") for number in range(400))
    notes.add_many(Draft(f"Note {number}: staging was slow today, and nobody knows why.") for number in range(3))
    hits = notes.search("staging server", limit=4)
    assert [len(hit.duplicates) for hit in hits] == [399, 0, 0, 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"title": "Staging"}, {"title": "Production"}),
        ({"speaker": "Ana"}, {"speaker": "Ben"}),
        ({"user": "ana"}, {"user": "ben"}),
        ({"text": "The staging server has 16 cores."}, {"text": "The staging server has 32 cores."}),
        ({"text": "The staging server is up."}, {"text": "The staging server is not up."}),
    ],
)
def test_what_a_title_a_speaker_a_user_or_a_word_tells_apart_is_shown_apart(
    notes: Satchel, one: dict[str, str], other: dict[str, str]
):
    for fields in (one, other):
        notes.add(**{"text": SAME[0], **fields})
    notes.add(**{"text": SAME[0], **one}, session="later")
    hits = notes.search("staging server")
    assert [len(hit.duplicates) for hit in hits] in ([1, 0], [0, 1])


def test_short_turns_stay_and_longer_ones_are_collapsed(notes: Satchel):
    for session in ("s1", "s2"):
        notes.add("Yes, Frankfurt!", tier="conversation", session=session)
        notes.add("Yes, the server in Frankfurt works.", tier="conversation", session=session)
    hits = notes.search("Frankfurt")
    assert sorted(texts(hits)) == ["Yes, Frankfurt!", "Yes, Frankfurt!", "Yes, the server in Frankfurt works."]


def test_the_listing_says_how_many_and_json_says_which(notes: Satchel):
    added = notes.add_many(Draft(text, session=f"s{place}") for place, text in enumerate(SAME[:3]))
    notes.add("Frankfurt has an airport.")
    hits = notes.search("staging server Frankfurt")
    assert [", +2 alike)" in entry for entry in hits.entries] == [True, False]
    told = json.loads(notes.search("staging server Frankfurt", format="json").text)["hits"]
    assert {told[0]["memory"]["id"], *told[0]["duplicates"]} == {memory.id for memory in added}
    assert "duplicates" not in told[1]


def test_the_budget_holds_on_a_listing_that_counts_duplicates(notes: Satchel):
    notes.add_many(Draft(text, session=f"s{place}") for place, text in enumerate(SAME))
    whole = notes.search("staging").token_count
    assert len(notes.search("staging", token_budget=whole)) == 1
    tight = notes.search("staging", token_budget=whole - 1)
    assert (len(tight), tight.smallest_budget) == (0, whole)


def test_what_is_newest_without_a_match_is_collapsed_too(notes: Satchel):
    notes.add_many(Draft(SAME[0], kind="todo", session=f"s{number}") for number in range(9))
    notes.add_many(Draft(f"Number {number}.", kind="todo") for number in range(4))
    hits = notes.search("xylophone quartet", kind="todo", limit=4)
    assert not hits.matched
    assert len(set(texts(hits))) == len(hits) == 4
    everything = notes.search("xylophone quartet", kind="todo", limit=9)
    assert sorted(len(hit.duplicates) for hit in everything) == [0, 0, 0, 0, 8]


def test_an_older_telling_points_to_the_newer_one_that_is_shown(notes: Satchel):
    """Where the newer telling was collapsed, its representative is named."""
    old = notes.add("The API listens on port 8000.", at="2026-01-01")
    one = notes.add("The API listens on port 9000 now.", at="2026-02-01", project="p")
    other = notes.add("The API listens on the port 9000 now.", at="2026-02-02", project="q")
    for preferred in (one, other):
        notes.update(preferred.id, importance=1.0)
        hits = {hit.memory.id: hit for hit in notes.search("Which port does the API listen on?")}
        notes.update(preferred.id, importance=0.0)
        assert hits.keys() == {old.id, preferred.id}
        assert hits[old.id].overtaken_by == preferred.id


def test_a_context_says_in_its_receipt_what_repeats_what(notes: Satchel):
    first, other = notes.add(SAME[0], importance=1.0), notes.add(SAME[2])
    block = notes.context("staging server Frankfurt", token_budget=500)
    assert block.facts_included == 1
    (left,) = [entry for entry in block.receipt.entries if entry.reason == "duplicate"]
    assert {left.id, left.other} == {first.id, other.id}


def test_where_nothing_is_alike_the_answer_is_the_same_as_without_looking(notes: Satchel):
    notes.add_many(Draft(f"The server {number} is in rack {number % 7}.") for number in range(40))
    hits = notes.search("server in rack 3", limit=10)
    where = filter_for(notes.scope)
    plain = find(notes._store, notes._indexer, "server in rack 3", where, limit=10)
    assert [hit.memory.id for hit in hits] == [hit.memory.id for hit in plain.hits]
    assert all(msgspec.structs.replace(hit, score=0.0).duplicates == () for hit in hits)
