"""The times that a question names in words or numbers, as spans of time."""

import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec

from satchel.text.dates.rules import FIRST, LAST, Range, Tell, compiled, hinted, meaning, part_of
from satchel.text.dates.words import AND, ARTICLES, PARTS, PARTS_AFTER, SIDES, SIDES_AFTER, TO

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


class Named(NamedTuple):
    """A time found in a query, and the rule that can tell it anew for another year."""

    match: re.Match[str]
    range: Range
    tell: Tell


class Frame(NamedTuple):
    """What stands around a time: a part of it, a side of it, and how far these words reach."""

    begin: int
    end: int
    part: str
    side: str


def _patterns(*tables: dict[str, str]) -> str:
    return "|".join(pattern for table in tables for pattern in table.values())


_BEFORE = (
    rf"(?:\b(?P<side>{_patterns(SIDES)})\s)?{ARTICLES}?"
    rf"(?:(?P<part>\b(?:{_patterns(PARTS)}))[\s-]{ARTICLES}?)?\Z"
)
_AFTER = rf"(?:の?(?P<part>{_patterns(PARTS_AFTER)}))?(?P<side>{_patterns(SIDES_AFTER)})?"
_OTHER_PART = rf"{ARTICLES}?(?:(?:{_patterns(PARTS)})[\s-]{ARTICLES}?)?"
_JOINS = rf"\s(?:{AND}|{TO})\s{_OTHER_PART}|\s?[〜～–-]\s?|から"
_JOINS_SINCE = rf"\s(?:{TO})\s{_OTHER_PART}|から"

# Letters without their accents, digits without their width: one character for one, so that places stay the same.
_FOLDED = {
    code: base
    for code in range(0xC0, 0x180)
    if (base := unicodedata.normalize("NFD", chr(code))[0]).isascii() and base.isalpha()
}
_FOLDED |= {0x2019: "'", **{0xFF10 + digit: str(digit) for digit in range(10)}}


def named_times(query: str, now: datetime) -> tuple[Span, ...]:
    """The times named in a query, in its order, as seen from `now`.

    English, German, French, Spanish and Japanese are understood. A time without its year is the latest one not
    after now. "Before" reaches back to the year 1, "since" and "after" reach to now. "Before the launch" names
    an event, which is no time here.
    """
    query, now = " ".join(composed(query[:MAX_QUERY]).split()), in_utc(now)
    return tuple(_spans(query, find_named(query, now), now))[:MAX_SPANS]


def composed(text: str) -> str:
    """Accents as one character with their letter, however they were typed."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def find_named(query: str, now: datetime) -> list[Named]:
    """The times in a query by themselves, in its order: "since May" names May."""
    query = query if query.isascii() else query.translate(_FOLDED)
    found: list[Named] = []
    taken: list[tuple[int, int]] = []
    for pattern, tell in (rule for grammar in hinted(query) for rule in grammar.rules()):
        for match in pattern.finditer(query):
            start, end = match.span()
            if any(start < other_end and other_start < end for other_start, other_end in taken):
                continue
            told = _told(tell, match, now, None)
            # Digits that look like a date and are none are not read otherwise either.
            if told or match[0][0].isdigit():
                taken.append((start, end))
            if told:
                found.append(Named(match, told, tell))
    return sorted(found, key=lambda named: named.match.start())


def in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)


def _told(tell: Tell, match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    try:
        return tell(match, now, year)
    except (ValueError, OverflowError, LookupError):
        return None


def _spans(query: str, found: list[Named], now: datetime) -> Iterator[Span]:
    position = 0
    while position < len(found):
        named = found[position]
        frame = framed(named)
        position += 1
        other = found[position] if position < len(found) else None
        if other and _joins(named, frame, other):
            position += 1
            last = framed(other)
            told, end = _joined(named, other, now, (frame.part, last.part)), last.end
        else:
            told, end = _changed(named.range, frame, now), frame.end
        if told.start < told.end:
            yield Span(told.start, told.end, query[frame.begin : end].strip(), "exact" if told.sure else "vague")


def framed(named: Named) -> Frame:
    """The words around a time that belong to it."""
    query, (begin, end) = named.match.string, named.match.span()
    before = compiled(_BEFORE).search(query, max(0, begin - 40), begin)
    side = meaning(SIDES, before and before["side"])
    part = meaning(PARTS, before and before["part"])
    if before and (side or part):
        begin = before.start()
    after = None if query.isascii() else compiled(_AFTER).match(query, end)
    if after:
        end = after.end()
        part = part or meaning(PARTS_AFTER, after["part"])
        side = side or meaning(SIDES_AFTER, after["side"])
    return Frame(begin, end, part, side)


def _joins(named: Named, frame: Frame, other: Named) -> bool:
    """Whether a time and the next one are the two ends of a span."""
    between = (named.match.end(), other.match.start())
    if frame.side in ("between", "from"):
        return compiled(_JOINS).fullmatch(named.match.string, *between) is not None
    if frame.side == "since":
        return compiled(_JOINS_SINCE).fullmatch(named.match.string, *between) is not None
    return compiled(r"[〜～]").fullmatch(named.match.string, *between) is not None


def _changed(named: Range, frame: Frame, now: datetime) -> Range:
    try:
        return _bounded(part_of(named, frame.part), frame.side, now)
    except OverflowError:
        return named


def _bounded(bound: Range, side: str, now: datetime) -> Range:
    if side == "before":
        return Range(FIRST, bound.start, bound.sure)
    if side == "until":
        return Range(FIRST, bound.end, bound.sure)
    if side not in ("since", "after"):
        return bound
    start = bound.start if side == "since" else bound.end
    return Range(start, now if start < now else LAST, bound.sure)


def _joined(one: Named, other: Named, now: datetime, parts: tuple[str, str]) -> Range:
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
    first, last = part_of(first, parts[0]), part_of(last, parts[1])
    return Range(min(first.start, last.start), max(first.end, last.end), sure)


def _has_year(named: Named) -> bool:
    return named.match.groupdict().get("y") is not None
