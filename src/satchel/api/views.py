"""What a view tells of memories outside it: nothing. Their ids and places are removed from what is inside.

A memory can be superseded by one of another project, be related to it, or have been moved from there.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from satchel.model.filters import Filter
from satchel.model.memory import Change, Hit, Memory, Scope
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.store import memories
from satchel.store.store import Store

__all__ = ["visible_changes", "visible_hits", "visible_memories"]


def visible_memories(store: Store, scope: Scope, found: Sequence[Memory]) -> list[Memory]:
    """Return memories of a view without the ids of memories outside it that superseded them."""
    hidden = _outside(store, scope, (memory.superseded_by for memory in found))
    return [
        msgspec.structs.replace(memory, superseded_by=None) if memory.superseded_by in hidden else memory
        for memory in found
    ]


def visible_hits(store: Store, scope: Scope, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits with their memories as `visible_memories` shows them."""
    shown = visible_memories(store, scope, [hit.memory for hit in hits])
    return [
        hit if memory is hit.memory else msgspec.structs.replace(hit, memory=memory)
        for hit, memory in zip(hits, shown, strict=True)
    ]


def visible_changes(store: Store, scope: Scope, changes: Sequence[Change]) -> list[Change]:
    """Return the history of a memory without what it says of memories and places outside the view.

    Relations to such memories are left out altogether.
    """
    hidden = _outside(store, scope, (each for change in changes for each in _ids_in(change)))
    shown = [change for change in changes if not ("relation" in change.changes and hidden & {*_ids_in(change)})]
    return [_without(change, scope, hidden) for change in shown]


def _without(change: Change, scope: Scope, hidden: set[str]) -> Change:
    kept = dict(change.changes)
    if "superseded_by" in kept:
        kept["superseded_by"] = [None if each in hidden else each for each in _pair(kept["superseded_by"])]
    if "scope" in kept:
        kept["scope"] = [each if _is_inside(scope, each) else None for each in _pair(kept["scope"])]
    return change if kept == change.changes else msgspec.structs.replace(change, changes=kept)


def _ids_in(change: Change) -> Iterable[str]:
    """Return the ids of other memories that an entry of a history names."""
    named = [*_pair(change.changes.get("superseded_by"))]
    for relation in _pair(change.changes.get("relation")):
        if isinstance(relation, dict):
            named += (relation.get("source"), relation.get("target"))
    return [each for each in named if isinstance(each, str)]


def _pair(value: Any) -> Sequence[Any]:
    # An import may contain entries of any form.
    return value if isinstance(value, list) else ()


def _is_inside(scope: Scope, place: Any) -> bool:
    bound = {name: value for name in SCOPE_FIELDS if (value := getattr(scope, name)) is not None}
    return isinstance(place, dict) and all(place.get(name, value) == value for name, value in bound.items())


def _outside(store: Store, scope: Scope, named: Iterable[str | None]) -> set[str]:
    """Return those of the ids that no memory inside the view has."""
    ids = {each for each in named if each is not None}
    if not ids or scope == Scope(org=scope.org):
        return set()
    with store.reading(scope.org) as tx:
        return ids - {*memories.select_ids(tx, Filter(scope=scope, ids=tuple(sorted(ids)), statuses=()))}
