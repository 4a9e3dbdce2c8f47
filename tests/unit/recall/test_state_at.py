"""The state of a memory at a moment, from its row and its history."""

from datetime import UTC, datetime, timedelta
from typing import Any

from satchel.model.memory import Change, Memory, Scope
from satchel.recall.as_of import state_at

START = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def told(number: float, action: str, **changes: Any) -> Change:
    return Change(memory="m", at=day(number), action=action, changes=changes)


def row(**fields: Any) -> Memory:
    given = {"text": "new", "tokens": 1, "at": day(1), "created_at": day(1), "updated_at": day(5), "revision": 2}
    return Memory(id="m", **(given | fields))


def test_a_change_counts_from_its_own_moment_on():
    history = [told(1, "add"), told(5, "update", text=["old", "new"]), told(7, "update", kind=["fact", "fix"])]
    memory = row(kind="fix", revision=3, updated_at=day(7))
    before = timedelta(microseconds=1)
    assert [(each.text, each.kind, each.revision) for each in (
        state_at(memory, history, moment) for moment in (day(5) - before, day(5), day(7) - before, day(7))
    )] == [("old", "fact", 1), ("new", "fact", 2), ("new", "fact", 2), ("new", "fix", 3)]  # fmt: skip


def test_relations_in_a_history_change_no_field_and_hide_no_change():
    link = [None, {"kind": "related", "source": "m", "target": "o"}]
    history = [told(1, "add"), told(5, "update", text=["old", "new"]), told(2, "relate", relation=link)]
    assert state_at(row(), history, day(3)).text == "old"
    assert state_at(row(), history, day(3)).revision == 1


def test_values_come_back_in_their_own_types():
    changes = {
        "tags": [["a", "b"], []],
        "invalid_at": [None, "2026-01-05T00:00:00Z"],
        "valid_from": ["2026-01-02T03:04:05.000006Z", None],
        "scope": [{"org": "default", "project": "p", "user": None, "agent": None, "session": "s"}, {}],
        "importance": [1, 0.5],
        "title": ["Title", None],
    }
    history = [told(1, "add"), told(5, "update", **changes)]
    then = state_at(row(invalid_at=day(4)), history, day(3))
    assert then.tags == ("a", "b")
    assert then.invalid_at is None
    assert then.valid_from == datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert then.scope == Scope(project="p", session="s")
    assert (then.importance, then.title) == (1.0, "Title")


def test_a_memory_without_history_is_as_it_is():
    assert state_at(row(), [], day(3)) == row()
    assert state_at(row(), [told(6, "add")], day(3)) == row()
