"""The content of a file: its path, its size, and the headings or definitions in it."""

import re
from collections.abc import Sequence

from satchel.session.digests.base import Rank, Row, Source, excerpt
from satchel.session.digests.errors import complaints, error_rows
from satchel.session.digests.shapes import CODE, HEADING, NUMBERED, SECTION

__all__ = ["FileContent"]

SHOWN_NAMES = 40

_FIRST_LINE_PATH = re.compile(
    r"(?:(?://|#|--|;|/\*|<!--|==>|File:|###?|\[file)\s*)?`?((?:[\w.@+~-]*[\\/])+[\w.@+-]+\.\w{1,10})"
)


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
        filled = [
            line
            for line in lines
            if line.strip() and not (HEADING.match(line) or CODE.match(line) or SECTION.fullmatch(line))
        ]
        made += [Row(Rank.PROSE, [excerpt(line, 120)], "First: ") for line in filled[:1]]
        made += [Row(Rank.PROSE, [excerpt(line, 120)]) for line in filled[1:3]]
        return made + [Row(Rank.PROSE, [excerpt(line, 120)], "Last: ") for line in filled[3:][-1:]]


def _outline(lines: Sequence[str]) -> tuple[str, list[str]]:
    """What there is most of: definitions, headings or sections; a comment of a script looks like a heading."""
    outlines = {
        "Definitions: ": [found["defined"].strip() for line in lines if (found := CODE.match(line))],
        "Headings: ": [line.strip() for line in _outside_fences(lines) if HEADING.match(line)],
        "Sections: ": [line.strip() for line in lines if SECTION.fullmatch(line)],
    }
    label = max(outlines, key=lambda label: len(outlines[label]))
    return label, list(dict.fromkeys(outlines[label]))


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
