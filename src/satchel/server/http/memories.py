"""What `/v1` does with memories."""

import msgspec

from satchel.api.answers import (
    AddedMemories,
    Changes,
    Memories,
    MemoryAndRelations,
    Relations,
    Saved,
    SimilarMemories,
    add_all,
    get_with_relations,
    saved,
)
from satchel.api.satchel import Satchel
from satchel.api.saving import similar_after_save, similar_ones
from satchel.fitting.context import ContextResult
from satchel.fitting.context_pack import PackResult
from satchel.fitting.hits import SearchResult, Timeline
from satchel.model.memory import Draft, Forgotten, Memory, Relation
from satchel.server.http import requests
from satchel.server.http.requests import (
    ContextAsked,
    Forgetting,
    Listing,
    NewMemories,
    NewMemory,
    NewRelation,
    OneMemory,
    PackAsked,
    Placed,
    Purging,
    SearchAsked,
    Seen,
    SimilarAsked,
    Span,
)
from satchel.store.contract import Stats

__all__ = [
    "add",
    "add_many",
    "changes",
    "context",
    "forget",
    "forget_one",
    "get",
    "pack",
    "recent",
    "relate",
    "relations",
    "search",
    "similar",
    "stats",
    "timeline",
    "update",
]


def add(view: Satchel, body: OneMemory) -> Saved:
    (added,) = add_all(view, [_draft(body)])
    return saved(added, added.outcome, similar_after_save(view, added) if body.similar else ())


def add_many(view: Satchel, body: NewMemories) -> AddedMemories:
    return AddedMemories(memories=add_all(view, [_draft(each) for each in body.memories]))


def recent(view: Satchel, query: Listing) -> Memories:
    return Memories(memories=tuple(view.recent(**query.options())))


def get(view: Satchel, query: Seen, *, id: str) -> MemoryAndRelations:
    return get_with_relations(view, id, **query.options())


def update(view: Satchel, query: Placed, body: requests.Changes, *, id: str) -> Memory:
    return view.update(id, **body.options())


def forget_one(view: Satchel, query: Purging, *, id: str) -> Forgotten:
    return view.forget(id, purge=query.purge)


def forget(view: Satchel, query: Forgetting) -> Forgotten:
    return view.forget(**query.options())


def timeline(view: Satchel, query: Span, *, id: str) -> Timeline:
    return view.timeline(id, **query.options())


def changes(view: Satchel, query: Placed, *, id: str) -> Changes:
    return Changes(changes=tuple(view.history(id)))


def relations(view: Satchel, query: Seen, *, id: str) -> Relations:
    return Relations(relations=tuple(view.relations(id, **query.options())))


def relate(view: Satchel, query: Placed, body: NewRelation, *, id: str) -> Relation:
    return view.relate(id, **body.options())


def similar(view: Satchel, query: SimilarAsked, *, id: str) -> SimilarMemories:
    return SimilarMemories(similar=similar_ones(view.similar(id, **query.options())))


def stats(view: Satchel, query: Placed) -> Stats:
    return view.stats()


def search(view: Satchel, body: SearchAsked) -> SearchResult:
    return view.search(**body.options()).result()


def context(view: Satchel, body: ContextAsked) -> ContextResult:
    return view.context(**body.options()).result(receipt=body.receipt)


def pack(view: Satchel, body: PackAsked) -> PackResult:
    return view.context_pack(**body.options()).result()


def _draft(given: NewMemory) -> Draft:
    return Draft(**{name: value for name, value in msgspec.structs.asdict(given).items() if name != "similar"})
