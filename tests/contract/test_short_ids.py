"""Short ids: a few characters that identify one memory in every store, and never one of another scope."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import satchel
from call_by_call import CallByCall
from satchel import Draft, Memory, Satchel, Scope
from satchel.model.ids import new_id, parse_id
from satchel.store.contract import Record
from satchel.store.sqlite.store import SqliteStore

MOMENT = dict.fromkeys(("at", "created_at", "updated_at"), "2026-02-10T09:30:00Z")
# Few different digits, so that many ids end alike.
digits = st.text("01", min_size=10, max_size=10)


def ending(tail: str, first: str = "01a1e252") -> str:
    """An id with these last ten digits."""
    return f"{first}-176d-7371-8000-00{tail}"


def put(bag: Satchel, *ids: str) -> None:
    """Memories with these ids; the text of each is its last digits."""
    memories = [msgspec.convert({"id": each, "text": each[-10:], "tokens": 1, **MOMENT}, Memory) for each in ids]
    CallByCall(bag._store).put(
        Scope(org=bag.scope.org),
        [Record(memory=msgspec.structs.replace(each, scope=bag.scope)) for each in memories],
    )


def test_a_short_id_has_four_characters_of_base32(bag: Satchel):
    memories = bag.add_many(Draft(f"note {number}") for number in range(50))
    for memory, short in zip(memories, bag.short_ids(memories), strict=True):
        assert len(short) in (4, 5)
        assert bag.get(short).id == bag.get(f" {short.upper()} ").id == memory.id
    assert bag.short_ids([]) == []


@given(st.lists(digits, unique=True, min_size=1, max_size=12))
def test_a_short_id_names_its_memory_and_no_shorter_one_does(tails: list[str]):
    store = CallByCall(SqliteStore(":memory:"))
    bag = Satchel(store.store, counter=satchel.counter("chars/4"))
    try:
        ids = [ending(tail) for tail in tails]
        put(bag, *ids)
        for identifier, short in zip(ids, bag.short_ids(ids), strict=True):
            assert store.resolve(Scope(), short) == identifier
            if len(short) > 4:
                with pytest.raises(satchel.AmbiguousIdError):
                    store.resolve(Scope(), short[:-1])
    finally:
        bag.close()


def test_a_memory_has_the_same_short_id_wherever_it_is(bag: Satchel):
    memory = bag.add("carried elsewhere")
    with satchel.open(":memory:") as other:
        other.import_(bag.export())
        assert other.short_ids([memory]) == bag.short_ids([memory])


def test_ids_with_one_end_are_given_whole(bag: Satchel):
    ids = [ending("0123456789", first) for first in ("01a1e252", "01a1e253")]
    put(bag, *ids)
    assert bag.short_ids(ids) == ids
    for identifier in ids:
        assert bag.get(identifier).id == identifier


def test_an_ambiguous_short_id_is_refused_with_longer_ones(bag: Satchel):
    ids = [ending(f"00000{digit}0000") for digit in "024567"]
    put(bag, *ids)
    shorts = bag.short_ids(ids)
    assert len(set(shorts)) == len(ids)
    with pytest.raises(satchel.AmbiguousIdError) as caught:
        bag.get("aaaa")
    said = ", ".join(f"{short} '{each[-10:]}'" for short, each in zip(shorts[:3], ids[:3], strict=True))
    assert str(caught.value) == f"'aaaa' names several memories; did you mean one of these: {said}, …"


def test_a_short_id_of_another_org_or_project_names_nothing_here(bag: Satchel):
    memory = bag.scoped(project="harbor").add("ours")
    (short,) = bag.short_ids([memory])
    for view in (bag.scoped(project="thesis"), bag.scoped(org="acme")):
        with pytest.raises(satchel.UnknownIdError, match=f"no memory has the id '{short}' here"):
            view.get(short)
    assert bag.scoped(project="harbor").get(short).id == memory.id


def test_another_org_makes_no_short_id_longer(bag: Satchel):
    put(bag, ending("0000000000"))
    put(bag.scoped(org="acme"), ending("0000000001"))
    assert bag.short_ids([ending("0000000000")]) == ["aaaa"]
    assert bag.scoped(org="acme").short_ids([ending("0000000001")]) == ["aaaa"]


def test_a_view_may_name_by_what_is_ambiguous_in_the_whole(bag: Satchel):
    for project, tail in (("a", "0000000000"), ("b", "0000000001")):
        put(bag.scoped(project=project), ending(tail))
    assert bag.scoped(project="a").get("aaaa").id == ending("0000000000")
    with pytest.raises(satchel.AmbiguousIdError):
        bag.get("aaaa")


def test_eight_characters_may_be_a_prefix_or_a_short_id(bag: Satchel):
    """Ids of other sorts than version 7 may begin with digits that are letters of base32."""
    tail = parse_id("abcdef23").tail.first
    by_prefix, by_end = "abcdef23-0000-4000-8000-000000000000", ending(tail)
    put(bag, by_end)
    assert bag.get("abcdef23").id == by_end
    put(bag, by_prefix)
    with pytest.raises(satchel.AmbiguousIdError):
        bag.get("abcdef23")
    assert bag.get("abcdef23-0").id == by_prefix


def test_an_id_that_is_not_stored_has_a_short_id_too(bag: Satchel):
    put(bag, ending("0000000000"))
    assert bag.short_ids([ending("0000000001")]) == ["aaaaaaab"]
    assert len(bag.short_ids([new_id()])[0]) >= 4


def test_short_ids_of_many_memories_take_one_statement(bag: Satchel, monkeypatch: pytest.MonkeyPatch):
    memories = bag.add_many(Draft(f"note {number}") for number in range(10))
    asked = []
    with bag._store.reading(bag.scope.org) as tx:
        kind = type(tx)
    execute = kind.execute
    monkeypatch.setattr(kind, "execute", lambda db, sql, *values: (asked.append(sql), execute(db, sql, *values))[1])
    bag.short_ids(memories)
    assert len([sql for sql in asked if "tail" in sql]) == 1
    assert len([sql for sql in asked if "SELECT" in sql and "memory" in sql]) == 1


def test_every_method_takes_a_short_id(bag: Satchel):
    one, other = bag.add("one thing"), bag.add("another matter")
    first, second = bag.short_ids([one, other])
    bag.update(first, title="First")
    assert bag.relate(first, second).target == other.id
    assert len(bag.relations(second)) == 1
    assert bag.timeline(first).focus.id == one.id
    assert bag.history(first)[0].memory == one.id
    assert bag.similar(first) == []
    assert bag.unrelate(first, second) == 1
    assert bag.forget([first, second]).count == 2
    assert bag.unforget([first, second]) == 2
