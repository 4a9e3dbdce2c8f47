"""The times that a question names in English words or numbers, as spans of time."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec

from satchel.recall.time_rules import DAY, FIRST, LAST, Range, Tell, compiled, rules

__all__ = ["Span", "named_times"]

MAX_QUERY = 2_000
MAX_SPANS = 16


class Span(msgspec.Struct, frozen=True):
    """From `start` up to but not including `end`, in UTC, and the words of the query that say so.

    It is vague where the words leave room: a month without its year, a season, "a few weeks ago".
    """

    start: datetime
    end: datetime
    text: str
    precise: Literal["exact", "vague"]


class _Named(NamedTuple):
    """A time found in the query, and the rule that can tell it anew for another year."""

    match: re.Match[str]
    range: Range
    tell: Tell


# Words one of which any time needs: a query without them is done in a few microseconds.
_HINT = re.compile(
    r"[0-9]|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|to(?:day|night|morrow)|yester|ago\b"
    r"|(?:last|past|this|previous|current|next|coming)\s(?:\w+\s){0,3}"
    r"(?:minute|hour|day|night|morning|afternoon|evening|week|month|quarter|year)"
    r"|spring|summer|autumn|fall|winter|christmas|halloween|thanksgiving|easter|valentine|new\syear"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day)",
    re.ASCII | re.IGNORECASE,
)
# What may stand before a time and change what it means.
_BEFORE = (
    r"(?:\b(?P<side>since|after|before|until|till|by|prior\sto|up\sto|through|between|from)\s)?(?:the\s)?"
    r"(?:(?P<part>\b(?:early|mid|late|beginning\sof|start\sof|middle\sof|end\sof|week(?:end)?\sof)[\s-])(?:the\s)?)?\Z"
)
_AND = r"\s(?:and|to|until|till|through|-|–)\s(?:the\s)?"


def named_times(query: str, now: datetime) -> tuple[Span, ...]:
    """The times named in a query, in its order, as seen from `now`.

    A time without its year is the latest one not after now. "Before" reaches back to the year 1,
    "since" and "after" reach to now.
    """
    if not _HINT.search(query, 0, MAX_QUERY):
        return ()
    query = " ".join(query[:MAX_QUERY].split())
    now = _in_utc(now)
    found: list[_Named] = []
    taken: list[tuple[int, int]] = []
    for pattern, tell in rules():
        for match in pattern.finditer(query):
            start, end = match.span()
            if any(start < other_end and other_start < end for other_start, other_end in taken):
                continue
            told = _told(tell, match, now, None)
            # Digits that look like a date and are none are not read otherwise either.
            if told or match[0][0].isdigit():
                taken.append((start, end))
            if told:
                found.append(_Named(match, told, tell))
    found.sort(key=lambda named: named.match.start())
    return tuple(_spans(query, found, now))[:MAX_SPANS]


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)


def _told(tell: Tell, match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    try:
        return tell(match, now, year)
    except (ValueError, OverflowError):
        return None


def _spans(query: str, found: list[_Named], now: datetime) -> Iterator[Span]:
    position = 0
    while position < len(found):
        named = found[position]
        position += 1
        begin, end = named.match.span()
        before = compiled(_BEFORE).search(query, max(0, begin - 40), begin)
        side = ((before and before["side"]) or "").lower()
        part = ((before and before["part"]) or "").lower().rstrip(" -")
        if before and (side or part):
            begin = before.start()
        if side in ("between", "from"):
            other = found[position] if position < len(found) else None
            if other and compiled(_AND).fullmatch(query, end, other.match.start()):
                position += 1
                told, end = _joined(named, other, now), other.match.end()
            else:
                told = _changed(named.range, part, "", now)
        else:
            told = _changed(named.range, part, side, now)
        if told.start < told.end:
            yield Span(told.start, told.end, query[begin:end].strip(), "exact" if told.sure else "vague")


def _changed(named: Range, part: str, side: str, now: datetime) -> Range:
    try:
        return _bounded(_part(named, part), side, now)
    except OverflowError:
        return named


def _part(whole: Range, part: str) -> Range:
    weekday = whole.start.weekday()
    if part == "week of":
        # Who counts weeks from Sunday names a Sunday, who counts them from Monday hardly ever does.
        first = whole.start - weekday % 6 * DAY
        return Range(first, first + 7 * DAY, whole.sure)
    if part == "weekend of":
        saturday = whole.start + (5 - weekday) * DAY
        return Range(saturday, saturday + 2 * DAY, whole.sure)
    third = (whole.end - whole.start) // (3 * DAY) * DAY
    if not part or not third:
        return whole
    if part in ("early", "beginning of", "start of"):
        return Range(whole.start, whole.start + third, False)
    if part in ("late", "end of"):
        return Range(whole.end - third, whole.end, False)
    return Range(whole.start + third, whole.end - third, False)


def _bounded(bound: Range, side: str, now: datetime) -> Range:
    if not side:
        return bound
    if side in ("before", "prior to"):
        return Range(FIRST, bound.start, bound.sure)
    if side in ("until", "till", "by", "up to", "through"):
        return Range(FIRST, bound.end, bound.sure)
    start = bound.start if side == "since" else bound.end
    return Range(start, now if start < now else LAST, bound.sure)


def _joined(one: _Named, other: _Named, now: datetime) -> Range:
    """From the beginning of one to the end of the other; where only one has a year, they share it."""
    first, last = one.range, other.range
    if not _has_year(one):
        year = last.start.year if _has_year(other) or first.start >= last.end else first.start.year
        for borrowed in (year, year - 1):
            first = _told(one.tell, one.match, now, borrowed) or first
            if first.start < last.end:
                break
    elif not _has_year(other):
        for borrowed in (first.start.year, first.start.year + 1):
            last = _told(other.tell, other.match, now, borrowed) or last
            if first.start < last.end:
                break
    sure = (first.sure or _has_year(other)) and (last.sure or _has_year(one))
    return Range(min(first.start, last.start), max(first.end, last.end), sure)


def _has_year(named: _Named) -> bool:
    return named.match.groupdict().get("y") is not None
