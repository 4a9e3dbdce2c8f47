"""A scan of a project for a planned change: what is written there about the same things. It judges nothing."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from satchel.api.satchel import Satchel
from satchel.errors import InputError
from satchel.fitting.documents import matched_start
from satchel.fitting.listing import DETAILS, Detail, body, entry, indented
from satchel.fitting.portions import Portion
from satchel.model.arguments import as_query, check_known
from satchel.model.memory import Hit
from satchel.recall.question import sought_words
from satchel.server.specs.documents import Document, Unread
from satchel.server.specs.report import few, named, number_of, unread_portions
from satchel.server.specs.section_index import FoundSection
from satchel.server.specs.specs import Specs

__all__ = ["spec_check"]

# What is less likely needed is left out. For the planned changes in its test this shows 62 % of the sections that
# matter among nine in all; 0.003 shows 67 % among eleven, and 0.01 only 55 % among seven.
FLOOR = 0.006
# Memories are many and about everything: one in fifty is not worth a line here.
MEMORY_FLOOR = 0.02
# What comes after the first page hardly changes what is found.
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
    """Sections of artifacts, earlier changes and memories that a planned change may touch.

    Where there are no artifacts, files of conventions take their place. Ranks follow the scores of recall
    through all of them, so that a tight budget keeps the best.
    """
    check_known("detail", detail, DETAILS)
    planned = as_query(description).strip()[:LONGEST_DESCRIPTION]
    if not planned:
        raise InputError("the change description is blank; say what is to be changed")
    scan = _Scan(planned, detail, count)
    survey = specs.survey()
    unread = [*survey.unread, *_troubles(survey.documents)]
    findings: list[_Finding] = []
    if written := _written(survey.documents):
        found = _worth_reading(specs.search(written, planned, limit=CANDIDATES))
        findings += scan.sections("## Artifacts", [each for each in found if not each.document.slug])
        findings += scan.changes([each for each in found if each.document.slug], survey.documents)
    findings += scan.memories(bag)
    if not written:
        conventions = specs.conventions()
        unread += [*conventions.unread, *_troubles(conventions.documents)]
        if readable := [document for document in conventions.documents if not document.trouble]:
            found = _worth_reading(specs.search(_written(readable), planned, limit=CANDIDATES))
            findings += scan.sections("## Conventions", found)
            findings.append(_files_of_conventions(readable))
    return [*_ranked(findings), *unread_portions(unread, rank=len(findings))]


class _Scan:
    """Turns what was found for a description into portions."""

    def __init__(self, description: str, detail: Detail, count: Callable[[str], int]) -> None:
        self._description = description
        self._detail: Detail = detail
        self._count = count
        self._sought = sought_words(description)

    def sections(self, heading: str, found: Sequence[FoundSection]) -> Iterator[_Finding]:
        for each in found[:MOST_SECTIONS]:
            yield self._finding(each, heading)

    def changes(self, found: Sequence[FoundSection], documents: Sequence[Document]) -> Iterator[_Finding]:
        """The best sections of each change, the first of them below a line about the change."""
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
    return [document for document in documents if not document.trouble and not document.empty]


def _troubles(documents: Sequence[Document]) -> list[Unread]:
    return [Unread(document.path, document.trouble) for document in documents if document.trouble]


def _worth_reading(found: Sequence[FoundSection]) -> list[FoundSection]:
    return [each for each in found if each.hit.score >= FLOOR]


def _files_of_conventions(documents: Sequence[Document]) -> _Finding:
    files = [f"{document.path} ({number_of(document.lines, 'line')})" for document in documents]
    return _Finding(0.0, Portion(f"files: {few(files)}\n", "## Conventions"))


def _ranked(findings: Sequence[_Finding]) -> list[Portion]:
    by_score = sorted(range(len(findings)), key=lambda place: -findings[place].score)
    ranks = {place: rank for rank, place in enumerate(by_score)}
    return [finding.portion._replace(rank=ranks[place]) for place, finding in enumerate(findings)]
