"""The spec artifacts of a project: which there are, their headings, or all of them."""

import reprlib
from collections.abc import Callable, Iterator, Sequence

from satchel.errors import InputError
from satchel.fitting.listing import DETAILS, Detail, indented
from satchel.fitting.portions import Portion
from satchel.model.arguments import check_known
from satchel.server.specs.artifacts import ADRS, CHANGES, STAGES, expected_file, stage_named
from satchel.server.specs.documents import Document, Survey
from satchel.server.specs.report import named, number_of, unread_portions
from satchel.server.specs.sections import headings
from satchel.server.specs.specs import Specs
from satchel.server.specs.tree import shown

__all__ = ["spec_context"]

Count = Callable[[str], int]

FEW = 5
# What is kept first where not all fits.
NEXT, STAGE, STAGE_HEADINGS, OTHERS, OTHER_HEADINGS, NOT_READ = range(6)

_WIDTH = max(map(len, STAGES))


def spec_context(specs: Specs, *, stage: str | None, detail: Detail, count: Count) -> list[Portion]:
    """The artifacts, or those of one stage, of `adrs` or of a change; nothing where there are none at all."""
    check_known("detail", detail, DETAILS)
    survey = specs.survey()
    group = None if stage is None else _group(stage, survey.documents)
    if survey == Survey():
        return []
    telling = _Telling(specs.folder, survey, count)
    if group is None:
        return list(telling.full(survey.documents) if detail == "full" else telling.overview(detail))
    chosen = [document for document in survey.documents if document.group == group]
    if not chosen:
        return [telling.missing(group)]
    return list(telling.full(chosen) if detail == "full" else telling.listed(chosen, detail))


def _group(stage: object, documents: Sequence[Document]) -> str:
    """What is meant by the name of a stage or of a change."""
    if not isinstance(stage, str):
        raise InputError(f"stage must be a string, not {type(stage).__name__}")
    known = stage_named(stage) or (ADRS if stage.strip().lower() == ADRS else None)
    changes = {shown(document.group): document.group for document in documents if document.slug}
    found = known or changes.get(stage.strip()) or changes.get(f"{CHANGES}/{stage.strip()}")
    if found is None:
        names = [*STAGES, ADRS, *(list(changes)[:FEW] or [f"{CHANGES}/<slug>"])]
        raise InputError(f"unknown stage {reprlib.repr(stage)}; known: {', '.join(names)}")
    return found


class _Telling:
    """Makes portions of what was found in the folder of specs."""

    def __init__(self, folder: str, survey: Survey, count: Count) -> None:
        self._folder = shown(folder)
        self._survey = survey
        self._count = count
        self._section = f"## Spec artifacts in {self._folder}/"

    def overview(self, detail: Detail) -> Iterator[Portion]:
        """Every stage, and in fewer words what else there is."""
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
        """A line for each document, and in more detail its headings."""
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
        """The artifacts themselves, section by section."""
        for document in documents:
            section = f"## {_title(document)} ({document.path})"
            if document.trouble or document.empty:
                told = document.trouble or f"empty: {number_of(document.lines, 'line')}"
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
        return f"{shown(document.group):<{_WIDTH}}  {state:<7}  {document.trouble or size}  {document.path}\n"

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
