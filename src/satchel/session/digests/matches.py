"""Matches of a search: how many, of what, in which files."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from satchel.session.digests.base import Rank, Row, Source, counted, excerpt
from satchel.session.digests.errors import complaints, error_rows
from satchel.session.digests.shapes import CONTEXT, MATCH, NUMBERED_MATCH

__all__ = ["Matches"]

SHOWN_FILES = 12
ENOUGH = 5


class _Found(NamedTuple):
    files: Counter[str]
    first: list[str]
    """Lines that matched."""


class Matches:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._found = _found(source.sample)

    def title(self) -> str:
        source, files = self._source, self._found.files
        number = source.about(files.total())
        sought = f" for {excerpt(source.pattern, 60)!r}" if source.pattern else ""
        among = counted(len(files)) if source.whole else f"at least {len(files)}"
        return f"{number} match{'' if number == '1' else 'es'}{sought} in {among} file{'' if among == '1' else 's'}"

    def rows(self) -> list[Row]:
        source, files = self._source, self._found.files
        parts = [excerpt(name, 90) + self._number(number) for name, number in files.most_common(SHOWN_FILES)]
        made = error_rows(complaints(source))
        if parts:
            more = max(0, len(files) - SHOWN_FILES)
            made.append(Row(Rank.PATH, parts, "", 0.7, more=more, exact=source.whole))
        return made + [Row(Rank.PROSE, [excerpt(line, 120)]) for line in self._found.first[:3]]

    def _number(self, found: int) -> str:
        # One or two matches that a sample happens to hold do not tell how many there are.
        return f" ({self._source.about(found)})" if self._source.whole or found >= ENOUGH else ""


def _found(lines: Sequence[str]) -> _Found:
    files: Counter[str] = Counter()
    first: list[str] = []
    heading = ""
    for line in lines:
        if heading and (numbered := NUMBERED_MATCH.match(line)):
            if line[numbered.end() - 1] == ":":
                files[heading] += 1
                first.append(f"{heading}:{line}")
        elif found := MATCH.match(line):
            files[found[1]] += 1
            first.append(line)
        elif not CONTEXT.match(line):
            heading = line.strip().removesuffix(":") if line != "--" else heading
    return _Found(files, first)
