"""A memory moves to another project: it is found there and no longer here, with its history, and views hold."""

import pytest

import satchel
from satchel import Satchel


def texts(bag: Satchel, query: str | None = None) -> set[str]:
    found = bag.recent(limit=100) if query is None else [hit.memory for hit in bag.search(query, min_relevance=0)]
    return {memory.text for memory in found}


def test_a_moved_memory_is_found_in_its_new_project_and_no_longer_in_the_old_one(bag: Satchel):
    p, q = bag.scoped(project="p"), bag.scoped(project="q")
    memory = p.add("Keys rotate every hour.", title="Rotation", tags=["auth"], session="s1", ref="r1")
    p.add("The harbour freezes in May.")
    q.add("A red lantern hangs here.")
    moved = bag.update(memory.id, move_to="q")
    assert (moved.scope.project, moved.scope.session, moved.revision) == ("q", "s1", 2)
    assert (moved.text, moved.title, moved.tags, moved.ref) == (memory.text, "Rotation", ("auth",), "r1")
    for query in (None, "key rotation"):
        assert memory.text in texts(q, query)
        assert memory.text not in texts(p, query)
    assert (q.tags(), p.tags()) == ({"auth": 1}, {})
    assert (bag.projects(), bag.stats().by_project) == ({"q": 2, "p": 1}, {"q": 2, "p": 1})
    with pytest.raises(satchel.UnknownIdError):
        p.get(memory.id)
    assert [check for check in bag.checks() if check.state != "ok"] == []


def test_a_move_is_in_the_history_and_can_be_made_back(bag: Satchel):
    memory = bag.add("Keys rotate.", project="p")
    bag.update(memory.id, move_to="q")
    (_, change) = bag.history(memory.id)
    assert change.action == "update"
    assert [scope["project"] for scope in change.changes["scope"]] == ["p", "q"]
    assert bag.update(memory.id, move_to="p").scope == memory.scope
    before = bag.history(memory.id)
    assert bag.update(memory.id, move_to="p").revision == 3, "it is there already"
    assert bag.history(memory.id) == before


def test_a_move_to_none_gives_a_memory_to_the_person_and_goes_with_other_changes(bag: Satchel):
    memory = bag.add("Keys rotate.", project="p", topic_key="keys")
    mine = bag.update(memory.id, move_to=None, text="Keys rotate hourly.", topic_key="keys/rotation")
    assert (mine.scope.project, mine.text, mine.topic_key) == (None, "Keys rotate hourly.", "keys/rotation")
    assert bag.add("Keys rotate daily.", topic_key="keys/rotation").id == memory.id


def test_what_is_said_again_in_the_new_project_is_the_same_memory(bag: Satchel):
    memory = bag.add("Keys rotate every hour.", project="p", topic_key="keys")
    bag.update(memory.id, move_to="q")
    assert bag.add("Keys rotate every hour.", project="q").id == memory.id
    assert bag.add("Keys rotate daily.", project="q", topic_key="keys").id == memory.id
    assert bag.add("Keys rotate every hour.", project="p", topic_key="keys").id != memory.id


def test_a_ref_or_topic_that_is_taken_there_refuses_the_move(bag: Satchel):
    for name in ("ref", "topic_key"):
        here = bag.add(f"Here {name}.", project="p", **{name: "one"})
        there = bag.add(f"There {name}.", project="q", **{name: "one"})
        with pytest.raises(satchel.InputError, match=f"that ref or topic is taken by another memory: {there.id}"):
            bag.update(here.id, move_to="q", text="Never.")
        assert bag.get(here.id).text == f"Here {name}."
        assert bag.get(here.id).revision == 1


def test_a_view_of_a_project_moves_nothing_out_and_nothing_in(bag: Satchel):
    p, q = bag.scoped(project="p"), bag.scoped(project="q")
    ours, theirs = p.add("Ours."), q.add("Theirs.")
    for elsewhere in ("q", None):
        with pytest.raises(satchel.InputError, match="is outside this view, which is project 'p'"):
            p.update(ours.id, move_to=elsewhere)
    with pytest.raises(satchel.UnknownIdError):
        p.update(theirs.id, move_to="p")
    assert p.update(ours.id, move_to="p").revision == 1
    assert [bag.get(each.id).scope.project for each in (ours, theirs)] == ["p", "q"]
    tenant = bag.scoped(org="acme")
    memory = tenant.add("Of acme.", project="p")
    assert tenant.update(memory.id, move_to="q").scope == satchel.Scope(org="acme", project="q")


def test_a_project_does_not_learn_where_a_memory_came_from(bag: Satchel):
    memory = bag.add("Keys rotate.", project="secret-p")
    bag.update(memory.id, move_to="q")
    told = bag.scoped(project="q").history(memory.id)
    assert [change.action for change in told] == ["add", "update"]
    assert "secret-p" not in str([change.changes for change in told])
    assert "secret-p" in str([change.changes for change in bag.history(memory.id)])


@pytest.mark.parametrize("wrong", ["", "  ", 7, "x" * 600, "ghp_0123456789abcdefghijABCDEFGHIJ012345"])
def test_a_project_that_cannot_be_one_refuses_the_move(bag: Satchel, wrong: object):
    memory = bag.add("Keys rotate.", project="p")
    with pytest.raises(satchel.InputError, match="move_to"):
        bag.update(memory.id, move_to=wrong, text="Never.")
    assert bag.get(memory.id).revision == 1


def test_the_past_of_a_project_has_no_memory_that_moved_away(bag: Satchel):
    memory = bag.add("Keys rotate.", project="p")
    then = memory.updated_at
    bag.update(memory.id, move_to="q")
    assert bag.get(memory.id, as_of=then).scope.project == "p"
    assert [each.scope.project for each in bag.recent(as_of=then)] == ["p"]
    for name in ("p", "q"):
        assert bag.scoped(project=name).recent(as_of=then) == []
