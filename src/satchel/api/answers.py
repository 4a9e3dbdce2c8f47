"""Answers that `--json` on the command line and the HTTP service share: a result and what belongs beside it.

Python methods return plain values; programs that read JSON get objects with named lists, a saved memory with its
outcome, and a memory with its relations.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from satchel.api.satchel import Satchel
from satchel.api.saving import Outcome, Similar, outcome_of
from satchel.model.memory import Change, Draft, Memory, Relation, utc_now
from satchel.model.result import Result

__all__ = [
    "Added",
    "AddedMemories",
    "Changes",
    "Counted",
    "Memories",
    "MemoryAndRelations",
    "Names",
    "Relations",
    "Saved",
    "SimilarMemories",
    "add_all",
    "get_with_relations",
    "saved",
]


class Added(Memory, frozen=True, kw_only=True):
    """The memory that a text was added to, and what adding it did."""

    outcome: Outcome


class Saved(Added, frozen=True, kw_only=True):
    """A memory that was saved, and the few that are about the same thing, which it may replace."""

    similar: tuple[Similar, ...] = ()


class MemoryAndRelations(Memory, frozen=True, kw_only=True):
    """A memory, and the relations that start or end at it."""

    relations: tuple[Relation, ...] = ()


class AddedMemories(Result, msgspec.Struct, frozen=True, kw_only=True):
    memories: tuple[Added, ...]


class Memories(Result, msgspec.Struct, frozen=True, kw_only=True):
    memories: tuple[Memory, ...]


class SimilarMemories(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The memories that are about the same thing as one, most alike first."""

    similar: tuple[Similar, ...]


class Changes(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The history of a memory, oldest first."""

    changes: tuple[Change, ...]


class Counted(Result, msgspec.Struct, frozen=True, kw_only=True):
    """How many memories or relations were changed."""

    count: int


class Names(Result, msgspec.Struct, frozen=True, kw_only=True):
    """Projects or tags, and how many current memories each has, most first."""

    names: dict[str, int]


class Relations(Result, msgspec.Struct, frozen=True, kw_only=True):
    relations: tuple[Relation, ...]


def add_all(view: Satchel, drafts: Sequence[Draft]) -> tuple[Added, ...]:
    """Add drafts in one transaction, and return each memory with the outcome."""
    since = utc_now()
    return tuple(_added(view, memory, since) for memory in view.add_many(drafts))


def saved(memory: Memory, outcome: Outcome, similar: Sequence[Similar] = ()) -> Saved:
    """Return a memory that was saved, with its outcome and the memories that are about the same thing."""
    return Saved(**_fields(memory), outcome=outcome, similar=tuple(similar))


def get_with_relations(
    view: Satchel, identifier: str, *, as_of: datetime | str | None = None
) -> MemoryAndRelations:
    """Return a memory as `Satchel.get` does, with its relations."""
    memory = view.get(identifier, as_of=as_of)
    return MemoryAndRelations(**_fields(memory), relations=tuple(view.relations(memory.id, as_of=as_of)))


def _added(view: Satchel, memory: Memory, since: datetime) -> Added:
    history = view.history(memory.id) if memory.revision > 1 else ()
    return Added(**_fields(memory), outcome=outcome_of(memory, history, since=since))


def _fields(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in Memory.__struct_fields__}
