"""A diff: the changed files, with the lines added and removed in each."""

import re
from typing import TYPE_CHECKING, NamedTuple

from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import Evidence, Rank, Row, Shape, Source, excerpt, seam_at
from satchel.session.digests.content import FileContent
from satchel.session.digests.errors import error_rows, tool_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    _Places = NDArray[np.intp]

__all__ = ["Diff"]

SHOWN_FILES = 15

_START = lazy_pattern(
    r"^(?:diff --git |diff -[a-zA-Z]|Index: |--- [^\n]*\n\+\+\+ |@@ -\d+(?:,\d+)? \+\d+)", re.MULTILINE
)
_FILE = lazy_pattern(r"^(?=diff --git |Index: |--- \S)", re.MULTILINE)
_HUNK = lazy_pattern(r"^(?=@@ )", re.MULTILINE)
_NAMES = lazy_pattern(r"diff --git \"?a/(.*?)\"? \"?b/(.*?)\"?$")
_PAIR = lazy_pattern(r"--- ([^\n]*)\n\+\+\+ ([^\n]*)")


class _Changes(NamedTuple):
    """Where each file of a diff begins, and how many lines it adds and removes."""

    files: "_Places"
    added: "_Places"
    removed: "_Places"


class Diff(Shape):
    """Changes to files, as printed by `diff` and `git diff`."""

    name = "diff"
    tool_words = dict.fromkeys(("diff", "patch"), 0)
    prefilter = re.compile(r"diff |Index: |--- |@@ ")
    seams = (seam_at(_FILE), seam_at(_HUNK))

    @classmethod
    def certain(cls, evidence: Evidence) -> type[Shape] | None:
        head = "\n".join(evidence.lines)
        found = _START.search(head)
        # Inside a code fence it is an example in a document.
        if found is None or found.start() >= 2_500 or "```" in head[: found.start()]:
            return None
        return cls if "\n@@ " in head or head[found.start()] in "d@I" or "Binary files" in head else None

    @classmethod
    def suggested(cls, evidence: Evidence) -> type[Shape] | None:
        """A diff tool that prints no diff may print a file."""
        return FileContent.by_lines(evidence)

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._changes = _changes(source)

    def title(self) -> str:
        files, added, removed = self._changes
        number = f"{len(files):,} file{'' if len(files) == 1 else 's'}"
        return f"Diff: {number}, +{added.sum():,} −{removed.sum():,} lines"

    def rows(self) -> list[Row]:
        files, added, removed = self._changes
        largest = (-added - removed).argsort(kind="stable")[:SHOWN_FILES]
        names = [excerpt(_name(self.source.text, int(files[at])), 100) for at in largest]
        parts = [f"{name} (+{added[at]:,} −{removed[at]:,})" for name, at in zip(names, largest, strict=True)]
        made = error_rows(tool_errors(self.source))
        if parts:
            made.append(Row(Rank.PATH, parts, "", 0.9, more=len(files) - len(parts)))
        hunks = [line.rpartition("@@")[2].strip() for line in self.source.sample if line.startswith("@@ ")]
        within = [excerpt(line, 60) for line in dict.fromkeys(hunks[:20]) if line]
        return [*made, Row(Rank.PROSE, within, "Within: ")] if within else made


def _changes(source: Source) -> _Changes:
    import numpy as np

    codes = source.codes
    starts = np.concatenate([np.zeros(1, dtype=np.intp), np.flatnonzero(codes[:-1] == ord("\n")) + 1])
    signs = codes[starts]
    added, removed = signs == ord("+"), signs == ord("-")
    # The two lines that name a file begin like changed lines.
    old = np.zeros(len(starts), dtype=np.bool_)
    old[_beginning(codes, starts, removed, "--- ")] = True
    new = _beginning(codes, starts, added, "+++ ")
    new = new[(new > 0) & old[new - 1]]
    added[new] = removed[new - 1] = False
    files = _beginning(codes, starts, signs == ord("d"), "diff --git ")
    files = files if len(files) else new - 1
    bounds = np.append(files, len(starts))
    totals = [np.append(0, changed.cumsum())[bounds] for changed in (added, removed)]
    return _Changes(starts[files], np.diff(totals[0]), np.diff(totals[1]))


def _beginning(codes: "NDArray[np.uint8]", starts: "_Places", among: "NDArray[np.bool_]", word: str) -> "_Places":
    """Return those of the lines that begin with a word."""
    lines = among.nonzero()[0]
    lines = lines[starts[lines] < len(codes) - len(word)]
    for offset, letter in enumerate(word):
        lines = lines[codes[starts[lines] + offset] == ord(letter)]
    return lines


def _name(text: str, place: int) -> str:
    """Return the path in the `diff --git` line, or in the `---` and `+++` lines."""
    if found := _PAIR.match(text, place):
        chosen = found[1] if found[2].startswith("/dev/null") else found[2]
        return chosen.partition("\t")[0].strip().removeprefix("a/").removeprefix("b/")
    line = text[place : place + 1_000].partition("\n")[0].rstrip()
    if found := _NAMES.match(line):
        return found[2] if found[1] == found[2] else f"{found[1]} → {found[2]}"
    return line.removeprefix("diff --git ")
