"""The rules by which words and numbers name a time: each turns what it matched into a range."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

__all__ = ["DAY", "FIRST", "LAST", "Range", "Tell", "compiled", "rules"]


class Range(NamedTuple):
    """From `start` up to but not including `end`; not `sure` where the words leave room."""

    start: datetime
    end: datetime
    sure: bool = True


# From a match, the present and a year borrowed from elsewhere in the query to a time, if it is one.
Tell = Callable[[re.Match[str], datetime, int | None], Range | None]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
DAY = timedelta(days=1)
_UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": DAY, "week": 7 * DAY}

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

_SURE_MONTHS = frozenset(["january", "february", "july", "september", "october", "november", "december"])
_IN = r"\b(?:in|since|during|until|throughout|between|from|early|mid|late)[\s-](?:early\s|mid[\s-]|late\s)?\Z"
_NEAR = r"\b(?:before|after|till|by|of|around|last|on)\s\Z|\b(?:between|from)\s[^?!]{1,30}\s(?:and|to|through)\s\Z"
_COUNTED = (
    r"\s(?:[a-z]+\s)?(?:lines|items|rows|files|tokens|words|times|bytes|users|requests|entries|records|tests|commits"
    r"|dollars|euros|people|pixels|[km]?m|[kmg]b|ms|calories|steps|characters|points|votes|meters|miles|pages)\b"
)
_NUMBERED = r"\b(?:port|error|line|issue|version|room|code|number|no\.?|page|build|id|pr|ticket|chapter|model)\s\Z"
FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, tzinfo=UTC)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _day(year: int, month: int, day: int, *, days: int = 1, sure: bool = True) -> Range:
    start = datetime(year, month, day, tzinfo=UTC)
    return Range(start, start + days * DAY, sure)


def _months(year: int, month: int, count: int = 1, *, sure: bool = True) -> Range:
    """Whole months; the month may lie outside 1 to 12, in a year before or after."""
    first, after = year * 12 + month - 1, year * 12 + month - 1 + count
    start = datetime(first // 12, first % 12 + 1, 1, tzinfo=UTC)
    return Range(start, datetime(after // 12, after % 12 + 1, 1, tzinfo=UTC), sure)


def _in_year(match: re.Match[str], now: datetime, year: int | None, make: Callable[[int], Range]) -> Range | None:
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
    return compiled(words).search(match.string, max(0, start - 45), start) is not None


def _is_verb(match: re.Match[str]) -> bool:
    """Whether this may be the verb "may" or "march": written small, with nothing that makes it a date."""
    return match["m"] in ("may", "march", "mar")


def _stamp(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    day = _day(int(match["y"]), int(match["n"]), int(match["d"]))
    if match["h"] is None:
        return day
    start = day.start.replace(hour=int(match["h"]), minute=int(match["i"]), second=int(match["s"] or 0))
    if match["z"] and match["z"][0] in "+-":
        hours, minutes = int(match["z"][1:3]), int(match["z"][-2:])
        offset = timedelta(hours=hours, minutes=minutes)
        start += -offset if match["z"][0] == "+" else offset
    return Range(start, start + timedelta(seconds=1 if match["s"] else 60))


def _iso_month(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _months(int(match["y"]), int(match["n"]))


def _numeric(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    first, second = int(match["a"]), int(match["b"])
    day_first = match["sep"] == "." or first > 12
    day, month = (first, second) if day_first else (second, first)
    return _day(int(match["y"]), month, day, sure=match["sep"] == "." or max(first, second) > 12 or first == second)


def _date(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    if _is_verb(match) and not (match["y"] or match["th"] or _preceded(match, r"\b(?:on|since)\s(?:the\s)?\Z")):
        return None
    day, month = int(match["d"]), _month_number(match)
    last = int(match["d2"] or day)
    if not day <= last <= 31:
        return None
    return _in_year(match, now, year, lambda given: _day(given, month, day, days=last - day + 1))


def _month(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    if match.groupdict().get("y") is None and not _means_month(match):
        return None
    return _in_year(match, now, year, lambda given: _months(given, _month_number(match)))


def _means_month(match: re.Match[str]) -> bool:
    if match["m"].lower() in _SURE_MONTHS or _preceded(match, _IN):
        return True
    return match["m"][0].isupper() and _preceded(match, _NEAR)


def _nth(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    unit, nth = match["unit"].lower(), match["nth"].lower()
    weekday = _WEEKDAYS.index("saturday" if unit == "weekend" else "monday" if unit == "week" else unit)
    days = {"weekend": 2, "week": 7}.get(unit, 1)

    def make(given: int) -> Range:
        month = _months(given, _month_number(match))
        first = month.start + (weekday - month.start.weekday()) % 7 * DAY
        starts = [start for week in range(5) if (start := first + week * 7 * DAY) < month.end]
        if unit == "week" and nth != "last":
            # The first week of a month is its first seven days.
            starts = [month.start + week * 7 * DAY for week in range(5)]
        start = starts[-1] if nth == "last" else starts[("first", "second", "third", "fourth").index(nth)]
        return Range(start, start + days * DAY)

    return _in_year(match, now, year, make)


def _quarter(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _in_year(match, now, year, lambda given: _months(given, 3 * int(match["q"]) - 2, 3))


def _season(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
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


def _holiday(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    name = match["day"].lower()

    def make(given: int) -> Range:
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


def _easter(year: int) -> Range:
    """Good Friday to Easter Monday, by the Gregorian rule of Meeus, Jones and Butcher."""
    century, rest = divmod(year, 100)
    golden = year % 19
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    week = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    late = (golden + 11 * epact + 22 * week) // 451
    month, day = divmod(epact + week - 7 * late + 114, 31)
    sunday = datetime(year, month, day + 1, tzinfo=UTC)
    return Range(sunday - 2 * DAY, sunday + 2 * DAY)


def _near_now(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    words, today = match[0].lower(), _midnight(now)
    if words == "last night":
        return Range(today - timedelta(hours=6), today + timedelta(hours=6))
    days = -2 if "before" in words else 2 if "after" in words else -1 if "yester" in words else "tomorrow" in words
    return Range(today + days * DAY, today + (days + 1) * DAY)


def _count(match: re.Match[str]) -> tuple[int, bool]:
    words = match["n"].lower()
    if words.isdigit():
        return int(words), True
    if words in _NUMBERS:
        return _NUMBERS.index(words) + 1, True
    if words in ("a", "an"):
        return 1, True
    return (2 if "couple" in words else 5), False


def _ago(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    (count, counted), unit = _count(match), match["u"].lower()
    if not counted:
        return Range(_back(now, unit, count + 1), _back(now, unit, 1), False)
    moment = _back(now, unit, count)
    if unit in ("minute", "hour"):
        return Range(moment - _UNITS[unit] / 2, moment + _UNITS[unit] / 2)
    if unit == "day":
        return Range(_midnight(moment), _midnight(moment) + DAY)
    if unit == "week":
        return Range(_midnight(moment) - 3 * DAY, _midnight(moment) + 4 * DAY, False)
    return _months(moment.year, moment.month if unit == "month" else 1, 1 if unit == "month" else 12, sure=False)


def _back(now: datetime, unit: str, count: int) -> datetime:
    if unit in _UNITS:
        return now - count * _UNITS[unit]
    months = _months(now.year, now.month - count * {"month": 1, "quarter": 3, "year": 12}[unit])
    return min(months.start + (now - now.replace(day=1)), months.end - DAY)


def _recent(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    count, counted = _count(match) if match.groupdict().get("n") else (1, True)
    return Range(_back(now, match["u"].lower(), count), now, counted)


def _which(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    which, unit, today = match["which"].lower(), match["unit"].lower(), _midnight(now)
    step = {"this": 0, "current": 0, "next": 1, "coming": 1}.get(which, -1)
    monday = today - today.weekday() * DAY
    if unit == "week":
        return Range(monday + step * 7 * DAY, monday + (step + 1) * 7 * DAY)
    if unit == "weekend":
        # On a weekend "last weekend" is the one before, on a weekday the one just past.
        saturday = monday + (5 + 7 * step) * DAY
        return Range(saturday, saturday + 2 * DAY)
    if unit == "year":
        return _months(now.year + step, 1, 12)
    if unit == "month":
        return _months(now.year, now.month + step)
    if unit == "quarter":
        return _months(now.year, (now.month - 1) // 3 * 3 + 1 + 3 * step, 3)
    return _weekday(_WEEKDAYS.index(unit), today, step)


def _weekday(weekday: int, today: datetime, step: int) -> Range:
    """The nearest such day before today, in this week, or after today."""
    if step == 0:
        start = today + (weekday - today.weekday()) * DAY
    else:
        distance = (step * (weekday - today.weekday()) - 1) % 7 + 1
        start = today + step * distance * DAY
    return Range(start, start + DAY)


def _which_month(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    which = match["which"].lower()
    if which == "this" and _is_verb(match):
        return None
    month = _month_number(match)
    if which == "this":
        return _months(now.year, month)
    if which == "next":
        return _months(now.year + (month <= now.month), month)
    return _months(now.year - (month >= now.month), month)


def _on_weekday(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    if not _preceded(match, r"\b(?:on|since|before|after|until|till|by)\s\Z"):
        return None
    return _weekday(_WEEKDAYS.index(match["w"].lower()), _midnight(now) + DAY, -1)._replace(sure=False)


def _year(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    if compiled(_COUNTED).match(match.string, match.end()):
        return None
    if not _preceded(match, _IN) and not _preceded(match, _NEAR):
        # Alone it is a year only where the query ends: "holidays 2023?"
        if match.start() == 0 or match.string[match.end() :].strip(" ?.!") or _preceded(match, _NUMBERED):
            return None
        return _months(int(match["y"]), 1, 12, sure=False) if 1900 <= int(match["y"]) < 2100 else None
    return _months(int(match["y"]), 1, 12)


def _decade(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _months(int(match["y"]), 1, 120, sure=False)


@cache
def rules() -> tuple[tuple[re.Pattern[str], Tell], ...]:
    """The more a rule reads, the earlier it comes: what it has read is not read again."""
    year = rf"(?:,?\s{_Y})?"
    rules: tuple[tuple[str, Tell], ...] = (
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
    return tuple((compiled(pattern), tell) for pattern, tell in rules)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.IGNORECASE)
