"""Matches of a search: how many, for which pattern, in which files."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import Evidence, Rank, Row, Shape, Source, counted, excerpt
from satchel.session.digests.errors import error_rows, tool_errors
from satchel.session.digests.files import has_extension, is_path
from satchel.session.digests.log import Log

__all__ = ["Matches"]

SHOWN_FILES = 12
ENOUGH = 5

# `path:12: text`, `path:12:5:text`
_MATCH = lazy_pattern(r"((?:[A-Za-z]:[\\/])?[^\s:][^:\n]{0,400}?):(\d+)(?::\d+)?(?:[:-]|$)")
_CONTEXT = lazy_pattern(r"([^\s:][^:\n]{0,400}?)-(\d+)-")
_NUMBERED_MATCH = lazy_pattern(r"(\d+)[:-]")
_COMPILER = lazy_pattern(r"\S[^:\n]*:\d+(?::\d+)?: (?:fatal )?(?:error|warning|note)\b")


class _Found(NamedTuple):
    files: Counter[str]
    first: list[str]
    """Lines that matched."""


class Matches(Shape):
    """Lines that a search found, each with its file and number."""

    name = "matches"
    prefilter = re.compile(f"{_MATCH.pattern}|{_CONTEXT.pattern}|{_NUMBERED_MATCH.pattern}")
    tool_words = dict.fromkeys(("grep", "rg", "ripgrep", "search", "ag", "ack"), 4)

    @classmethod
    def likely(cls, evidence: Evidence) -> type[Shape] | None:
        lines = [line for line in evidence.lines if line != "--"]
        found = sum(map(_is_match, lines))
        if found and found > 0.5 * len(lines):
            compiler = sum(1 for line in lines if _COMPILER.match(line))
            return Log if evidence.hint != cls.name and compiler > 0.3 * found else cls
        return cls if _has_heading_form(lines) else None

    @classmethod
    def suggested(cls, evidence: Evidence) -> type[Shape] | None:
        return cls if any(map(_is_match, evidence.lines)) else None

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._found = _found(source.sample)

    def title(self) -> str:
        source, files = self.source, self._found.files
        number = source.about(files.total())
        sought = f" for {excerpt(source.pattern, 60)!r}" if source.pattern else ""
        among = counted(len(files)) if source.whole else f"at least {len(files)}"
        return f"{number} match{'' if number == '1' else 'es'}{sought} in {among} file{'' if among == '1' else 's'}"

    def rows(self) -> list[Row]:
        source, files = self.source, self._found.files
        parts = [excerpt(name, 90) + self._number(number) for name, number in files.most_common(SHOWN_FILES)]
        made = error_rows(tool_errors(source))
        if parts:
            more = max(0, len(files) - SHOWN_FILES)
            made.append(Row(Rank.PATH, parts, "", 0.7, more=more, exact=source.whole))
        return made + [Row(Rank.PROSE, [excerpt(line, 120)]) for line in self._found.first[:3]]

    def _number(self, found: int) -> str:
        # One or two matches in a sample say nothing about the total.
        return f" ({self.source.about(found)})" if self.source.whole or found >= ENOUGH else ""


def _is_match(line: str) -> bool:
    found = _MATCH.match(line) or _CONTEXT.match(line)
    # A sentence may contain a time or a ratio. A path has no spaces, or else a slash or a dot.
    return found is not None and (" " not in found[1] or "/" in found[1] or has_extension(found[1]))


def _has_heading_form(lines: Sequence[str]) -> bool:
    """Whether the form is `path`, followed by `12:text` for each match in that file."""
    numbered = sum(1 for line in lines if _NUMBERED_MATCH.match(line))
    if not lines or numbered < 0.4 * len(lines) or _NUMBERED_MATCH.match(lines[0]):
        return False
    return is_path(lines[0]) and numbered + sum(map(is_path, lines)) > 0.9 * len(lines)


def _found(lines: Sequence[str]) -> _Found:
    files: Counter[str] = Counter()
    first: list[str] = []
    heading = ""
    for line in lines:
        if heading and (numbered := _NUMBERED_MATCH.match(line)):
            if line[numbered.end() - 1] == ":":
                files[heading] += 1
                first.append(f"{heading}:{line}")
        elif found := _MATCH.match(line):
            files[found[1]] += 1
            first.append(line)
        elif not _CONTEXT.match(line):
            heading = line.strip().removesuffix(":") if line != "--" else heading
    return _Found(files, first)
