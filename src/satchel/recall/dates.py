"""The times that a question names in English words or numbers, as spans of time."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Literal, NamedTuple

import msgspec

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


class _Range(NamedTuple):
    start: datetime
    end: datetime
    sure: bool = True


class _Named(NamedTuple):
    """A time found in the query, and the rule that can tell it anew for another year."""

    match: re.Match[str]
    range: _Range
    tell: "_Tell"


# From a match, the present and a year borrowed from elsewhere in the query to a time, if it is one.
_Tell = Callable[[re.Match[str], datetime, int | None], _Range | None]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_DAY = timedelta(days=1)
_UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": _DAY, "week": 7 * _DAY}

_Y = r"(?P<y>[12][0-9]{3})(?![\w%]|[.,:][0-9])"
_M = (
    r"(?P<m>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_D = r"(?P<d>[0-3]?[0-9])(?P<th>st|nd|rd|th)?(?:\s?(?:-|–|to|and|through)\s?(?P<d2>[0-3]?[0-9])(?:st|nd|rd|th)?)?\b"
_W = "|".join(_WEEKDAYS)
_N = (
    r"(?P<n>[0-9]{1,4}|(?:a\s)?(?:few|couple(?:\sof)?)|several|an?|" + "|".join(_NUMBERS) + r")"
    r"\s(?P<u>minute|hour|day|week|month|year)s?"
)
_START, _END = r"(?<![\w./:-])", r"(?![\w-]|[./][0-9])"

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
_SURE_MONTHS = frozenset(["january", "february", "july", "september", "october", "november", "december"])
_IN = r"\b(?:in|since|during|until|throughout|between|from|early|mid|late)[\s-](?:early\s|mid[\s-]|late\s)?\Z"
_NEAR = r"\b(?:before|after|till|by|of|around|last|on)\s\Z|\b(?:between|from)\s[^?!]{1,30}\s(?:and|to|through)\s\Z"
_COUNTED = (
    r"\s(?:[a-z]+\s)?(?:lines|items|rows|files|tokens|words|times|bytes|users|requests|entries|records|tests|commits"
    r"|dollars|euros|people|pixels|[km]?m|[kmg]b|ms|calories|steps|characters|points|votes|meters|miles|pages)\b"
)

_NUMBERED = r"\b(?:port|error|line|issue|version|room|code|number|no\.?|page|build|id|pr|ticket|chapter|model)\s\Z"


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
    for pattern, tell in _rules():
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


def _told(tell: _Tell, match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
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
        before = _compiled(_BEFORE).search(query, max(0, begin - 40), begin)
        side = ((before and before["side"]) or "").lower()
        part = ((before and before["part"]) or "").lower().rstrip(" -")
        if before and (side or part):
            begin = before.start()
        if side in ("between", "from"):
            other = found[position] if position < len(found) else None
            if other and _compiled(_AND).fullmatch(query, end, other.match.start()):
                position += 1
                told, end = _joined(named, other, now), other.match.end()
            else:
                told = _changed(named.range, part, "", now)
        else:
            told = _changed(named.range, part, side, now)
        if told.start < told.end:
            yield Span(told.start, told.end, query[begin:end].strip(), "exact" if told.sure else "vague")


def _changed(named: _Range, part: str, side: str, now: datetime) -> _Range:
    try:
        return _bounded(_part(named, part), side, now)
    except OverflowError:
        return named


def _part(whole: _Range, part: str) -> _Range:
    weekday = whole.start.weekday()
    if part == "week of":
        # Who counts weeks from Sunday names a Sunday, who counts them from Monday hardly ever does.
        first = whole.start - weekday % 6 * _DAY
        return _Range(first, first + 7 * _DAY, whole.sure)
    if part == "weekend of":
        saturday = whole.start + (5 - weekday) * _DAY
        return _Range(saturday, saturday + 2 * _DAY, whole.sure)
    third = (whole.end - whole.start) // (3 * _DAY) * _DAY
    if not part or not third:
        return whole
    if part in ("early", "beginning of", "start of"):
        return _Range(whole.start, whole.start + third, False)
    if part in ("late", "end of"):
        return _Range(whole.end - third, whole.end, False)
    return _Range(whole.start + third, whole.end - third, False)


def _bounded(bound: _Range, side: str, now: datetime) -> _Range:
    if not side:
        return bound
    if side in ("before", "prior to"):
        return _Range(_FIRST, bound.start, bound.sure)
    if side in ("until", "till", "by", "up to", "through"):
        return _Range(_FIRST, bound.end, bound.sure)
    start = bound.start if side == "since" else bound.end
    return _Range(start, now if start < now else _LAST, bound.sure)


def _joined(one: _Named, other: _Named, now: datetime) -> _Range:
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
    return _Range(min(first.start, last.start), max(first.end, last.end), sure)


def _has_year(named: _Named) -> bool:
    return named.match.groupdict().get("y") is not None


_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, tzinfo=UTC)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _day(year: int, month: int, day: int, *, days: int = 1, sure: bool = True) -> _Range:
    start = datetime(year, month, day, tzinfo=UTC)
    return _Range(start, start + days * _DAY, sure)


def _months(year: int, month: int, count: int = 1, *, sure: bool = True) -> _Range:
    """Whole months; the month may lie outside 1 to 12, in a year before or after."""
    first, after = year * 12 + month - 1, year * 12 + month - 1 + count
    start = datetime(first // 12, first % 12 + 1, 1, tzinfo=UTC)
    return _Range(start, datetime(after // 12, after % 12 + 1, 1, tzinfo=UTC), sure)


def _in_year(match: re.Match[str], now: datetime, year: int | None, make: Callable[[int], _Range]) -> _Range | None:
    """The time in the year that is named or borrowed, else the latest one not after now."""
    given = match.groupdict().get("y") or year
    if given:
        return make(int(given))
    for candidate in range(now.year, max(0, now.year - 9), -1):
        try:
            made = make(candidate)
        except ValueError:
            continue
        if made.start <= now:
            return made._replace(sure=False)
    return None


def _month_number(match: re.Match[str]) -> int:
    return _MONTHS.index(match["m"][:3].lower()) + 1


def _preceded(match: re.Match[str], words: str) -> bool:
    start = match.start()
    return _compiled(words).search(match.string, max(0, start - 45), start) is not None


def _is_verb(match: re.Match[str]) -> bool:
    """Whether this may be the verb "may" or "march": written small, with nothing that makes it a date."""
    return match["m"] in ("may", "march", "mar")


def _stamp(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    day = _day(int(match["y"]), int(match["n"]), int(match["d"]))
    if match["h"] is None:
        return day
    start = day.start.replace(hour=int(match["h"]), minute=int(match["i"]), second=int(match["s"] or 0))
    if match["z"] and match["z"][0] in "+-":
        hours, minutes = int(match["z"][1:3]), int(match["z"][-2:])
        offset = timedelta(hours=hours, minutes=minutes)
        start += -offset if match["z"][0] == "+" else offset
    return _Range(start, start + timedelta(seconds=1 if match["s"] else 60))


def _iso_month(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    return _months(int(match["y"]), int(match["n"]))


def _numeric(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    first, second = int(match["a"]), int(match["b"])
    day_first = match["sep"] == "." or first > 12
    day, month = (first, second) if day_first else (second, first)
    return _day(int(match["y"]), month, day, sure=match["sep"] == "." or max(first, second) > 12 or first == second)


def _date(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    if _is_verb(match) and not (match["y"] or match["th"] or _preceded(match, r"\b(?:on|since)\s(?:the\s)?\Z")):
        return None
    day, month = int(match["d"]), _month_number(match)
    last = int(match["d2"] or day)
    if not day <= last <= 31:
        return None
    return _in_year(match, now, year, lambda given: _day(given, month, day, days=last - day + 1))


def _month(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    if match.groupdict().get("y") is None and not _means_month(match):
        return None
    return _in_year(match, now, year, lambda given: _months(given, _month_number(match)))


def _means_month(match: re.Match[str]) -> bool:
    if match["m"].lower() in _SURE_MONTHS or _preceded(match, _IN):
        return True
    return match["m"][0].isupper() and _preceded(match, _NEAR)


def _nth(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    unit, nth = match["unit"].lower(), match["nth"].lower()
    weekday = _WEEKDAYS.index("saturday" if unit == "weekend" else "monday" if unit == "week" else unit)
    days = {"weekend": 2, "week": 7}.get(unit, 1)

    def make(given: int) -> _Range:
        month = _months(given, _month_number(match))
        first = month.start + (weekday - month.start.weekday()) % 7 * _DAY
        starts = [start for week in range(5) if (start := first + week * 7 * _DAY) < month.end]
        if unit == "week" and nth != "last":
            # The first week of a month is its first seven days.
            starts = [month.start + week * 7 * _DAY for week in range(5)]
        start = starts[-1] if nth == "last" else starts[("first", "second", "third", "fourth").index(nth)]
        return _Range(start, start + days * _DAY)

    return _in_year(match, now, year, make)


def _quarter(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    return _in_year(match, now, year, lambda given: _months(given, 3 * int(match["q"]) - 2, 3))


def _season(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    which, month = (match["which"] or "").lower(), _SEASONS[match["season"].lower()]
    if not (which or match["y"]):
        return None
    if which == "next":
        upcoming = _months(now.year, month, 3, sure=False)
        return upcoming if upcoming.start > now else _months(now.year + 1, month, 3, sure=False)
    told = _in_year(match, now, year, lambda given: _months(given, month, 3, sure=False))
    if told and which in ("last", "past", "previous") and told.end > now and not match["y"]:
        return _months(told.start.year - 1, month, 3, sure=False)
    return told


def _holiday(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    name = match["day"].lower()

    def make(given: int) -> _Range:
        if name.startswith("christmas"):
            return _day(given, 12, 24) if name.endswith("eve") else _day(given, 12, 24, days=3)
        if name.startswith("new"):
            return _day(given, 12, 31, days=1 if name.endswith("eve") else 2)
        if name.startswith("thanks"):
            first = datetime(given, 11, 1).weekday()
            return _day(given, 11, 22 + (3 - first) % 7)
        if name.startswith("easter"):
            return _easter(given)
        return _day(given, 10, 31) if name.startswith("hallow") else _day(given, 2, 14)

    return _in_year(match, now, year, make)


def _easter(year: int) -> _Range:
    """Good Friday to Easter Monday, by the Gregorian rule of Meeus, Jones and Butcher."""
    century, rest = divmod(year, 100)
    golden = year % 19
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    week = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    late = (golden + 11 * epact + 22 * week) // 451
    month, day = divmod(epact + week - 7 * late + 114, 31)
    sunday = datetime(year, month, day + 1, tzinfo=UTC)
    return _Range(sunday - 2 * _DAY, sunday + 2 * _DAY)


def _near_now(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    words, today = match[0].lower(), _midnight(now)
    if words == "last night":
        return _Range(today - timedelta(hours=6), today + timedelta(hours=6))
    days = -2 if "before" in words else 2 if "after" in words else -1 if "yester" in words else "tomorrow" in words
    return _Range(today + days * _DAY, today + (days + 1) * _DAY)


def _count(match: re.Match[str]) -> tuple[int, bool]:
    words = match["n"].lower()
    if words.isdigit():
        return int(words), True
    if words in _NUMBERS:
        return _NUMBERS.index(words) + 1, True
    if words in ("a", "an"):
        return 1, True
    return (2 if "couple" in words else 5), False


def _ago(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    (count, counted), unit = _count(match), match["u"].lower()
    if not counted:
        return _Range(_back(now, unit, count + 1), _back(now, unit, 1), False)
    moment = _back(now, unit, count)
    if unit in ("minute", "hour"):
        return _Range(moment - _UNITS[unit] / 2, moment + _UNITS[unit] / 2)
    if unit == "day":
        return _Range(_midnight(moment), _midnight(moment) + _DAY)
    if unit == "week":
        return _Range(_midnight(moment) - 3 * _DAY, _midnight(moment) + 4 * _DAY, False)
    return _months(moment.year, moment.month if unit == "month" else 1, 1 if unit == "month" else 12, sure=False)


def _back(now: datetime, unit: str, count: int) -> datetime:
    if unit in _UNITS:
        return now - count * _UNITS[unit]
    months = _months(now.year, now.month - count * {"month": 1, "quarter": 3, "year": 12}[unit])
    return min(months.start + (now - now.replace(day=1)), months.end - _DAY)


def _recent(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    count, counted = _count(match) if match.groupdict().get("n") else (1, True)
    return _Range(_back(now, match["u"].lower(), count), now, counted)


def _which(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    which, unit, today = match["which"].lower(), match["unit"].lower(), _midnight(now)
    step = {"this": 0, "current": 0, "next": 1, "coming": 1}.get(which, -1)
    monday = today - today.weekday() * _DAY
    if unit == "week":
        return _Range(monday + step * 7 * _DAY, monday + (step + 1) * 7 * _DAY)
    if unit == "weekend":
        # On a weekend "last weekend" is the one before, on a weekday the one just past.
        saturday = monday + (5 + 7 * step) * _DAY
        return _Range(saturday, saturday + 2 * _DAY)
    if unit == "year":
        return _months(now.year + step, 1, 12)
    if unit == "month":
        return _months(now.year, now.month + step)
    if unit == "quarter":
        return _months(now.year, (now.month - 1) // 3 * 3 + 1 + 3 * step, 3)
    return _weekday(_WEEKDAYS.index(unit), today, step)


def _weekday(weekday: int, today: datetime, step: int) -> _Range:
    """The nearest such day before today, in this week, or after today."""
    if step == 0:
        start = today + (weekday - today.weekday()) * _DAY
    else:
        distance = (step * (weekday - today.weekday()) - 1) % 7 + 1
        start = today + step * distance * _DAY
    return _Range(start, start + _DAY)


def _which_month(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    which = match["which"].lower()
    if which == "this" and _is_verb(match):
        return None
    month = _month_number(match)
    if which == "this":
        return _months(now.year, month)
    if which == "next":
        return _months(now.year + (month <= now.month), month)
    return _months(now.year - (month >= now.month), month)


def _on_weekday(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    if not _preceded(match, r"\b(?:on|since|before|after|until|till|by)\s\Z"):
        return None
    return _weekday(_WEEKDAYS.index(match["w"].lower()), _midnight(now) + _DAY, -1)._replace(sure=False)


def _year(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    if _compiled(_COUNTED).match(match.string, match.end()):
        return None
    if not _preceded(match, _IN) and not _preceded(match, _NEAR):
        # Alone it is a year only where the query ends: "holidays 2023?"
        if match.start() == 0 or match.string[match.end() :].strip(" ?.!") or _preceded(match, _NUMBERED):
            return None
        return _months(int(match["y"]), 1, 12, sure=False) if 1900 <= int(match["y"]) < 2100 else None
    return _months(int(match["y"]), 1, 12)


def _decade(match: re.Match[str], now: datetime, year: int | None) -> _Range | None:
    return _months(int(match["y"]), 1, 120, sure=False)


@cache
def _rules() -> tuple[tuple[re.Pattern[str], _Tell], ...]:
    """The more a rule reads, the earlier it comes: what it has read is not read again."""
    year = rf"(?:,?\s{_Y})?"
    rules: tuple[tuple[str, _Tell], ...] = (
        (
            rf"{_START}(?P<y>[0-9]{{4}})(?P<sep>[-/])(?P<n>[0-9]{{1,2}})(?P=sep)(?P<d>[0-9]{{1,2}})"
            r"(?:(?:T|\s)(?P<h>[0-9]{1,2}):(?P<i>[0-9]{2})(?::(?P<s>[0-9]{2})(?:\.[0-9]{1,9})?)?"
            rf"\s?(?P<z>Z|UTC|[+-][0-9]{{2}}:?[0-9]{{2}})?)?{_END}",
            _stamp,
        ),
        (rf"{_START}(?P<y>[0-9]{{4}})[-/](?P<n>0[1-9]|1[0-2]){_END}", _iso_month),
        (rf"{_START}(?P<a>[0-9]{{1,2}})(?P<sep>[/.])(?P<b>[0-9]{{1,2}})(?P=sep)(?P<y>[0-9]{{4}}){_END}", _numeric),
        (rf"\b(?P<nth>first|second|third|fourth|last)\s(?P<unit>weekend|week|{_W})\s(?:of|in)\s{_M}{year}", _nth),
        (rf"{_START}{_D}\s(?:of\s)?{_M}{year}", _date),
        (rf"{_START}{_M}\s(?:the\s)?{_D}(?![:.,]?[0-9]){year}", _date),
        (rf"(?<![\w./]){_M},?\s(?:of\s)?{_Y}", _month),
        (rf"{_START}(?P<y>[12][0-9]{{3}})[\s-]?q(?P<q>[1-4])\b", _quarter),
        (rf"\bq(?P<q>[1-4])(?:[\s/-]?(?:of\s)?{_Y})?\b", _quarter),
        (
            r"\b(?:(?P<which>last|past|previous|this|next|in\sthe|over\sthe|during\sthe)\s)?"
            rf"(?P<season>spring|summer|autumn|fall|winter)(?:\s(?:of\s)?{_Y})?\b",
            _season,
        ),
        (
            r"\b(?:(?:last|this|next)\s)?(?P<day>christmas(?:\s(?:eve|day))?|new\syear['’]?s(?:\s(?:eve|day))?|halloween|thanksgiving"
            rf"|valentine['’]?s(?:\sday)?|easter)(?:,?\s(?:of\s|in\s)?{_Y})?\b",
            _holiday,
        ),
        (
            r"\bday\s(?:before\syesterday|after\stomorrow)\b|\blast\snight\b|\b(?:yesterday|tomorrow|today|tonight)\b"
            r"|\bthis\s(?:morning|afternoon|evening)\b",
            _near_now,
        ),
        (rf"(?<![\w.,]){_N}\sago\b", _ago),
        (rf"\b(?:last|past|previous)\s{_N}\b", _recent),
        (r"\bpast\s(?P<u>hour|day|week|month|quarter|year)\b", _recent),
        (
            r"\b(?P<which>this|last|previous|current|next|coming)\s"
            rf"(?P<unit>weekend|week|month|quarter|year|{_W})\b",
            _which,
        ),
        (rf"\b(?P<which>this|last|next)\s{_M}", _which_month),
        (rf"\b(?P<w>{_W})\b", _on_weekday),
        (rf"(?<![\w./])(?:(?<=\bmid-)|(?<!-)){_M}(?!-)", _month),
        (rf"(?:(?<=\bmid-)|(?<![\w.,/:#$€£-])){_Y}(?![/-])", _year),
        (r"\b(?P<y>(?:19|20)[0-9]0)s\b", _decade),
    )
    return tuple((_compiled(pattern), tell) for pattern, tell in rules)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.IGNORECASE)
