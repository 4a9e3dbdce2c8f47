"""The sections of a markdown text, by its headings."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Heading", "Section", "headings", "is_empty", "sections"]

DEEPEST = 3
LONGEST_TITLE = 120

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|--+)[ \t]*$")
_FENCE = re.compile(r" {0,12}(`{3,}|~{3,})")
_NO_PARAGRAPH = re.compile(r"\s|[-*+>|]|\d+[.)]\s|<!--")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


class Heading(NamedTuple):
    """A heading of the first three levels, on the lines from `line` until before `below`, counted from 1."""

    line: int
    below: int
    level: int
    title: str


class Section(NamedTuple):
    """What stands from one heading to the next; the lines before the first heading have no titles."""

    line: int
    last_line: int
    titles: tuple[str, ...]
    """The heading and those it stands under, outermost first."""
    text: str
    """As it is written, with its heading."""
    body: str
    """What stands below the heading."""

    @property
    def label(self) -> str:
        return " > ".join(self.titles)

    @property
    def bare(self) -> bool:
        """Whether nothing but comments stands below the heading, or nothing but front matter at the top."""
        lines = self.body.split("\n") if self.line == 1 and not self.titles else []
        told = "\n".join(lines[_front_matter(lines) :]) if lines else self.body
        return not _COMMENT.sub("", told).strip()


def headings(text: str) -> list[Heading]:
    """The headings of the first three levels; none of front matter, fenced code or comments."""
    found: list[Heading] = []
    lines = text.split("\n")
    # A line that can be a heading by what stands below it: the only one of its paragraph.
    alone: str | None = None
    for number, line in _prose(lines):
        paragraph, alone = alone, None
        if mark := _HEADING.match(line):
            found.append(Heading(number, number + 1, len(mark[1]), _title(line[mark.end() :])))
        elif paragraph is not None and (rule := _UNDERLINE.match(line)):
            found.append(Heading(number - 1, number + 1, 1 if rule[1][0] == "=" else 2, _title(paragraph)))
        elif not line.strip() or _NO_PARAGRAPH.match(line) or not _begins(lines, number, found):
            continue
        else:
            alone = line
    return [heading for heading in found if heading.level <= DEEPEST]


def sections(text: str) -> list[Section]:
    """All of a text that is not blank, cut before its headings."""
    lines = text.split("\n")
    found = []
    titles: list[tuple[int, str]] = []
    start = Heading(1, 1, 0, "")
    end = Heading(len(lines) + 1, len(lines) + 1, 0, "")
    for heading, following in pairwise([start, *headings(text), end]):
        titles = [outer for outer in titles if outer[0] < heading.level]
        titles += [(heading.level, heading.title)] if heading.title else []
        written = "\n".join(lines[heading.line - 1 : following.line - 1]).rstrip()
        if written:
            found.append(
                Section(
                    heading.line,
                    heading.line + written.count("\n"),
                    tuple(title for _, title in titles),
                    written,
                    "\n".join(lines[heading.below - 1 : following.line - 1]).strip("\n").rstrip(),
                )
            )
    return found


def is_empty(found: Sequence[Section]) -> bool:
    """Whether there is nothing but headings, front matter and comments, as templates have them."""
    return all(section.bare for section in found)


def _prose(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The numbered lines in which headings can stand; one that cannot is blank."""
    front = _front_matter(lines)
    fence = ""
    comment = False
    for number, line in enumerate(lines, start=1):
        if number <= front:
            continue
        if fence:
            closing = line.strip()
            if closing.startswith(fence) and not closing.strip(fence[0]):
                fence = ""
            yield number, ""
        elif comment:
            comment = "-->" not in line
            yield number, ""
        elif opening := _FENCE.match(line):
            # With another backtick behind it, it is code within a line.
            fence = "" if opening[1][0] == "`" and "`" in line[opening.end() :] else opening[1]
            yield number, ""
        else:
            comment = line.lstrip().startswith("<!--") and "-->" not in line
            yield number, "" if comment else line


def _front_matter(lines: Sequence[str]) -> int:
    """How many lines of metadata stand above the text."""
    # Without a name and a value below it, it is a rule across the page.
    if lines[0].rstrip() != "---" or ":" not in "".join(lines[1:2]):
        return 0
    return next((number for number, line in enumerate(lines[1:], 2) if line.rstrip() in ("---", "...")), 0)


def _begins(lines: Sequence[str], number: int, found: Sequence[Heading]) -> bool:
    """Whether a paragraph begins with this line."""
    return number == 1 or not lines[number - 2].strip() or bool(found and found[-1].below == number)


def _title(written: str) -> str:
    title = written.strip()
    unclosed = title.rstrip("#")
    if unclosed != title and unclosed[-1:] in ("", " ", "\t"):
        title = unclosed.rstrip()
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1].rstrip() + "…"
