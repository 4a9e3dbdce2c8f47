"""JSON: type and size, keys and their values, ids of records, and errors that it reports."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from satchel.fitting.cutting import Bracket, Seam
from satchel.fitting.listing import as_json
from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import (
    BEGIN,
    BEGINNING,
    ENOUGH,
    LONGEST_LOOK,
    Evidence,
    Measure,
    Rank,
    Reached,
    Row,
    Shape,
    Source,
    counted,
    excerpt,
    one_line,
)
from satchel.session.digests.errors import error_lines, error_rows
from satchel.session.digests.log import Log, is_log_of_objects

__all__ = ["JsonValue"]

PARSED = 64_000
HEAD = 4_000
SHOWN_KEYS = 20
SHOWN_IDS = 6
SHOWN_ITEMS = 12

_START = lazy_pattern(
    r"\s*(?:\{\s*(?:\"(?:[^\"\\]|\\.){0,500}\"\s*:|\})"
    r"|\[\s*(?:[\]\[]|\{\s*[\"}]|\"(?:[^\"\\]|\\.){0,2000}(?:\"\s*[,\]]|\Z)|(?:-?\d[\d.eE+-]*|true|false|null)\s*[,\]]))"
)
_SEPARATOR = lazy_pattern(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]|,\s*+', re.DOTALL)
_TOKEN = lazy_pattern(r"\"(?:[^\"\\]|\\.)*+(\"?)|[\[\]{},]")
_TAIL_PAIR = lazy_pattern(
    r"\"([^\"\\]{1,60})\"\s*:\s*(\"(?:[^\"\\]|\\.){0,200}\"|-?\d[\d.eE+-]*|true|false|null)\s*(?=[,}])"
)
_IDS = ("id", "_id", "uuid", "key", "name", "path", "sha", "number", "title", "slug", "url")
_TROUBLE = ("error", "errors", "exception", "stderr", "error_message", "failure")
_TOLD = (*_TROUBLE, "message", "detail", "reason")

_raw_list = msgspec.json.Decoder(list[msgspec.Raw])
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class RecordMeasure(Measure, frozen=True):
    """The number of records in JSON, and where their array begins and ends in the text."""

    start: int
    end: int

    def reached(self, text: str, stop: int, since: Reached = BEGIN) -> Reached:
        if stop <= self.start or stop >= self.end:
            return Reached(0 if stop <= self.start else self.total, stop)
        # Continue at the start of a record, where the depth is known.
        units, at = since if since.at > self.start else (0, self.start)
        level = 1 if at == self.start else 0
        for depth, end in _separators(text, at, stop):
            if depth == level:
                units, at = units + 1, end
        return Reached(units, at)


def _separators(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield, for each comma between JSON values, its relative depth and the start of the next value."""
    depth = 0
    for token in _SEPARATOR.finditer(text, start, stop):
        mark = token[0][0]
        if mark == ",":
            yield depth, token.end()
        elif mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1


def _after_values(depth: int) -> Seam:
    """Return a seam after commas of the outermost level that has any on this page, or one of the two below it."""

    def ends(text: str, start: int, within: Bracket) -> Sequence[int]:
        found = list(_separators(text, start, within.over))
        levels = sorted({level for level, _ in found})
        if depth >= len(levels):
            return []
        return [end for level, end in found if level == levels[depth] and within.fits < end < within.over]

    return Seam(ends, ENOUGH)


class _Value(NamedTuple):
    value: Any
    whole: bool
    """Whether the whole text was read, not only its beginning."""
    length: int
    """How many characters were read."""
    records: int | None = None
    """How many values there are, if there is one per line."""


class JsonValue(Shape):
    """A JSON value, complete or truncated, or several values, one per line."""

    name = "json"
    prefilter = _START
    seams = tuple(_after_values(depth) for depth in range(3))

    @classmethod
    def certain(cls, evidence: Evidence) -> type[Shape] | None:
        if not _is_json(evidence.text, evidence.lines):
            return None
        return Log if is_log_of_objects(evidence) else cls

    @staticmethod
    def measure(text: str) -> Measure:
        """Count records if there are several, else lines or characters."""
        return _records_in(text) or Shape.measure(text)

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._read = _read(source)

    def title(self) -> str:
        path = f" {excerpt(self.source.path, 120)}" if self.source.path else ""
        return f"JSON{path} {_kind(self._read, self.source)}, {self.source.size}"

    def rows(self) -> list[Row]:
        source, value, whole = self.source, self._read.value, self._read.whole
        made: list[Row] = []
        if isinstance(value, dict):
            made += _error_fields(value)
            made += _facts(value, self._read, source)
        elif isinstance(value, list) and value:
            made += _records(value, "", whole) if isinstance(value[0], dict) else _items(value, whole)
        if not any(row.rank is Rank.ERROR for row in made):
            made = error_rows(error_lines(source)) + made
        return made or [Row(Rank.PROSE, [excerpt(source.text, 200)])]


def _is_json(text: str, lines: Sequence[str]) -> bool:
    if not _START.match(text, 0, BEGINNING):
        return False
    if text[:200].lstrip().startswith("{") or len(text) > 64_000:
        return True
    try:
        _decoded(text)
    except msgspec.DecodeError:
        # Possibly truncated JSON: then the outermost bracket stays open.
        return lines[0].rstrip().endswith(("[", "{", ",")) or len(lines) == 1
    except RecursionError:
        return True
    return True


def _records_in(text: str) -> RecordMeasure | None:
    """Measure an array, or the largest array in an object."""
    try:
        array = text.strip()
        if not array.startswith("["):
            longest = max(_raw_object.decode(text).values(), key=len, default=None)
            array = "" if longest is None else str(longest, "utf-8")
        number = len(_raw_list.decode(array))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    start = text.find(array)
    return RecordMeasure(number, "records", start, start + len(array)) if number > 1 else None


def _items(value: Sequence[Any], whole: bool) -> list[Row]:
    parts = [_short(item, 60) for item in value[:SHOWN_ITEMS]]
    return [Row(Rank.PATH, parts, "First: ", more=max(0, len(value) - SHOWN_ITEMS) if whole else 0)]


def _error_fields(value: Mapping[str, Any]) -> Iterator[Row]:
    """Yield rows for errors and messages in an object."""
    for name, told in value.items():
        if name.lower() in _TOLD and told not in (None, "", 0, False, [], {}):
            yield _error_row(name, told)
        elif isinstance(told, dict):
            inside = {inner: deeper for inner, deeper in told.items() if inner.lower() in _TROUBLE and deeper}
            yield from (_error_row(f"{name}.{inner}", deeper) for inner, deeper in inside.items())


def _error_row(name: str, told: Any) -> Row:
    mark = "! " if name.rpartition(".")[2].lower() in _TROUBLE else ""
    return Row(Rank.ERROR, [excerpt(f"{name}: {_shown(told)}", 200)], mark, 0.4)


def _facts(value: Mapping[str, Any], read: _Value, source: Source) -> Iterator[Row]:
    """Yield rows for scalars, and for the sizes of arrays and objects."""
    pairs = {name: held for name, held in value.items() if name.lower() not in _TOLD}
    scalars = {name: held for name, held in pairs.items() if not isinstance(held, dict | list)}
    if not read.whole:
        scalars |= _tail_pairs(source.text, pairs)
    held = [
        f"{excerpt(name, 40)} {_held(one, read.whole)}"
        for name, one in pairs.items()
        if isinstance(one, dict | list)
    ]
    ids = [f"{excerpt(name, 40)}={_short(one)}" for name, one in scalars.items() if not _is_prose(one)]
    prose = [f"{excerpt(name, 40)}={_short(one)}" for name, one in scalars.items() if _is_prose(one)]
    if held:
        yield Row(Rank.PATH, held[:SHOWN_KEYS], "Keys: ", 0.5, more=max(0, len(held) - SHOWN_KEYS))
    if ids:
        yield Row(Rank.NUMBER, ids[:SHOWN_KEYS], "", 0.5, more=max(0, len(ids) - SHOWN_KEYS))
    for name, one in list(pairs.items())[:SHOWN_KEYS]:
        if isinstance(one, list) and one and isinstance(one[0], dict):
            yield from _records(one, f"{excerpt(name, 40)}: ", read.whole)
    for part in prose[:5]:
        yield Row(Rank.PROSE, [part])


def _records(records: Sequence[Any], label: str, whole: bool) -> Iterator[Row]:
    first = records[0]
    keys = [excerpt(name, 40) for name in first]
    yield Row(Rank.NUMBER, keys[:SHOWN_KEYS], f"{label}each with ", 0.4, more=max(0, len(keys) - SHOWN_KEYS))
    name = next((name for name in _IDS if name in first and not isinstance(first[name], dict | list)), None)
    if name:
        ids = [_short(one[name], 40) for one in records[:SHOWN_IDS] if isinstance(one, dict) and name in one]
        more = max(0, len(records) - len(ids)) if whole else 0
        yield Row(Rank.PATH, ids, f"{label}{name} ", 0.4, more=more)


def _kind(read: _Value, source: Source) -> str:
    value = read.value
    if read.records is not None:
        return f"lines: {read.records:,} values"
    if isinstance(value, dict):
        number = counted(len(value)) if read.whole else f"at least {len(value)}"
        return f"object with {number} key{'' if len(value) == 1 else 's'}"
    if isinstance(value, list):
        return f"array of {_length(value, read, source)}"
    return "value" if read.whole else "that cannot be read"


def _length(value: list[Any], read: _Value, source: Source) -> str:
    if read.whole:
        return counted(len(value))
    return counted(round(len(value) * len(source.text) / max(1, read.length)), exact=False)


def _held(value: Any, whole: bool) -> str:
    unit = f"[{len(value):,}]" if isinstance(value, list) else f"{{{len(value):,}}}"
    return unit if whole else f"{unit[0]}≥{unit[1:]}"


def _is_prose(value: Any) -> bool:
    return isinstance(value, str) and value.count(" ") > 4


def _short(value: Any, most: int = 70) -> str:
    return excerpt(_shown(value), most)


def _shown(value: Any) -> str:
    """Return a scalar as text; of an array or object only its scalars, because it may be deep or large."""
    if isinstance(value, str):
        return one_line(value[:LONGEST_LOOK])
    if isinstance(value, dict):
        inner = [
            f"{name}: {_shown(one)}" for name, one in islice(value.items(), 8) if not isinstance(one, dict | list)
        ]
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(one) for one in value[:8] if not isinstance(one, list)) + "]"
    return as_json(value)


def _tail_pairs(text: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return key-value pairs after the last array or object, such as the total in many answers."""
    tail = text[-600:]
    place = max(tail.rfind("]"), tail[: len(tail.rstrip()) - 1].rfind("}"))
    pairs = _TAIL_PAIR.findall(tail, place + 1) if place >= 0 else []
    return {name: value.strip('"') for name, value in pairs if name not in known}


def _read(source: Source) -> _Value:
    text = source.text
    if len(text) <= PARSED:
        try:
            return _Value(_decoded(text), True, len(text))
        except (msgspec.DecodeError, RecursionError):
            pass
    first, _, rest = text[: HEAD * 4].lstrip().partition("\n")
    if rest.lstrip().startswith(("{", "[")) and first.rstrip().endswith(("}", "]")):
        try:
            return _Value([_decoded(first)], False, len(first), source.filled_lines)
        except (msgspec.DecodeError, RecursionError):
            pass
    return _beginning(text[:HEAD])


def _decoded(text: str) -> Any:
    return msgspec.json.decode(text.encode("utf-8", "replace"))


def _beginning(text: str) -> _Value:
    """Parse truncated JSON: cut after the last complete part, then close the open brackets."""
    closing: list[str] = []
    cut = 0
    for found in _TOKEN.finditer(text):
        sign = found[0][0]
        if sign in "[{":
            closing.append("]" if sign == "[" else "}")
            cut = found.end()
        elif sign in "]}":
            if not closing or closing[-1] != sign:
                break
            closing.pop()
            cut = found.end()
        elif sign == ",":
            cut = found.start()
    try:
        return _Value(_decoded(text[:cut] + "".join(reversed(closing))), False, cut)
    except (msgspec.DecodeError, RecursionError):
        return _Value(None, False, cut)
