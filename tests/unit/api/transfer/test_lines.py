"""Each line is checked before anything is stored, and an error says what is wrong with it."""

import json

import pytest

import satchel
from satchel import Draft
from satchel.api.transfer import parse_line
from satchel.store.contract import Record
from tables import each_row

MEMORY = {
    "id": "0192ab34-5678-7abc-8def-0123456789ab",
    "text": "x",
    "tokens": 1,
    "at": "2026-01-01T00:00:00Z",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
}


def line(**value) -> bytes:
    return json.dumps(value).encode()


def test_the_first_line_and_empty_ones_hold_nothing():
    assert parse_line(b'{"satchel": "export", "version": 1}') is None
    assert parse_line(b"  \n") is None
    assert parse_line(b'\xef\xbb\xbf{"satchel": "export", "version": 1}\r\n') is None


def test_a_memory_line_is_a_record_and_a_plain_text_a_draft():
    assert isinstance(parse_line(line(memory=MEMORY)), Record)
    assert isinstance(parse_line(line(text="x")), Draft)


def test_the_same_plain_line_gets_the_same_ref_whatever_the_order_of_its_fields():
    one, two = parse_line(b'{"text":"x","kind":"fix"}'), parse_line(b'{"kind":"fix","text":"x"}')
    assert one == two
    assert isinstance(one, Draft)
    assert (one.ref or "").startswith("import:")
    other = parse_line(b'{"text":"y","kind":"fix"}')
    assert isinstance(other, Draft)
    assert other.ref != one.ref


@each_row(
    ("content", "complaint"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "a JSON object is needed, not list"),
        (b"{}", "no `text`"),
        (b'{"satchel": "export", "version": 99}', "version 99 is not known"),
        (line(text=""), "text is empty"),
        (line(text="x", colour="red"), "unknown field 'colour'"),
        (line(text="x", importance=7), "importance 7"),
        (line(memory=MEMORY | {"id": "nope"}), "'nope' is not an id"),
        (line(memory=MEMORY | {"kind": "opinion"}), "opinion"),
        (line(memory=MEMORY | {"importance": 2}), "importance 2"),
        (line(memory=MEMORY | {"text": 5}), "Expected `str`"),
        (line(memory=MEMORY | {"access_count": -1}), "access_count -1 is out of range"),
        (line(memory={"text": "x"}), "missing required field"),
        (line(relation={"source": "x"}), "missing required field"),
    ],
)
def test_a_bad_line_is_refused(content, complaint):
    with pytest.raises(satchel.InputError, match=complaint):
        parse_line(content)
