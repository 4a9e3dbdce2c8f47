"""The same text in the same scope is the same memory: confirmed and merged, never stored twice."""

import contextlib
import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import satchel
from citus_cluster import owner_of
from in_step import differences
from satchel import Draft, InputError, Memory, Satchel
from satchel.store.index import Index
from satchel.store.migrate import migrate

TEXT = "We rotate the signing keys every ninety days."
MONDAY, FRIDAY = datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 9, tzinfo=UTC)


def everything(bag: Satchel) -> bytes:
    return b"".join(bag.export())


def all_of(bag: Satchel) -> list[Memory]:
    return bag.recent(limit=1000, ended=True, status=["active", "archived", "superseded", "pending"])


def test_a_text_that_is_added_again_confirms_the_memory_and_tells_when_last_and_how_often(bag: Satchel):
    first = bag.add(TEXT, at=MONDAY)
    assert (first.confirmations, first.confirmed_at) == (0, None)
    second = bag.add(TEXT, at=FRIDAY)
    third = bag.add(TEXT, at="2026-01-07")
    assert first.id == second.id == third.id
    assert (second.confirmations, second.confirmed_at, second.at) == (1, FRIDAY, MONDAY)
    assert (third.confirmations, third.confirmed_at, third.at) == (2, FRIDAY, MONDAY)
    assert (third.revision, third.created_at) == (3, first.created_at)
    assert [memory.id for memory in all_of(bag)] == [first.id]
    assert [change.action for change in bag.history(first.id)] == ["add", "confirm", "confirm"]
    assert bag.history(first.id)[1].changes == {
        "confirmations": [0, 1],
        "confirmed_at": [None, "2026-01-09T00:00:00Z"],
    }


def test_many_turns_are_inserted_together_because_none_of_them_is_looked_for(
    bag: Satchel, monkeypatch: pytest.MonkeyPatch
):
    entered: list[int] = []
    enter = Index.enter

    def counted(self: Index, memories: Any) -> None:
        entered.append(len(memories))
        enter(self, memories)

    monkeypatch.setattr(Index, "enter", counted)
    bag.add_many([Draft(text=f"turn {number // 2}", tier="conversation", session="s") for number in range(50)])
    assert entered == [50]
    assert len(all_of(bag)) == 50


def test_an_earlier_saying_that_is_added_later_moves_the_time_back(bag: Satchel):
    bag.add(TEXT, at=FRIDAY)
    merged = bag.add(TEXT, at=MONDAY)
    assert (merged.at, merged.confirmed_at) == (MONDAY, FRIDAY)


def test_without_a_time_of_its_own_a_saying_was_now(bag: Satchel):
    event = bag.add(TEXT, at="2999-01-01")
    merged = bag.add(TEXT)
    assert merged.at == event.at
    assert merged.confirmed_at is not None
    assert merged.confirmed_at < event.at


def test_what_two_drafts_say_is_merged(bag: Satchel):
    bag.add(TEXT, tags=["keys", "auth"], importance=0.4, confidence=0.9, speaker="Ana")
    merged = bag.add(
        TEXT, tags=["ops", "auth"], importance=0.8, confidence=0.3, pinned=True, kind="decision", title="Keys"
    )
    assert merged.tags == ("keys", "auth", "ops")
    assert (merged.importance, merged.confidence, merged.pinned) == (0.8, 0.9, True)
    assert (merged.kind, merged.title, merged.speaker) == ("decision", "Keys", "Ana")
    again = bag.add(TEXT)
    assert (again.importance, again.confidence, again.pinned, again.kind) == (0.8, 0.9, True, "decision")
    assert [hit.memory.id for hit in bag.search("ops", tags="ops")] == [merged.id]
    assert differences(bag) == []


def test_a_weight_that_was_not_given_does_not_raise_one_that_was(bag: Satchel):
    bag.add(TEXT, importance=0.1, confidence=0.2)
    merged = bag.add(TEXT)
    assert (merged.importance, merged.confidence) == (0.1, 0.2)


DIFFERING: dict[str, tuple[Any, Any]] = {
    "title": ("Keys", "Signing"),
    "kind": ("decision", "todo"),
    "speaker": ("Ana", "Ben"),
    "source": ("adr-1.md", "adr-2.md"),
    "ref": ("r1", "r2"),
    "topic_key": ("keys", "signing"),
}


@pytest.mark.parametrize("field", DIFFERING)
def test_what_is_told_apart_by_a_field_is_two_memories_and_an_unset_field_is_no_difference(
    bag: Satchel, field: str
):
    one, other = DIFFERING[field]
    first = bag.add(TEXT, **{field: one})
    second = bag.add(TEXT, **{field: other})
    assert first.id != second.id
    assert second.confirmations == 0
    plain = bag.add(TEXT)
    assert (plain.id, getattr(plain, field), plain.confirmations) == (first.id, one, 1)


@pytest.mark.parametrize("field", DIFFERING)
def test_a_field_that_only_the_later_one_has_is_kept(bag: Satchel, field: str):
    first = bag.add(TEXT)
    merged = bag.add(TEXT, **{field: DIFFERING[field][0]})
    assert (merged.id, getattr(merged, field)) == (first.id, DIFFERING[field][0])
    # And from then on tells it apart.
    assert bag.add(TEXT, **{field: DIFFERING[field][1]}).id != first.id


def test_another_scope_or_another_text_is_another_memory(bag: Satchel):
    scopes = [
        {field: name} for field in ("org", "project", "user", "agent", "session") for name in ("one", "another")
    ]
    added = [bag.scoped(**scope).add(TEXT) for scope in scopes]
    added += [bag.add(text) for text in (TEXT, f"{TEXT} ", TEXT.lower(), f"{TEXT}\0")]
    assert len({memory.id for memory in added}) == len(added)
    assert {memory.confirmations for memory in added} == {0}
    assert bag.scoped(project="one").add(TEXT).confirmations == 1


def test_signs_that_a_server_cannot_keep_are_compared_too(bag: Satchel):
    texts = ["a\0b", "a\ufdd0b", "a\ufdd00b"]
    added = [bag.scoped(project="\0\ufdd0").add(text) for text in texts * 2]
    assert [memory.confirmations for memory in added] == [0, 0, 0, 1, 1, 1]


def test_turns_of_a_conversation_are_events_and_never_merged(bag: Satchel):
    turns = [bag.add("Yes.", tier="conversation", session="s1") for _ in range(2)]
    note = bag.add("Yes.", session="s1")
    assert len({memory.id for memory in (*turns, note)}) == 3
    assert bag.add("Yes.", session="s1").id == note.id
    assert len(all_of(bag)) == 3


def test_of_working_and_knowledge_the_lasting_one_stays(bag: Satchel):
    bag.add(TEXT, tier="working")
    assert bag.add(TEXT).tier == "working"
    assert bag.add(TEXT, tier="knowledge").tier == "knowledge"
    assert bag.add(TEXT, tier="working").tier == "knowledge"


def test_what_holds_longer_stays(bag: Satchel):
    bag.add(TEXT, valid_from="2026-02-01", invalid_at="2998-01-01")
    merged = bag.add(TEXT, valid_from="2026-01-01", invalid_at="2999-01-01")
    assert (merged.valid_from, merged.invalid_at) == (
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2999, 1, 1, tzinfo=UTC),
    )
    merged = bag.add(TEXT, valid_from="2026-03-01", invalid_at="2997-01-01")
    assert (merged.valid_from, merged.invalid_at) == (
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2999, 1, 1, tzinfo=UTC),
    )
    merged = bag.add(TEXT)
    assert (merged.valid_from, merged.invalid_at) == (None, None)


def test_saying_again_what_was_ended_makes_it_hold_again(bag: Satchel):
    memory = bag.add(TEXT)
    newer = bag.add("We rotate them daily.")
    for end in (
        lambda: bag.forget(memory.id),
        lambda: bag.update(memory.id, status="archived"),
        lambda: bag.relate(newer.id, memory.id, "supersedes"),
    ):
        end()
        assert not bag.get(memory.id).current(datetime.now(UTC))
        revived = bag.add(TEXT)
        assert revived.id == memory.id
        assert (revived.status, revived.invalid_at, revived.superseded_by) == ("active", None, None)


def test_what_is_pending_stays_so_until_a_status_is_given(bag: Satchel):
    memory = bag.add(TEXT, status="pending")
    assert bag.add(TEXT).status == "pending"
    assert bag.add(TEXT, status="active").status == "active"
    assert bag.add(TEXT, status="pending").status == "pending"
    assert bag.add(TEXT).id == memory.id


def test_of_several_with_the_text_one_that_holds_is_confirmed(bag: Satchel):
    ended, holding = bag.add(TEXT, title="One"), bag.add(TEXT, title="Other")
    bag.forget(ended.id)
    assert bag.add(TEXT).id == holding.id
    bag.forget(holding.id)
    assert bag.add(TEXT).id == ended.id


def test_drafts_of_one_call_are_merged_with_each_other_and_with_what_is_there(bag: Satchel):
    there = bag.add("there")
    drafts = [Draft(text, tags=[str(place)]) for place, text in enumerate(["new", "there", "new", "else", "new"])]
    added = bag.add_many(drafts)
    assert added[0].id == added[2].id == added[4].id
    assert added[1].id == there.id
    assert (added[4].tags, added[4].confirmations) == (("0", "2", "4"), 2)
    assert (added[0].revision, added[0].confirmations) == (1, 0)
    assert len(all_of(bag)) == 3
    assert differences(bag) == []


def test_a_ref_or_topic_updates_before_a_text_confirms(bag: Satchel):
    memory = bag.add("old", ref="r1", topic_key="t1", tags=["kept"])
    # Within one call: the text that an update brings is a text that is there.
    updated, confirmed = bag.add_many([Draft(TEXT, ref="r1"), Draft(TEXT, tags=["more"])])
    assert updated.id == confirmed.id == memory.id
    assert (updated.confirmations, confirmed.confirmations, confirmed.tags) == (0, 1, ("kept", "more"))
    again = bag.add(TEXT, topic_key="t1", tags=["other"])
    assert (again.confirmations, again.tags) == (1, ("other",))
    assert [change.action for change in bag.history(memory.id)] == ["add", "update", "confirm", "update"]


def test_a_text_that_an_update_brings_within_one_call_is_found(bag: Satchel):
    added = bag.add_many([Draft("one", ref="r"), Draft("two", ref="r"), Draft("two"), Draft("one")])
    assert added[0].id == added[1].id == added[2].id != added[3].id
    assert [memory.confirmations for memory in added] == [0, 0, 1, 0]


def test_more_tags_than_a_memory_may_have_are_refused_and_nothing_changes(bag: Satchel):
    bag.add(TEXT, tags=[f"a{number}" for number in range(60)])
    before = everything(bag)
    with pytest.raises(InputError, match="120 tags are too many; the most is 100"):
        bag.add_many([Draft("new"), Draft(TEXT, tags=[f"b{number}" for number in range(60)])])
    assert everything(bag) == before


def test_a_confirmation_that_is_undone_leaves_nothing(bag: Satchel):
    bag.add(TEXT)
    before = everything(bag)
    with contextlib.suppress(ZeroDivisionError), bag.transaction():
        assert bag.add(TEXT).confirmations == 1
        raise ZeroDivisionError
    assert everything(bag) == before
    assert bag.add(TEXT).confirmations == 1


def test_a_text_that_was_changed_or_purged_is_no_longer_there(bag: Satchel):
    changed, purged = bag.add(TEXT), bag.add("another text")
    bag.update(changed.id, text="changed")
    bag.forget(purged.id, purge=True)
    assert bag.add(TEXT).id != changed.id
    assert bag.add("another text").confirmations == 0
    assert bag.add("changed").id == changed.id


def test_importing_keeps_memories_with_the_same_text_apart_and_twice_is_the_same_as_once(
    bag: Satchel, tmp_path: Path
):
    with satchel.open(tmp_path / "other.db") as other:
        for title, text in itertools.product((None, "Keys", "Signing"), (TEXT, "another")):
            other.scoped(project="p").add(text, title=title)
        other.scoped(project="p").add(TEXT, at=MONDAY)
        other.scoped(project="q").add(TEXT)
        lines = list(other.export())
    # Two that could be one, were they added here.
    twin = json.loads(lines[1])
    twin["memory"] |= {"id": "01900000-0000-7000-8000-000000000001", "title": None}
    lines.insert(2, json.dumps(twin).encode())
    bag.scoped(project="p").add(TEXT)
    mine = len(all_of(bag))
    done = bag.import_(lines)
    assert (done.problems, done.kept, done.updated) == ((), 0, 0)
    assert len(all_of(bag)) == mine + done.added == mine + len(lines) - 1
    before = everything(bag)
    again = bag.import_(lines)
    assert (again.added, again.updated, again.kept) == (0, 0, done.added)
    assert everything(bag) == before
    for line in lines[1:]:
        record = json.loads(line)["memory"]
        assert bag.get(record["id"]).confirmations == record.get("confirmations", 0)


def test_importing_drafts_twice_changes_nothing_whatever_has_their_text(bag: Satchel):
    bag.add(TEXT, tags=["mine"])
    lines = [json.dumps({"text": TEXT, "tags": [tag], **more}).encode() for tag, more in
             (("a", {}), ("b", {}), ("c", {"ref": "r"}))]  # fmt: skip
    assert bag.import_(lines).added == 3
    before = everything(bag)
    again = bag.import_(lines)
    assert (again.added, again.updated, again.kept) == (0, 0, 3)
    assert everything(bag) == before


def test_confirmations_travel_with_an_export_and_between_stores(bag: Satchel, location: Path | str, tmp_path: Path):
    memory = bag.add(TEXT, at=MONDAY)
    memory = bag.add(TEXT, at=FRIDAY)
    exported = everything(bag)
    with satchel.open(tmp_path / "copy.db") as copy:
        copy.import_(exported.splitlines(keepends=True))
        assert everything(copy) == exported
        assert (copy.add(TEXT).id, copy.get(memory.id).confirmations) == (memory.id, 2)
    done = migrate(owner_of(str(location)), tmp_path / "moved.db")
    assert done.same
    with satchel.open(tmp_path / "moved.db") as moved:
        assert everything(moved) == exported
        assert moved.add(TEXT, at=FRIDAY).confirmations == 2


def test_of_many_drafts_with_refs_and_topics_each_updates_the_memory_that_has_its_name(bag: Satchel):
    """Which names are taken is looked up for all drafts at once; NUL and scopes must not confuse that."""
    names = ("a", "b", "a\0", "a\0b", "\ufdd0", 'q"', "é")
    view = bag.scoped(project="p")
    held = view.add_many([Draft(text=f"held {name}", ref=name, topic_key=name) for name in names])
    elsewhere = bag.add("the same names in another scope", ref="a", topic_key="a")
    drafts = [
        *(Draft(text=f"by ref {name}", ref=name) for name in names),
        *(Draft(text=f"by topic {name}", topic_key=name) for name in names),
        Draft(text="new", ref="new"),
        Draft(text="new again", ref="new"),
        Draft(text="newer topic", topic_key="newer"),
        Draft(text="newer topic again", topic_key="newer", ref="newest"),
        Draft(text="the newest", ref="newest"),
    ]
    stored = view.add_many(drafts)
    ids = [memory.id for memory in held]
    assert [memory.id for memory in stored[: 2 * len(names)]] == ids + ids
    assert [view.get(each).text for each in ids] == [f"by topic {name}" for name in names]
    assert len({memory.id for memory in stored[-5:]}) == 2
    assert [view.get(memory.id).text for memory in stored[-2:]] == ["the newest"] * 2
    assert bag.get(elsewhere.id).revision == 1
    assert len(all_of(bag)) == len(names) + 3
    assert differences(bag) == []
