"""The spec documents of a project: their sections, and the convention files beside them."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from satchel.server.specs.tree import CHANGES, MOST_BYTES, Artifact, Place, Stamp, Tree, shown

__all__ = [
    "CONVENTIONS",
    "MOST_FILES",
    "MOST_IN_ALL",
    "Document",
    "Heading",
    "Library",
    "Section",
    "Survey",
    "Unread",
    "conventions",
    "headings",
    "is_empty",
    "sections",
]


# Sections of a Markdown text


DEEPEST = 3
LONGEST_TITLE = 120

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|--+)[ \t]*$")
_FENCE = re.compile(r" {0,12}(`{3,}|~{3,})")
_NO_PARAGRAPH = re.compile(r"\s|[-*+>|]|\d+[.)]\s|<!--")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


class Heading(NamedTuple):
    """A heading of level 1 to 3, on the lines from `line` to before `below`, counted from 1."""

    line: int
    below: int
    level: int
    title: str


class Section(NamedTuple):
    """The text from one heading to the next; text before the first heading has no titles."""

    line: int
    last_line: int
    titles: tuple[str, ...]
    """The heading and its parent headings, outermost first."""
    text: str
    """The original text, with its heading."""
    body: str
    """The text below the heading."""

    @property
    def label(self) -> str:
        return " > ".join(self.titles)

    @property
    def bare(self) -> bool:
        """Whether there are only comments below the heading, or only front matter at the top."""
        lines = self.body.split("\n") if self.line == 1 and not self.titles else []
        told = "\n".join(lines[_front_matter(lines) :]) if lines else self.body
        return not _COMMENT.sub("", told).strip()


def headings(text: str) -> list[Heading]:
    """Return the headings of level 1 to 3, ignoring front matter, fenced code and comments."""
    found: list[Heading] = []
    lines = text.split("\n")
    # The line that becomes a heading if it is underlined: the only line of its paragraph.
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
    """Split a text before its headings, without blank parts."""
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
    """Whether there are only headings, front matter and comments, as in a template."""
    return all(section.bare for section in found)


def _prose(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that can be headings; other lines are replaced by blank ones."""
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
            # Another backtick in the info string means inline code, not a fence.
            fence = "" if opening[1][0] == "`" and "`" in line[opening.end() :] else opening[1]
            yield number, ""
        else:
            comment = line.lstrip().startswith("<!--") and "-->" not in line
            yield number, "" if comment else line


def _front_matter(lines: Sequence[str]) -> int:
    """Return the number of front matter lines at the top."""
    # Without a key and a value below it, the line is a thematic break.
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


# Files with their text in sections, or the reason why they were not read


MOST_FILES = 400
MOST_IN_ALL = 5_000_000
BEYOND = f"beyond the {MOST_FILES} files and {MOST_IN_ALL // 1_000_000} MB that are read at once, not read"


class Document(NamedTuple):
    """One file. The object stays the same while the file is unchanged."""

    group: str
    """The group: a stage, `adrs`, `changes/<slug>` or `conventions`."""
    path: str
    """Relative to the root, in display form."""
    text: str = ""
    sections: tuple[Section, ...] = ()
    empty: bool = False
    """Whether it contains only headings and template comments."""
    read_error: str = ""
    """Why it was not read."""

    @property
    def slug(self) -> str:
        """The change it belongs to, or empty."""
        return self.group.removeprefix(f"{CHANGES}/") if self.group.startswith(f"{CHANGES}/") else ""

    @property
    def lines(self) -> int:
        return self.text.count("\n") + (not self.text.endswith("\n")) if self.text else 0


class Unread(NamedTuple):
    """A file or folder that was not read, and why."""

    path: str
    reason: str


class Survey(NamedTuple):
    """All documents found at one moment."""

    documents: tuple[Document, ...] = ()
    unread: tuple[Unread, ...] = ()
    """Folders that cannot be listed, and files beyond the limits."""


class Library:
    """Reads files and caches them until they change."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._held: dict[str, tuple[Stamp, Document]] = {}

    def survey(self, artifacts: Sequence[Artifact]) -> Survey:
        """Read the files in the given order, up to the limits."""
        within = _within_limits(artifacts)
        unread = [
            Unread(shown(artifact.place.path), artifact.place.read_error)
            for artifact in within
            if not artifact.group
        ]
        if beyond := artifacts[len(within) :]:
            unread.append(Unread(shown(beyond[0].place.path), f"this and {len(beyond) - 1:,} more are {BEYOND}"))
        return Survey(tuple(self._document(artifact) for artifact in within if artifact.group), tuple(unread))

    def _document(self, artifact: Artifact) -> Document:
        place = artifact.place
        held = self._held.get(place.path)
        # Files that could not be read are tried again: the cause may go away without a change of the file.
        if held is None or held[0] != place.stamp or held[1].read_error or held[1].group != artifact.group:
            self._held[place.path] = held = place.stamp, self._read(artifact)
        return held[1]

    def _read(self, artifact: Artifact) -> Document:
        text, read_error = self._tree.read(artifact.place)
        name = shown(artifact.place.path)
        if read_error:
            return Document(artifact.group, name, read_error=read_error)
        found = tuple(sections(text))
        return Document(artifact.group, name, text, found, empty=is_empty(found))


def _within_limits(artifacts: Sequence[Artifact]) -> Sequence[Artifact]:
    size = 0
    for number, (_, place) in enumerate(artifacts):
        size += 0 if place.read_error or place.stamp.size > MOST_BYTES else place.stamp.size
        if number == MOST_FILES or size > MOST_IN_ALL:
            return artifacts[:number]
    return artifacts


# Convention files: instructions for working on the project, with or without specs


CONVENTIONS = "conventions"

_CONVENTION_FILES = ("claude.md", "agents.md", "readme.md", "contributing.md")
_RULES = ".cursor/rules"


def conventions(tree: Tree) -> list[Artifact]:
    """Return the existing ones, each once, those for agents before those for people."""
    root = tree.look("")
    if root is None:
        return []
    listed = tree.children(root, lambda name: name.lower() in _CONVENTION_FILES)
    listed.sort(key=lambda place: _CONVENTION_FILES.index(place.name.lower()) if place.path else 0)
    found: dict[str, Artifact] = {}
    for place in (*listed, *_rules(tree)):
        # A folder that cannot be listed contributes no files.
        group = "" if place.is_folder and place.read_error else CONVENTIONS
        found.setdefault(place.real or place.path, Artifact(group, place))
    return list(found.values())


def _rules(tree: Tree) -> list[Place]:
    rules = tree.look(_RULES)
    if rules is None:
        return []
    return tree.children(rules, lambda name: name.lower().endswith((".md", ".mdc"))) if rules.is_folder else [rules]
