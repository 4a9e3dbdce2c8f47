"""Forgetting by filters, and undoing: unforget, unrelate, unsupersede."""

from datetime import UTC, datetime, timedelta

import pytest

import satchel
from satchel import Draft, Forgotten, Memory, Satchel

LATER = datetime(2999, 1, 1, tzinfo=UTC)


def texts(bag: Satchel) -> set[str]:
    return {memory.text for memory in bag.recent(limit=100)}


def stored(memory: Memory) -> tuple[object, ...]:
    return memory.status, memory.valid_from, memory.invalid_at, memory.superseded_by, memory.text


def test_a_dry_run_counts_and_changes_nothing(bag: Satchel):
    bag.add_many([Draft("a", kind="todo"), Draft("b", kind="todo"), Draft("c")])
    before = bag.recent()
    for purge in (False, True):
        assert bag.forget(kind="todo", purge=purge, dry_run=True) == Forgotten(count=2)
    assert bag.recent() == before
    ended = bag.forget(kind="todo")
    assert ended == Forgotten(count=2, purged=False, at=ended.at)
    assert bag.forget(kind="todo", dry_run=True).count == 0
    assert bag.forget(kind="todo", dry_run=True, purge=True).count == 2


def test_forgetting_takes_the_filters_of_a_search(bag: Satchel):
    bag.add_many(
        [
            Draft("working", tier="working", tags=["x", "y"]),
            Draft("archived", status="archived", tags=["x"]),
            Draft("old", at="2020-01-01", tags=["x"]),
            Draft("new", at="2024-01-01"),
        ]
    )
    for filters, count in (
        ({"tags": ["x", "y"]}, 1),
        ({"tags": "x"}, 3),
        ({"status": "archived"}, 1),
        ({"tier": ["working"], "tags": "x"}, 1),
        ({"until": "2020-12-31"}, 1),
        ({"since": "2023-01-01", "until": "2025-01-01"}, 1),
        ({"tags": "x", "until": "2020-12-31"}, 1),
    ):
        assert bag.forget(dry_run=True, **filters).count == count, filters


def test_what_one_call_forgot_is_restored_by_its_moment(bag: Satchel):
    bag.add_many([Draft("a", kind="todo"), Draft("b", kind="todo"), Draft("c", kind="todo"), Draft("d")])
    first = bag.forget([memory for memory in bag.recent(kind="todo") if memory.text == "a"])
    second = bag.forget(kind="todo")
    assert (first.count, second.count) == (1, 2)
    assert bag.unforget(at=second.at) == 2
    assert texts(bag) == {"b", "c", "d"}
    assert bag.unforget(at=second.at) == 0
    assert bag.unforget(at=first.at.isoformat()) == 1
    assert texts(bag) == {"a", "b", "c", "d"}


def test_a_memory_gets_back_what_it_was_before_it_was_forgotten(bag: Satchel):
    for number, fields in enumerate(({}, {"invalid_at": LATER}, {"status": "archived"}, {"pinned": True})):
        memory = bag.add(f"the harbor opens at seven {number}", **fields)
        bag.forget(memory)
        assert bag.unforget(memory.id) == 1
        assert stored(bag.get(memory.id)) == stored(memory), fields
        actions = [entry.action for entry in bag.history(memory.id)]
        assert actions == ["add", "forget", "unforget"]
    assert {hit.memory.text[-1] for hit in bag.search("harbor opens")} == {"0", "1", "3"}


def test_the_past_knows_when_a_memory_was_forgotten(bag: Satchel):
    memory = bag.add("the harbor opens at seven", at="2024-01-01")
    before = bag.history(memory.id)[0].at
    bag.forget(memory)
    forgotten = bag.history(memory.id)[-1].at
    bag.unforget(memory)
    assert len(bag.search("harbor", as_of=before)) == 1
    assert len(bag.search("harbor", as_of=forgotten)) == 0
    assert len(bag.search("harbor")) == 1


def test_what_was_not_forgotten_is_not_restored(bag: Satchel):
    current = bag.add("current")
    expired = bag.add("expired", invalid_at="2020-01-01")
    revived = bag.add("revived")
    bag.forget(revived)
    bag.update(revived.id, status="active")
    forgotten = bag.add("forgotten")
    moment = bag.forget(forgotten).at
    assert bag.unforget([current, expired, revived]) == 0
    assert bag.unforget([], at=moment) == 0
    assert bag.unforget(current, at=moment) == 0
    assert bag.unforget(at=moment - timedelta(seconds=1)) == 0
    assert bag.unforget([forgotten, current], at=moment) == 1
    assert bag.get(expired.id).invalid_at == datetime(2020, 1, 1, tzinfo=UTC)


def test_unforget_says_what_it_needs(bag: Satchel):
    with pytest.raises(satchel.InputError, match="say what to restore"):
        bag.unforget()
    with pytest.raises(satchel.InputError, match="at 'soon' is not a time"):
        bag.unforget(at="soon")
    with pytest.raises(satchel.UnknownIdError):
        bag.unforget("aaaa")


def test_unforget_stays_inside_its_view(bag: Satchel):
    ours, theirs = (bag.scoped(project=name) for name in ("harbor", "thesis"))
    memory = ours.add("ours")
    theirs.add("theirs")
    moment = bag.forget(everything=True).at
    with pytest.raises(satchel.UnknownIdError):
        theirs.unforget(memory.id)
    assert theirs.unforget(at=moment) == 1
    assert texts(bag) == {"theirs"}


def test_a_forgotten_memory_that_was_superseded_since_stays_ended(bag: Satchel):
    old, new = bag.add("port is 8000"), bag.add("port is 9000")
    moment = bag.forget(old).at
    bag.relate(new.id, old.id, "supersedes")
    with pytest.raises(satchel.InputError, match=f"{old.id} was superseded by {new.id}"):
        bag.unforget(old)
    assert bag.unforget(at=moment) == 0
    bag.unrelate(new, old)
    assert bag.unforget(at=moment) == 1
    assert stored(bag.get(old.id)) == stored(old)


def test_a_forgotten_text_that_another_memory_has_now_is_restored_beside_it(bag: Satchel):
    """Its ref and topic stay its own: whoever adds one of them revives the forgotten memory."""
    memory = bag.add("tabs", ref="r", topic_key="t")
    bag.forget(memory)
    other = bag.add("spaces")
    bag.update(other.id, text="tabs")
    assert bag.unforget(memory) == 1
    assert {each.id for each in bag.recent()} == {memory.id, other.id}


def test_removing_a_relation_removes_one_kind_or_all(bag: Satchel):
    one, other = bag.add("cache was cold"), bag.add("login was slow")
    for kind in ("related", "caused_by", "part_of"):
        bag.relate(other.id, one.id, kind)
    bag.relate(one.id, other.id, "fixes")
    assert bag.unrelate(other, one, "caused_by") == 1
    assert bag.unrelate(other, one, "caused_by") == 0
    assert {each.kind for each in bag.relations(one.id)} == {"related", "part_of", "fixes"}
    assert bag.unrelate(other, one) == 2
    assert [each.kind for each in bag.relations(one.id)] == ["fixes"]
    assert [entry.action for entry in bag.history(one.id)][-3:] == ["unrelate"] * 3
    with pytest.raises(satchel.InputError, match="unknown relation 'friend'; known: caused_by"):
        bag.unrelate(one, other, "friend")


def test_removing_supersedes_restores_the_target(bag: Satchel):
    for fields in ({}, {"invalid_at": LATER}, {"status": "archived"}):
        old, new = bag.add(f"port is 8000 {fields}", **fields), bag.add(f"port is 9000 {fields}")
        bag.relate(new.id, old.id, "supersedes")
        assert bag.unrelate(new, old, "supersedes") == 1
        assert stored(bag.get(old.id)) == stored(old)
        actions = [entry.action for entry in bag.history(old.id)]
        assert actions == ["add", "relate", "supersede", "unrelate", "unsupersede"]


def test_a_target_that_another_memory_supersedes_too_stays_superseded(bag: Satchel):
    old, new, newer = bag.add("port is 8000"), bag.add("port is 9000"), bag.add("port is 9001")
    bag.relate(new.id, old.id, "supersedes")
    bag.relate(newer.id, old.id, "supersedes")
    bag.unrelate(new, old)
    assert (bag.get(old.id).status, bag.get(old.id).superseded_by) == ("superseded", newer.id)
    bag.unrelate(newer, old)
    assert bag.get(old.id).status == "active"


def test_what_was_changed_since_it_was_superseded_stays_changed(bag: Satchel):
    old, new = bag.add("port is 8000"), bag.add("port is 9000")
    bag.relate(new.id, old.id, "supersedes")
    bag.update(old.id, invalid_at=LATER)
    bag.unrelate(new, old)
    assert (bag.get(old.id).status, bag.get(old.id).invalid_at) == ("active", LATER)


def test_the_past_has_the_relations_that_were_removed_since(bag: Satchel):
    one, other = bag.add("cache was cold", at="2024-01-01"), bag.add("login was slow", at="2024-01-01")
    made = bag.relate(one.id, other.id, "related", strength=0.5)
    bag.unrelate(one, other)
    between = bag.history(one.id)[-1].at
    again = bag.relate(one.id, other.id, "related")
    assert bag.relations(one.id, as_of=made.created_at) == [made]
    assert bag.relations(other.id, as_of=made.created_at) == [made]
    assert bag.relations(one.id, as_of=between) == []
    assert bag.relations(one.id) == [again]
    bag.unrelate(one, other)
    assert bag.relations(one.id, as_of=made.created_at) == [made]
    assert bag.relations(one.id, as_of=between) == []
    assert bag.relations(one.id, as_of=again.created_at) == [again]
    assert bag.relations(one.id) == []


def test_the_past_has_no_removed_relation_beyond_its_view(bag: Satchel):
    ours, theirs = bag.scoped(project="harbor"), bag.scoped(project="thesis")
    one, other = ours.add("cache was cold", at="2024-01-01"), theirs.add("login was slow", at="2024-01-01")
    made = bag.relate(one.id, other.id)
    bag.unrelate(one, other)
    assert ours.relations(one.id, as_of=made.created_at) == []
    assert bag.relations(one.id, as_of=made.created_at) == [made]


def test_a_history_with_all_of_it_is_imported_as_it_was(bag: Satchel):
    old, new = bag.add("port is 8000"), bag.add("port is 9000")
    bag.relate(new.id, old.id, "supersedes")
    bag.unrelate(new, old)
    bag.unforget(at=bag.forget(old).at)
    with satchel.open(":memory:") as other:
        assert other.import_(bag.export()).problems == ()
        assert other.history(old.id) == bag.history(old.id)
        assert other.relations(old.id) == []
