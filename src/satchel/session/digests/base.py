"""What every shape is built on: a sample of the output, how a shape is recognised, and the rows of a digest."""

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
from satchel.text.passages import continues
from satchel.text.redact import redact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "BEGINNING",
    "ENOUGH",
    "LONGEST_LINE",
    "LONGEST_LOOK",
    "Measure",
    "Rank",
    "Row",
    "Seen",
    "Shape",
    "Source",
    "counted",
    "excerpt",
    "finished",
    "fitted",
    "one_line",
    "plain",
    "sample",
    "seam_at",
    "split_lines",
    "with_ellipsis",
]


LONGEST_LINE = 1_000

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Sample(NamedTuple):
    """Lines of a text in order, each cut at 1,000 characters."""

    lines: Sequence[str]
    whole: bool
    """Whether these are all lines of the text."""


def sample(text: str, *, whole: int, head: int, windows: int, window: int) -> Sample:
    """All lines of a text that has at most `whole` characters; of a longer text, lines from all over it.

    These are its first `head` characters and `windows` windows of `window` characters, the last one at the end.
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
    """The lines of a text without line ends, each cut at 1,000 characters."""
    lines = plain(text).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line[:LONGEST_LINE] for line in lines] if len(text) > LONGEST_LINE else lines


def plain(text: str) -> str:
    """A text without ANSI escape sequences, and with line ends as newlines."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _up_to_line_end(text: str, start: int, end: int) -> str:
    if end < len(text) and (newline := text.rfind("\n", start, end)) >= 0:
        end = newline
    return text[start:end]


# The source of a digest: counts that are cheap on megabytes, and a bounded sample of the lines.


WHOLE = 64_000
_CHUNK = 32_000

_PATHS = (
    "path", "file_path", "filepath", "file", "filename", "target_file", "absolute_path", "relative_path", "uri",
    "url", "directory", "dir", "folder", "root", "cwd",
)  # fmt: skip
_PATTERNS = ("pattern", "query", "regex", "search", "q", "text", "glob", "needle", "search_term", "term")
_KEY_WORD = re.compile(r"[^a-z]")


class Source:
    """The text of a tool's output, with the arguments of the call that gave it.

    Counts are made on demand and kept. Everything but the counts comes from `sample`, so that a digest of ten
    megabytes costs hardly more than one of a hundred kilobytes.
    """

    def __init__(self, text: str, *, arguments: Mapping[str, Any] | None = None) -> None:
        self.text = text
        self._arguments = arguments or {}

    @cached_property
    def codes(self) -> "NDArray[np.uint8]":
        """The code point of each character, at most 255: numpy counts in this faster than `str.count` does."""
        import numpy as np

        try:
            return np.frombuffer(self.text.encode("latin-1"), dtype=np.uint8)
        except UnicodeEncodeError:
            codes = np.empty(len(self.text), dtype=np.uint8)
            for start in range(0, len(self.text), _CHUNK):
                # Through an array of one string, because encoders are slow on lone surrogates.
                wide = np.array([self.text[start : start + _CHUNK]]).view(np.uint32)
                codes[start : start + _CHUNK] = np.minimum(wide, 255)
            return codes

    @cached_property
    def lines(self) -> int:
        """The number of lines, with what follows the last line end."""
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
        """A number found in the sample, projected to the whole text; `~` marks an estimate."""
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
        """The file or folder that the call asked for."""
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
    """`12,345`, or `~12,000` for an estimate."""
    if exact:
        return f"{number:,}"
    unit = 10 ** max(0, len(str(number)) - 2)
    return f"~{round(number / unit) * unit:,}"


def _in_kilobytes(size: int) -> str:
    return f"{size:,} B" if size < 1_000 else f"{size / 1_000:,.1f} KB"


# A shape: how it is recognised, what it is counted in, where its pages end, what its digest says.


BEGINNING = 4_000
"""How many characters of a text may tell what it begins with."""


class Seen(NamedTuple):
    """What a shape is recognised by."""

    text: str
    lines: Sequence[str]
    """Lines from all over the text, blank ones left out; there is at least one."""
    hint: str | None
    """The name of the shape that the tool's name suggests."""

    def shows(self, sign: re.Pattern[str]) -> bool:
        """Whether the text or some line begins with the sign."""
        return sign.match(self.text, 0, BEGINNING) is not None or any(map(sign.match, self.lines))

    def share(self, pattern: re.Pattern[str]) -> float:
        """The part of the lines that match."""
        return sum(1 for line in self.lines if pattern.match(line)) / len(self.lines)


class Measure(msgspec.Struct, frozen=True):
    """How much there is of an output, and the unit that this is counted in."""

    total: int
    unit: str

    def within(self, text: str, start: int, stop: int) -> int:
        """How many of them a page shows; one that spans two pages counts where it ends."""
        if self.unit == "lines":
            return text.count("\n", start, stop) + (stop == len(text) and not text.endswith("\n"))
        return stop - start


ENOUGH = 0.6
"""The part of its room that a page must use to end at a seam of its shape rather than at a line."""


class Shape(ABC):
    """One shape of a tool's output, such as a diff or a log. Each is a subclass in a file of its own.

    The class says how the shape is recognised, in what its outputs are counted and where their pages may end; an
    instance makes the digest of one source. A new shape is such a file and a line in the table of `digest.py`.
    """

    name: ClassVar[str]
    """What the ledger stores."""
    tool_words: ClassVar[Mapping[str, int]] = {}
    """Words in a tool's name that suggest this shape; among several words, the lowest number decides."""
    sign: ClassVar[re.Pattern[str] | None] = None
    """What a text of this shape has at its beginning or at the start of some line; else the shape is not asked."""
    seams: ClassVar[Sequence[Seam]] = ()
    """Better places for a page to end than the end of a line, the best first."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @classmethod
    def plainly(cls, seen: Seen) -> "type[Shape] | None":
        """This shape, or a closer one, if the text has signs of it that hardly any other text has."""
        return None

    @classmethod
    def likely(cls, seen: Seen) -> "type[Shape] | None":
        """This shape, or a closer one, if most lines look like it."""
        return None

    @classmethod
    def suggested(cls, seen: Seen) -> "type[Shape] | None":
        """This shape, or a closer one, if the text does not contradict the tool's name, which suggests this."""
        return None

    @staticmethod
    def measure(text: str) -> Measure:
        """Lines, or characters where there is only one line."""
        lines = text.count("\n") + (not text.endswith("\n") and text != "")
        return Measure(lines, "lines") if lines > 1 else Measure(len(text), "characters")

    @abstractmethod
    def title(self) -> str:
        """What it is and how much, in one line; costs no more than looking at the sample."""

    def headline(self) -> str:
        """The title, with more where the title alone says little."""
        return self.title()

    @abstractmethod
    def rows(self) -> "list[Row]":
        """What else is worth saying."""


def seam_at(pattern: re.Pattern[str], enough: float = ENOUGH) -> Seam:
    """A page may end where a match of the pattern does, if it uses enough of its room."""

    def ends(text: str, start: int, within: Bracket) -> Sequence[int]:
        found = (match.end() for match in pattern.finditer(text, within.fits, within.over))
        return [end for end in found if within.fits < end < within.over]

    return Seam(ends, enough)


# The rows of a digest. If not all fit, rank decides: errors before paths, paths before numbers, prose last.


LONGEST_LOOK = 2_000
MARK = "…"

_LEAST = 12
_LEAST_PROSE = 40
_LONGEST_CHARACTER = 16
_BLOB = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/=_-]{60,}+")
_LETTERS_AND_DIGITS = re.compile(r"(?=.*[0-9])(?=.*[a-z]).*[A-Z]")
_BLOB_START = 16
_LONG_BLOB = 200
# How Satchel's own lines begin, also behind whitespace or invisible characters.
_OWN_LINE = re.compile(
    r"^(?=[\s\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufffd]*+"
    r"(?:📏|⚡|➡|\[\s*Budget\s+Alert))",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTED = "| "


class Rank(IntEnum):
    """How important a row is: the lower the rank, the sooner it is kept."""

    TITLE = 0
    ERROR = 1
    PATH = 2
    """Paths, and the names and ids of things."""
    NUMBER = 3
    PROSE = 4


class Row(NamedTuple):
    """One line of a digest: a head and parts, of which the last are dropped if there is little room."""

    rank: Rank
    parts: Sequence[str]
    head: str = ""
    share: float = 1.0
    """The largest part of a digest that it may take, so that other rows have room too."""
    more: int = 0
    """How many parts there are besides those given."""
    exact: bool = True
    """Whether `more` is exact."""
    shows: int = 0
    """How many lines of the text this row shows."""
    of: int = 0
    """If set, the number of lines in the text: this row says how many of them no row shows."""


def fitted(rows: Sequence[Row], most: int) -> str:
    """The rows that fit into `most` characters, chosen by rank, in the order given, with omissions marked."""
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
    """A line of the text, cut to `most` characters. Secrets are masked first: half a secret is not recognised."""
    line = one_line(line[:LONGEST_LOOK])
    return line if len(line) <= most else with_ellipsis(redact(line).text, most)


def one_line(text: str) -> str:
    """A text on one line, without control characters, and with base64 and the like cut to their beginning."""
    line = " ".join(clean(repair_surrogates(plain(text))).split())
    # A long secret looks like a blob, and is not recognised any more once it is cut.
    return _BLOB.sub(_shortened_blob, redact(line).text) if _BLOB.search(line) else line


def with_ellipsis(text: str, most: int) -> str:
    """A text cut to `most` characters with an ellipsis at the end, never inside a combined character."""
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
    """A digest as it is shown: no control characters, no secrets, no line that imitates one of Satchel's own."""
    text = redact(clean(repair_surrogates(text)).replace("\t", " ")).text
    return with_ellipsis(_OWN_LINE.sub(_QUOTED, text), most).rstrip()


def _shortened_blob(found: re.Match[str]) -> str:
    # A long path may look like one, but seldom has both capitals and digits.
    is_blob = len(found[0]) >= _LONG_BLOB or _LETTERS_AND_DIGITS.match(found[0])
    return found[0][:_BLOB_START] + MARK if is_blob else found[0]


def _safe(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows with secrets masked, before they are measured: a mask may be longer than what it hides."""
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
