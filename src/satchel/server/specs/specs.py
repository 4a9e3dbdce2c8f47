"""`Specs`: the spec artifacts of one project."""

import os
from collections.abc import Sequence

from satchel.server.specs.artifacts import artifacts
from satchel.server.specs.conventions import conventions
from satchel.server.specs.documents import Document, Library, Survey
from satchel.server.specs.section_index import FoundSection, SectionIndex
from satchel.server.specs.tree import Tree

__all__ = ["Specs"]


class Specs:
    """Reads what a project's folder of specs holds at the moment; a folder that is not there holds nothing.

    What it has read and indexed is kept for the next time. Safe to share between threads.
    """

    def __init__(self, root: str | os.PathLike[str], *, folder: str = "docs") -> None:
        self._tree = Tree(root)
        self.folder = self._tree.folder(folder)
        self._library = Library(self._tree)
        self._index = SectionIndex()

    def survey(self) -> Survey:
        """The artifacts: stages in their order, decisions by name, changes from the newest."""
        return self._library.survey(artifacts(self._tree, self.folder))

    def conventions(self) -> Survey:
        """The files that say how work is done here."""
        return self._library.survey(conventions(self._tree))

    def search(self, documents: Sequence[Document], query: str, *, limit: int) -> list[FoundSection]:
        """The sections of these documents that a query is most likely about, best first."""
        return self._index.search(documents, query, limit=limit)
