"""Parsing JSON with comments: content, positions, and syntax errors."""

import pytest

from satchel.cli.clients.json_file import read_document, read_object, words_at
from satchel.errors import InputError
from tables import each_row

REACHED = 50_000


def test_members_are_found_where_they_stand():
    text = '{ // first\n  "a": [1, {"b": "}"}], /* , */ "c\\u0041": null,\n}'
    root = read_document(text)
    assert (root.start, root.end) == (0, len(text))
    assert [member.key for member in root.members] == ["a", "cA"]
    assert [text[member.value : member.end] for member in root.members] == ['[1, {"b": "}"}]', "null"]
    assert [text[member.start] for member in root.members] == ['"', '"']
    assert [member.comma is not None and text[member.comma] for member in root.members] == [",", ","]


def test_an_object_is_read_from_its_brace_on():
    text = '{"a": {"b": 1} }'
    assert [member.key for member in read_object(text, 6).members] == ["b"]


@each_row(
    ("text", "place", "reason"),
    [
        ("", "line 1, column 1", "the file ends"),
        ("[]", "line 1, column 1", "expected an object in braces"),
        ('{"a": 1', "line 1, column 8", "the file ends"),
        ('{"a": 1 "b": 2}', "line 1, column 9", "expected a comma or }"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3", "expected a comma or }"),
        ('{\r\n  "a" 1}', "line 2, column 7", "expected a colon"),
        ('{"a": }', "line 1, column 7", "expected a value"),
        ('{"a": [1 2]}', "line 1, column 10", "expected a comma or ]"),
        ('{"a": {"b": 1]}', "line 1, column 14", "expected a comma or }"),
        ('{"a": [,]}', "line 1, column 8", "expected a value or ]"),
        ('{,"a": 1}', "line 1, column 2", "expected a key in double quotes"),
        ('{"a": 1,, "b": 2}', "line 1, column 9", "expected a key"),
        ('{"a": 1} x', "line 1, column 10", "expected the end of the file"),
        ('{"a": 1}{}', "line 1, column 9", "expected the end of the file"),
        ("{'a': 1}", "line 1, column 2", "double quotes"),
        ("{a: 1}", "line 1, column 2", "there is 'a'"),
        ('{"a": "b}', "line 1, column 7", "the string is not closed"),
        ('{"a": "b\n"}', "line 1, column 7", "the string is not closed"),
        ('{"a": "\\x"}', "line 1, column 7", "invalid character"),
        ('{"a": 01}', "line 1, column 8", "expected a comma"),
        ('{"a": +1}', "line 1, column 7", "expected a value"),
        ('{"a": 1.}', "line 1, column 8", "there is '.'"),
        ('{"a": NaN}', "line 1, column 7", "expected a value"),
        ('{"a": True}', "line 1, column 7", "expected a value"),
        ('{"a": 1 /* x }', "line 1, column 9", "the comment is not closed"),
        ('{"a": 1, # x\n}', "line 1, column 10", "there is '#'"),
        ('{"a":\u00a01}', "line 1, column 6", "expected a value"),
    ],
)
def test_what_is_broken_is_refused_at_its_line_and_column(text: str, place: str, reason: str):
    with pytest.raises(InputError) as caught:
        read_document(text)
    assert str(caught.value).startswith(place + ": ")
    assert reason in str(caught.value)


def test_nesting_may_be_deeper_than_the_stack_of_calls():
    text = '{"a":' + "[" * REACHED + "]" * REACHED + "}"
    assert read_document(text).members[0].end == len(text) - 1
    with pytest.raises(InputError, match=f"column {REACHED * 2 + 5}"):
        read_document('{"a":' + "[" * REACHED + "]" * (REACHED - 1) + "}")


@each_row(
    ("text", "words"),
    [
        ('"a\\n"', "a\n"),
        ("[]", []),
        ('["a", // b\n "c",]', ["a", "c"]),
        ('["a", 1]', None),
        ('[["a"]]', None),
        ('{"a": "b"}', None),
        ("3", None),
        ("null", None),
    ],
)
def test_a_value_of_strings_is_told_from_others(text: str, words: str | list[str] | None):
    assert words_at(f"  {text}  ", 2, 2 + len(text)) == words
