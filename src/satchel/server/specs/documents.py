"""Files of a project as they were read: their text in sections, or why there is none."""

from collections.abc import Sequence
from typing import NamedTuple

from satchel.server.specs.artifacts import CHANGES, Artifact
from satchel.server.specs.sections import Section, is_empty, sections
from satchel.server.specs.tree import MOST_BYTES, Stamp, Tree, shown

__all__ = ["MOST_FILES", "MOST_IN_ALL", "Document", "Library", "Survey", "Unread"]

MOST_FILES = 400
MOST_IN_ALL = 5_000_000
BEYOND = f"beyond the {MOST_FILES} files and {MOST_IN_ALL // 1_000_000} MB that are read at once, not read"


class Document(NamedTuple):
    """One file. It stays the same object as long as the file stays the same."""

    group: str
    """What it belongs to: a stage, `adrs`, `changes/<slug>` or `conventions`."""
    path: str
    """From the root on, as it is shown."""
    text: str = ""
    sections: tuple[Section, ...] = ()
    empty: bool = False
    """Whether there is no more in it than headings and the comments of a template."""
    trouble: str = ""
    """Why it was not read."""

    @property
    def slug(self) -> str:
        """The change it belongs to, if it does."""
        return self.group.removeprefix(f"{CHANGES}/") if self.group.startswith(f"{CHANGES}/") else ""

    @property
    def lines(self) -> int:
        return self.text.count("\n") + (not self.text.endswith("\n")) if self.text else 0


class Unread(NamedTuple):
    """A file or folder that was not read, and why."""

    path: str
    reason: str


class Survey(NamedTuple):
    """All that was found at one moment."""

    documents: tuple[Document, ...] = ()
    unread: tuple[Unread, ...] = ()
    """Folders that could not be looked into, and files that would be too many."""


class Library:
    """Reads files and keeps what it has read until they change."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._held: dict[str, tuple[Stamp, Document]] = {}

    def survey(self, artifacts: Sequence[Artifact]) -> Survey:
        """The files in the order given, as many of them as are read at once."""
        within = _within_limits(artifacts)
        unread = [
            Unread(shown(artifact.place.path), artifact.place.trouble) for artifact in within if not artifact.group
        ]
        if beyond := artifacts[len(within) :]:
            unread.append(Unread(shown(beyond[0].place.path), f"this and {len(beyond) - 1:,} more are {BEYOND}"))
        return Survey(tuple(self._document(artifact) for artifact in within if artifact.group), tuple(unread))

    def _document(self, artifact: Artifact) -> Document:
        place = artifact.place
        held = self._held.get(place.path)
        # What could not be read is tried again: the reason may be gone without a trace in the file.
        if held is None or held[0] != place.stamp or held[1].trouble or held[1].group != artifact.group:
            self._held[place.path] = held = place.stamp, self._read(artifact)
        return held[1]

    def _read(self, artifact: Artifact) -> Document:
        text, trouble = self._tree.read(artifact.place)
        name = shown(artifact.place.path)
        if trouble:
            return Document(artifact.group, name, trouble=trouble)
        found = tuple(sections(text))
        return Document(artifact.group, name, text, found, empty=is_empty(found))


def _within_limits(artifacts: Sequence[Artifact]) -> Sequence[Artifact]:
    size = 0
    for number, (_, place) in enumerate(artifacts):
        size += 0 if place.trouble or place.stamp.size > MOST_BYTES else place.stamp.size
        if number == MOST_FILES or size > MOST_IN_ALL:
            return artifacts[:number]
    return artifacts
