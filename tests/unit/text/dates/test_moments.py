"""The value of a time filter is parsed as a moment: the beginning or the end of what it names."""

import contextlib
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from satchel.errors import InputError
from satchel.text.dates import moment

NOW = datetime(2024, 8, 14, 15, 30, tzinfo=UTC)  # a Wednesday

DAYS = (
    ("2024-03-01", "2024-03-01"),
    (" 2024-03-01 ", "2024-03-01"),
    ("20240301", "2024-03-01"),
    ("2024/03/01", "2024-03-01"),
    ("1.3.2024", "2024-03-01"),
    ("0001-01-01", "0001-01-01"),
    ("9999-12-31", "9999-12-31"),
    (date(2024, 3, 1), "2024-03-01"),
    ("today", "2024-08-14"),
    ("yesterday", "2024-08-13"),
    ("the day before yesterday", "2024-08-12"),
    ("monday", "2024-08-12"),
    ("on Monday", "2024-08-12"),
    ("3 days ago", "2024-08-11"),
    ("a week ago", "2024-08-07"),
    ("2 weeks ago", "2024-07-31"),
    ("3 months ago", "2024-05-14"),
    ("2 years ago", "2022-08-14"),
    ("March 3", "2024-03-03"),
    ("gestern", "2024-08-13"),
    ("Montag", "2024-08-12"),
    ("vor 2 Wochen", "2024-07-31"),
    ("3. März 2024", "2024-03-03"),
    ("hier", "2024-08-13"),
    ("lundi", "2024-08-12"),
    ("il y a 2 semaines", "2024-07-31"),
    ("3 mars 2024", "2024-03-03"),
    ("ayer", "2024-08-13"),
    ("lunes", "2024-08-12"),
    ("hace 2 semanas", "2024-07-31"),
    ("3 de marzo de 2024", "2024-03-03"),
    ("昨日", "2024-08-13"),
    ("2週間前", "2024-07-31"),
    ("2024年3月3日", "2024-03-03"),
)

LONGER = (
    ("2024-03", "2024-03-01", "2024-03-31"),
    ("2024", "2024-01-01", "2024-12-31"),
    ("march", "2024-03-01", "2024-03-31"),
    ("may", "2024-05-01", "2024-05-31"),
    ("March 2023", "2023-03-01", "2023-03-31"),
    ("last week", "2024-08-05", "2024-08-11"),
    ("last month", "2024-07-01", "2024-07-31"),
    ("last year", "2023-01-01", "2023-12-31"),
    ("Q1 2024", "2024-01-01", "2024-03-31"),
    ("summer 2023", "2023-06-01", "2023-08-31"),
    ("the end of May", "2024-05-22", "2024-05-31"),
    ("letzten Monat", "2024-07-01", "2024-07-31"),
    ("Mai", "2024-05-01", "2024-05-31"),
    ("le mois dernier", "2024-07-01", "2024-07-31"),
    ("l'an dernier", "2023-01-01", "2023-12-31"),
    ("mars", "2024-03-01", "2024-03-31"),
    ("el mes pasado", "2024-07-01", "2024-07-31"),
    ("mayo", "2024-05-01", "2024-05-31"),
    ("先月", "2024-07-01", "2024-07-31"),
    ("3月", "2024-03-01", "2024-03-31"),
)

MOMENTS = (
    ("2024-03-01T10:00", "2024-03-01T10:00:00+00:00"),
    ("2024-03-01 10:00", "2024-03-01T10:00:00+00:00"),
    ("2024-03-01T10:00:00.5+02:00", "2024-03-01T08:00:00.500000+00:00"),
    (datetime(2024, 3, 1, 10), "2024-03-01T10:00:00+00:00"),
    (datetime(2024, 3, 1, 1, tzinfo=timezone(timedelta(hours=2))), "2024-02-29T23:00:00+00:00"),
    ("3 hours ago", "2024-08-14T12:30:00+00:00"),
    ("now", "2024-08-14T15:30:00+00:00"),
)

NO_DATES = (
    "blursday",
    "",
    "  ",
    "since May",
    "before march",
    "May or so",
    "yesterday and today",
    "between May and June",
    "2 weeks",
    "the move",
    "12",
    "2024-13-01",
    "2024-02-30",
    "2024-03-01T99:00",
    "2024-W10",
    "3月以降",
    "9999 years ago",
    "march " * 1000,
    5,
    None,
    True,
    ["2024"],
)


def both(value):
    return moment(value, NOW, name="since"), moment(value, NOW, name="until", end=True)


def test_a_day_is_taken_from_its_first_moment_to_its_last():
    for value, day in DAYS:
        assert [each.isoformat() for each in both(value)] == [
            f"{day}T00:00:00+00:00",
            f"{day}T23:59:59.999999+00:00",
        ], value


def test_a_month_a_week_or_a_year_is_taken_whole():
    for value, first, last in LONGER:
        assert [each.isoformat() for each in both(value)] == [
            f"{first}T00:00:00+00:00",
            f"{last}T23:59:59.999999+00:00",
        ], value


def test_a_time_of_day_is_one_moment_in_utc():
    for value, exact in MOMENTS:
        assert [each.isoformat() for each in both(value)] == [exact, exact], value


def test_what_is_no_date_is_refused_in_one_line_with_an_example():
    for value in NO_DATES:
        with pytest.raises(InputError) as caught:
            moment(value, NOW, name="since")
        said = str(caught.value)
        assert said.startswith("since "), value
        assert said.endswith('is not a date; write 2026-03-01, "yesterday" or "2 weeks ago"'), value
        assert len(said) < 150, value
        assert "\n" not in said, value


def test_at_the_ends_of_time_there_is_a_moment_or_bad_input():
    for now in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC), datetime(1, 1, 1)):
        for value in ("yesterday", "tomorrow", "2 weeks ago", "last month", "next year", "9999-12", "12月"):
            for end in (False, True):
                with contextlib.suppress(InputError):
                    assert moment(value, now, name="since", end=end).tzinfo is UTC
