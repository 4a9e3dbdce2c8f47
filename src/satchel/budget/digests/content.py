"""The content of a file: its path, its size, and the headings or definitions in it."""

import re
from collections.abc import Sequence

from satchel.budget.digests.errors import complaints, error_rows
from satchel.budget.digests.rows import Rank, Row, excerpt
from satchel.budget.digests.source import Source
from satchel.budget.shapes import CODE, HEADING, NUMBERED

__all__ = ["FileContent"]

SHOWN_NAMES = 40

_FIRST_LINE_PATH = re.compile(
    r"(?:(?://|#|--|;|/\*|<!--|==>|File:|###?|\[file)\s*)?`?((?:[\w.@+~-]*[\\/])+[\w.@+-]+\.\w{1,10})"
)
_DEFINITION = re.compile(r"(.*?[\w)\]>\"`])\s*(?:[:{;=(]|->|\bwhere\b|\bextends\b|\bimplements\b|$)")


class FileContent:
    def __init__(self, source: Source) -> None:
        self._source = source

    def title(self) -> str:
        source = self._source
        found = _FIRST_LINE_PATH.match(source.sample[0]) if source.sample else None
        path = source.path or (found[1] if found else None) or "File"
        return f"{excerpt(path, 200)}: {source.lines:,} line{'' if source.lines == 1 else 's'}, {source.size}"

    def rows(self) -> list[Row]:
        source = self._source
        lines = _without_numbers(source.sample)
        made = error_rows(complaints(source))
        label, names = _outline(lines)
        if names:
            parts = [excerpt(name, 70) for name in names[:SHOWN_NAMES]]
            more = max(0, len(names) - SHOWN_NAMES)
            made.append(Row(Rank.PATH, parts, label, 0.8, more=more, exact=source.whole))
        filled = [line for line in lines if line.strip() and not (HEADING.match(line) or CODE.match(line))]
        made += [Row(Rank.PROSE, [excerpt(line, 120)], "First: ") for line in filled[:1]]
        made += [Row(Rank.PROSE, [excerpt(line, 120)]) for line in filled[1:3]]
        return made + [Row(Rank.PROSE, [excerpt(line, 120)], "Last: ") for line in filled[3:][-1:]]


def _outline(lines: Sequence[str]) -> tuple[str, list[str]]:
    """The headings or the definitions, whichever there are more of: a comment of a script looks like a heading."""
    headings = [line.strip() for line in _outside_fences(lines) if HEADING.match(line)]
    definitions = [_defined(line) for line in lines if CODE.match(line)]
    if len(definitions) >= len(headings):
        return "Definitions: ", list(dict.fromkeys(definitions))
    return "Headings: ", list(dict.fromkeys(headings))


def _without_numbers(lines: Sequence[str]) -> Sequence[str]:
    numbered = sum(1 for line in lines[:20] if NUMBERED.match(line))
    if not lines or numbered < 0.7 * min(20, len(lines)):
        return lines
    return [NUMBERED.sub("", line, count=1) if NUMBERED.match(line) else line for line in lines]


def _outside_fences(lines: Sequence[str]) -> list[str]:
    outside = []
    fenced = False
    for line in lines:
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            outside.append(line)
    return outside


def _defined(line: str) -> str:
    found = _DEFINITION.match(line.strip())
    return found[1] if found else line.strip()
