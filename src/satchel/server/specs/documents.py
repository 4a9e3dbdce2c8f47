"""The spec documents of a project: reading files inside its root, their sections, and which files are artifacts."""

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from satchel.errors import InputError
from satchel.model.checks import as_path, repair_surrogates

__all__ = [
    "ADRS",
    "CHANGES",
    "CONVENTIONS",
    "MOST_BYTES",
    "MOST_FILES",
    "MOST_IN_ALL",
    "STAGES",
    "Artifact",
    "Document",
    "Heading",
    "Library",
    "Place",
    "Reading",
    "Section",
    "Stamp",
    "Survey",
    "Tree",
    "Unread",
    "artifacts",
    "conventions",
    "expected_file",
    "headings",
    "is_empty",
    "sections",
    "shown",
    "stage_named",
]


MOST_BYTES = 1_000_000
OUTSIDE = "outside the project, not read"

_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


class Stamp(NamedTuple):
    """Identifies a version of a file; it changes when the file changes."""

    modified_ns: int
    changed_ns: int
    size: int


class Place(NamedTuple):
    """A file or folder of the project; if it is not read, `read_error` says why."""

    path: str
    """Relative to the root, with slashes, as in the file system."""
    real: str = ""
    stamp: Stamp = Stamp(0, 0, 0)
    is_folder: bool = False
    read_error: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Reading(NamedTuple):
    """The text of a file with plain newlines, or the reason why it was not read."""

    text: str
    read_error: str = ""


class Tree:
    """The files below a root. Symbolic links inside the root are followed; those that leave it are reported."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        given = as_path(root)
        self.root = Path(os.path.realpath(given))
        try:
            is_folder = self.root.is_dir()
        except OSError:
            is_folder = False
        if not is_folder:
            raise InputError(f"the project root {given!r} is not a folder")

    def folder(self, given: str) -> str:
        """Check the path of a folder inside the project, which need not exist, and return it."""
        path = as_path(given)
        # Reject the path syntax of all systems, so that the same input behaves the same everywhere.
        written = PureWindowsPath(path)
        if written.anchor or ".." in written.parts or not self._holds(os.path.realpath(self.root / path)):
            raise InputError(f"the folder {path!r} is not inside the project; give one that is, such as docs")
        return "/".join(PurePosixPath(path).parts)

    def look(self, path: str) -> Place | None:
        """Return what is at a path; None if nothing is, or only a broken link."""
        real = os.path.realpath(self.root / path)
        if not self._holds(real):
            return Place(path, read_error=OUTSIDE)
        try:
            found = os.lstat(real)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Place(path, read_error=_reason(error))
        stamp = Stamp(found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        if stat.S_ISDIR(found.st_mode):
            return Place(path, real, stamp, is_folder=True)
        read_error = "" if stat.S_ISREG(found.st_mode) else "not a regular file, not read"
        return Place(path, real, stamp, read_error=read_error)

    def children(self, folder: Place, wanted: Callable[[str], bool]) -> list[Place]:
        """Return the wanted children of a folder, sorted; if it cannot be listed, the folder with its error."""
        if not folder.is_folder:
            return [folder._replace(read_error=folder.read_error or "not a folder, not read")]
        try:
            names = [child.name for child in Path(folder.real).iterdir()]
        except OSError as error:
            return [folder._replace(read_error=_reason(error))]
        prefix = f"{folder.path}/" if folder.path else ""
        looked_at = (self.look(prefix + name) for name in sorted(names) if wanted(name))
        return [place for place in looked_at if place is not None]

    def read(self, place: Place) -> Reading:
        """Read the current text of a file."""
        if place.is_folder:
            return Reading("", "a folder, not read")
        if place.read_error or place.stamp.size > MOST_BYTES:
            return Reading("", place.read_error or _too_large(place.stamp.size))
        try:
            content = _bytes(place.real)
        except OSError as error:
            return Reading("", _reason(error))
        if content is None:
            return Reading("", "not a regular file, not read")
        if len(content) > MOST_BYTES:
            return Reading("", _too_large(len(content)))
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return Reading("", "not UTF-8, not read")
        return Reading(text.replace("\r\n", "\n").replace("\r", "\n"))

    def _holds(self, real: str) -> bool:
        return Path(real).is_relative_to(self.root)


def shown(path: str) -> str:
    """Format a path on one line, whatever characters it has; the root is a dot."""
    from satchel.model.invisible import visible

    return " ".join(visible(repair_surrogates(path)).split()) or "."


def _bytes(real: str) -> bytes | None:
    """Read a regular file up to the size limit plus one byte; None if it is no longer a regular file."""
    with open(os.open(real, _FLAGS), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        return file.read(MOST_BYTES + 1)


def _too_large(size: int) -> str:
    return f"too large: {size / 1e6:.1f} MB, not read"


def _reason(error: OSError) -> str:
    return f"{(error.strerror or type(error).__name__).lower()}, not read"


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


# Spec artifacts: stages, architecture decisions, changes


_ARTIFACT_FILES = {
    "principles": "principles.md",
    "charter": "charter.md",
    "specify": "requirements.md",
    "business-rules": "business-rules.md",
    "clarify": "clarifications.md",
    "design": "design.md",
    "tasks": "tasks.md",
    "validate": "validation.md",
}
STAGES: tuple[str, ...] = tuple(_ARTIFACT_FILES)
_STAGE_OF = {file: stage for stage, file in _ARTIFACT_FILES.items()} | {f"{stage}.md": stage for stage in STAGES}

ADRS = "adrs"
CHANGES = "changes"
_ADR_FOLDERS = (ADRS, "adr")


class Artifact(NamedTuple):
    """A file and its group: a stage, `adrs` or `changes/<slug>`; empty for a folder that cannot be read."""

    group: str
    place: Place


def expected_file(stage: str) -> str:
    """Return the usual file name of a stage."""
    return _ARTIFACT_FILES[stage]


def stage_named(name: str) -> str | None:
    """Return the stage with this name or file name."""
    return _STAGE_OF.get(f"{name.strip().lower()}.md")


def artifacts(tree: Tree, folder: str) -> list[Artifact]:
    """Return all artifacts, each once: stages in order, decisions by name, changes newest first."""
    docs = tree.look(folder)
    if docs is None:
        return []
    listed = tree.children(docs, lambda name: _group(name) is not None)
    if listed and listed[0].path == docs.path:
        return [Artifact("", listed[0])]
    found: dict[str, Artifact] = {}
    for artifact in (*_stages(listed), *_decisions(tree, listed), *_changes(tree, listed)):
        found.setdefault(artifact.place.real or artifact.place.path, artifact)
    return list(found.values())


def _group(name: str) -> str | None:
    lowered = name.lower()
    if lowered in _ADR_FOLDERS:
        return ADRS
    return CHANGES if lowered == CHANGES else _STAGE_OF.get(lowered)


def _stages(listed: list[Place]) -> list[Artifact]:
    found = [Artifact(stage, place) for place in listed if (stage := _group(place.name)) in STAGES]
    return sorted(found, key=lambda artifact: STAGES.index(artifact.group))


def _decisions(tree: Tree, listed: list[Place]) -> Iterator[Artifact]:
    for folder in listed:
        if _group(folder.name) == ADRS:
            yield from _files(tree, folder, ADRS)


def _changes(tree: Tree, listed: list[Place]) -> Iterator[Artifact]:
    changes: list[list[Artifact]] = []
    for folder in listed:
        if _group(folder.name) == CHANGES:
            for place in tree.children(folder, lambda name: not name.startswith(".")):
                if place.is_folder and place.path != folder.path:
                    changes.append(_files(tree, place, f"{CHANGES}/{place.name}"))
                elif place.read_error:
                    yield Artifact("", place)
    for files in sorted(
        filter(None, changes), key=lambda files: -max(each.place.stamp.modified_ns for each in files)
    ):
        yield from files


def _files(tree: Tree, folder: Place, group: str) -> list[Artifact]:
    listed = tree.children(folder, lambda name: name.lower().endswith(".md") and not name.startswith("."))
    return [Artifact("" if place.path == folder.path else group, place) for place in listed]


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
