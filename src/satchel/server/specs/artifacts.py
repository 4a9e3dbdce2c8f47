"""Which files of a project are spec artifacts: the stages, architecture decisions, changes."""

from collections.abc import Iterator
from typing import NamedTuple

from satchel.server.specs.tree import Place, Tree

__all__ = ["ADRS", "CHANGES", "STAGES", "Artifact", "artifacts", "expected_file", "stage_named"]

_FILES = {
    "principles": "principles.md",
    "charter": "charter.md",
    "specify": "requirements.md",
    "business-rules": "business-rules.md",
    "clarify": "clarifications.md",
    "design": "design.md",
    "tasks": "tasks.md",
    "validate": "validation.md",
}
STAGES: tuple[str, ...] = tuple(_FILES)
_STAGE_OF = {file: stage for stage, file in _FILES.items()} | {f"{stage}.md": stage for stage in STAGES}

ADRS = "adrs"
CHANGES = "changes"
_ADR_FOLDERS = (ADRS, "adr")


class Artifact(NamedTuple):
    """A file and what it belongs to: a stage, `adrs` or `changes/<slug>`; nothing where a folder is in trouble."""

    group: str
    place: Place


def expected_file(stage: str) -> str:
    """The name of the file that a stage is usually kept in."""
    return _FILES[stage]


def stage_named(name: str) -> str | None:
    """The stage of this name, or the one whose file has it."""
    return _STAGE_OF.get(f"{name.strip().lower()}.md")


def artifacts(tree: Tree, folder: str) -> list[Artifact]:
    """All that are there, each once: stages in their order, decisions by name, changes from the newest."""
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
                elif place.trouble:
                    yield Artifact("", place)
    for files in sorted(
        filter(None, changes), key=lambda files: -max(each.place.stamp.modified_ns for each in files)
    ):
        yield from files


def _files(tree: Tree, folder: Place, group: str) -> list[Artifact]:
    listed = tree.children(folder, lambda name: name.lower().endswith(".md") and not name.startswith("."))
    return [Artifact("" if place.path == folder.path else group, place) for place in listed]
