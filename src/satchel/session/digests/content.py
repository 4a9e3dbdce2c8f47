"""The content of a file: path, size, and headings or definitions."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import Evidence, Rank, Row, Shape, excerpt
from satchel.session.digests.errors import error_rows, tool_errors

__all__ = ["FileContent"]

SHOWN_NAMES = 40

# The line number before a line of a file, as in `cat -n`.
_NUMBERED = lazy_pattern(r"\s{0,8}(\d{1,7})(?:\t|→|: | ?\| ?)")
_HEADING = lazy_pattern(r"#{1,6} +\S")
# The first line of a section in a configuration file.
_SECTION = lazy_pattern(r"\[{1,2}[A-Za-z][\w .\"'/:-]*\]{1,2}\s*")
# A line that defines something in a program; the group is its name.
_DEFINING = (
    r"(?:def|class|function\*?|fn|func|fun|struct|enum|trait|impl|interface|type|module|namespace|object|macro_rules!|"
    r"#\s*define|defun|defn|defmodule|sub|proc|record|protocol|extension|CREATE\s+(?:TABLE|VIEW|INDEX|FUNCTION))\s+"
)
_CODE = lazy_pattern(
    r"\s*(?P<defined>(?:(?:export|default|pub(?:\([a-z]+\))?|public|private|protected|internal|static|final|abstract|"
    r"async|unsafe|extern|inline|override|sealed|partial|open|data)\s+)*"
    rf"{_DEFINING}(?=[A-Za-z_\"`(*<\[])(?:\([^)]*\)\s*)?[^\s:({{;=,]*)"
)
_STATEMENT = lazy_pattern(
    r"\s*(?:import |from \S+ import |#include|use |using |package |return\b|if\b.*[:{]$|for\b.*[:{]$|else\b|elif "
    r"|while\b|const |let |var |val |@\w+|\}|\)|</?\w|[\w.\[\]\"']+ ?[-+:*|]?= ?\S)|.*[;{}]$|.*\)[:,]?$"
)
_SETTING = lazy_pattern(r"[\w.\"-]+\s*=")
_MARKUP = lazy_pattern(r"(?i:#!\s*/|<\?xml|<!DOCTYPE|<html|---$)")
_MARKDOWN = lazy_pattern(r"(?:\s*[-*+] \S|\s*\d+[.)] \S|```|~~~|> |\|.*\|$|\[[^\]]+\]\()")

_FIRST_LINE_PATH = lazy_pattern(
    r"(?:(?://|#|--|;|/\*|<!--|==>|File:|###?|\[file)\s*)?`?((?:[\w.@+~-]*[\\/])+[\w.@+-]+\.\w{1,10})"
)


class FileContent(Shape):
    """The content of one file: a program, a configuration, a document."""

    name = "file"
    tool_words: ClassVar[Mapping[str, int]] = {
        **dict.fromkeys(("read", "cat", "view", "open", "contents"), 3),
        "file": 6,
    }
    prefilter = re.compile(
        "|".join(f"(?:{each.pattern})" for each in (_NUMBERED, _HEADING, _SECTION, _CODE, _MARKUP))
    )

    @classmethod
    def certain(cls, evidence: Evidence) -> type[Shape] | None:
        """Detected by ascending line numbers."""
        numbers = [int(found[1]) for line in evidence.lines[:12] if (found := _NUMBERED.match(line))]
        if len(numbers) < 2 or len(numbers) < 0.8 * min(len(evidence.lines), 12):
            return None
        steps = [later - earlier for earlier, later in pairwise(numbers)]
        return cls if all(0 < step < 4 for step in steps) and steps.count(1) > 0.7 * len(steps) else None

    @classmethod
    def likely(cls, evidence: Evidence) -> type[Shape] | None:
        return cls.by_lines(evidence) if evidence.hint is None else None

    @classmethod
    def suggested(cls, evidence: Evidence) -> type[Shape] | None:
        return cls

    @classmethod
    def by_lines(cls, evidence: Evidence) -> type[Shape] | None:
        """Detected by markup, headings, settings or statements, independent of the tool's name."""
        lines = evidence.lines
        if _MARKUP.match(lines[0]):
            return cls
        headings = sum(1 for line in lines if _HEADING.match(line))
        marked = sum(1 for line in lines if _HEADING.match(line) or _MARKDOWN.match(line)) if headings else 0
        if headings and marked >= max(2, 0.15 * len(lines)):
            return cls
        if any(_SECTION.fullmatch(line) for line in lines) and evidence.share(_SETTING) > 0.3:
            return cls
        programmed = len(lines) > 2 and any(_CODE.match(line) for line in lines)
        return cls if programmed and evidence.share(_STATEMENT) > 0.4 else None

    def title(self) -> str:
        source = self.source
        found = _FIRST_LINE_PATH.match(source.sample[0]) if source.sample else None
        path = source.path or (found[1] if found else None) or "File"
        return f"{excerpt(path, 200)}: {source.lines:,} line{'' if source.lines == 1 else 's'}, {source.size}"

    def rows(self) -> list[Row]:
        source = self.source
        lines = _without_numbers(source.sample)
        made = error_rows(tool_errors(source))
        label, names = _outline(lines)
        if names:
            parts = [excerpt(name, 70) for name in names[:SHOWN_NAMES]]
            more = max(0, len(names) - SHOWN_NAMES)
            made.append(Row(Rank.PATH, parts, label, 0.8, more=more, exact=source.whole))
        filled = [
            line
            for line in lines
            if line.strip() and not (_HEADING.match(line) or _CODE.match(line) or _SECTION.fullmatch(line))
        ]
        made += [Row(Rank.PROSE, [excerpt(line, 120)], "First: ") for line in filled[:1]]
        made += [Row(Rank.PROSE, [excerpt(line, 120)]) for line in filled[1:3]]
        return made + [Row(Rank.PROSE, [excerpt(line, 120)], "Last: ") for line in filled[3:][-1:]]


def _outline(lines: Sequence[str]) -> tuple[str, list[str]]:
    """Return definitions, headings or sections, whichever are most frequent: comments can look like headings."""
    outlines = {
        "Definitions: ": [found["defined"].strip() for line in lines if (found := _CODE.match(line))],
        "Headings: ": [line.strip() for line in _outside_fences(lines) if _HEADING.match(line)],
        "Sections: ": [line.strip() for line in lines if _SECTION.fullmatch(line)],
    }
    label = max(outlines, key=lambda label: len(outlines[label]))
    return label, list(dict.fromkeys(outlines[label]))


def _without_numbers(lines: Sequence[str]) -> Sequence[str]:
    numbered = sum(1 for line in lines[:20] if _NUMBERED.match(line))
    if not lines or numbered < 0.7 * min(20, len(lines)):
        return lines
    return [_NUMBERED.sub("", line, count=1) if _NUMBERED.match(line) else line for line in lines]


def _outside_fences(lines: Sequence[str]) -> list[str]:
    outside = []
    fenced = False
    for line in lines:
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            outside.append(line)
    return outside
