"""What a tool's output is: a list of files, search matches, a file, a diff, a log, a status, JSON, or any text."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from satchel.session.digests.base import sample

__all__ = ["CODE", "HEADING", "LEVEL", "LISTED", "LOG_LINE", "MATCH", "NUMBERED", "SECTION", "Shape", "shape_of"]

Shape = Literal["files", "matches", "file", "diff", "log", "status", "json", "text"]

MATCH = re.compile(r"((?:[A-Za-z]:[\\/])?[^\s:][^:\n]{0,400}?):(\d+)(?::\d+)?(?:[:-]|$)")
"""A line of a search: `path:12: text`, `path:12:5:text`."""

CONTEXT = re.compile(r"([^\s:][^:\n]{0,400}?)-(\d+)-")
NUMBERED_MATCH = re.compile(r"(\d+)[:-]")

NUMBERED = re.compile(r"\s{0,8}(\d{1,7})(?:\t|→|: | ?\| ?)")
"""The number before a line of a file, as `cat -n` and the like write it."""

HEADING = re.compile(r"#{1,6} +\S")
"""A heading of markdown."""

SECTION = re.compile(r"\[{1,2}[A-Za-z][\w .\"'/:-]*\]{1,2}\s*")
"""The line that begins a section of a configuration."""

_DEFINING = (
    r"(?:def|class|function\*?|fn|func|fun|struct|enum|trait|impl|interface|type|module|namespace|object|macro_rules!|"
    r"#\s*define|defun|defn|defmodule|sub|proc|record|protocol|extension|CREATE\s+(?:TABLE|VIEW|INDEX|FUNCTION))\s+"
)
CODE = re.compile(
    r"\s*(?P<defined>(?:(?:export|default|pub(?:\([a-z]+\))?|public|private|protected|internal|static|final|abstract|"
    r"async|unsafe|extern|inline|override|sealed|partial|open|data)\s+)*"
    rf"{_DEFINING}(?=[A-Za-z_\"`(*<\[])(?:\([^)]*\)\s*)?[^\s:({{;=,]*)"
)
"""A line that defines something in a program, and what of it names that."""

LEVEL = re.compile(
    r"(?<![\w-])(?:(TRACE|DEBUG|INFO|NOTICE|WARN|ERROR|CRITICAL|FATAL|PANIC|SEVERE)(?:ING)?(?![\w-])"
    r"|(?:\"?(?:level|lvl|severity)\"?\s*[=:]\s*\"?)(trace|debug|info|notice|warn|error|critical|fatal|panic)"
    r"|(trace|debug|info|notice|warn|error|critical|fatal|panic)(?:ing)?\s*[\]:])",
    re.IGNORECASE,
)
"""The level of a line of a log, in one of the three groups."""

LISTED = re.compile(
    r"[-dlbcps][-rwxsStT]{9}[.+@]?\s+(?:\d+\s+)?(?P<long>\S.*)"
    r"|(?:[│\s]|\|(?!--))*+[├└|`](?:──|--)\s?(?P<tree>\S.*)"
    r"|\[(?:FILE|DIR)\]\s+(?P<marked>\S.*)"
)
"""A line of `ls -l`, of `tree`, or one that is marked as a file or a folder."""

_STAMP = (
    r"\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d|\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:\d\d"
    r"|[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d"
    r"|\d\d:\d\d:\d\d(?:[.,]\d+)?(?!\d)|1[5-9]\d{8}(?:\.\d+|\d{3})?\s|\s*\d+\.\d{6}\]"
)
LOG_LINE = re.compile(
    rf"[\[(<]?(?:{_STAMP})|\S{{3,60}} \S+ \S+ \[(?:{_STAMP})"
    r"|[\[(<]?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)[\])>]?(?:[\s:|-]|$)"
    r"|[\[(<](?:trace|debug|info|notice|warn(?:ing)?|error|critical|fatal)[\])>]"
    r"|(?:ts|time|timestamp|level)=\S"
    r"|\{.{0,400}\"(?:level|lvl|severity|levelname|ts|time|timestamp|@timestamp)\"\s*:"
)
"""A line of a log: it begins with a time or a level, or is a JSON object that has one."""

_COMPILER = re.compile(r"\S[^:\n]*:\d+(?::\d+)?: (?:fatal )?(?:error|warning|note)\b")
_DIFF = re.compile(
    r"^(?:diff --git |diff -[a-zA-Z]|Index: |--- [^\n]*\n\+\+\+ |@@ -\d+(?:,\d+)? \+\d+)", re.MULTILINE
)
_COMMIT = re.compile(r"[*|/\\ ]*commit [0-9a-f]{7,64}\b")
_ONE_LINE_COMMIT = re.compile(r"[*|/\\ _]*(?=[0-9a-f]*\d)[0-9a-f]{7,40} (?:\([^)]+\) )?\S")
_STATUS = re.compile(
    r"(?:On branch |HEAD detached |Not currently on any branch|nothing to commit|Changes to be committed:"
    r"|Changes not staged for commit:|Untracked files:|Unmerged paths:|Your branch is )"
)
_PORCELAIN = re.compile(r"(?:(?! {3})[ MADRCUT?!]{2} \S|## \S|[12u] [.MADRCU]{2} |# branch\.)")
_JSON_START = re.compile(
    r"\s*(?:\{\s*(?:\"(?:[^\"\\]|\\.){0,500}\"\s*:|\})"
    r"|\[\s*(?:[\]\[]|\{\s*[\"}]|\"(?:[^\"\\]|\\.){0,2000}(?:\"\s*[,\]]|\Z)|(?:-?\d[\d.eE+-]*|true|false|null)\s*[,\]]))"
)
_PATH_LINE = re.compile(r"(?:\.{0,2}/|~/|[A-Za-z]:[\\/])?[^\s:;{}<>\"'|*?=][^:;{}<>\"'|*?=\n]{0,300}")
_EXTENSION = re.compile(r"\.[A-Za-z0-9_]{1,10}$")
_SENTENCE = re.compile(r"[a-z]{2,}[,.]? [a-z]{2,} [a-z]{2,}|[.!?]$")
_STATEMENT = re.compile(
    r"\s*(?:import |from \S+ import |#include|use |using |package |return\b|if\b.*[:{]$|for\b.*[:{]$|else\b|elif "
    r"|while\b|const |let |var |val |@\w+|\}|\)|</?\w|[\w.\[\]\"']+ ?[-+:*|]?= ?\S)|.*[;{}]$|.*\)[:,]?$"
)
_SETTING = re.compile(r"[\w.\"-]+\s*=")
_MARKUP = re.compile(r"(?:#!\s*/|<\?xml|<!DOCTYPE|<html|---$)", re.IGNORECASE)
_MARKDOWN = re.compile(r"(?:\s*[-*+] \S|\s*\d+[.)] \S|```|~~~|> |\|.*\|$|\[[^\]]+\]\()")

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_HINTS: tuple[tuple[Shape, frozenset[str]], ...] = (
    ("diff", frozenset({"diff", "patch"})),
    ("status", frozenset({"status"})),
    ("log", frozenset({"log", "logs", "journal", "journalctl", "dmesg"})),
    ("file", frozenset({"read", "cat", "view", "open", "contents"})),
    ("matches", frozenset({"grep", "rg", "ripgrep", "search", "ag", "ack"})),
    ("files", frozenset({"list", "glob", "ls", "find", "tree", "files", "dir", "directory", "folder"})),
    ("file", frozenset({"file"})),
)


def shape_of(text: str, *, tool: str | None = None) -> Shape:
    """The shape of a tool's output: what its text shows plainly, else what the tool's name lets expect."""
    seen = sample(text, whole=6_000, head=3_000, windows=3, window=700).lines
    lines = [line for line in seen if line and not line.isspace()]
    if not lines:
        return "text"
    hint = _hint(tool)
    return _plain_shape(text, lines) or _likely_shape(lines, hint) or _hinted_shape(lines, hint) or "text"


def _plain_shape(text: str, lines: Sequence[str]) -> Shape | None:
    """By marks that hardly anything else has."""
    if _is_json(text, lines):
        return "log" if len(lines) > 1 and _share(LOG_LINE, lines) > 0.9 and _are_objects(lines) else "json"
    head = "\n".join(lines)
    if (
        (found := _DIFF.search(head))
        and "```" not in head[: found.start()]
        and (found.start() < 2_500 and ("\n@@ " in head or head[found.start()] in "d@I" or "Binary files" in head))
    ):
        return "diff"
    if _COMMIT.match(lines[0]) or (len(lines) > 1 and _share(_ONE_LINE_COMMIT, lines) > 0.8):
        return "log"
    if any(_STATUS.match(line) for line in lines[:3]) or _share(_PORCELAIN, lines) > 0.95:
        return "status"
    if _share(LISTED, lines) > 0.6:
        return "files"
    return "file" if _counts_up(lines) else None


def _likely_shape(lines: Sequence[str], hint: Shape | None) -> Shape | None:
    """By what most lines look like."""
    logged = _share(LOG_LINE, lines)
    if logged > 0.5 or (logged > 0.2 and LOG_LINE.match(lines[0]) and hint != "file"):
        return "log"
    matched = [line for line in lines if line != "--"]
    found = sum(1 for line in matched if _is_match(line))
    if found and found > 0.5 * len(matched):
        compiler = sum(1 for line in matched if _COMPILER.match(line))
        return "log" if hint != "matches" and compiler > 0.3 * found else "matches"
    if _has_heading_form(matched):
        return "matches"
    if hint != "file" and _share_of_paths(lines) > 0.8:
        return "files"
    if hint is None and _is_file(lines):
        return "file"
    return None


def _hinted_shape(lines: Sequence[str], hint: Shape | None) -> Shape | None:
    """What the tool's name says, where the text does not speak against it."""
    if hint == "files":
        prose = sum(1 for line in lines if len(line) > 250 or _SENTENCE.search(line))
        return "files" if prose < 0.3 * len(lines) else None
    if hint == "matches":
        return "matches" if any(_is_match(line) for line in lines) else None
    if hint == "status":
        return "status" if len(lines) <= 60 else None
    if hint == "log":
        return "log" if len(lines) > 1 else None
    if hint == "file":
        return "file"
    return "file" if _is_file(lines) else None


def _hint(tool: str | None) -> Shape | None:
    words = {word.lower() for word in _WORDS.findall(tool or "")}
    return next((shape for shape, known in _HINTS if words & known), None)


def _is_json(text: str, lines: Sequence[str]) -> bool:
    if not _JSON_START.match(text, 0, 4_000):
        return False
    if text[:200].lstrip().startswith("{") or len(text) > 64_000:
        return True
    try:
        msgspec.json.decode(text.encode("utf-8", "replace"))
    except msgspec.DecodeError:
        # Cut off in the middle, if it is JSON at all: what it began with stays open.
        return lines[0].rstrip().endswith(("[", "{", ",")) or len(lines) == 1
    except RecursionError:
        return True
    return True


def _are_objects(lines: Sequence[str]) -> bool:
    return all(line.startswith("{") for line in lines[:5])


def _counts_up(lines: Sequence[str]) -> bool:
    numbers = [int(found[1]) for line in lines[:12] if (found := NUMBERED.match(line))]
    return (
        len(numbers) > 1
        and len(numbers) >= 0.8 * min(len(lines), 12)
        and all(0 < later - earlier < 4 for earlier, later in pairwise(numbers))
        and sum(later - earlier == 1 for earlier, later in pairwise(numbers)) > 0.7 * (len(numbers) - 1)
    )


def _is_match(line: str) -> bool:
    found = MATCH.match(line) or CONTEXT.match(line)
    # A sentence may hold a time or a ratio; a path has no blanks, or a slash or a dot as well.
    return found is not None and (" " not in found[1] or "/" in found[1] or bool(_EXTENSION.search(found[1])))


def _has_heading_form(lines: Sequence[str]) -> bool:
    """`path`, and below it `12:text` for each match in that file."""
    numbered = sum(1 for line in lines if NUMBERED_MATCH.match(line))
    if numbered < 0.4 * len(lines) or NUMBERED_MATCH.match(lines[0]):
        return False
    return _is_path(lines[0]) and numbered + sum(1 for line in lines if _is_path(line)) > 0.9 * len(lines)


def _is_path(line: str) -> bool:
    found = _PATH_LINE.fullmatch(line.rstrip())
    return found is not None and (
        (" " not in line.rstrip() and ("/" in line or "\\" in line))
        or (bool(_EXTENSION.search(line.rstrip())) and line.count(" ") < 4 and not line.rstrip().endswith("."))
    )


def _share_of_paths(lines: Sequence[str]) -> float:
    return sum(1 for line in lines if _is_path(line)) / len(lines) if len(lines) > 1 else 0.0


def _is_file(lines: Sequence[str]) -> bool:
    if _MARKUP.match(lines[0]):
        return True
    if sum(1 for line in lines if HEADING.match(line)) and (
        sum(1 for line in lines if HEADING.match(line) or _MARKDOWN.match(line)) >= max(2, 0.15 * len(lines))
    ):
        return True
    if any(SECTION.fullmatch(line) for line in lines) and _share(_SETTING, lines) > 0.3:
        return True
    return len(lines) > 2 and any(CODE.match(line) for line in lines) and _share(_STATEMENT, lines) > 0.4


def _share(pattern: re.Pattern[str], lines: Sequence[str]) -> float:
    return sum(1 for line in lines if pattern.match(line)) / len(lines)
