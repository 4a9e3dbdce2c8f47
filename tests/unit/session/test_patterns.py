"""Searching lines with regular expressions that may be wrong or slow."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.errors import InputError
from satchel.session.find import MAX_PATTERN, find_lines
from tables import each_row

_LOG = "\n".join(
    [
        "INFO start",
        "",
        "Error: no such file",
        "  at line 12, column 7",
        "INFO error, then done",
        "end",
    ]
)


def numbers(pattern: str, text: str = _LOG) -> list[int]:
    return list(find_lines(text, pattern).numbers)


def test_matching_lines_come_with_their_numbers() -> None:
    found = find_lines(_LOG, "INFO")
    assert found.numbers == (1, 5)
    assert found.lines == ("INFO start", "INFO error, then done")
    assert (found.matches, found.stopped) == (2, False)


def test_case_counts_only_where_the_pattern_has_a_capital() -> None:
    assert numbers("error") == [3, 5]
    assert numbers("Error") == [3]
    assert numbers(r"\Sror") == [3, 5]
    assert numbers(r"(?P<name>error)") == [3, 5]


@each_row(
    ("pattern", "expected"),
    [
        (r"^INFO", [1, 5]),
        (r"done$", [5]),
        (r"\Aend\Z", [6]),
        (r"^$", [2]),
        (r"line \d+", [4]),
        (r"file\s+at", []),
        (r"start[^x]*Error", []),
        (r"start\W*Error", []),
        (r"start(?s:.*)Error", []),
        (r"start[\s\S]*Error", []),
        (r"start[^]]*Error", []),
        (r"file\P{Nd}*at", []),
        (r"^[^a-z]*$", [2]),
        (r"x*", [1, 2, 3, 4, 5, 6]),
        (r"(?<=no )such", [3]),
        (r"start(?!\s*Error)", [1]),
    ],
)
def test_a_match_stays_inside_its_line(pattern: str, expected: list[int]) -> None:
    assert numbers(pattern) == expected


_SAMPLES = (
    "a",
    "b$",
    "^a",
    r"\s",
    r"\S\s",
    "[^a]",
    r"[^]a]",
    r"\W+b",
    r"[\sb]+a",
    "a*",
    ".",
    "^$",
    "a.b|^b",
    r"a(?!\s)",
)


@settings(max_examples=60, deadline=None)
@given(text=st.text("ab \n]", max_size=30))
def test_lines_are_those_that_match_one_by_one(text: str) -> None:
    lines = text.split("\n")[: -1 if text.endswith("\n") or not text else None]
    for pattern in _SAMPLES:
        expected = [number for number, line in enumerate(lines, 1) if re.search(pattern, line)]
        found = find_lines(text, pattern)
        assert list(found.numbers) == expected, pattern
        assert list(found.lines) == [lines[number - 1] for number in expected], pattern


def test_several_matches_in_a_line_are_one_line() -> None:
    assert find_lines("a b a\nb\na", "a").matches == 2


def test_the_end_of_the_text_is_not_a_line_of_its_own() -> None:
    assert numbers("^", "a\nb\n") == [1, 2]
    assert numbers("^", "") == []
    assert numbers("x*", "\n\n") == [1, 2]


def test_windows_line_ends_are_line_ends() -> None:
    found = find_lines("one\r\ntwo\r\n", "two$")
    assert (found.numbers, found.lines) == ((2,), ("two",))


def test_only_so_many_lines_are_given_but_all_are_counted() -> None:
    found = find_lines("x\n" * 50, "x", most=3)
    assert (found.numbers, found.matches, found.stopped) == ((1, 2, 3), 50, False)


@each_row(
    ("pattern", "words"),
    [
        ("(a", "not a regular expression: missing ) at position 2"),
        ("a**", "at position 2"),
        ("[a", "at position"),
        ("", "is empty"),
        ("x" * (MAX_PATTERN + 1), "the pattern has 1,001 characters; the limit is 1,000"),
        ("(?:(?:a{1000}){1000}){1000}", "repeats more than 10,000 times"),
        ("a{99999999999}", "repeats more than"),
        (None, "is empty or not text"),
    ],
)
def test_a_bad_pattern_is_refused_with_what_is_wrong(pattern: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        find_lines("aaa", pattern)
    assert words in str(caught.value)


def test_nested_groups_are_matched() -> None:
    assert find_lines("a", "(" * 40 + "a" + ")" * 40).matches == 1


@pytest.mark.parametrize(
    "text", ["a" * 5_000_000 + "b", ("a" * 99 + "b\n") * 50_000], ids=["one line", "many lines"]
)
def test_a_slow_pattern_is_stopped_in_time(text: str) -> None:
    begin = time.monotonic()
    with pytest.raises(InputError, match=r"'\(a\+\)\+\$' took longer than 0\.2 seconds; make it simpler"):
        find_lines(text, "(a+)+$", seconds=0.2)
    assert time.monotonic() - begin < 5


def test_lines_found_before_the_time_was_over_are_given() -> None:
    found = find_lines("aaa\n" + "a" * 60 + "b\n", "(a|a)+$", seconds=0.2)
    assert (found.numbers, found.stopped) == ((1,), True)


@pytest.mark.parametrize("seconds", [0, -1, 61, True, "1", float("nan")])
def test_a_time_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="seconds"):
        find_lines("a", "a", seconds=seconds)


def test_a_long_line_is_shown_around_what_was_found() -> None:
    found = find_lines("x" * 50_000 + "needle" + "y" * 50_000, "needle")
    assert found.numbers == (1,)
    assert "needle" in found.lines[0]
    assert len(found.lines[0]) <= 404


def test_a_long_line_is_one_line_however_often_it_matches() -> None:
    assert find_lines("needle " * 20_000 + "\nneedle", "needle").numbers == (1, 2)
