"""Searching results with regular expressions that may be wrong or slow."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.errors import InputError
from satchel.session.find import MAX_PATTERN, find_matches, shown_matches
from satchel.text.tokens import count_tokens
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
    return [window.line for window in find_matches(text, pattern).windows]


def test_short_lines_are_shown_whole_with_their_numbers() -> None:
    found = find_matches(_LOG, "INFO")
    assert list(map(str, found.windows)) == ["1: INFO start", "5: INFO error, then done"]
    assert (found.total, found.stopped) == (2, False)


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
        found = find_matches(text, pattern)
        assert [window.line for window in found.windows] == expected, pattern
        assert [window.text for window in found.windows] == [lines[number - 1] for number in expected], pattern
        of_line = {
            number: sum(1 for each in re.finditer(pattern, lines[number - 1]) if each[0]) for number in expected
        }
        assert {window.line: window.matches for window in found.windows} == {
            number: matches or 1 for number, matches in of_line.items()
        }, pattern


def test_several_matches_in_a_short_line_are_counted_and_shown_together() -> None:
    found = find_matches("a b a\nb\na", "a")
    assert (found.total, [window.matches for window in found.windows]) == (3, [2, 1])


def test_the_end_of_the_text_is_not_a_line_of_its_own() -> None:
    assert numbers("^", "a\nb\n") == [1, 2]
    assert numbers("^", "") == []
    assert numbers("x*", "\n\n") == [1, 2]


def test_windows_line_ends_are_line_ends() -> None:
    assert list(map(str, find_matches("one\r\ntwo\r\n", "two$").windows)) == ["2: two"]


def test_only_so_many_matches_are_given_but_all_are_counted() -> None:
    found = find_matches("x\n" * 50, "x", most=3)
    assert ([window.line for window in found.windows], found.total, found.stopped) == ([1, 2, 3], 50, False)


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
        find_matches("aaa", pattern)
    assert words in str(caught.value)


def test_nested_groups_are_matched() -> None:
    assert find_matches("a", "(" * 40 + "a" + ")" * 40).total == 1


@pytest.mark.parametrize(
    "text", ["a" * 5_000_000 + "b", ("a" * 99 + "b\n") * 50_000], ids=["one line", "many lines"]
)
def test_a_slow_pattern_is_stopped_in_time(text: str) -> None:
    begin = time.monotonic()
    with pytest.raises(InputError, match=r"'\(a\+\)\+\$' took longer than 0\.2 seconds; make it simpler"):
        find_matches(text, "(a+)+$", seconds=0.2)
    assert time.monotonic() - begin < 5


def test_matches_found_before_the_time_was_over_are_given() -> None:
    found = find_matches("aaa\n" + "a" * 60 + "b\n", "(a|a)+$", seconds=0.2)
    assert ([window.line for window in found.windows], found.stopped) == ([1], True)


def test_matches_in_the_line_where_the_time_was_over_are_given_too() -> None:
    found = find_matches("x" * 500 + "b" + "a" * 60 + "c", "b|(a|a)+$", seconds=0.2)
    assert ([(window.line, window.column) for window in found.windows], found.stopped) == ([(1, 501)], True)


@pytest.mark.parametrize("seconds", [0, -1, 61, True, "1", float("nan")])
def test_a_time_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="seconds"):
        find_matches("a", "a", seconds=seconds)


RECORDS = "[" + ",".join(f'{{"id":{number},"note":"needle {number}"}}' for number in range(20_000)) + "]"


def test_each_match_in_a_long_line_has_a_window_with_its_column() -> None:
    found = find_matches(RECORDS, "needle", most=3)
    assert found.total == 20_000
    columns = [each.start() + 1 for each in re.finditer("needle", RECORDS)][:3]
    assert [(window.line, window.column, window.matches) for window in found.windows] == [
        (1, column, 1) for column in columns
    ]
    assert [f"needle {number}" in window.text for number, window in enumerate(found.windows)] == [True] * 3
    assert str(found.windows[1]) == '1:45: … id":1,"note":"needle 1"},{" …'


def test_windows_around_matches_do_not_overlap_and_are_short() -> None:
    found = find_matches(RECORDS, "needle", start=11, most=50)
    assert all(window.text.count("needle") == 1 for window in found.windows)
    assert "needle 10" in found.windows[0].text
    apart = find_matches("x" * 50_000 + "needle" + "y" * 50_000, "needle").windows
    assert [(window.column, len(window.text)) for window in apart] == [(50_001, 60 + 6 + 120 + 4)]
    (long,) = find_matches("x" * 50_000, "x+").windows
    assert len(long.text) < 500


def shown(text: str, pattern: str, *, start: int = 1, tokens: int = 400) -> str:
    return shown_matches(find_matches(text, pattern, start=start), allocation=tokens, count=count_tokens).text


def test_one_line_with_20000_matches_is_paged_by_the_numbers_of_matches() -> None:
    seen: list[int] = []
    start: int | None = 1
    for _ in range(5):
        assert start is not None
        found = shown_matches(find_matches(RECORDS, "needle", start=start), allocation=400, count=count_tokens)
        assert count_tokens(found.text) == found.token_count <= 400
        assert (found.matches, found.start) == (20_000, start)
        assert f"⚡ {start:,}–{start + found.shown - 1:,} of 20,000 matches. The next: start=" in found.text
        seen += [int(number) for number in re.findall(r"needle (\d+)", found.text)]
        start = found.next_start
    assert seen == list(range(len(seen)))
    assert start == len(seen) + 1 > 40


def test_the_last_matches_say_so_and_a_number_beyond_them_too() -> None:
    last = shown(RECORDS, "needle", start=20_000)
    assert "⚡ 20,000 of 20,000 matches.\n" in last
    assert "⚡ There is no match 20,001; 20,000 in all." in shown(RECORDS, "needle", start=20_001)
    assert shown(RECORDS, "absent").startswith("Nothing matched.")


@pytest.mark.parametrize("start", [0, -1, "x", 1.5, None, True])
def test_a_start_that_cannot_be_is_refused(start: int) -> None:
    with pytest.raises(InputError, match="start"):
        find_matches("a", "a", start=start)
