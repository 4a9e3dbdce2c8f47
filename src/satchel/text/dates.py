"""Parse times in words and numbers, in five languages: the periods that a question names, and filter arguments.

Each language has rules: a pattern, and a reading that turns a match into a range of time. `named_times` applies
them to a question, `moment` to the argument of a filter such as `since`. The words are in `date_words`.
"""

import re
import reprlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, partial
from typing import Literal, NamedTuple

import msgspec

from satchel.errors import InputError
from satchel.model.patterns import lazy_pattern
from satchel.text.date_words import (
    AND,
    ARTICLES,
    ENGLISH_MONTHS,
    LANGUAGES,
    MONTHS,
    NUMBERS,
    ORDINALS,
    PARTS,
    PARTS_AFTER,
    SEASONS,
    SIDES,
    SIDES_AFTER,
    STEPS,
    TO,
    UNITS,
    WEEKDAYS,
    Language,
)

__all__ = ["Span", "moment", "named_times"]


class Range(NamedTuple):
    """A period from `start` up to but not including `end`. `sure` is False if the words are vague."""

    start: datetime
    end: datetime
    sure: bool = True


# Turns a match into a range, given the present and the year of another time in the query; None if it is no time.
Reading = Callable[[re.Match[str], datetime, int | None], Range | None]

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
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
_ENGLISH_HINT = (
    r"[0-9]|\b(?:jan(?:\b|u)|feb(?:\b|r)|mar(?:\b|ch)|apr(?:\b|il)|may\b|june?\b|july?\b|aug(?:\b|ust)|sep(?:\b|t)"
    r"|oct(?:\b|o)|nov(?:\b|e)|dec(?:\b|em)|to(?:day|night|morrow)|yester|ago\b"
    r"|(?:last|past|this|previous|current|next|coming)\s(?:\w+\s){0,3}"
    r"(?:minute|hour|day|night|morning|afternoon|evening|week|month|quarter|year)"
    r"|(?:of\sthe|last|this|next|previous|coming)\s(?:week|month|quarter|year)|to[\s-]date"
    r"|spring|summer|autumn|fall|winter|christmas|halloween|thanksgiving|easter|valentine|new\syear"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
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
# Words of other languages before a year. After the weak ones, the year must also end its clause.
_YEAR_AFTER = (
    r"\b(?:im|seit|jahre?s?|anfang|mitte|ende|halfte|halbjahr|quartal|en|depuis|annee|debut|fin|semestre|moitie|l'an"
    r"|trimestre|desde|hasta|anos?|durante|entre|zwischen)\s\Z|\bjusqu'(?:a|en)\s\Z|\bmi-\Z"
    r"|\b(?:zwischen|von|entre|de|desde)\s[^?!]{1,30}\s(?:und|bis|et|a|y|hasta)\s\Z"
)
_YEAR_AFTER_WEAK = r"\b(?:ab|bis|vor|nach|avant|apres|von|de|del|tras)\s\Z"
_CLAUSE_ENDS = r"\s?(?:[?.!,;:)]|\Z)|\s(?:und|bis|et|a|y|hasta)\s"
_COUNTED_ELSEWHERE = (
    r"\s(?:worter|zeilen|dateien|mal|tagen?|zeichen|euro|schritten?|seiten|mots|lignes|fichiers|fois|jours|caracteres"
    r"|etapes|palabras|lineas|archivos|veces|dias|personas|dolares|pasos|paginas)\b"
)
_WORD = lazy_pattern("[a-z]+")
FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, tzinfo=UTC)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _day(year: int, month: int, day: int, *, days: int = 1, sure: bool = True) -> Range:
    start = datetime(year, month, day, tzinfo=UTC)
    return Range(start, start + days * DAY, sure)


def _months(year: int, month: int, count: int = 1, *, sure: bool = True) -> Range:
    """Return a range of whole months. A month outside 1 to 12 is in an earlier or later year."""
    first, after = year * 12 + month - 1, year * 12 + month - 1 + count
    start = datetime(first // 12, first % 12 + 1, 1, tzinfo=UTC)
    return Range(start, datetime(after // 12, after % 12 + 1, 1, tzinfo=UTC), sure)


def _in_year(match: re.Match[str], now: datetime, year: int | None, make: Callable[[int], Range]) -> Range | None:
    """Return the time in the year that is given, otherwise the latest one that has begun before now."""
    given = _group(match, "y") or year
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
    return MONTHS[match["m"].lower()]


def _step(match: re.Match[str]) -> int:
    return STEPS[match["which"].lower()]


def _group(match: re.Match[str], group: str) -> str | None:
    """Return what a group matched; None if it matched nothing or the rule has no such group."""
    return match.groupdict().get(group)


def _is_preceded_by(match: re.Match[str], words: str) -> bool:
    start = match.start()
    return compiled(words).search(match.string, max(0, start - 45), start) is not None


def _is_verb(match: re.Match[str]) -> bool:
    """Return whether the month may be the verb "may" or "march": it is in lower case."""
    return match["m"] in ("may", "march", "mar")


def _iso_date(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
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
    if _is_verb(match) and not (
        _group(match, "y") or _group(match, "th") or _is_preceded_by(match, r"\b(?:on|since)\s(?:the\s)?\Z")
    ):
        return None
    day, month = int(match["d"]), _month_number(match)
    last = int(_group(match, "d2") or day)
    if not day <= last <= 31:
        return None
    return _in_year(match, now, year, lambda given: _day(given, month, day, days=last - day + 1))


def _month(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _in_year(match, now, year, lambda given: _months(given, _month_number(match)))


def _month_alone(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _month(match, now, year) if _means_month(match) else None


def _means_month(match: re.Match[str]) -> bool:
    if match["m"].lower() in _SURE_MONTHS or _is_preceded_by(match, _IN):
        return True
    return match["m"][0].isupper() and _is_preceded_by(match, _NEAR)


def _nth(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    unit, nth = match["unit"].lower(), match["nth"].lower()
    weekday = WEEKDAYS["saturday" if unit == "weekend" else "monday" if unit == "week" else unit]
    days = {"weekend": 2, "week": 7}.get(unit, 1)

    def make(given: int) -> Range:
        month = _months(given, _month_number(match))
        first = month.start + (weekday - month.start.weekday()) % 7 * DAY
        starts = [start for week in range(5) if (start := first + week * 7 * DAY) < month.end]
        if unit == "week" and nth != "last":
            # The first week of a month is the first seven days.
            starts = [month.start + week * 7 * DAY for week in range(5)]
        start = starts[-1] if nth == "last" else starts[("first", "second", "third", "fourth").index(nth)]
        return Range(start, start + days * DAY)

    return _in_year(match, now, year, make)


def _quarter(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _in_year(match, now, year, lambda given: _months(given, 3 * ORDINALS[match["q"].lower()] - 2, 3))


def _half(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _in_year(match, now, year, lambda given: _months(given, 6 * int(match["half"]) - 5, 6))


def _season(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    which, month = (_group(match, "which") or "").lower(), SEASONS[match["season"].lower()]
    if not (which or _group(match, "y")):
        return None
    step = STEPS.get(which, 0)
    if step > 0:
        upcoming = _months(now.year, month, 3, sure=False)
        return upcoming if upcoming.start > now else _months(now.year + 1, month, 3, sure=False)
    period = _in_year(match, now, year, lambda given: _months(given, month, 3, sure=False))
    if period and step < 0 and period.end > now and not _group(match, "y"):
        return _months(period.start.year - 1, month, 3, sure=False)
    return period


def _of_year(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    """Read a month, a day of it or a season in last, this or next year."""
    given = now.year + _step(match)
    if season := _group(match, "season"):
        return _months(given, SEASONS[season.lower()], 3, sure=False)
    if day := _group(match, "d"):
        return _day(given, _month_number(match), int(day))
    return _months(given, _month_number(match))


def _of_week(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    """Read a weekday of last, this or next week."""
    today = _midnight(now)
    start = today + (WEEKDAYS[match["w"].lower()] - today.weekday() + 7 * _step(match)) * DAY
    return Range(start, start + DAY)


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
    """Return Good Friday to Easter Monday, computed with the Meeus/Jones/Butcher algorithm."""
    century, rest = divmod(year, 100)
    golden = year % 19
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    week = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    late = (golden + 11 * epact + 22 * week) // 451
    month, day = divmod(epact + week - 7 * late + 114, 31)
    sunday = datetime(year, month, day + 1, tzinfo=UTC)
    return Range(sunday - 2 * DAY, sunday + 2 * DAY)


def _relative_day(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    words, today = match[0].lower(), _midnight(now)
    if words == "last night":
        return Range(today - timedelta(hours=6), today + timedelta(hours=6))
    days = -2 if "before" in words else 2 if "after" in words else -1 if "yester" in words else "tomorrow" in words
    return Range(today + days * DAY, today + (days + 1) * DAY)


def _count(match: re.Match[str]) -> tuple[int, bool]:
    words = match["n"].lower()
    if words.isdigit():
        return int(words), True
    if words in NUMBERS:
        return NUMBERS[words], True
    return (2 if "couple" in words or "par de" in words else 5), False


def _unit(match: re.Match[str]) -> str:
    return UNITS[match["u"].lower()]


def ago(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    """Read "3 weeks ago": a range around that moment, as wide as the unit suggests."""
    (count, counted), unit = _count(match), _unit(match)
    if not counted:
        return Range(_back(now, unit, count + 1), _back(now, unit, 1), False)
    moment = _back(now, unit, count)
    if unit in ("minute", "hour"):
        return Range(moment - _UNITS[unit] / 2, moment + _UNITS[unit] / 2)
    if unit == "day":
        return Range(_midnight(moment), _midnight(moment) + DAY)
    if unit == "week":
        return Range(_midnight(moment) - 3 * DAY, _midnight(moment) + 4 * DAY, False)
    if unit == "quarter":
        return _months(moment.year, (moment.month - 1) // 3 * 3 + 1, 3, sure=False)
    return _months(moment.year, moment.month if unit == "month" else 1, 1 if unit == "month" else 12, sure=False)


def day_ago(match: re.Match[str], now: datetime) -> Range | None:
    """Return the day that "2 weeks ago" or the moment that "3 hours ago" means in a filter.

    None if there is no number, as in "a few days ago".
    """
    (count, counted), unit = _count(match), _unit(match)
    if not counted:
        return None
    moment = _back(now, unit, count)
    if unit in ("minute", "hour"):
        return Range(moment, moment)
    return Range(_midnight(moment), _midnight(moment) + DAY)


def _back(now: datetime, unit: str, count: int) -> datetime:
    if unit in _UNITS:
        return now - count * _UNITS[unit]
    months = _months(now.year, now.month - count * {"month": 1, "quarter": 3, "year": 12}[unit])
    return min(months.start + (now - now.replace(day=1)), months.end - DAY)


def _recent(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    if _group(match, "n"):
        count, counted = _count(match)
    else:
        # "The last days" means several, "the past week" one.
        count, counted = (5, False) if _group(match, "several") else (1, True)
    return Range(_back(now, _unit(match), count), now, counted)


def _relative_unit(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    step, today = _step(match), _midnight(now)
    if weekday := _group(match, "w"):
        return _weekday(WEEKDAYS[weekday.lower()], today, step)
    return _neighbouring_unit(UNITS[match["unit"].lower()], now, step)


def _neighbouring_unit(unit: str, now: datetime, step: int) -> Range | None:
    """Return the current week, month, quarter or year, or the one `step` units later."""
    today = _midnight(now)
    monday = today - today.weekday() * DAY
    if unit == "week":
        return Range(monday + step * 7 * DAY, monday + (step + 1) * 7 * DAY)
    if unit == "weekend":
        # On a weekend, "last weekend" is the one before; on a weekday, the most recent one.
        saturday = monday + (5 + 7 * step) * DAY
        return Range(saturday, saturday + 2 * DAY)
    if unit == "year":
        return _months(now.year + step, 1, 12)
    if unit == "month":
        return _months(now.year, now.month + step)
    if unit == "quarter":
        return _months(now.year, (now.month - 1) // 3 * 3 + 1 + 3 * step, 3)
    return None


def _so_far(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    """Read "this year so far" or "later this year"."""
    whole = _neighbouring_unit(UNITS[match["unit"].lower()], now, 0)
    if whole is None:
        return None
    return Range(now, whole.end) if "later" in match[0].lower() else Range(whole.start, now)


def _weekday(weekday: int, today: datetime, step: int) -> Range:
    """Return a weekday before today (step -1), in this week (0), or after today (1)."""
    if step == 0:
        start = today + (weekday - today.weekday()) * DAY
    else:
        direction = 1 if step > 0 else -1
        distance = (direction * (weekday - today.weekday()) - 1) % 7 + 1
        start = today + (direction * distance + (step - direction) * 7) * DAY
    return Range(start, start + DAY)


def _relative_month(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    step = _step(match)
    if step == 0 and _is_verb(match):
        return None
    month = _month_number(match)
    if step == 0:
        return _months(now.year, month)
    if step > 0:
        return _months(now.year + (month <= now.month), month)
    return _months(now.year - (month >= now.month) + step + 1, month)


def _on_weekday(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    if not _is_preceded_by(match, r"\b(?:on|since|before|after|until|till|by)\s\Z"):
        return None
    return _latest_weekday(match, now, year)


def _latest_weekday(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _weekday(WEEKDAYS[match["w"].lower()], _midnight(now) + DAY, -1)._replace(sure=False)


def _year(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    if compiled(_COUNTED).match(match.string, match.end()):
        return None
    if _is_year_in_other_language(match):
        return _whole_year(match, now, year)
    if not _is_preceded_by(match, _IN) and not _is_preceded_by(match, _NEAR):
        # A number alone is a year only at the end of the query: "holidays 2023?"
        if match.start() == 0 or match.string[match.end() :].strip(" ?.!") or _is_preceded_by(match, _NUMBERED):
            return None
        return _months(int(match["y"]), 1, 12, sure=False) if 1900 <= int(match["y"]) < 2100 else None
    return _whole_year(match, now, year)


def _whole_year(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _months(int(match["y"]), 1, 12)


def _is_year_in_other_language(match: re.Match[str]) -> bool:
    """Return whether words of another language make a number a year: "en 2025", but not "en 2025 lignes"."""
    if not 1900 <= int(match["y"]) < 2100 or compiled(_COUNTED_ELSEWHERE).match(match.string, match.end()):
        return False
    if _is_preceded_by(match, _YEAR_AFTER):
        return True
    return _is_preceded_by(match, _YEAR_AFTER_WEAK) and bool(
        compiled(_CLAUSE_ENDS).match(match.string, match.end())
    )


def _decade(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    return _months(int(match["y"]), 1, 120, sure=False)


def _day_word(match: re.Match[str], now: datetime, year: int | None, *, language: Language) -> Range | None:
    """Read words such as "yesterday", unless the word has another meaning in this query."""
    word, start = match["day"], match.start()
    # Inside a sentence these words are in lower case; with a capital it is a name, or a noun such as "der Morgen".
    if word[0].isupper() and match.string[:start].rstrip(" \"'¿¡(")[-1:] not in ("", "!", "?", ":"):
        return None
    if _has_other_meaning(match, word.lower(), language):
        return None
    today = _midnight(now) + language.days[word.lower()] * DAY
    return Range(today, today + DAY)


def _has_other_meaning(match: re.Match[str], word: str, language: Language) -> bool:
    if (elsewhere := language.not_after.get(word)) and _is_preceded_by(match, elsewhere):
        return True
    needed = language.only_with.get(word)
    return needed is not None and not compiled(needed).search(match.string)


def _season_word(match: re.Match[str], now: datetime, year: int | None, *, language: Language) -> Range | None:
    return None if _has_other_meaning(match, match["season"].lower(), language) else _season(match, now, year)


def _near_month(match: re.Match[str], now: datetime, year: int | None, *, language: Language) -> Range | None:
    word = match["m"]
    if word.lower() not in language.sure_months.split():
        if language.lower_months and not word.islower():
            return None
        if not _is_preceded_by(match, language.month_after):
            return None
    return _month(match, now, year)


def _near_weekday(match: re.Match[str], now: datetime, year: int | None, *, language: Language) -> Range | None:
    if language.weekday_after and not _is_preceded_by(match, language.weekday_after):
        return None
    if language.weekday_not_after and _is_preceded_by(match, language.weekday_not_after):
        return None
    return _latest_weekday(match, now, year)


def _edge(match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    """Read the beginning, middle or end of the current week, month, quarter or year."""
    whole = _neighbouring_unit(UNITS[match["unit"].lower()], now, 0)
    return whole and part_of(whole, meaning(PARTS, match["part"]))


def meaning(patterns: Mapping[str, str], words: str | None) -> str:
    """Return the key of the pattern that matches all the words; empty if none does or there are no words."""
    if not words:
        return ""
    return next((name for name, pattern in patterns.items() if compiled(pattern).fullmatch(words)), "")


def part_of(whole: Range, part: str) -> Range:
    """Return a third or a half of a range ("early", "first half"), or the week or weekend of its first day."""
    weekday = whole.start.weekday()
    if part == "week":
        # "The week of" a Sunday starts on it, because people who name a Sunday count weeks from Sunday.
        first = whole.start - weekday % 6 * DAY
        return Range(first, first + 7 * DAY, whole.sure)
    if part == "weekend":
        saturday = whole.start + (5 - weekday) * DAY
        return Range(saturday, saturday + 2 * DAY, whole.sure)
    if part in ("first half", "second half"):
        return _half_of(whole, part)
    third = (whole.end - whole.start) // (3 * DAY) * DAY
    if not part or not third:
        return whole
    if part == "early":
        return Range(whole.start, whole.start + third, False)
    if part == "late":
        return Range(whole.end - third, whole.end, False)
    return Range(whole.start + third, whole.end - third, False)


def _half_of(whole: Range, part: str) -> Range:
    half = whole.start + (whole.end - whole.start) // (2 * DAY) * DAY
    if (whole.end - whole.start).days in (365, 366) and whole.start.month == 1:
        half = whole.start.replace(month=7)
    return whole._replace(end=half) if part == "first half" else whole._replace(start=half)


_READINGS: dict[str, Reading] = {
    "ago": ago,
    "date": _date,
    "edge": _edge,
    "month": _month,
    "of_week": _of_week,
    "of_year": _of_year,
    "quarter": _quarter,
    "recent": _recent,
    "which": _relative_unit,
    "which_month": _relative_month,
    "year": _whole_year,
}
# Readings that depend on other meanings of the language's words.
_READINGS_OF_LANGUAGE: dict[str, Callable[..., Range | None]] = {
    "day": _day_word,
    "near_month": _near_month,
    "season": _season_word,
    "weekday": _near_weekday,
}


Rules = tuple[tuple[re.Pattern[str], Reading], ...]


class Grammar(NamedTuple):
    """The rules of one language. No rule matches unless the query has one of `words` or matches `hint`."""

    words: frozenset[str]
    hint: re.Pattern[str] | None
    rules: Callable[[], Rules]
    """Compiles the rules when first called. Checking the words first is a thousand times faster."""


@cache
def grammars() -> tuple[Grammar, ...]:
    """Return the grammars, English last: it would match parts of what the other languages match."""
    english = Grammar(frozenset(), compiled(_ENGLISH_HINT), _english)
    return (*(_grammar(language) for language in LANGUAGES), english)


def _grammar(language: Language) -> Grammar:
    tables = (language.months, language.weekdays, language.seasons, language.units, language.days)
    # Of a phrase, the longest word is the most distinctive.
    words = {max(re.findall("[a-z]+", word), key=len, default="") for table in tables for word in table}
    # "An" and "week-end" contain English words.
    distinctive = frozenset(word for word in words if len(word) > 2 and word != "week") | frozenset(
        language.hint_words.split()
    )
    hint = compiled(language.hint) if language.hint else None
    return Grammar(distinctive, hint, cache(lambda: tuple(_rules_of(language))))


def possible_grammars(query: str) -> list[Grammar]:
    """Return the languages in which a folded query could name a time. For most queries there are none."""
    words = set(_WORD.findall(query.lower()))
    return [
        grammar
        for grammar in grammars()
        if not grammar.words.isdisjoint(words) or (grammar.hint is not None and grammar.hint.search(query))
    ]


def _rules_of(language: Language) -> Iterator[tuple[re.Pattern[str], Reading]]:
    latin = all(word.isascii() for word in language.days)
    slots = _slots(language)
    for form, name in language.forms:
        pattern = form
        for slot, words in slots.items():
            pattern = pattern.replace("{" + slot + "}", words)
        if latin:
            pattern = rf"(?<![\w./:-]){pattern}(?![\w-]|[./][0-9])"
        if name in _READINGS_OF_LANGUAGE:
            yield compiled(pattern), partial(_READINGS_OF_LANGUAGE[name], language=language)
        else:
            yield compiled(pattern), _READINGS[name]


def _slots(language: Language) -> dict[str, str]:
    whole = ("week", "month", "quarter", "year", "weekend")
    counts = [r"[0-9]{1,3}", *([language.few] if language.few else []), _any(language.numbers)]
    return {
        "D2": r"(?P<d2>[0-3]?[0-9])",
        "D": r"(?P<d>[0-3]?[0-9])",
        "M": rf"(?P<m>{_any(language.months)})",
        # Without the months that English also has: its rules read more around them, as in "3 to 10 April 2023".
        "own_M": rf"(?P<m>{_any(language.months.keys() - ENGLISH_MONTHS.keys())})",
        "O": rf"(?P<q>{_any(language.ordinals)})",
        "Y": r"(?P<y>[12][0-9]{3})",
        "W": rf"(?P<w>{_any(language.weekdays)})",
        "S": rf"(?P<season>{_any(language.seasons)})",
        "N": rf"(?P<n>{'|'.join(counts)})",
        "U": rf"(?P<u>{_any(language.units)})",
        "unit": rf"(?P<unit>{_any(word for word, unit in language.units.items() if unit in whole)})",
        "which": rf"(?P<which>{_any(language.steps)})",
        "day": rf"(?P<day>{_any(language.days)})",
    }


def _any(words: Iterable[str]) -> str:
    """Return a pattern that matches any of these words, longest first."""
    return "|".join(
        re.escape(word).replace("\\ ", r"\s") for word in sorted(words, key=lambda word: (-len(word), word))
    )


@cache
def _english() -> Rules:
    return tuple((compiled(pattern), reading) for pattern, reading in _english_forms())


def _english_forms() -> tuple[tuple[str, Reading], ...]:
    """Return the English rules, those that match the most first: a rule cannot match what an earlier one has."""
    year = rf"(?:,?\s{_Y})?"
    return (
        (
            rf"{_START}(?P<y>[0-9]{{4}})(?P<sep>[-/])(?P<n>[0-9]{{1,2}})(?P=sep)(?P<d>[0-9]{{1,2}})"
            r"(?:(?:T|\s)(?P<h>[0-9]{1,2}):(?P<i>[0-9]{2})(?::(?P<s>[0-9]{2})(?:\.[0-9]{1,9})?)?"
            rf"\s?(?P<z>Z|UTC|[+-][0-9]{{2}}:?[0-9]{{2}})?)?{_END}",
            _iso_date,
        ),
        (rf"{_START}(?P<y>[0-9]{{4}})[-/](?P<n>0[1-9]|1[0-2]){_END}", _iso_month),
        (rf"{_START}(?P<a>[0-9]{{1,2}})(?P<sep>[/.])(?P<b>[0-9]{{1,2}})(?P=sep)(?P<y>[0-9]{{4}}){_END}", _numeric),
        (rf"\b(?P<nth>first|second|third|fourth|last)\s(?P<unit>weekend|week|{_W})\s(?:of|in)\s{_M}{year}", _nth),
        (rf"{_START}{_D}\s(?:of\s)?{_M}{year}", _date),
        (rf"{_START}{_M}\s(?:the\s)?{_D}(?![:.,]?[0-9]){year}", _date),
        (rf"(?<![\w./]){_M},?\s(?:of\s)?{_Y}", _month),
        (rf"{_START}(?P<y>[12][0-9]{{3}})[\s-]?q(?P<q>[1-4])\b", _quarter),
        (rf"\bq(?P<q>[1-4])(?:[\s/-]?(?:of\s)?{_Y})?\b", _quarter),
        (rf"{_START}(?P<y>[12][0-9]{{3}})[\s-]?h(?P<half>[12])\b", _half),
        (rf"\bh(?P<half>[12])[\s/-]?(?:of\s)?{_Y}", _half),
        (rf"(?<![\w./]){_M}\s(?:of\s)?(?P<which>last|this|next)\syear\b", _of_year),
        (
            r"\b(?P<season>spring|summer|autumn|fall|winter)\s(?:of\s)?(?P<which>last|this|next)\syear\b",
            _of_year,
        ),
        (rf"\b(?P<w>{_W})\s(?:of\s)?(?P<which>last|this|next)\sweek\b", _of_week),
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
            _relative_day,
        ),
        (rf"(?<![\w.,]){_N}\sago\b", ago),
        (rf"\b(?:last|past|previous)\s{_N}\b", _recent),
        (r"\b(?P<several>last|past)\s(?P<u>minute|hour|day|week|month|year)s\b", _recent),
        (r"\bpast\s(?P<u>hour|day|week|month|quarter|year)\b", _recent),
        (r"\b(?:so\sfar|earlier|later)\sthis\s(?P<unit>week|month|quarter|year)\b", _so_far),
        (r"\bthis\s(?P<unit>week|month|quarter|year)\sso\sfar\b", _so_far),
        (r"\b(?P<unit>week|month|quarter|year)[\s-]to[\s-]date\b", _so_far),
        (
            r"\b(?P<which>this|last|previous|current|next|coming)\s"
            rf"(?:(?P<unit>weekend|week|month|quarter|year)|(?P<w>{_W}))\b",
            _relative_unit,
        ),
        (
            r"\b(?P<part>(?:beginning|start|middle|end|first\shalf|second\shalf)\sof)\sthe\s"
            r"(?P<unit>week|month|quarter|year)\b",
            _edge,
        ),
        (rf"\b(?P<which>this|last|next)\s{_M}", _relative_month),
        (rf"\b(?P<w>{_W})\b", _on_weekday),
        (rf"(?<![\w./])(?:(?<=\bmid-)|(?<!-)){_M}(?!-)", _month_alone),
        (rf"(?:(?<=\bmid-)|(?<=\bmi-)|(?<![\w.,/:#$€£-])){_Y}(?![/-])", _year),
        (r"\b(?P<y>(?:19|20)[0-9]0)s\b", _decade),
    )


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern once: ASCII classes, case-insensitive."""
    return re.compile(pattern, re.ASCII | re.IGNORECASE)


# The times that a question names.


MAX_QUERY = 2_000
MAX_SPANS = 16


class Span(msgspec.Struct, frozen=True):
    """A period from `start` up to but not including `end`, in UTC, and the words of the query that name it.

    It is vague if the words are: a month without a year, a season, "a few weeks ago".
    """

    start: datetime
    end: datetime
    text: str
    precise: Literal["exact", "vague"]


class Named(NamedTuple):
    """A time found in a query, and the reading, which can be called again with another year."""

    match: re.Match[str]
    range: Range
    reading: Reading


class Qualifiers(NamedTuple):
    """Words around a time that change its meaning ("early", "since"), and the extent of the whole phrase."""

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

# Letters without accents, full-width digits as ASCII. One character each, so that positions stay the same.
_FOLDED = {
    code: base
    for code in range(0xC0, 0x180)
    if (base := unicodedata.normalize("NFD", chr(code))[0]).isascii() and base.isalpha()
}
_FOLDED |= {0x2019: "'", **{0xFF10 + digit: str(digit) for digit in range(10)}}


def named_times(query: str, now: datetime) -> tuple[Span, ...]:
    """Return the times that a query names, in order, relative to `now`.

    English, German, French, Spanish and Japanese are understood. A time without a year is the latest one not after
    now. "Before" reaches back to the year 1, "since" and "after" reach to now. Events are not times: "before the
    launch" gives nothing.
    """
    query, now = " ".join(composed(query[:MAX_QUERY]).split()), in_utc(now)
    return tuple(_spans(query, find_named(query, now), now))[:MAX_SPANS]


def composed(text: str) -> str:
    """Return a text in NFC: an accent and its letter are one character."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def find_named(query: str, now: datetime) -> list[Named]:
    """Return the times in a query without their qualifiers, in order: "since May" gives May."""
    query = query if query.isascii() else query.translate(_FOLDED)
    found: list[Named] = []
    taken: list[tuple[int, int]] = []
    for pattern, reading in (rule for grammar in possible_grammars(query) for rule in grammar.rules()):
        for match in pattern.finditer(query):
            start, end = match.span()
            if any(start < other_end and other_start < end for other_start, other_end in taken):
                continue
            period = _read(reading, match, now, None)
            # Digits that look like a date but are invalid are not matched by later rules either.
            if period or match[0][0].isdigit():
                taken.append((start, end))
            if period:
                found.append(Named(match, period, reading))
    return sorted(found, key=lambda named: named.match.start())


def in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; without a time zone it is taken as UTC."""
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)


def _read(reading: Reading, match: re.Match[str], now: datetime, year: int | None) -> Range | None:
    try:
        return reading(match, now, year)
    except (ValueError, OverflowError, LookupError):
        return None


def _spans(query: str, found: list[Named], now: datetime) -> Iterator[Span]:
    position = 0
    while position < len(found):
        named = found[position]
        qualifiers = qualifiers_of(named)
        position += 1
        other = found[position] if position < len(found) else None
        if other and _are_joined(named, qualifiers, other):
            position += 1
            last = qualifiers_of(other)
            period, end = _joined(named, other, now, (qualifiers.part, last.part)), last.end
        else:
            period, end = _qualified(named.range, qualifiers, now), qualifiers.end
        if period.start < period.end:
            yield Span(
                period.start, period.end, query[qualifiers.begin : end].strip(), "exact" if period.sure else "vague"
            )


def qualifiers_of(named: Named) -> Qualifiers:
    """Return the words around a time that change its meaning."""
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
    return Qualifiers(begin, end, part, side)


def _are_joined(named: Named, qualifiers: Qualifiers, other: Named) -> bool:
    """Return whether a time and the next one are the two ends of a span, as in "between May and July"."""
    between = (named.match.end(), other.match.start())
    if qualifiers.side in ("between", "from"):
        return compiled(_JOINS).fullmatch(named.match.string, *between) is not None
    if qualifiers.side == "since":
        return compiled(_JOINS_SINCE).fullmatch(named.match.string, *between) is not None
    return compiled(r"[〜～]").fullmatch(named.match.string, *between) is not None


def _qualified(named: Range, qualifiers: Qualifiers, now: datetime) -> Range:
    try:
        return _bounded(part_of(named, qualifiers.part), qualifiers.side, now)
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
    """Return the range from the beginning of one time to the end of the other; if only one has a year, both do."""
    first, last = one.range, other.range
    if not _has_year(one):
        year = last.start.year if _has_year(other) or first.start >= last.end else first.start.year
        for borrowed in (year, year - 1):
            first = _read(one.reading, one.match, now, borrowed) or first
            if first.start < last.end:
                break
    elif not _has_year(other):
        for borrowed in (first.start.year, first.start.year + 1):
            last = _read(other.reading, other.match, now, borrowed) or last
            if first.start < last.end:
                break
    sure = (first.sure or _has_year(other)) and (last.sure or _has_year(one))
    first, last = part_of(first, parts[0]), part_of(last, parts[1])
    return Range(min(first.start, last.start), max(first.end, last.end), sure)


def _has_year(named: Named) -> bool:
    return named.match.groupdict().get("y") is not None


# Arguments of time filters: a date, a time, or words such as "2 weeks ago".


MAX_WORDS = 100

# In a filter, a weekday or a month alone is a time. With one of these words before it, the rules accept it.
_PREFIXES = ("", "on ", "in ", "am ", "im ", "en ", "el ")
_PREPOSITIONS = r"(?:(?:in|on|at|the|am|im|in\sder|en|el|la|le|les|los|las)\s|l')*"
_TIME_OF_DAY = lazy_pattern(r"\A[0-9-]{8,10}[T\s][0-9]", re.IGNORECASE)
_TICK = timedelta(microseconds=1)


def moment(value: object, now: datetime, *, name: str, end: bool = False) -> datetime:
    """Return the first moment of the time that a value names, or with `end` its last moment, in UTC.

    A date means the whole day, "2026-03" and "last month" the whole month. A datetime, a time of day and "3 hours
    ago" mean one moment, "2 weeks ago" the day two weeks before now. The languages are those of `named_times`.
    Raises `InputError` if the value is not a date; `name` is the name of the parameter in the message.
    """
    now = in_utc(now)
    try:
        named = _range_of(value, now)
    except (ValueError, OverflowError):
        named = None
    if named is None:
        raise InputError(
            f'{name} {reprlib.repr(value)} is not a date; write 2026-03-01, "yesterday" or "2 weeks ago"'
        )
    return named.end if end else named.start


def _range_of(value: object, now: datetime) -> Range | None:
    """Return the range of the time that a value names, from its first moment to its last."""
    if isinstance(value, datetime):
        return _at(value)
    if isinstance(value, date):
        return _whole_day(value)
    if not isinstance(value, str) or len(value) > MAX_WORDS:
        return None
    words = " ".join(composed(value).split())
    return _from_iso(words) or _from_words(words, now)


def _at(value: datetime) -> Range:
    exact = (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    return Range(exact, exact)


def _whole_day(value: date) -> Range:
    return Range(datetime.combine(value, time(), UTC), datetime.combine(value, time.max, UTC))


def _from_iso(words: str) -> Range | None:
    """Parse an ISO 8601 date, with or without a time of day, but no week dates and ordinal dates."""
    try:
        if compiled(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}").fullmatch(words):
            return _whole_day(date.fromisoformat(words))
        return _at(datetime.fromisoformat(words)) if _TIME_OF_DAY.match(words) else None
    except ValueError:
        return None


def _from_words(words: str, now: datetime) -> Range | None:
    if words.casefold() == "now":
        return Range(now, now)
    for text in dict.fromkeys((words, words.lower())):
        for prefix in _PREFIXES:
            found = find_named(prefix + text, now)
            if len(found) == 1 and (named := _unqualified(found[0], now)):
                return named
    return None


def _unqualified(named: Named, now: datetime) -> Range | None:
    """Return the time that was found if there are no other words: not for "since May" or "May or so"."""
    qualifiers, text = qualifiers_of(named), named.match.string
    if (
        qualifiers.side
        or not compiled(_PREPOSITIONS).fullmatch(text, 0, qualifiers.begin)
        or text[qualifiers.end :].strip()
    ):
        return None
    period = (day_ago(named.match, now) if named.reading is ago else None) or part_of(named.range, qualifiers.part)
    return period if period.start == period.end else period._replace(end=period.end - _TICK)
