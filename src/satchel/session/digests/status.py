"""A status: the branch, and paths by state."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import ClassVar

from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import Evidence, Rank, Row, Shape, Source, excerpt
from satchel.session.digests.errors import error_lines, error_rows, tool_errors

__all__ = ["Status"]

SHOWN_PATHS = 20
SHOWN_LINES = 15

_HEAD = lazy_pattern(
    r"(?:On branch |HEAD detached |Not currently on any branch|nothing to commit|Changes to be committed:"
    r"|Changes not staged for commit:|Untracked files:|Unmerged paths:|Your branch is )"
)
_PORCELAIN_LINE = lazy_pattern(r"(?:(?! {3})[ MADRCUT?!]{2} \S|## \S|[12u] [.MADRCU]{2} |# branch\.)")
_BRANCH = lazy_pattern(
    r"(?:On branch |HEAD detached (?:at|from) |## (?:No commits yet on |Initial commit on )?|# branch\.head )(\S+)"
)
_AHEAD = lazy_pattern(r"\b(?:ahead|behind)\b[^\]\n]*?\d+(?: commits?)?|have diverged|up to date")
_PORCELAIN = lazy_pattern(r"(?! {2})([ MADRCUT?!]{2}) (\S.*)")
_ENTRY = lazy_pattern(
    r"\t(?:(new file|modified|deleted|renamed|copied|typechange|both \w+|added by \w+|deleted by \w+):\s+)?(\S.*)"
)
_SECTIONS = {
    "Changes to be committed": "staged",
    "Changes not staged": "not staged",
    "Untracked files": "untracked",
    "Unmerged paths": "conflicts",
    "Ignored files": "ignored",
}
_STATES = {"?": "untracked", "!": "ignored", "U": "conflicts"}
_FACT = lazy_pattern(r"\s*[\w .()/-]{2,40}[:=]\s*\S")


class Status(Shape):
    """The status of a git working copy, or the output of a tool with `status` in its name."""

    name = "status"
    tool_words: ClassVar[Mapping[str, int]] = {"status": 1}
    prefilter = re.compile(f"{_HEAD.pattern}|{_PORCELAIN_LINE.pattern}")

    @classmethod
    def certain(cls, evidence: Evidence) -> type[Shape] | None:
        begins = any(_HEAD.match(line) for line in evidence.lines[:3])
        return cls if begins or evidence.share(_PORCELAIN_LINE) > 0.95 else None

    @classmethod
    def suggested(cls, evidence: Evidence) -> type[Shape] | None:
        return cls if len(evidence.lines) <= 60 else None

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._paths = _paths(source.sample)

    def title(self) -> str:
        source = self.source
        branch, distance = _branch(source.sample)
        facts = [excerpt(distance, 60)] if distance else []
        facts += [f"{source.about(len(paths))} {state}" for state, paths in self._paths.items()]
        if any(line.startswith("nothing to commit") for line in source.sample):
            facts.append("nothing to commit")
        place = f" of {excerpt(branch, 80)}" if branch else ""
        return f"Status{place}: {', '.join(facts) or f'{source.lines:,} lines'}"

    def rows(self) -> list[Row]:
        source = self.source
        # Among paths, a word such as `error` is usually part of a file name.
        made = error_rows(tool_errors(source) if self._paths else error_lines(source))
        # Rarest state first: two conflicts matter more than a thousand new files.
        for state, paths in sorted(self._paths.items(), key=lambda one: len(one[1])):
            parts = [excerpt(path, 90) for path in paths[:SHOWN_PATHS]]
            more = max(0, len(paths) - SHOWN_PATHS)
            made.append(Row(Rank.PATH, parts, f"{state.capitalize()}: ", 0.5, more=more, exact=source.whole))
        if not self._paths:
            filled = [line for line in source.sample if line.strip() and not _BRANCH.match(line)]
            made += [Row(_rank(line), [excerpt(line, 100)]) for line in filled[:SHOWN_LINES]]
        return made


def _rank(line: str) -> Rank:
    return Rank.NUMBER if _FACT.match(line) else Rank.PROSE


def _branch(lines: Sequence[str]) -> tuple[str, str]:
    """Return the branch, and how far it is ahead of or behind its upstream."""
    branches = [found[1].partition("...")[0] for line in lines[:5] if (found := _BRANCH.match(line))]
    distances = [found[0] for line in lines[:5] if (found := _AHEAD.search(line))]
    return next(iter(branches), ""), next(iter(distances), "")


def _paths(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the paths by state, in the order of the text."""
    states: defaultdict[str, list[str]] = defaultdict(list)
    section = ""
    for line in lines:
        section = next((state for start, state in _SECTIONS.items() if line.startswith(start)), section)
        if section:
            if found := _ENTRY.match(line):
                states[section].append(found[2] if found[1] in (None, "modified") else f"{found[2]} ({found[1]})")
        elif found := _PORCELAIN.match(line):
            states[_state(found[1])].append(found[2])
    return dict(states)


def _state(code: str) -> str:
    if code in ("AA", "DD"):
        return "conflicts"
    for sign, state in _STATES.items():
        if sign in code:
            return state
    return "not staged" if code[0] == " " else "staged"
