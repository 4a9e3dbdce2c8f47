"""A log: lines by level, errors and the newest line; for a commit history, the number of commits and the newest."""

import re
from collections import Counter
from collections.abc import Sequence

from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import Evidence, Rank, Row, Shape, Source, counted, excerpt
from satchel.session.digests.errors import ERROR_WIDTH, error_lines, error_rows

__all__ = ["Log", "is_log_of_objects"]

_LINE_STAMP = (
    r"\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d|\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:\d\d"
    r"|[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d"
    r"|\d\d:\d\d:\d\d(?:[.,]\d+)?(?!\d)|1[5-9]\d{8}(?:\.\d+|\d{3})?\s|\s*\d+\.\d{6}\]"
)
# A log line begins with a time or a level, or is a JSON object that contains one.
_LOG_LINE = lazy_pattern(
    rf"[\[(<]?(?:{_LINE_STAMP})|\S{{3,60}} \S+ \S+ \[(?:{_LINE_STAMP})"
    r"|[\[(<]?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)[\])>]?(?:[\s:|-]|$)"
    r"|[\[(<](?:trace|debug|info|notice|warn(?:ing)?|error|critical|fatal)[\])>]"
    r"|(?:ts|time|timestamp|level)=\S"
    r"|\{.{0,400}\"(?:level|lvl|severity|levelname|ts|time|timestamp|@timestamp)\"\s*:"
)
# The level of a line, in one of three groups.
_LEVEL = lazy_pattern(
    r"(?<![\w-])(?:(TRACE|DEBUG|INFO|NOTICE|WARN|ERROR|CRITICAL|FATAL|PANIC|SEVERE)(?:ING)?(?![\w-])"
    r"|(?:\"?(?:level|lvl|severity)\"?\s*[=:]\s*\"?)(trace|debug|info|notice|warn|error|critical|fatal|panic)"
    r"|(trace|debug|info|notice|warn|error|critical|fatal|panic)(?:ing)?\s*[\]:])",
    re.IGNORECASE,
)
_COMMIT_LINE = lazy_pattern(r"[*|/\\ ]*commit [0-9a-f]{7,64}\b")
_COMMIT = lazy_pattern(r"[*|/\\ ]*commit ([0-9a-f]{7,64})")
_LATER_COMMIT = lazy_pattern(r"\ncommit [0-9a-f]{7}")
_ONE_LINE_COMMIT = lazy_pattern(r"[*|/\\ _]*(?=[0-9a-f]*\d)([0-9a-f]{7,40}) (?:\([^)]+\) )?(\S.*)")
_TIME = lazy_pattern(
    r"\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d(?::\d\d)?|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d"
    r"|\b\d\d:\d\d:\d\d\b"
)
_DATED = lazy_pattern(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?")
_SEVEREST = ("PANIC", "FATAL", "CRITICAL", "SEVERE", "ERROR", "WARN", "NOTICE", "INFO", "DEBUG", "TRACE")


class Log(Shape):
    """Lines with times or levels, compiler messages, or a commit history."""

    name = "log"
    tool_words = dict.fromkeys(("log", "logs", "journal", "journalctl", "dmesg"), 2)
    prefilter = re.compile(f"{_COMMIT_LINE.pattern}|{_ONE_LINE_COMMIT.pattern}|{_LOG_LINE.pattern}")

    @classmethod
    def certain(cls, evidence: Evidence) -> type[Shape] | None:
        short = len(evidence.lines) > 1 and evidence.share(_ONE_LINE_COMMIT) > 0.8
        return cls if short or _COMMIT_LINE.match(evidence.lines[0]) else None

    @classmethod
    def likely(cls, evidence: Evidence) -> type[Shape] | None:
        logged = evidence.share(_LOG_LINE)
        begins = logged > 0.2 and _LOG_LINE.match(evidence.lines[0]) and evidence.hint != "file"
        return cls if logged > 0.5 or begins else None

    @classmethod
    def suggested(cls, evidence: Evidence) -> type[Shape] | None:
        return cls if len(evidence.lines) > 1 else None

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._commits = _commits(source.sample)
        self._levels = Counter() if self._commits else _levels(source.sample)

    def title(self) -> str:
        source = self.source
        path = f" {excerpt(source.path, 120)}" if source.path else ""
        if self._commits:
            exact = _is_long(source.sample)
            number = counted(_number_of_commits(source.text)) if exact else source.about(len(self._commits))
            return (
                f"Log{path}: {number} commit{'' if number == '1' else 's'}, newest {excerpt(self._commits[0], 100)}"
            )
        ends = [*source.sample[:5], *source.sample[-5:]]
        times = [found[0] for line in ends if (found := _TIME.search(line[:120]))]
        between = f", {times[0]} to {times[-1]}" if len(times) > 1 else ""
        return f"Log{path}: {source.lines:,} line{'' if source.lines == 1 else 's'}{self._worst()}{between}"

    def rows(self) -> list[Row]:
        if self._commits:
            return [Row(Rank.PATH, [excerpt(commit, 90)]) for commit in self._commits[1:12]]
        source = self.source
        made: list[Row] = []
        if self._levels:
            parts = [f"{level} {source.about(self._levels[level])}" for level in _SEVEREST if level in self._levels]
            made.append(Row(Rank.NUMBER, parts, "Levels: "))
        made += error_rows(error_lines(source))
        newest = excerpt(_newest(source.sample), ERROR_WIDTH)
        if newest and not any(newest in row.parts for row in made):
            made.append(Row(Rank.PATH, [newest], "Newest: ", 0.4))
        return made

    def _worst(self) -> str:
        errors = sum(self._levels[level] for level in _SEVEREST[: _SEVEREST.index("ERROR") + 1])
        return f", {self.source.about(errors)} error{'' if errors == 1 else 's'}" if errors else ""


def is_log_of_objects(evidence: Evidence) -> bool:
    """Whether each line is a JSON object with a time or a level."""
    objects = len(evidence.lines) > 1 and all(line.startswith("{") for line in evidence.lines[:5])
    return objects and evidence.share(_LOG_LINE) > 0.9


def _newest(lines: Sequence[str]) -> str:
    """Return the last line, or the first if the log is in descending order."""
    first = next((line for line in lines if line.strip()), "")
    last = next((line for line in reversed(lines) if line.strip()), "")
    begun, ended = _DATED.search(first[:120]), _DATED.search(last[:120])
    return first if begun and ended and begun[0] > ended[0] else last


def _levels(lines: Sequence[str]) -> Counter[str]:
    found = (_LEVEL.search(line, 0, 200) for line in lines)
    return Counter((one[1] or one[2] or one[3]).upper() for one in found if one)


def _is_long(lines: Sequence[str]) -> bool:
    return any(_COMMIT.match(line) for line in lines[:3])


def _number_of_commits(text: str) -> int:
    return len(_LATER_COMMIT.findall(text)) + bool(_COMMIT.match(text, 0, 200))


def _commits(lines: Sequence[str]) -> list[str]:
    """Return id and subject of each commit; empty if this is not a commit history."""
    if _is_long(lines):
        return _long_commits(lines)
    found = [_ONE_LINE_COMMIT.match(line) for line in lines if line.strip()]
    commits = [f"{one[1]} {one[2]}" for one in found if one]
    return commits if len(commits) > 0.6 * len(found) else []


def _long_commits(lines: Sequence[str]) -> list[str]:
    commits: list[str] = []
    awaiting = False
    for line in lines:
        if found := _COMMIT.match(line):
            commits.append(found[1][:10])
            awaiting = True
        elif awaiting and line.startswith("    ") and line.strip():
            commits[-1] += " " + line.strip()
            awaiting = False
    return commits
