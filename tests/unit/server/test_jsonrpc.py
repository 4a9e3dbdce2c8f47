"""JSON-RPC messages as lines: splitting, decoding, checking, and the errors for invalid ones."""

import json

import pytest

from satchel.server.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    LineBuffer,
    UnreadableLineError,
    decode,
    encode,
    find_response_id,
    repair_escapes,
    repeated_key,
    request_fault,
)
from tables import each_row


def test_lines_are_the_same_however_the_pieces_fall():
    data = b'{"a": 1}\n\n  \n{"b": "\xc3\xa9"}\r\n{"c": 3}\nrest'
    for size in range(1, len(data) + 1):
        lines = LineBuffer()
        found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
        assert [decode(line) for line in found] == [{"a": 1}, {"b": "é"}, {"c": 3}]


def test_a_line_that_is_too_long_is_cut_to_one_byte_too_many_and_the_next_is_whole():
    lines = LineBuffer(longest=10)
    assert list(lines.feed(b"x" * 25)) == []
    assert list(lines.feed(b"x" * 25 + b"\nshort\n0123456789\n")) == [b"x" * 11, b"short", b"0123456789"]


def test_half_of_a_character_is_replaced_and_the_rest_of_the_message_kept():
    message = decode(b'{"id": 7, "text": ["a\\ud800b", "\\ud83d\\ude00"]}')
    assert message == {"id": 7, "text": ["a\ufffdb", "😀"]}
    assert decode(encode(message)) == message


def test_what_is_no_number_in_json_is_sent_as_null():
    assert encode(decode(b'{"a": NaN, "b": 1e999}')) == b'{"a":null,"b":null}\n'


def test_numbers_of_any_length_stay_what_they_are():
    assert encode(decode(b'{"id":123456789012345678901234567890}')) == b'{"id":123456789012345678901234567890}\n'


@pytest.mark.parametrize(
    ("line", "why"),
    [(b'{"a": "\xff"}', "not UTF-8: .*0xff"), (b'{"a": ', "not JSON"), (b"[" * 100_000, "nested too deeply")],
)
def test_a_line_that_cannot_be_read_says_why(line, why):
    with pytest.raises(UnreadableLineError, match=why):
        decode(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":42,"result":{"content":[{"id": 7, "text":"\xff',
        b'{ "id" : 42 , "jsonrpc" : "2.0", "result": {"id":7}, oops',
        b'{"result":{"id":7,"text":"\xff"},"jsonrpc":"2.0","id":42}',
        b'{"result":{"content":[{"id":7,"text":"\xff"}]},"id":42,"jsonrpc":"2.0"}',
    ],
)
def test_the_call_that_an_unreadable_line_answers_is_found_at_its_start_or_its_end(line):
    assert find_response_id(line) == 42


@pytest.mark.parametrize(
    "line", [b"Starting up...", b'{"result":{"id":7,"text":"\xff"', b'{"method":"x","params":{"id":7,', b"\x00\xff"]
)
def test_an_id_within_an_answer_is_not_taken_for_its_own(line):
    assert find_response_id(line) is None


def test_what_comes_after_the_last_line_end_is_told_once():
    lines = LineBuffer()
    assert list(lines.feed(b"one\nlast words")) == [b"one"]
    assert (lines.rest(), lines.rest()) == (b"last words", b"")


@pytest.mark.parametrize(
    ("escaped", "repaired"),
    [
        (r"\ud83d\ude00", r"\ud83d\ude00"),
        (r"\uD83D\uDE00\ud83d", r"\uD83D\uDE00\ufffd"),
        (r"\ude00\ud83d", r"\ufffd\ufffd"),
        (r"\ud83d\u0041", r"\ufffd\u0041"),
        (r"\\ud800", r"\\ud800"),
        (r"\\\ud800", r"\\\ufffd"),
        (r"\ud8", r"\ud8"),
    ],
)
def test_only_escapes_of_lone_surrogates_are_replaced(escaped, repaired):
    assert repair_escapes(f'"{escaped}"') == f'"{repaired}"'


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"method": "ping"}, None),
        ({"method": "ping", "id": "a", "params": None}, None),
        ({"method": "ping", "id": True}, (INVALID_REQUEST, "an id is a string or a whole number, not bool")),
        ({"method": "ping", "id": None}, (INVALID_REQUEST, "an id is a string or a whole number, not null")),
        ({"method": 5, "id": 1}, (INVALID_REQUEST, "method must be a string, not int")),
        ({"method": "ping", "params": []}, (INVALID_PARAMS, "params must be an object, not list")),
    ],
)
def test_a_request_that_breaks_a_rule_is_told_which(fields, fault):
    found = request_fault(fields)
    assert (found and (found.code, found.with_type)) == fault


@each_row(
    ("text", "key"),
    [
        ('{"a": 1, "a": 2}', "'a'"),
        ('{"a": 1, "\\u0061": 2}', "'a'"),
        ('[{"b": {"x": [1, {"c": 1, "d": 2, "c": 1}]}}]', "'c'"),
        ('{"": 1, "": 1}', "''"),
        (json.dumps({"k" * 70: 1})[:-1] + ', "' + "k" * 70 + '": 1}', repr("k" * 60 + "…")),
        ('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]}', None),
        ('{"a": "\\"a\\": 1, \\"a\\": 2"}', None),
        ('{"n": ' + "9" * 5_000 + ', "n": 1}', "'n'"),
        ("", None),
        ("{", None),
        ('{"a": 1, "a"', None),
        ("[" * 100_000, None),
        (b"\xff", None),
        (b'{"a": 1, "a": 2}', "'a'"),
    ],
)
def test_a_key_that_is_given_twice_is_found(text: str | bytes, key: str | None):
    assert repeated_key(text) == key
