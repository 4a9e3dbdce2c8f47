"""The files of a project below its root, and which of them are spec artifacts.

Looked at before the MCP server answers: the tools for specs are offered only where there are some. So this module
imports little.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from satchel.errors import InputError
from satchel.model.checks import as_path, repair_surrogates

__all__ = [
    "ADRS",
    "CHANGES",
    "MOST_BYTES",
    "STAGES",
    "Artifact",
    "Place",
    "Reading",
    "Stamp",
    "Tree",
    "artifacts",
    "expected_file",
    "has_artifacts",
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


def has_artifacts(root: str | os.PathLike[str], folder: str) -> bool:
    """Return whether a project has any artifacts, without reading them."""
    tree = Tree(root)
    return bool(artifacts(tree, tree.folder(folder)))


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
