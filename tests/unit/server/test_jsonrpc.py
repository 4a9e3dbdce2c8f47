"""Messages as lines: cut, read, and what is told of those that cannot be read."""

import pytest

from satchel.server.jsonrpc import Lines, UnreadableLineError, call_in, decoded, encoded


def test_lines_are_the_same_however_the_pieces_fall():
    data = b'{"a": 1}\n\n  \n{"b": "\xc3\xa9"}\r\n{"c": 3}\nrest'
    for size in range(1, len(data) + 1):
        lines = Lines()
        found = [line for at in range(0, len(data), size) for line in lines.fed(data[at : at + size])]
        assert [decoded(line) for line in found] == [{"a": 1}, {"b": "é"}, {"c": 3}]


def test_a_line_that_is_too_long_is_cut_to_one_byte_too_many_and_the_next_is_whole():
    lines = Lines(longest=10)
    assert list(lines.fed(b"x" * 25)) == []
    assert list(lines.fed(b"x" * 25 + b"\nshort\n0123456789\n")) == [b"x" * 11, b"short", b"0123456789"]


def test_half_of_a_character_is_replaced_and_the_rest_of_the_message_kept():
    message = decoded(b'{"id": 7, "text": ["a\\ud800b", "\\ud83d\\ude00"]}')
    assert message == {"id": 7, "text": ["a\ufffdb", "😀"]}
    assert decoded(encoded(message)) == message


def test_what_is_no_number_in_json_is_sent_as_null():
    assert encoded(decoded(b'{"a": NaN, "b": 1e999}')) == b'{"a":null,"b":null}\n'


def test_numbers_of_any_length_stay_what_they_are():
    assert encoded(decoded(b'{"id":123456789012345678901234567890}')) == b'{"id":123456789012345678901234567890}\n'


@pytest.mark.parametrize(
    ("line", "why"),
    [(b'{"a": "\xff"}', "not UTF-8: .*0xff"), (b'{"a": ', "not JSON"), (b"[" * 100_000, "nested too deeply")],
)
def test_a_line_that_cannot_be_read_says_why(line, why):
    with pytest.raises(UnreadableLineError, match=why):
        decoded(line)


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
    assert call_in(line) == 42


@pytest.mark.parametrize(
    "line", [b"Starting up...", b'{"result":{"id":7,"text":"\xff"', b'{"method":"x","params":{"id":7,', b"\x00\xff"]
)
def test_an_id_within_an_answer_is_not_taken_for_its_own(line):
    assert call_in(line) is None


def test_what_comes_after_the_last_line_end_is_told_once():
    lines = Lines()
    assert list(lines.fed(b"one\nlast words")) == [b"one"]
    assert (lines.rest(), lines.rest()) == (b"last words", b"")
