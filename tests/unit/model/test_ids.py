"""Ids are time-ordered UUIDs, and prefixes of them can be typed."""

import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

import satchel
from satchel.model.ids import check_id, new_id, normalise_prefix, unique_prefix


def test_an_id_is_a_uuid_of_version_7_that_carries_the_time():
    before = time.time_ns() // 1_000_000
    parsed = uuid.UUID(new_id())
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert before - 1 <= parsed.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_later_ids_sort_after_earlier_ones_even_within_a_microsecond():
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_the_clock_going_back_does_not_disturb_the_order(monkeypatch):
    first = new_id()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert new_id() > first


def test_prefixes_are_taken_with_or_without_hyphens_in_any_case():
    assert normalise_prefix(" 0192AB34 ") == "0192ab34"
    assert normalise_prefix("0192ab345678") == "0192ab34-5678"
    assert normalise_prefix("0192ab34-5678-7") == "0192ab34-5678-7"


@pytest.mark.parametrize("text", ["", "0192ab3", "zzzzzzzz", "0192ab34' OR 1=1", "-" * 9, "a" * 33])
def test_what_cannot_be_a_prefix_is_refused(text):
    with pytest.raises(satchel.InputError, match="at least its first 8 hexadecimal digits"):
        normalise_prefix(text)


@pytest.mark.parametrize("text", ["0192ab34", "not-an-id", "0192ab34-5678-0abc-8def-0123456789ab"])
def test_only_a_whole_id_passes_as_one(text):
    with pytest.raises(satchel.InputError, match="is not an id"):
        check_id(text)
    whole = new_id()
    assert check_id(whole.upper()) == whole


@given(st.lists(st.integers(0, 2**128 - 1), min_size=2, max_size=20, unique=True))
def test_unique_prefixes_tell_neighbours_apart(numbers):
    ids = sorted(str(uuid.UUID(int=number)) for number in numbers)
    for index, identifier in enumerate(ids):
        before = ids[index - 1] if index else None
        after = ids[index + 1] if index + 1 < len(ids) else None
        prefix = normalise_prefix(unique_prefix(identifier, before, after))
        assert [each for each in ids if each.startswith(prefix)] == [identifier]
