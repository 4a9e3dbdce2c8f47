"""Base of all shapes: sampling an output, detecting its shape, and the rows of a digest."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from satchel.fitting.cutting import Bracket, Seam
from satchel.fitting.listing import clean
from satchel.model.checks import repair_surrogates
from satchel.model.patterns import lazy_pattern
from satchel.text.passages import continues
from satchel.text.redact import redact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "BEGIN",
    "BEGINNING",
    "ENOUGH",
    "LONGEST_LINE",
    "LONGEST_LOOK",
    "Evidence",
    "Measure",
    "Rank",
    "Reached",
    "Row",
    "Shape",
    "Source",
    "counted",
    "excerpt",
    "fit_rows",
    "one_line",
    "plain",
    "sample",
    "sanitized",
    "seam_at",
    "split_lines",
    "with_ellipsis",
]


LONGEST_LINE = 1_000

_ANSI = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Sample(NamedTuple):
    """Lines of a text in order, each cut at 1,000 characters."""

    lines: Sequence[str]
    whole: bool
    """Whether these are all lines of the text."""


def sample(text: str, *, whole: int, head: int, windows: int, window: int) -> Sample:
    """Return all lines of a text of at most `whole` characters; for a longer text, a sample of its lines.

    The sample is the first `head` characters and `windows` windows of `window` characters, spread evenly, with the
    last window at the end.
    """
    if len(text) <= whole:
        return Sample(split_lines(text), True)
    lines = split_lines(_up_to_line_end(text, 0, head))
    # The last window is the end of the text.
    step = (len(text) - window - head) // windows
    for number in range(1, windows + 1):
        start = head + step * number if number < windows else len(text) - window
        newline = text.find("\n", start, start + window)
        start = newline + 1 if newline >= 0 else start
        lines += split_lines(_up_to_line_end(text, start, len(text) if number == windows else start + window))
    return Sample(lines, False)


def split_lines(text: str) -> list[str]:
    """Split a text into lines without line ends, each cut at 1,000 characters."""
    lines = plain(text).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line[:LONGEST_LINE] for line in lines] if len(text) > LONGEST_LINE else lines


def plain(text: str) -> str:
    """Remove ANSI escape sequences and normalise line ends to newlines."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _up_to_line_end(text: str, start: int, end: int) -> str:
    if end < len(text) and (newline := text.rfind("\n", start, end)) >= 0:
        end = newline
    return text[start:end]


# The source of a digest: counts that are cheap on megabytes, and a bounded sample of lines


WHOLE = 64_000
_CHUNK = 32_000

_PATHS = (
    "path", "file_path", "filepath", "file", "filename", "target_file", "absolute_path", "relative_path", "uri",
    "url", "directory", "dir", "folder", "root", "cwd",
)  # fmt: skip
_PATTERNS = ("pattern", "query", "regex", "search", "q", "text", "glob", "needle", "search_term", "term")
_KEY_WORD = lazy_pattern(r"[^a-z]")


class Source:
    """The text of a tool's output, with the arguments of the call.

    Counts are computed on demand and cached. Everything else comes from `sample`, so that a digest of ten megabytes
    takes hardly longer than one of a hundred kilobytes.
    """

    def __init__(self, text: str, *, arguments: Mapping[str, Any] | None = None) -> None:
        self.text = text
        self._arguments = arguments or {}

    @cached_property
    def codes(self) -> "NDArray[np.uint8]":
        """The code point of each character, capped at 255: numpy counts in this array faster than `str.count`."""
        import numpy as np

        try:
            return np.frombuffer(self.text.encode("latin-1"), dtype=np.uint8)
        except UnicodeEncodeError:
            codes = np.empty(len(self.text), dtype=np.uint8)
            for start in range(0, len(self.text), _CHUNK):
                # By way of an array with one string, because encoders are slow on lone surrogates.
                wide = np.array([self.text[start : start + _CHUNK]]).view(np.uint32)
                codes[start : start + _CHUNK] = np.minimum(wide, 255)
            return codes

    @cached_property
    def lines(self) -> int:
        """The number of lines, including an unterminated last line."""
        import numpy as np

        ends = int(np.count_nonzero(self.codes == 10)) if self.text.isascii() else self.text.count("\n")
        return ends + (not self.text.endswith("\n")) if self.text else 0

    @cached_property
    def filled_lines(self) -> int:
        """The number of lines that are not empty."""
        import numpy as np

        if not self.text:
            return 0
        ends = self.codes == 10
        starts = (self.codes != 10) & (self.codes != 13)
        return int(np.count_nonzero(ends[:-1] & starts[1:])) + bool(starts[0])

    @cached_property
    def sample(self) -> Sequence[str]:
        return self._sampled.lines

    @property
    def first_line(self) -> str:
        """The first line that is not blank, if the sample has one."""
        return next((line for line in self.sample if line.strip()), "")

    @property
    def whole(self) -> bool:
        """Whether the sample has all lines of the text."""
        return self._sampled.whole

    @cached_property
    def _sampled(self) -> Sample:
        return sample(self.text, whole=WHOLE, head=4_000, windows=8, window=1_000)

    def about(self, found: int) -> str:
        """Scale a number found in the sample up to the whole text; `~` marks an estimate."""
        if self.whole or not found:
            return counted(found) if self.whole else "~0"
        return counted(round(found * self.lines / max(1, len(self.sample))), exact=False)

    @cached_property
    def size(self) -> str:
        """The size in KB of UTF-8; `~` marks an estimate."""
        if self.text.isascii():
            return _in_kilobytes(len(self.text))
        if self.whole:
            return _in_kilobytes(len(self.text.encode("utf-8", "surrogatepass")))
        seen = "\n".join(self.sample)
        ratio = len(seen.encode("utf-8", "surrogatepass")) / max(1, len(seen))
        return "~" + _in_kilobytes(round(len(self.text) * ratio))

    @property
    def path(self) -> str | None:
        """The file or folder that the call named."""
        return self._argument(_PATHS)

    @property
    def pattern(self) -> str | None:
        """What the call searched for."""
        return self._argument(_PATTERNS)

    def _argument(self, names: Sequence[str]) -> str | None:
        given = {_KEY_WORD.sub("", str(name).lower()): value for name, value in self._arguments.items()}
        values = (given.get(_KEY_WORD.sub("", name)) for name in names)
        return next((value for value in values if isinstance(value, str) and value.strip()), None)


def counted(number: int, *, exact: bool = True) -> str:
    """Format a number: `12,345`, or `~12,000` for an estimate."""
    if exact:
        return f"{number:,}"
    unit = 10 ** max(0, len(str(number)) - 2)
    return f"~{round(number / unit) * unit:,}"


def _in_kilobytes(size: int) -> str:
    return f"{size:,} B" if size < 1_000 else f"{size / 1_000:,.1f} KB"


# A shape: how it is detected, what is counted, where pages end, what the digest contains


BEGINNING = 4_000
"""How many characters at the beginning of a text are used to detect its shape."""


class Evidence(NamedTuple):
    """What a shape is detected from."""

    text: str
    lines: Sequence[str]
    """Lines sampled from the whole text, without blank ones; at least one."""
    hint: str | None
    """The name of the shape that the tool's name suggests."""

    def has_prefix(self, prefix: re.Pattern[str]) -> bool:
        """Whether the text or any sampled line begins with a match of the pattern."""
        return prefix.match(self.text, 0, BEGINNING) is not None or any(map(prefix.match, self.lines))

    def share(self, pattern: re.Pattern[str]) -> float:
        """Return the share of sampled lines that match."""
        return sum(1 for line in self.lines if pattern.match(line)) / len(self.lines)


class Reached(NamedTuple):
    """What lies before a position in an output."""

    units: int = 0
    """How many units end before it."""
    at: int = 0
    """Where the last of them ends: the position itself, unless that is inside a unit."""


BEGIN = Reached()


class Measure(msgspec.Struct, frozen=True):
    """The size of an output, and the unit of that size."""

    total: int
    unit: str

    def reached(self, text: str, stop: int, since: Reached = BEGIN) -> Reached:
        """Return what lies before a position; `since`, for an earlier position, saves counting from the start."""
        if self.unit != "lines":
            return Reached(stop, stop)
        units, at = since.units + text.count("\n", since.at, stop), text.rfind("\n", since.at, stop) + 1
        if stop == len(text) and not text.endswith("\n"):
            return Reached(units + 1, stop)
        return Reached(units, max(at, since.at))

    def place(self, text: str, start: int, stop: int, before: Reached, after: Reached) -> str:
        """Say which units a page shows, such as "lines 397–792 of 12,004".

        If the page begins or ends inside a unit, or shows none, its characters are named too.
        """
        first, last = before.units + 1, min(self.total, after.units + (after.at < stop))
        named = f"{_numbers(self.unit, first, last)} of {self.total:,}" if first <= last else ""
        if named and before.at == start and after.at == stop:
            return named
        characters = f"{_numbers('characters', start + 1, stop)} of {len(text):,}"
        return f"{named} ({characters})" if named else characters


def _numbers(unit: str, first: int, last: int) -> str:
    return f"{unit.removesuffix('s')} {first:,}" if first == last else f"{unit} {first:,}–{last:,}"


ENOUGH = 0.6
"""The share of its room that a page must use to end at a seam of its shape; otherwise it ends at a line."""


class Shape(ABC):
    """One shape of a tool's output, such as a diff or a log. Each is a subclass in its own file.

    The class defines how the shape is detected, what is counted and where pages may end; an instance makes the
    digest of one source. To add a shape, add such a file and a line in the table of `digest.py`.
    """

    name: ClassVar[str]
    """The name in the ledger."""
    tool_words: ClassVar[Mapping[str, int]] = {}
    """Words in a tool's name that suggest this shape; if several words match, the lowest number wins."""
    prefilter: ClassVar[re.Pattern[str] | None] = None
    """Prefilter: the shape is considered only if this matches at the start of the text or of a sampled line."""
    seams: ClassVar[Sequence[Seam]] = ()
    """Places where a page should end rather than at the end of a line, best first."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @classmethod
    def certain(cls, evidence: Evidence) -> "type[Shape] | None":
        """Return this shape, or a more specific one, if the text has marks that other shapes hardly ever have."""
        return None

    @classmethod
    def likely(cls, evidence: Evidence) -> "type[Shape] | None":
        """Return this shape, or a more specific one, if most lines look like it."""
        return None

    @classmethod
    def suggested(cls, evidence: Evidence) -> "type[Shape] | None":
        """Return this shape, or a more specific one, if the tool's name suggests it and the text allows it."""
        return None

    @staticmethod
    def measure(text: str) -> Measure:
        """Count lines, or characters if there is only one line."""
        lines = text.count("\n") + (not text.endswith("\n") and text != "")
        return Measure(lines, "lines") if lines > 1 else Measure(len(text), "characters")

    @abstractmethod
    def title(self) -> str:
        """What the output is and how large, in one line; reads no more than the sample."""

    def headline(self) -> str:
        """The title, with an excerpt if the title alone says little."""
        return self.title()

    @abstractmethod
    def rows(self) -> "list[Row]":
        """The other rows of the digest."""


def seam_at(pattern: re.Pattern[str], enough: float = ENOUGH) -> Seam:
    """Return a seam at the end of each match, used if the page then uses at least `enough` of its room."""

    def ends(text: str, start: int, within: Bracket) -> Sequence[int]:
        found = (match.end() for match in pattern.finditer(text, within.fits, within.over))
        return [end for end in found if within.fits < end < within.over]

    return Seam(ends, enough)


# The rows of a digest. If not all fit, the rank decides: errors, paths, numbers, prose.


LONGEST_LOOK = 2_000
MARK = "…"

_LEAST = 12
_LEAST_PROSE = 40
_LONGEST_CHARACTER = 16
_BLOB = lazy_pattern(r"(?<![\w+/=-])[A-Za-z0-9+/=_-]{60,}+")
_LETTERS_AND_DIGITS = lazy_pattern(r"(?=.*[0-9])(?=.*[a-z]).*[A-Z]")
_BLOB_START = 16
_LONG_BLOB = 200
# How Satchel's own lines begin, also after whitespace or invisible characters.
_OWN_LINE = lazy_pattern(
    r"^(?=[\s\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufffd]*+"
    r"(?:📏|⚡|➡|\[\s*Budget\s+Alert))",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTED = "| "


class Rank(IntEnum):
    """Priority of a row: rows of a lower rank are kept first."""

    TITLE = 0
    ERROR = 1
    PATH = 2
    """Paths, names and ids."""
    NUMBER = 3
    PROSE = 4


class Row(NamedTuple):
    """One line of a digest: a head and parts; the last parts are dropped if there is not enough room."""

    rank: Rank
    parts: Sequence[str]
    head: str = ""
    share: float = 1.0
    """The largest share of the digest that this row may use, so that other rows fit too."""
    more: int = 0
    """How many more parts there are besides those given."""
    exact: bool = True
    """Whether `more` is exact."""
    shows: int = 0
    """How many lines of the text this row shows."""
    of: int = 0
    """If set, the number of lines in the text: this row says how many of them no row shows."""


def fit_rows(rows: Sequence[Row], most: int) -> str:
    """Return the rows that fit in `most` characters, chosen by rank, in the given order, with omissions marked."""
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
    """Cut a line to `most` characters. Secrets are masked first, because half a secret is not recognised."""
    line = one_line(line[:LONGEST_LOOK])
    return line if len(line) <= most else with_ellipsis(redact(line).text, most)


def one_line(text: str) -> str:
    """Return a text on one line, without control characters; base64 and similar blobs are cut short."""
    line = " ".join(clean(repair_surrogates(plain(text))).split())
    # Mask first: a long secret looks like a blob, and would not be recognised after the cut.
    return _BLOB.sub(_shortened_blob, redact(line).text) if _BLOB.search(line) else line


def with_ellipsis(text: str, most: int) -> str:
    """Cut a text to `most` characters with an ellipsis at the end, never inside a combined character."""
    if len(text) <= most:
        return text
    if most <= 0:
        return ""
    end = most - len(MARK)
    earliest = max(0, end - _LONGEST_CHARACTER)
    while end > earliest and continues(text, end):
        end -= 1
    return text[:end].rstrip() + MARK


def sanitized(text: str, most: int) -> str:
    """Make a digest safe to show: no control characters, no secrets, no line that imitates one of Satchel's own."""
    text = redact(clean(repair_surrogates(text)).replace("\t", " ")).text
    return with_ellipsis(_OWN_LINE.sub(_QUOTED, text), most).rstrip()


def _shortened_blob(found: re.Match[str]) -> str:
    # A long path may match too, but seldom has both capitals and digits.
    is_blob = len(found[0]) >= _LONG_BLOB or _LETTERS_AND_DIGITS.match(found[0])
    return found[0][:_BLOB_START] + MARK if is_blob else found[0]


def _safe(rows: Sequence[Row]) -> Sequence[Row]:
    """Mask secrets in the rows before they are measured: a mask may be longer than the secret."""
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
    return with_ellipsis(row.head + "".join(parts[:1]) + _more(left, row.exact), room)


def _gap(row: Row, shown: int) -> str:
    return f"{MARK} {row.of - shown:,} lines left out {MARK}" if row.of else ""


def _more(number: int, exact: bool) -> str:
    return f", +{'' if exact else '~'}{number:,} more" if number else ""
