"""What a user writes for a filter by time, as a moment: a date, a time, or words such as "2 weeks ago"."""

import re
import reprlib
from datetime import UTC, date, datetime, time, timedelta

from satchel.errors import InputError
from satchel.text.dates.rules import Range, ago, compiled, day_ago, part_of
from satchel.text.dates.spans import Named, composed, find_named, framed, in_utc

__all__ = ["moment"]

MAX_WORDS = 100

# A weekday or a month alone is a time where a filter asks for one: these words make it one for the rules.
_LEADS = ("", "on ", "in ", "am ", "im ", "en ", "el ")
_BEFORE = r"(?:(?:in|on|at|the|am|im|in\sder|en|el|la|le|les|los|las)\s|l')*"
_TIME_OF_DAY = re.compile(r"\A[0-9-]{8,10}[T\s][0-9]", re.IGNORECASE)
_TICK = timedelta(microseconds=1)


def moment(value: object, now: datetime, *, name: str, end: bool = False) -> datetime:
    """The first moment of what is named, or with `end` its last one, in UTC.

    A date means its whole day, "2026-03" and "last month" the whole month; a datetime, a time of day and "3 hours
    ago" are one moment. "2 weeks ago" is the day that long before now. Words are read in every language that
    questions are. What is no date raises an `InputError` that says so by `name`.
    """
    now = in_utc(now)
    try:
        named = _named(value, now)
    except (ValueError, OverflowError):
        named = None
    if named is None:
        raise InputError(
            f'{name} {reprlib.repr(value)} is not a date; write 2026-03-01, "yesterday" or "2 weeks ago"'
        )
    return named.end if end else named.start


def _named(value: object, now: datetime) -> Range | None:
    """From the first moment of what is named to its last."""
    if isinstance(value, datetime):
        return _at(value)
    if isinstance(value, date):
        return _day(value)
    if not isinstance(value, str) or len(value) > MAX_WORDS:
        return None
    words = " ".join(composed(value).split())
    return _in_numbers(words) or _in_words(words, now)


def _at(value: datetime) -> Range:
    exact = (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    return Range(exact, exact)


def _day(value: date) -> Range:
    return Range(datetime.combine(value, time(), UTC), datetime.combine(value, time.max, UTC))


def _in_numbers(words: str) -> Range | None:
    """An ISO 8601 date, or one with a time of day; weeks and days of the year are left out."""
    try:
        if compiled(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}").fullmatch(words):
            return _day(date.fromisoformat(words))
        return _at(datetime.fromisoformat(words)) if _TIME_OF_DAY.match(words) else None
    except ValueError:
        return None


def _in_words(words: str, now: datetime) -> Range | None:
    if words.casefold() == "now":
        return Range(now, now)
    for said in dict.fromkeys((words, words.lower())):
        for lead in _LEADS:
            found = find_named(lead + said, now)
            if len(found) == 1 and (named := _whole(found[0], now)):
                return named
    return None


def _whole(named: Named, now: datetime) -> Range | None:
    """The time that is found, where it is all that the words say: not "since May", nor "May or so"."""
    frame, said = framed(named), named.match.string
    if frame.side or not compiled(_BEFORE).fullmatch(said, 0, frame.begin) or said[frame.end :].strip():
        return None
    told = (day_ago(named.match, now) if named.tell is ago else None) or part_of(named.range, frame.part)
    return told if told.start == told.end else told._replace(end=told.end - _TICK)
