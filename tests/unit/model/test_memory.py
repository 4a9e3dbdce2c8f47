"""Drafts, scopes and memories validate and normalise their fields."""

from datetime import UTC, date, datetime, timedelta, timezone

import msgspec
import pytest

import satchel
from satchel import Draft, Memory, Scope
from satchel.model.memory import MAX_TEXT_BYTES, as_time, compact
from tables import each_row


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u3000"])
def test_an_empty_text_is_refused(text):
    with pytest.raises(satchel.InputError, match="text is empty"):
        Draft(text)


def test_a_text_of_a_megabyte_is_taken_and_one_byte_more_is_not():
    assert len(Draft("x" * MAX_TEXT_BYTES).text) == 1_000_000
    with pytest.raises(satchel.InputError, match="1,000,001 bytes"):
        Draft("x" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(satchel.InputError, match="1,000,002 bytes"):
        Draft("記" * 333_334)


def test_halves_of_characters_are_repaired():
    assert Draft("a\ud83c\udf92b\ud800").text == "a🎒b\ufffd"


@each_row(
    ("field", "value", "complaint"),
    [
        ("kind", "opinion", "unknown kind 'opinion'; known: observation, decision"),
        ("tier", "cold", "unknown tier 'cold'"),
        ("status", "gone", "unknown status 'gone'"),
        ("importance", 1.01, "importance 1.01 is out of range"),
        ("confidence", "high", "confidence 'high' is not a number"),
        ("tags", 1, "tags must be a string or a list"),
        ("tags", [1], "tag must be a string"),
        ("tags", [str(number) for number in range(101)], "101 tags are too many"),
        ("title", 7, "title must be a string"),
        ("title", "x" * 1001, "1,001 characters"),
        ("project", "x" * 501, "501 characters"),
        ("at", "yesterday", "at 'yesterday' is not a time; write it as 2026-02-10"),
        ("at", 5, "at 5 is not a time"),
        ("pinned", 1, "neither true nor false"),
        ("ref", 3, "ref must be a string"),
    ],
)
def test_a_bad_field_is_refused_with_its_value(field, value, complaint):
    with pytest.raises(satchel.InputError, match=complaint):
        Draft("text", **{field: value})


def test_names_and_tags_are_trimmed_and_tags_kept_once_in_order():
    draft = Draft("t", title="  two \n lines ", tags=[" b ", "a", "b", "", " "], project="  p ", session=" ")
    assert (draft.title, draft.tags, draft.project, draft.session) == ("two lines", ("b", "a"), "p", None)


def test_times_come_in_many_forms_and_are_kept_in_utc():
    noon = datetime(2026, 2, 10, 12, tzinfo=UTC)
    for given in (
        "2026-02-10T12:00:00Z",
        "2026-02-10T13:00:00+01:00",
        "2026-02-10 12:00",
        noon,
        noon.astimezone(timezone(timedelta(hours=-5))),
        datetime(2026, 2, 10, 12),
    ):
        assert as_time(given) == noon
        assert as_time(given).utcoffset() == timedelta(0)
    assert as_time(date(2026, 2, 10)) == as_time("2026-02-10") == datetime(2026, 2, 10, tzinfo=UTC)


def test_a_time_that_leaves_the_calendar_is_refused():
    with pytest.raises(satchel.InputError, match="outside the years"):
        as_time("0001-01-01T00:00:00+05:00")


def test_an_unset_org_is_the_default_one():
    assert Scope() == Scope(org="") == Scope(org="  ") == Scope(org="default")


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        Draft("x").text = "y"


def test_the_compact_form_has_only_what_differs_from_the_defaults():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    base = {"id": "i", "at": now, "created_at": now, "updated_at": now, "tokens": 1}
    memory = Memory(text="x", kind="".join(["observ", "ation"]), scope=Scope(project="p"), **base)
    assert compact(memory) == base | {"text": "x", "scope": {"project": "p"}}
    assert msgspec.convert(compact(memory), Memory) == memory


def test_a_headline_is_the_title_or_the_first_words():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    memory = Memory(id="i", text="one\ntwo " * 50, at=now, created_at=now, updated_at=now, tokens=1)
    assert memory.headline(20) == "one two one two one…"
    assert msgspec.structs.replace(memory, title="T").headline() == "T"


def test_being_current_depends_on_status_and_moment():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    memory = Memory(id="i", text="x", at=now, created_at=now, updated_at=now, tokens=1, invalid_at=now)
    assert not memory.current(now)
    assert memory.current(now - timedelta(seconds=1))
    assert not msgspec.structs.replace(memory, status="pending", invalid_at=None).current(now)
