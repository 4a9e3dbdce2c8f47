"""The table of shapes, and a tool's output in a few hundred characters, made for its shape."""

import re
from collections.abc import Mapping
from typing import Any

from satchel.session.digests.base import Rank, Row, Seen, Shape, Source, excerpt, finished, fitted, plain, sample
from satchel.session.digests.content import FileContent
from satchel.session.digests.diff import Diff
from satchel.session.digests.errors import error_lines, error_rows
from satchel.session.digests.files import FileList
from satchel.session.digests.json_value import JsonValue
from satchel.session.digests.log import Log
from satchel.session.digests.matches import Matches
from satchel.session.digests.status import Status
from satchel.session.digests.text import AnyText

__all__ = ["SHAPES", "digest", "headline", "shape_of"]

_SHAPES: tuple[type[Shape], ...] = (
    # In the order in which they are asked.
    JsonValue,
    Diff,
    Log,
    Status,
    Matches,
    FileList,
    FileContent,
    AnyText,
)
SHAPES: Mapping[str, type[Shape]] = {shape.name: shape for shape in _SHAPES}

DIGEST_CHARACTERS = 500
HEADLINE_CHARACTERS = 100
SHOWN_WHOLE_LINES = 8
EMPTY = "(empty)"

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_SUGGESTED = {word: (number, shape.name) for shape in SHAPES.values() for word, number in shape.tool_words.items()}


def shape_of(text: str, *, tool: str | None = None) -> str:
    """The name of the shape of a tool's output: what its text shows, else what the tool's name suggests."""
    lines = sample(text, whole=6_000, head=3_000, windows=3, window=700).lines
    seen = Seen(text, [line for line in lines if line and not line.isspace()], _hint(tool))
    return (_recognised(seen) or AnyText).name if seen.lines else AnyText.name


def _recognised(seen: Seen) -> type[Shape] | None:
    asked = [shape for shape in _SHAPES if shape.sign is not None and seen.shows(shape.sign)]
    for shape in asked:
        if (found := shape.plainly(seen)) is not None:
            return found
    for shape in asked:
        if (found := shape.likely(seen)) is not None:
            return found
    return SHAPES[seen.hint].suggested(seen) if seen.hint else None


def _hint(tool: str | None) -> str | None:
    words = (word.lower() for word in _WORDS.findall(tool or ""))
    return min((_SUGGESTED[word] for word in words if word in _SUGGESTED), default=(0, None))[1]


def digest(
    text: str,
    *,
    tool: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    shape: str | None = None,
    error: bool = False,
    most: int = DIGEST_CHARACTERS,
) -> str:
    """Describe a tool's output in at most `most` characters; a short output is its own digest.

    The shape decides what is said; `arguments` of the call name the file or the pattern. Secrets are masked,
    control characters replaced, and no line imitates one of Satchel's own. `~` before a number marks an estimate
    from a sample.
    """
    if not text or text.isspace():
        return finished(EMPTY, most)
    if (short := _short(text, most)) is not None:
        return finished(short, most)
    source = Source(text, arguments=arguments)
    made = SHAPES[shape or shape_of(text, tool=tool)](source)
    rows = made.rows()
    if error and not any(row.rank is Rank.ERROR for row in rows):
        rows = [*(error_rows(error_lines(source)) or error_rows([source.first_line])), *rows]
    heading = Row(Rank.TITLE, [("Failed. " if error else "") + made.title()])
    return finished(fitted([heading, *rows], most), most)


def headline(
    text: str,
    *,
    tool: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    shape: str | None = None,
    error: bool = False,
    most: int = HEADLINE_CHARACTERS,
) -> str:
    """Describe a tool's output in one line of at most `most` characters."""
    if not text or text.isspace():
        return finished(EMPTY, most)
    if (short := _short(text, 4 * most)) is not None:
        return finished(excerpt(short, most), most)
    made = SHAPES[shape or shape_of(text, tool=tool)](Source(text, arguments=arguments))
    return finished(excerpt(("Failed. " if error else "") + made.headline(), most), most)


def _short(text: str, most: int) -> str | None:
    """The text itself, if it is short enough to be shown whole."""
    # Whitespace at the end does not count, but is only stripped from texts that may be short.
    if len(text) > 4 * most + 1_000:
        return None
    shown = plain(text).rstrip()
    return shown if len(shown) <= most and shown.count("\n") < SHOWN_WHOLE_LINES else None
