"""Ids are time-ordered UUIDs; prefixes of them can be typed, and short ids from their end."""

import base64
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

import satchel
from satchel.model.ids import check_id, new_id, parse_id, short_id, short_length


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
    assert parse_id(" 0192AB34 ").prefix == ("0192ab34", "0192ab34g")
    assert parse_id("0192ab345678").prefix == ("0192ab34-5678", "0192ab34-5678g")
    assert parse_id("0192ab34-5678-7").prefix == ("0192ab34-5678-7", "0192ab34-5678-7g")


def test_a_whole_id_names_itself_alone():
    whole = new_id()
    assert parse_id(whole) == parse_id(whole.upper().replace("-", "")) == ((whole, whole), None)


def test_a_short_id_is_the_beginning_of_the_end_of_an_id_in_base32():
    tail = "0123456789"
    whole = base64.b32encode(bytes.fromhex(tail)).decode().lower()
    for length in range(4, 9):
        first, last = parse_id(f" {whole[:length].upper()} ").tail
        assert first <= tail <= last
        assert int(last, 16) - int(first, 16) + 1 == 32 ** (8 - length)
        assert len(first) == len(last) == 10


def test_only_eight_characters_can_be_a_prefix_and_a_short_id_at_once():
    both = parse_id("abcdef23")
    assert both.prefix is not None
    assert both.tail is not None
    # The first digit of a time-ordered id is 0 until the year 2527, and no short id has one.
    assert parse_id(new_id()[:8]).tail is None
    assert parse_id("abcdef2").prefix is None
    assert parse_id("abcdef234").tail is None


@pytest.mark.parametrize(
    "text", ["", "abc", "ab18", "0192ab3", "0192ab34' OR 1=1", "-" * 9, "ab-cd", "abcdefghi", "a" * 33]
)
def test_what_cannot_be_an_id_is_refused(text):
    with pytest.raises(satchel.InputError, match="is not an id: give a short id "):
        parse_id(text)


@pytest.mark.parametrize("text", ["0192ab34", "not-an-id", "0192ab34-5678-0abc-8def-0123456789ab"])
def test_only_a_whole_id_passes_as_one(text):
    with pytest.raises(satchel.InputError, match="is not an id"):
        check_id(text)
    whole = new_id()
    assert check_id(whole.upper()) == whole


@given(st.lists(st.integers(0, 2**40 - 1), min_size=2, max_size=20, unique=True))
def test_a_short_id_tells_an_id_from_its_neighbours(numbers):
    ids = sorted((str(uuid.UUID(int=number)) for number in numbers), key=lambda each: each[-10:])
    tails = [None, *(each[-10:] for each in ids), None]
    for place, identifier in enumerate(ids):
        short = short_id(identifier, (tails[place], tails[place + 2]))
        named = parse_id(short).tail
        assert [each for each in ids if named.first <= each[-10:] <= named.last] == [identifier]


def test_an_id_whose_end_is_not_unique_has_no_short_form():
    whole = new_id()
    assert short_id(whole, [whole[-10:]]) == whole


def test_short_ids_are_longer_in_larger_stores():
    assert [short_length(count) for count in (0, 1_000, 1_001, 30_000, 30_001, 10**9)] == [4, 4, 5, 5, 6, 6]
    assert len(short_id(new_id(), [], least=6)) == 6
