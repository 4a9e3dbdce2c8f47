"""The table of shapes, and digests: a tool's output described in a few hundred characters."""

from collections.abc import Mapping
from typing import Any

from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import (
    Evidence,
    Rank,
    Row,
    Shape,
    Source,
    excerpt,
    fit_rows,
    plain,
    sample,
    sanitized,
)
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
    # In order of detection.
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

_WORDS = lazy_pattern(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_SUGGESTED = {word: (number, shape.name) for shape in SHAPES.values() for word, number in shape.tool_words.items()}


def shape_of(text: str, *, tool: str | None = None) -> str:
    """Return the name of the shape of a tool's output, detected from the text, else from the tool's name."""
    lines = sample(text, whole=6_000, head=3_000, windows=3, window=700).lines
    evidence = Evidence(text, [line for line in lines if line and not line.isspace()], _hint(tool))
    return (_recognised(evidence) or AnyText).name if evidence.lines else AnyText.name


def _recognised(evidence: Evidence) -> type[Shape] | None:
    asked = [shape for shape in _SHAPES if shape.prefilter is not None and evidence.has_prefix(shape.prefilter)]
    for shape in asked:
        if (found := shape.certain(evidence)) is not None:
            return found
    for shape in asked:
        if (found := shape.likely(evidence)) is not None:
            return found
    return SHAPES[evidence.hint].suggested(evidence) if evidence.hint else None


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

    The content depends on the shape; `arguments` of the call provide the file name or the pattern. Secrets are
    masked, control characters replaced, and no line can imitate one of Satchel's own. `~` marks a number estimated
    from a sample.
    """
    if not text or text.isspace():
        return sanitized(EMPTY, most)
    if (short := _short(text, most)) is not None:
        return sanitized(short, most)
    source = Source(text, arguments=arguments)
    made = SHAPES[shape or shape_of(text, tool=tool)](source)
    rows = made.rows()
    if error and not any(row.rank is Rank.ERROR for row in rows):
        rows = [*(error_rows(error_lines(source)) or error_rows([source.first_line])), *rows]
    heading = Row(Rank.TITLE, [("Failed. " if error else "") + made.title()])
    return sanitized(fit_rows([heading, *rows], most), most)


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
        return sanitized(EMPTY, most)
    if (short := _short(text, 4 * most)) is not None:
        return sanitized(excerpt(short, most), most)
    made = SHAPES[shape or shape_of(text, tool=tool)](Source(text, arguments=arguments))
    return sanitized(excerpt(("Failed. " if error else "") + made.headline(), most), most)


def _short(text: str, most: int) -> str | None:
    """Return the text itself if it is short enough to be shown whole."""
    # Trailing whitespace does not count. Very long texts are not stripped, because that is slow.
    if len(text) > 4 * most + 1_000:
        return None
    shown = plain(text).rstrip()
    return shown if len(shown) <= most and shown.count("\n") < SHOWN_WHOLE_LINES else None
