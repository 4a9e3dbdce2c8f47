"""Times in a question are parsed as spans, and what only looks like a time is not."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from satchel.text.dates import named_times
from tables import each_row

NOW = datetime(2024, 8, 14, 15, 30, tzinfo=UTC)  # a Wednesday


def spans(query, now=NOW):
    return [(_short(span.start), _short(span.end), span.precise) for span in named_times(query, now)]


def _short(moment):
    return moment.isoformat()[:16].removesuffix("T00:00")


@each_row(
    ("query", "start", "end"),
    [
        ("2023-05-08", "2023-05-08", "2023-05-09"),
        ("what broke on 2023/05/08?", "2023-05-08", "2023-05-09"),
        ("2023-05", "2023-05-01", "2023-06-01"),
        ("at 2023-05-08T10:30Z", "2023-05-08T10:30", "2023-05-08T10:31"),
        ("at 2023-05-08 01:30+02:00", "2023-05-07T23:30", "2023-05-07T23:31"),
        ("8 May 2023", "2023-05-08", "2023-05-09"),
        ("May 8, 2023", "2023-05-08", "2023-05-09"),
        ("the conference on 10 July, 2023", "2023-07-10", "2023-07-11"),
        ("25/12/2023", "2023-12-25", "2023-12-26"),
        ("8.5.2023", "2023-05-08", "2023-05-09"),
        ("May 3-10, 2023", "2023-05-03", "2023-05-11"),
        ("in May 2023", "2023-05-01", "2023-06-01"),
        ("Dec 2023", "2023-12-01", "2024-01-01"),
        ("in 2023", "2023-01-01", "2024-01-01"),
        ("Q3 2024", "2024-07-01", "2024-10-01"),
        ("2024-Q1", "2024-01-01", "2024-04-01"),
        ("today", "2024-08-14", "2024-08-15"),
        ("yesterday", "2024-08-13", "2024-08-14"),
        ("the day before yesterday", "2024-08-12", "2024-08-13"),
        ("tomorrow", "2024-08-15", "2024-08-16"),
        ("last night", "2024-08-13T18:00", "2024-08-14T06:00"),
        ("this week", "2024-08-12", "2024-08-19"),
        ("last week", "2024-08-05", "2024-08-12"),
        ("this month", "2024-08-01", "2024-09-01"),
        ("last month", "2024-07-01", "2024-08-01"),
        ("this year", "2024-01-01", "2025-01-01"),
        ("last year", "2023-01-01", "2024-01-01"),
        ("last quarter", "2024-04-01", "2024-07-01"),
        ("this weekend", "2024-08-17", "2024-08-19"),
        ("last weekend", "2024-08-10", "2024-08-12"),
        ("last Tuesday", "2024-08-13", "2024-08-14"),
        ("last Wednesday", "2024-08-07", "2024-08-08"),
        ("next Friday", "2024-08-16", "2024-08-17"),
        ("last March", "2024-03-01", "2024-04-01"),
        ("3 days ago", "2024-08-11", "2024-08-12"),
        ("two hours ago", "2024-08-14T13:00", "2024-08-14T14:00"),
        ("the past two weeks", "2024-07-31T15:30", "2024-08-14T15:30"),
        ("in the last 10 days", "2024-08-04T15:30", "2024-08-14T15:30"),
        ("since May 2023", "2023-05-01", "2024-08-14T15:30"),
        ("after May 8, 2023", "2023-05-09", "2024-08-14T15:30"),
        ("after May 8, 2030", "2030-05-09", "9999-12-31"),
        ("before 2023-05-08", "0001-01-01", "2023-05-08"),
        ("until March 2024", "0001-01-01", "2024-04-01"),
        ("between 2023-05-08 and 2023-06-01", "2023-05-08", "2023-06-02"),
        ("between March and May 2023", "2023-03-01", "2023-06-01"),
        ("between November and February 2023", "2022-11-01", "2023-03-01"),
        ("from November 2022 to February", "2022-11-01", "2023-03-01"),
        ("from March 3 to March 10, 2023", "2023-03-03", "2023-03-11"),
        ("first weekend of July 2023", "2023-07-01", "2023-07-03"),
        ("the second Tuesday of March 2024", "2024-03-12", "2024-03-13"),
        ("the last Friday in May 2023", "2023-05-26", "2023-05-27"),
        ("the week of March 3, 2024", "2024-03-03", "2024-03-10"),
        ("the week of March 6, 2024", "2024-03-04", "2024-03-11"),
        ("the weekend of March 3, 2024", "2024-03-02", "2024-03-04"),
        ("Christmas 2023", "2023-12-24", "2023-12-27"),
        ("Thanksgiving 2023", "2023-11-23", "2023-11-24"),
        ("Easter 2024", "2024-03-29", "2024-04-02"),
        ("New Year's Eve 2023", "2023-12-31", "2024-01-01"),
    ],
)
def test_a_time_said_in_full_is_exact(query, start, end):
    assert spans(query) == [(start, end, "exact")]


@each_row(
    ("query", "start", "end"),
    [
        ("May 8th", "2024-05-08", "2024-05-09"),
        ("on the 3rd of May", "2024-05-03", "2024-05-04"),
        ("What did I do on 5 December?", "2023-12-05", "2023-12-06"),
        ("Feb 29", "2024-02-29", "2024-03-01"),
        ("in May", "2024-05-01", "2024-06-01"),
        ("in may", "2024-05-01", "2024-06-01"),
        ("in October", "2023-10-01", "2023-11-01"),
        ("What happened in September", "2023-09-01", "2023-10-01"),
        ("between March and May", "2024-03-01", "2024-06-01"),
        ("early May 2023", "2023-05-01", "2023-05-11"),
        ("mid-May 2023", "2023-05-11", "2023-05-22"),
        ("late May 2023", "2023-05-22", "2023-06-01"),
        ("mid-2023", "2023-05-02", "2023-09-02"),
        ("summer 2022", "2022-06-01", "2022-09-01"),
        ("winter 2022", "2022-12-01", "2023-03-01"),
        ("last summer", "2023-06-01", "2023-09-01"),
        ("on Tuesday", "2024-08-13", "2024-08-14"),
        ("since Monday", "2024-08-12", "2024-08-14T15:30"),
        ("a week ago", "2024-08-04", "2024-08-11"),
        ("3 months ago", "2024-05-01", "2024-06-01"),
        ("2 years ago", "2022-01-01", "2023-01-01"),
        ("a few weeks ago", "2024-07-03T15:30", "2024-08-07T15:30"),
        ("before last Christmas", "0001-01-01", "2023-12-24"),
        ("holidays 2023?", "2023-01-01", "2024-01-01"),
        ("in the 1990s", "1990-01-01", "2000-01-01"),
        ("5/8/2023", "2023-05-08", "2023-05-09"),
    ],
)
def test_a_time_that_leaves_room_is_vague(query, start, end):
    assert spans(query) == [(start, end, "vague")]


@each_row(
    "query",
    [
        "",
        "What did Caroline research?",
        "I may go",
        "what may happen",
        "May I ask?",
        "which of the 3 may be wrong",
        "this may be wrong",
        "they march 3 times",
        "march on",
        "April said hello to June",
        "the sun shines on a mon ami",
        "version 3.11",
        "Python 3.11.4 and 10.0.0.1",
        "2023 lines",
        "in 2023 lines of code",
        "port 2023",
        "error 2022 at line 5",
        "#2023 and $2000",
        "in 20233",
        "the fall of Rome",
        "the last time this happened",
        "augment the decimals",
        "room 12",
        "call 555-2023",
    ],
)
def test_other_words_and_numbers_are_no_times(query):
    assert spans(query) == []


@each_row(
    "query",
    [
        "2023-13-45",
        "0000-01-01",
        "9999-12-31",
        "30 February 2023",
        "before 0001-01-01",
        "9999 years ago",
        "9999 weeks ago and 9999 months ago",
        "٢٠٢٣-٠٥-٠٨",
        "২০২৩ সালে",
    ],
)
def test_times_out_of_range_are_left_out(query):
    assert all(span[0] >= "0001" for span in spans(query))
    assert named_times(query, datetime(9, 1, 1, tzinfo=UTC)) == named_times(query, datetime(9, 1, 1))


def test_several_times_come_in_their_order_with_their_words():
    found = named_times("Was it before last Christmas, or after May 2022 or\ntwo days  ago?", NOW)
    assert [span.text for span in found] == ["before last Christmas", "after May 2022", "two days ago"]


def test_now_is_taken_in_utc():
    evening = datetime(2024, 8, 14, 22, tzinfo=timezone(timedelta(hours=-5)))
    assert spans("today", evening) == [("2024-08-15", "2024-08-16", "exact")]
    assert spans("today", datetime(2024, 8, 14)) == [("2024-08-14", "2024-08-15", "exact")]
    assert all(span.start.tzinfo is UTC and span.end.tzinfo is UTC for span in named_times("today", evening))


@pytest.mark.parametrize("word", ["may ", "1 ", "2023-", "between May and ", "May 3-10, 2023 ", "a few ", "\n"])
def test_a_huge_query_is_read_in_part(word):
    assert len(named_times(word * 100_000, NOW)) <= 16
