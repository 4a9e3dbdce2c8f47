"""Specs of a project: an overview, search in their sections, and a scan for a planned change."""

import os
import reprlib
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from satchel.api.filters import filter_for
from satchel.api.satchel import Satchel
from satchel.errors import InputError
from satchel.fitting.listing import DETAILS, Detail, Portion, body, entry, indented, matched_start
from satchel.model.checks import as_query, check_known
from satchel.model.memory import Draft, Hit, Memory, Scope
from satchel.recall.finder import find
from satchel.recall.indexer import Indexer
from satchel.recall.question import sought_words
from satchel.server.specs.documents import Document, Library, Section, Survey, Unread, conventions, headings
from satchel.server.specs.tree import ADRS, CHANGES, STAGES, Tree, artifacts, expected_file, shown, stage_named
from satchel.store.locations import open_store
from satchel.text.tokens import DEFAULT_COUNTER, counter

__all__ = [
    "FoundSection",
    "SectionIndex",
    "Specs",
    "few",
    "named",
    "number_of",
    "spec_check",
    "spec_context",
    "unread_portions",
]


MOST_NAMES = 10


def number_of(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def few(names: Sequence[str]) -> str:
    """Join names in one line; of many, the first ones and the number of others."""
    more = len(names) - MOST_NAMES
    return ", ".join([*names[:MOST_NAMES], *([f"and {more:,} more"] if more > 0 else [])])


def named(path: str, section: Section) -> str:
    """Format a file and a heading in it on one line."""
    return f"{path}#{shown(section.label)}" if section.titles else path


def unread_portions(unread: Sequence[Unread], *, section: str = "## Not read", rank: int) -> list[Portion]:
    """List what was not read and why; of many, the first ones and the number of others."""
    if not unread:
        return []
    lines = [f"{path}: {reason}" for path, reason in unread[:MOST_NAMES]]
    if more := unread[MOST_NAMES:]:
        lines.append(f"and {len(more):,} more, the last of them {more[-1].path}: {more[-1].reason}")
    return [Portion("\n".join(lines) + "\n", section, rank)]


# Search in sections, with the same recall as for memories


# The same for all sections: after a checkout every file is new, so its age means nothing.
_AT = datetime(2000, 1, 1, tzinfo=UTC)


class FoundSection(NamedTuple):
    """A section of a document, with its search hit."""

    document: Document
    section: Section
    hit: Hit
    """Its memory has the text below the heading, with secrets masked."""


class _SectionStore:
    """An in-memory store of sections, and search in it.

    It does not search through `Satchel`, because that counts uses, and the next search would rank differently.
    """

    def __init__(self) -> None:
        self._store = open_store(":memory:")
        self._indexer = Indexer(self._store)
        self.sections: dict[str, tuple[Document, Section]] = {}
        self._bag = Satchel(self._store, counter=counter(DEFAULT_COUNTER), indexer=self._indexer)
        # By identity: a document that was read again is a new object, and two may have the same display name.
        self._held: dict[int, tuple[Document, list[str]]] = {}
        self._sources = 0

    def update(self, documents: Sequence[Document]) -> None:
        """Update the store to contain exactly these documents."""
        wanted = {id(document): document for document in documents}
        stale = [key for key in self._held if key not in wanted]
        gone = [identifier for key in stale for identifier in self._held.pop(key)[1]]
        self._bag.forget(gone, purge=True)
        for identifier in gone:
            del self.sections[identifier]
        for key, document in wanted.items():
            if key not in self._held:
                self._held[key] = document, self._add(document)

    def find(self, query: str, *, limit: int) -> list[Hit]:
        return find(self._store, self._indexer, query, filter_for(Scope()), limit=limit).hits

    def _add(self, document: Document) -> list[str]:
        # A number, not a name: a source must be short and must not look like a secret.
        self._sources += 1
        told = list(_informative(document.sections))
        drafts = [
            _draft(document, section, source=self._sources, place=place) for place, section in enumerate(told)
        ]
        stored = zip(told, _stored(self._bag, drafts), strict=True)
        taken = {memory.id: (document, section) for section, memory in stored if memory is not None}
        self.sections |= taken
        return list(taken)


class SectionIndex:
    """Indexes the sections of the documents of the last search. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._store: _SectionStore | None = None

    def search(self, documents: Sequence[Document], query: str, *, limit: int) -> list[FoundSection]:
        """Return the most relevant sections, best first; equal ones in document order."""
        if not documents:
            return []
        with self._lock:
            held = self._store = self._store or _SectionStore()
            held.update(documents)
            hits = held.find(query, limit=limit)
            found = [FoundSection(*held.sections[hit.memory.id], hit) for hit in hits]
        place = {id(document): number for number, document in enumerate(documents)}
        return sorted(
            found, key=lambda each: (-round(each.hit.score, 6), place[id(each.document)], each.section.line)
        )


def _informative(sections: Sequence[Section]) -> Iterator[Section]:
    """Skip headings that have only other headings below them: those already carry them in their titles."""
    for section, following in pairwise((*sections, None)):
        if section is not None and not (
            section.bare and following is not None and following.titles[: len(section.titles)] == section.titles
        ):
            yield section


def _draft(document: Document, section: Section, *, source: int, place: int) -> Draft:
    titles = (document.slug.replace("-", " "), *section.titles) if document.slug else section.titles
    # The sections of a change or decision are about one topic and share context; those of a stage are not.
    about_one = document.slug or document.group == ADRS
    return Draft(
        section.body if section.body.strip() else section.text,
        title=" > ".join(titles) or None,
        kind="fact",
        source=str(source) if about_one else None,
        # So that sections with the same text are not merged into one memory.
        ref=f"{source}.{place}",
        at=_AT,
    )


def _stored(bag: Satchel, drafts: Sequence[Draft]) -> Sequence[Memory | None]:
    """Return the memory of each draft; None if it consists of a secret only."""
    try:
        return bag.add_many(drafts)
    except InputError:
        if len(drafts) == 1:
            return [None]
        return [memory for draft in drafts for memory in _stored(bag, [draft])]


# The spec artifacts of one project


class Specs:
    """Reads the current spec folder of a project; a missing folder counts as empty.

    What was read and indexed is cached for the next call. Safe to share between threads.
    """

    def __init__(self, root: str | os.PathLike[str], *, folder: str = "docs") -> None:
        self._tree = Tree(root)
        self.folder = self._tree.folder(folder)
        self._library = Library(self._tree)
        self._index = SectionIndex()

    def survey(self) -> Survey:
        """Return the artifacts: stages in order, decisions by name, changes newest first."""
        return self._library.survey(artifacts(self._tree, self.folder))

    def conventions(self) -> Survey:
        """Return the convention files, which say how to work on the project."""
        return self._library.survey(conventions(self._tree))

    def search(self, documents: Sequence[Document], query: str, *, limit: int) -> list[FoundSection]:
        """Return the sections of these documents that best match a query, best first."""
        return self._index.search(documents, query, limit=limit)


# Overview of the artifacts: list, headings, or full text


Count = Callable[[str], int]

FEW = 5
# Priorities when not everything fits.
NEXT, STAGE, STAGE_HEADINGS, OTHERS, OTHER_HEADINGS, NOT_READ = range(6)

_WIDTH = max(map(len, STAGES))


def spec_context(specs: Specs, *, stage: str | None, detail: Detail, count: Count) -> list[Portion]:
    """Return the artifacts as portions: all, or those of one stage, of `adrs` or of one change."""
    check_known("detail", detail, DETAILS)
    survey = specs.survey()
    group = None if stage is None else _group(stage, survey.documents)
    if survey == Survey():
        return []
    portions = _Overview(specs.folder, survey, count)
    if group is None:
        return list(portions.full(survey.documents) if detail == "full" else portions.overview(detail))
    chosen = [document for document in survey.documents if document.group == group]
    if not chosen:
        return [portions.missing(group)]
    return list(portions.full(chosen) if detail == "full" else portions.listed(chosen, detail))


def _group(stage: object, documents: Sequence[Document]) -> str:
    """Resolve the name of a stage or a change."""
    if not isinstance(stage, str):
        raise InputError(f"stage must be a string, not {type(stage).__name__}")
    known = stage_named(stage) or (ADRS if stage.strip().lower() == ADRS else None)
    changes = {shown(document.group): document.group for document in documents if document.slug}
    found = known or changes.get(stage.strip()) or changes.get(f"{CHANGES}/{stage.strip()}")
    if found is None:
        names = [*STAGES, ADRS, *(list(changes)[:FEW] or [f"{CHANGES}/<slug>"])]
        raise InputError(f"unknown stage {reprlib.repr(stage)}; known: {', '.join(names)}")
    return found


class _Overview:
    """Makes portions of the documents in the spec folder."""

    def __init__(self, folder: str, survey: Survey, count: Count) -> None:
        self._folder = shown(folder)
        self._survey = survey
        self._count = count
        self._section = f"## Spec artifacts in {self._folder}/"

    def overview(self, detail: Detail) -> Iterator[Portion]:
        """Yield a line for every stage, and a shorter summary of the rest."""
        of_stages = [document for document in self._survey.documents if document.group in STAGES]
        for stage in STAGES:
            documents = [document for document in of_stages if document.group == stage]
            yield from self.listed(documents, detail) if documents else [self.missing(stage)]
        yield from self._decisions(detail)
        yield from self._changes(detail)
        yield from unread_portions(self._survey.unread, section=self._section, rank=NOT_READ)
        if detail == "standard":
            yield Portion(f"Next: {self._next(of_stages)}\n", self._section, NEXT)

    def listed(self, documents: Sequence[Document], detail: Detail, *, deepest: int = 3) -> Iterator[Portion]:
        """Yield a line for each document, with its headings in more detail."""
        for document in documents:
            stage = document.group in STAGES
            rank = STAGE if stage else OTHERS
            yield Portion(self._line(document), self._section, rank, name=document.path)
            outline = _outline(document, deepest) if detail == "standard" else ""
            if outline:
                rank = STAGE_HEADINGS if stage else OTHER_HEADINGS
                yield Portion(outline, self._section, rank, splits=True, name=f"{document.path}#")

    def missing(self, group: str) -> Portion:
        path = self._expected(group) if group in STAGES else f"{self._folder}/{group}"
        return Portion(f"{group:<{_WIDTH}}  missing  {path}\n", self._section, STAGE, name=path)

    def full(self, documents: Sequence[Document]) -> Iterator[Portion]:
        """Yield the full text of the artifacts, section by section."""
        for document in documents:
            section = f"## {_title(document)} ({document.path})"
            if document.read_error or document.empty:
                told = document.read_error or f"empty: {number_of(document.lines, 'line')}"
                yield Portion(f"{told}\n", section, STAGE, name=document.path)
                continue
            for part in document.sections:
                last = f"-{part.last_line}" if part.last_line > part.line else ""
                text = f"line{'s' if last else ''} {part.line}{last}\n{indented(part.text)}\n"
                yield Portion(text, section, STAGE, splits=True, name=named(document.path, part))
        if documents is self._survey.documents:
            yield from unread_portions(self._survey.unread, rank=NOT_READ)

    def _line(self, document: Document) -> str:
        state = "empty" if document.empty else "present"
        size = f"{number_of(document.lines, 'line')}  ~{number_of(self._count(document.text), 'token')}"
        return f"{shown(document.group):<{_WIDTH}}  {state:<7}  {document.read_error or size}  {document.path}\n"

    def _decisions(self, detail: Detail) -> Iterator[Portion]:
        found = [document for document in self._survey.documents if document.group == ADRS]
        if detail == "standard":
            yield from self.listed(found, detail, deepest=1)
        elif found:
            last = ", ".join(document.path.rpartition("/")[2] for document in found[: -FEW - 1 : -1])
            yield self._other(ADRS, f"{number_of(len(found), 'decision')}, last: {last}")

    def _changes(self, detail: Detail) -> Iterator[Portion]:
        slugs: dict[str, list[str]] = {}
        for document in self._survey.documents:
            if document.slug:
                slugs.setdefault(shown(document.group), []).append(document.path.rpartition("/")[2])
        if detail == "standard":
            for group, files in slugs.items():
                yield self._other(group, ", ".join(files))
        elif slugs:
            newest = ", ".join(group.removeprefix(f"{CHANGES}/") for group in list(slugs)[:FEW])
            yield self._other(CHANGES, f"{number_of(len(slugs), 'change')}, newest: {newest}")

    def _other(self, group: str, told: str) -> Portion:
        return Portion(f"{group:<{_WIDTH}}  {told}\n", self._section, OTHERS, name=f"{self._folder}/{group}")

    def _next(self, of_stages: Sequence[Document]) -> str:
        for stage in STAGES:
            found = [document for document in of_stages if document.group == stage]
            if not found:
                return f"{stage}: {self._expected(stage)} is missing"
            if all(document.empty for document in found):
                return f"{stage}: {found[0].path} is empty"
        return "all stages are there"

    def _expected(self, stage: str) -> str:
        return f"{self._folder}/{expected_file(stage)}".removeprefix("./")


def _title(document: Document) -> str:
    if document.slug:
        return f"Change {shown(document.slug)}"
    return "ADR" if document.group == ADRS else document.group.replace("-", " ").capitalize()


def _outline(document: Document, deepest: int) -> str:
    found = [heading for heading in headings(document.text) if heading.level <= deepest]
    lines = [f"line {heading.line}: {'#' * heading.level} {heading.title}" for heading in found]
    return indented("\n".join(lines)) + "\n" if lines else ""


# Scan for a planned change: finds related text, without judging it


# Less relevant sections are left out. In the tests of this scan, the value shows 62 % of the sections that matter,
# among nine in all; 0.003 shows 67 % among eleven, and 0.01 only 55 % among seven.
FLOOR = 0.006
# Memories are many and of all topics, so they need a higher relevance here.
MEMORY_FLOOR = 0.02
# Text after the first page hardly changes the search result.
LONGEST_DESCRIPTION = 10_000
CANDIDATES = 60
MOST_SECTIONS = 10
MOST_CHANGES = 5
MOST_OF_CHANGE = 2
MOST_MEMORIES = 10


class _Finding(NamedTuple):
    score: float
    portion: Portion


def spec_check(
    specs: Specs, description: str, *, bag: Satchel, detail: Detail, count: Callable[[str], int]
) -> list[Portion]:
    """Return sections of artifacts, earlier changes and memories that a planned change may affect.

    Without artifacts, convention files are used instead. Ranks follow the search scores across all sources, so that
    a small budget keeps the best.
    """
    check_known("detail", detail, DETAILS)
    planned = as_query(description).strip()[:LONGEST_DESCRIPTION]
    if not planned:
        raise InputError("the change description is blank; describe the planned change")
    scan = _Scan(planned, detail, count)
    survey = specs.survey()
    unread = [*survey.unread, *_read_errors(survey.documents)]
    findings: list[_Finding] = []
    if written := _written(survey.documents):
        found = _worth_reading(specs.search(written, planned, limit=CANDIDATES))
        findings += scan.sections("## Artifacts", [each for each in found if not each.document.slug])
        findings += scan.changes([each for each in found if each.document.slug], survey.documents)
    findings += scan.memories(bag)
    if not written:
        conventions = specs.conventions()
        unread += [*conventions.unread, *_read_errors(conventions.documents)]
        if readable := [document for document in conventions.documents if not document.read_error]:
            found = _worth_reading(specs.search(_written(readable), planned, limit=CANDIDATES))
            findings += scan.sections("## Conventions", found)
            findings.append(_files_of_conventions(readable))
    return [*_ranked(findings), *unread_portions(unread, rank=len(findings))]


class _Scan:
    """Turns the search results for a description into portions."""

    def __init__(self, description: str, detail: Detail, count: Callable[[str], int]) -> None:
        self._description = description
        self._detail: Detail = detail
        self._count = count
        self._sought = sought_words(description)

    def sections(self, heading: str, found: Sequence[FoundSection]) -> Iterator[_Finding]:
        for each in found[:MOST_SECTIONS]:
            yield self._finding(each, heading)

    def changes(self, found: Sequence[FoundSection], documents: Sequence[Document]) -> Iterator[_Finding]:
        """Yield the best sections of each change, the first one below a line about the change."""
        by_change: dict[str, list[FoundSection]] = {}
        for each in found:
            by_change.setdefault(each.document.group, []).append(each)
        for group, sections in list(by_change.items())[:MOST_CHANGES]:
            files = [document.path for document in documents if document.group == group]
            folder = files[0].rpartition("/")[0]
            line = f"{folder} ({few([path.rpartition('/')[2] for path in files])})\n"
            for each in sections[:MOST_OF_CHANGE]:
                yield self._finding(each, "## Earlier changes", above=line)
                line = ""

    def memories(self, bag: Satchel) -> Iterator[_Finding]:
        found = bag.search(self._description, limit=MOST_MEMORIES)
        kept = [hit for hit in found if hit.score >= MEMORY_FLOOR]
        names = bag.short_ids([hit.memory for hit in kept])
        for hit, name in zip(kept, names, strict=True):
            text = entry(hit.memory, short_id=name, detail=self._detail, matched=matched_start(hit, self._sought))
            yield self._as_finding(hit, text, "## Related memories", hit.memory.id)

    def _finding(self, found: FoundSection, heading: str, above: str = "") -> _Finding:
        document, section, hit = found
        name = named(document.path, section)
        size = number_of(self._count(section.text), "token")
        text = f"{above}{name} (line {section.line}, ~{size})\n"
        if self._detail != "summary":
            text += indented(body(hit.memory.text, self._detail, matched_start(hit, self._sought))) + "\n"
        return self._as_finding(hit, text, heading, name)

    def _as_finding(self, hit: Hit, text: str, heading: str, name: str) -> _Finding:
        return _Finding(hit.score, Portion(text, heading, splits=self._detail != "summary", name=name))


def _written(documents: Sequence[Document]) -> list[Document]:
    return [document for document in documents if not document.read_error and not document.empty]


def _read_errors(documents: Sequence[Document]) -> list[Unread]:
    return [Unread(document.path, document.read_error) for document in documents if document.read_error]


def _worth_reading(found: Sequence[FoundSection]) -> list[FoundSection]:
    return [each for each in found if each.hit.score >= FLOOR]


def _files_of_conventions(documents: Sequence[Document]) -> _Finding:
    files = [f"{document.path} ({number_of(document.lines, 'line')})" for document in documents]
    return _Finding(0.0, Portion(f"files: {few(files)}\n", "## Conventions"))


def _ranked(findings: Sequence[_Finding]) -> list[Portion]:
    by_score = sorted(range(len(findings)), key=lambda place: -findings[place].score)
    ranks = {place: rank for rank, place in enumerate(by_score)}
    return [finding.portion._replace(rank=ranks[place]) for place, finding in enumerate(findings)]
