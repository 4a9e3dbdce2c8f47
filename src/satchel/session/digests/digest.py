"""A tool's output in a few hundred characters, made for its shape."""

from collections.abc import Callable, Mapping
from typing import Any

from satchel.session.digests.base import Digest, Rank, Row, Source, excerpt, finished, fitted, plain
from satchel.session.digests.content import FileContent
from satchel.session.digests.diff import Diff
from satchel.session.digests.errors import error_lines, error_rows
from satchel.session.digests.files import FileList
from satchel.session.digests.json_value import JsonValue
from satchel.session.digests.log import Log
from satchel.session.digests.matches import Matches
from satchel.session.digests.shapes import Shape, shape_of
from satchel.session.digests.status import Status
from satchel.session.digests.text import AnyText

__all__ = ["DIGEST_CHARACTERS", "HEADLINE_CHARACTERS", "digest", "headline"]


DIGEST_CHARACTERS = 500
HEADLINE_CHARACTERS = 100
SHOWN_WHOLE_LINES = 8
EMPTY = "(empty)"


_DIGESTS: Mapping[Shape, Callable[[Source], Digest]] = {
    "files": FileList,
    "matches": Matches,
    "file": FileContent,
    "diff": Diff,
    "log": Log,
    "status": Status,
    "json": JsonValue,
    "text": AnyText,
}


def digest(
    text: str,
    *,
    tool: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    shape: Shape | None = None,
    error: bool = False,
    most: int = DIGEST_CHARACTERS,
) -> str:
    """What a tool's output was, in at most `most` characters; a short output is its own digest.

    Secrets are masked, control characters replaced, and no line of it looks like one of Satchel's own.
    A number with `~` before it is an estimate from a sample.
    """
    if not text or text.isspace():
        return finished(EMPTY, most)
    if (short := _short(text, most)) is not None:
        return finished(short, most)
    source = Source(text, arguments=arguments)
    made = _DIGESTS[shape or shape_of(text, tool=tool)](source)
    rows = made.rows()
    if error and not any(row.rank is Rank.ERROR for row in rows):
        rows = [*(error_rows(error_lines(source)) or error_rows([_first_line(source)])), *rows]
    heading = Row(Rank.TITLE, [("Failed. " if error else "") + made.title()])
    return finished(fitted([heading, *rows], most), most)


def headline(
    text: str,
    *,
    tool: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    shape: Shape | None = None,
    error: bool = False,
    most: int = HEADLINE_CHARACTERS,
) -> str:
    """What a tool's output was, on one line of at most `most` characters."""
    if not text or text.isspace():
        return finished(EMPTY, most)
    if (short := _short(text, 4 * most)) is not None:
        return finished(excerpt(short, most), most)
    source = Source(text, arguments=arguments)
    found = shape or shape_of(text, tool=tool)
    line = ("Failed. " if error else "") + _DIGESTS[found](source).title()
    if found == "text":
        told = error_lines(source) if source.whole else []
        line += f": {told[0] if told else _first_line(source)}"
    return finished(excerpt(line, most), most)


def _short(text: str, most: int) -> str | None:
    """The text without blank space at its end, where it is short enough to be shown whole."""
    # Blank space at the end may be all that makes it long.
    if len(text) > 4 * most + 1_000:
        return None
    shown = plain(text).rstrip()
    return shown if len(shown) <= most and shown.count("\n") < SHOWN_WHOLE_LINES else None


def _first_line(source: Source) -> str:
    return next((line for line in source.sample if line.strip()), "")
