"""Sections of documents, found by the same recall as memories."""

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from satchel.api.filters import filter_for
from satchel.api.keeping import Keeper
from satchel.errors import InputError
from satchel.model.memory import Draft, Hit, Memory, Scope
from satchel.recall.finder import Finder
from satchel.recall.indexer import Indexer
from satchel.server.specs.artifacts import ADRS
from satchel.server.specs.documents import Document
from satchel.server.specs.sections import Section
from satchel.store.locations import open_store
from satchel.text.tokens.registry import DEFAULT_COUNTER, counter

__all__ = ["FoundSection", "SectionIndex"]

# The same for all: a checkout makes every file new, and so its age says nothing.
_AT = datetime(2000, 1, 1, tzinfo=UTC)


class FoundSection(NamedTuple):
    """A section of a document, and what recall says of it."""

    document: Document
    section: Section
    hit: Hit
    """Its memory holds the text below the heading, without secrets."""


class _Shelf:
    """A store in memory, and what recalls from it.

    Not a `Satchel`, whose searches count as uses: the next one would rank differently.
    """

    def __init__(self) -> None:
        store = open_store(":memory:")
        indexer = Indexer(store)
        self.finder = Finder(store, indexer)
        self.sections: dict[str, tuple[Document, Section]] = {}
        self._keeper = Keeper(store, counter=counter(DEFAULT_COUNTER), indexer=indexer)
        # By identity: a document that was read again is another one, and two may be shown under one name.
        self._held: dict[int, tuple[Document, list[str]]] = {}
        self._sources = 0

    def hold(self, documents: Sequence[Document]) -> None:
        """Hold just these documents."""
        wanted = {id(document): document for document in documents}
        stale = [key for key in self._held if key not in wanted]
        gone = [identifier for key in stale for identifier in self._held.pop(key)[1]]
        self._keeper.forget(gone, purge=True)
        for identifier in gone:
            del self.sections[identifier]
        for key, document in wanted.items():
            if key not in self._held:
                self._held[key] = document, self._take_in(document)

    def _take_in(self, document: Document) -> list[str]:
        # A number and no name: what names a source is short, and must not look like a secret.
        self._sources += 1
        told = list(_telling(document.sections))
        drafts = [
            _draft(document, section, source=self._sources, place=place) for place, section in enumerate(told)
        ]
        stored = zip(told, _stored(self._keeper, drafts), strict=True)
        taken = {memory.id: (document, section) for section, memory in stored if memory is not None}
        self.sections |= taken
        return list(taken)


class SectionIndex:
    """Holds the sections of the documents it was last asked about. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shelf: _Shelf | None = None

    def search(self, documents: Sequence[Document], query: str, *, limit: int) -> list[FoundSection]:
        """The sections that are most likely needed, best first, and of equal ones in the order of documents."""
        if not documents:
            return []
        with self._lock:
            shelf = self._shelf = self._shelf or _Shelf()
            shelf.hold(documents)
            hits = shelf.finder.asked(query, filter_for(Scope()), limit=limit).hits
            found = [FoundSection(*shelf.sections[hit.memory.id], hit) for hit in hits]
        place = {id(document): number for number, document in enumerate(documents)}
        return sorted(
            found, key=lambda each: (-round(each.hit.score, 6), place[id(each.document)], each.section.line)
        )


def _telling(sections: Sequence[Section]) -> Iterator[Section]:
    """Without headings that have nothing but other headings below them: those have them in their titles."""
    for section, following in pairwise((*sections, None)):
        if section is not None and not (
            section.bare and following is not None and following.titles[: len(section.titles)] == section.titles
        ):
            yield section


def _draft(document: Document, section: Section, *, source: int, place: int) -> Draft:
    titles = (document.slug.replace("-", " "), *section.titles) if document.slug else section.titles
    # A change or a decision is about one thing, and its sections speak for each other; a stage is about many.
    about_one = document.slug or document.group == ADRS
    return Draft(
        section.body if section.body.strip() else section.text,
        title=" > ".join(titles) or None,
        kind="fact",
        source=str(source) if about_one else None,
        # So that sections with the same text are not one memory.
        ref=f"{source}.{place}",
        at=_AT,
    )


def _stored(keeper: Keeper, drafts: Sequence[Draft]) -> Sequence[Memory | None]:
    """The memory of each draft; None for one that is nothing but a secret."""
    try:
        return keeper.add_many(drafts)
    except InputError:
        if len(drafts) == 1:
            return [None]
        return [memory for draft in drafts for memory in _stored(keeper, [draft])]
