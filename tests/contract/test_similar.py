"""`similar` returns memories about the same thing, in every store, and none from another scope."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import satchel
from satchel import Memory, Satchel
from tables import each_row

JENKINS = "Our CI runs on Jenkins."
ACTIONS = "We moved CI from Jenkins to GitHub Actions."
UNRELATED = (
    "Invoices are due within 30 days.",
    "Ana waters the plants on Mondays.",
    "The logo is dark blue.",
)


@pytest.fixture(params=["static", "none"])
def store(request: pytest.FixtureRequest, location: Path | str) -> Iterator[Satchel]:
    with satchel.open(location, embedder=request.param) as bag:
        yield bag


def texts(view: Satchel, memory: Memory, **options: int) -> list[str]:
    return [hit.memory.text for hit in view.similar(memory.id, **options)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (JENKINS, ACTIONS),
        ("Standup is at 9:30.", "Standup moved to 10:00."),
        ("We rotate JWTs every hour.", "JWT rotation is now daily."),
        ("Die Besprechung ist montags um 9 Uhr.", "Die Besprechung ist jetzt dienstags um 10 Uhr."),
        ("東京の会議室は三階です。", "東京の会議室は五階に変更。"),
        (JENKINS, JENKINS.upper()),
    ],
)
def test_what_a_memory_overtakes_is_similar_to_it_and_the_other_way_round(store: Satchel, older: str, newer: str):
    for text in UNRELATED:
        store.add(text)
    old, new = store.add(older), store.add(newer)
    assert texts(store, new) == [older]
    assert texts(store, old) == [newer]
    (hit,) = store.similar(new.id)
    assert 0.5 <= hit.score <= 1


def test_unrelated_notes_of_one_project_are_not_similar(store: Satchel):
    view = store.scoped(project="one")
    sharing_a_word = ("The API rate limit is 100 requests per minute.", "The API returns JSON errors.")
    for text in (*UNRELATED, JENKINS, "猫の餌は棚の上にあります。", "Standup is at 9:30.", *sharing_a_word):
        assert texts(view, view.add(text)) == []


def test_the_most_alike_comes_first_and_the_limit_holds(store: Satchel):
    limits = [f"The API rate limit is {number} requests per minute." for number in (100, 200, 300, 400)]
    for text in (*limits, "The API rate limit is documented."):
        store.add(text)
    new = store.add("The API rate limit is 500 requests per minute.")
    assert len(store.similar(new.id)) == 3
    found = store.similar(new.id, limit=100)
    assert {hit.memory.text for hit in found[:4]} == set(limits)
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert [hit.memory.id for hit in store.similar(new.id, limit=1)] == [found[0].memory.id]


def test_what_has_ended_or_was_superseded_is_not_shown(store: Satchel):
    forgotten, replaced, archived = (store.add(JENKINS, ref=name) for name in "abc")
    new = store.add(ACTIONS)
    assert len(store.similar(new.id)) == 3
    store.forget(forgotten.id)
    store.relate(new.id, replaced.id, "supersedes")
    store.update(archived.id, status="archived")
    assert store.similar(new.id) == []


def test_the_only_memory_has_no_similar_one(store: Satchel):
    assert store.similar(store.add(JENKINS).id) == []


def test_nothing_of_another_project_or_org_is_shown(store: Satchel):
    store.add(ACTIONS, project="other")
    store.scoped(org="rival", project="one").add(ACTIONS)
    store.add(ACTIONS, ref="first")
    inside = store.add(ACTIONS, project="one")
    assert store.similar(inside.id) == []
    assert store.scoped(project="one").similar(inside.id) == []
    unplaced = store.add(ACTIONS, ref="second")
    assert [hit.memory.scope.project for hit in store.similar(unplaced.id)] == [None]
    with pytest.raises(satchel.UnknownIdError):
        store.scoped(project="other").similar(inside.id)


def test_many_alike_in_other_projects_do_not_crowd_out_the_one_of_its_own(store: Satchel):
    for number in range(40):
        store.add(ACTIONS, project=f"other-{number}")
    store.add(ACTIONS, project="one", ref="first")
    new = store.add(ACTIONS, project="one", ref="second")
    assert texts(store, new) == [ACTIONS]


def test_a_view_of_a_session_shows_its_own_and_its_project_those_of_all_sessions(store: Satchel):
    project = store.scoped(project="one")
    project.scoped(session="monday").add(JENKINS)
    tuesday = project.scoped(session="tuesday")
    new = tuesday.add(ACTIONS)
    assert tuesday.similar(new.id) == []
    assert texts(project, new) == [JENKINS]


def test_a_note_is_compared_with_notes_and_a_turn_with_everything(store: Satchel):
    turn = store.add(JENKINS, tier="conversation", session="s")
    note = store.add(ACTIONS)
    assert store.similar(note.id) == []
    assert texts(store, turn) == [ACTIONS]


def test_tags_and_kinds_in_common_count(store: Satchel):
    fields: dict[str, str] = {"kind": "decision"}
    store.add("Oskar may grant 10 percent on the yearly plan.", tags=["pricing", "sales"], **fields)
    tagged = store.add("Discounts are decided by Mirela from now on.", tags=["pricing", "sales"], **fields)
    assert texts(store, tagged) == ["Oskar may grant 10 percent on the yearly plan."]
    store.update(tagged.id, tags=["garden"], kind="error")
    assert store.similar(tagged.id) == []


def test_a_memory_that_waits_for_its_vector_is_compared_by_its_words(location: Path | str):
    with satchel.open(location, embedder="static") as bag:
        with bag.transaction():
            old = bag.add(JENKINS)
            new = bag.add(ACTIONS)
            assert texts(bag, new) == [JENKINS]
        assert texts(bag, old) == [ACTIONS]


@pytest.mark.parametrize("text", ["?!…", "a", "1234", "\N{PARTY POPPER}" * 50, "word " * 20_000, "語" * 30_000])
def test_odd_texts_are_compared_without_an_error(store: Satchel, text: str):
    store.add(JENKINS)
    assert texts(store, store.add(text)) == []
    again = store.add(text)
    assert all(found == text for found in texts(store, again))


def test_a_long_text_is_similar_to_a_short_one_about_one_of_its_passages(store: Satchel):
    old = store.add("Our CI runs on Jenkins, which only Jun can repair.", kind="fact")
    details = "\n\n".join(f"Part {number}: " + "the other notes follow here. " * 40 for number in range(8))
    moved = "CI moved from Jenkins, which only Jun can repair, to GitHub Actions. " * 12
    new = store.add(f"{moved}\n\n{details}", kind="fact")
    assert len(new.text) > 9_000
    assert texts(store, old) == [new.text]
    assert texts(store, new) == [old.text]


@each_row("limit", [0, -1, "many", 1.5, 10_001])
def test_a_limit_that_is_none_is_refused(store: Satchel, limit: int):
    memory = store.add(JENKINS)
    with pytest.raises(satchel.InputError, match="limit"):
        store.similar(memory.id, limit=limit)


def test_asking_for_similar_ones_counts_as_no_use(store: Satchel):
    old = store.add(JENKINS)
    store.similar(store.add(ACTIONS).id)
    (found,) = store.recent(limit=1, until=old.at)
    assert found.access_count == 0
