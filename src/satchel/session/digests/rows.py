"""The rows of a digest, and which of them are kept where there is little room: what counts first, prose last."""

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from satchel.fitting.listing import clean
from satchel.model.surrogates import repair_surrogates
from satchel.session.line_sample import plain
from satchel.text.passages import continues
from satchel.text.redact import redact

__all__ = ["LONGEST_LOOK", "Rank", "Row", "cut", "excerpt", "finished", "fitted", "one_line"]

LONGEST_LOOK = 2_000
MARK = "…"

_LEAST = 12
_LEAST_PROSE = 40
_LONGEST_CHARACTER = 16
_BLOB = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/=_-]{60,}+")
_LETTERS_AND_DIGITS = re.compile(r"(?=.*[0-9])(?=.*[a-z]).*[A-Z]")
_BLOB_START = 16
_LONG_BLOB = 200
# What Satchel's own lines begin with, after any blanks or invisible characters before it.
_OWN_LINE = re.compile(
    r"^(?=[\s\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufffd]*+"
    r"(?:📏|⚡|➡|\[\s*Budget\s+Alert))",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTED = "| "


class Rank(IntEnum):
    """What a row is worth: of those that do not all fit, a lower rank is kept first."""

    TITLE = 0
    ERROR = 1
    PATH = 2
    """Paths, and the names and ids of things."""
    NUMBER = 3
    PROSE = 4


class Row(NamedTuple):
    """One line of a digest: a head, and parts of which the last ones go where there is little room."""

    rank: Rank
    parts: Sequence[str]
    head: str = ""
    share: float = 1.0
    """The most of a digest that it takes, so that what comes after it has room as well."""
    more: int = 0
    """How many parts there are beyond those given."""
    exact: bool = True
    """Whether `more` is known, not estimated."""
    shows: int = 0
    """How many lines of the text it shows."""
    of: int = 0
    """How many lines there are; such a row says how many of them no row shows."""


def fitted(rows: Sequence[Row], most: int) -> str:
    """The rows that fit, taken by rank and shown in the order given, with what is left out of each marked."""
    rows = _safe(rows)
    kept: dict[int, str] = {}
    room = most + 1
    for place in sorted(range(len(rows)), key=lambda place: rows[place].rank):
        row = rows[place]
        if row.of:
            row = row._replace(parts=[_gap(row, 0)])
        if line := _line(row, min(room - 1, int(most * row.share))):
            kept[place] = line
            room -= len(line) + 1
    shown = sum(rows[place].shows for place in kept)
    return "\n".join(_gap(rows[place], shown) or kept[place] for place in sorted(kept))


def excerpt(line: str, most: int) -> str:
    """A line of the text, cut to `most` characters; masked before it is cut, for half a secret is not found."""
    line = one_line(line[:LONGEST_LOOK])
    return line if len(line) <= most else cut(redact(line).text, most)


def one_line(text: str) -> str:
    """On one line, without control characters, and of base64 and the like, which say nothing, the beginning."""
    line = " ".join(clean(repair_surrogates(plain(text))).split())
    # A long secret looks like a blob, and its beginning would not be found and masked.
    return _BLOB.sub(_shortened_blob, redact(line).text) if _BLOB.search(line) else line


def cut(text: str, most: int) -> str:
    """A beginning of at most `most` characters that ends with a mark and not within a character."""
    if len(text) <= most:
        return text
    if most <= 0:
        return ""
    end = most - len(MARK)
    earliest = max(0, end - _LONGEST_CHARACTER)
    while end > earliest and continues(text, end):
        end -= 1
    return text[:end].rstrip() + MARK


def finished(text: str, most: int) -> str:
    """A digest as it is shown: clean, without secrets, with no line that looks like one of Satchel's own."""
    text = redact(clean(repair_surrogates(text)).replace("\t", " ")).text
    return cut(_OWN_LINE.sub(_QUOTED, text), most).rstrip()


def _shortened_blob(found: re.Match[str]) -> str:
    # A long path may look like it, but seldom has capitals and digits as well.
    is_blob = len(found[0]) >= _LONG_BLOB or _LETTERS_AND_DIGITS.match(found[0])
    return found[0][:_BLOB_START] + MARK if is_blob else found[0]


def _safe(rows: Sequence[Row]) -> Sequence[Row]:
    """With secrets masked before the room is given away, for a mask may be longer than what it hides."""
    if not redact("\n".join(part for row in rows for part in (row.head, *row.parts))).masked:
        return rows
    return [row._replace(parts=_masked(row.parts)) for row in rows]


def _masked(parts: Iterable[str]) -> list[str]:
    return [redact(part).text for part in parts]


def _line(row: Row, room: int) -> str:
    parts = list(row.parts)
    left = row.more
    while parts:
        line = row.head + ", ".join(parts) + _more(left, row.exact)
        if len(line) <= room:
            return line
        if len(parts) == 1:
            break
        parts.pop()
        left += 1
    least = _LEAST_PROSE if row.rank is Rank.PROSE else _LEAST
    if room < least and row.rank is not Rank.TITLE:
        return ""
    return cut(row.head + "".join(parts[:1]) + _more(left, row.exact), room)


def _gap(row: Row, shown: int) -> str:
    return f"{MARK} {row.of - shown:,} lines left out {MARK}" if row.of else ""


def _more(number: int, exact: bool) -> str:
    return f", +{'' if exact else '~'}{number:,} more" if number else ""
