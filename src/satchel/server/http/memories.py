"""What `/v1` does with memories: each handler calls the method of `Satchel` with what the request says."""

from typing import Any

import msgspec

from satchel.api.answers import (
    AddedMemories,
    Changes,
    Counted,
    Memories,
    MemoryAndRelations,
    Names,
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
from satchel.server.http.requests import AddManyRequest, Request
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
    "projects",
    "recent",
    "relate",
    "relations",
    "search",
    "similar",
    "stats",
    "tags",
    "timeline",
    "unforget",
    "unrelate",
    "update",
]


def add(view: Satchel, asked: Any) -> Saved:
    (added,) = add_all(view, [_draft(asked)])
    return saved(added, added.outcome, similar_after_save(view, added) if asked.similar else ())


def add_many(view: Satchel, asked: AddManyRequest) -> AddedMemories:
    return AddedMemories(memories=add_all(view, [_draft(each) for each in asked.memories]))


def recent(view: Satchel, asked: Request) -> Memories:
    return Memories(memories=tuple(view.recent(**asked.options())))


def get(view: Satchel, asked: Request, *, id: str) -> MemoryAndRelations:
    return get_with_relations(view, id, **asked.options())


def update(view: Satchel, asked: Request, *, id: str) -> Memory:
    return view.update(id, **asked.options())


def forget_one(view: Satchel, asked: Request, *, id: str) -> Forgotten:
    return view.forget(id, **asked.options())


def forget(view: Satchel, asked: Request) -> Forgotten:
    return view.forget(**asked.options())


def unforget(view: Satchel, asked: Request) -> Counted:
    return Counted(count=view.unforget(**asked.options()))


def timeline(view: Satchel, asked: Request, *, id: str) -> Timeline:
    return view.timeline(id, **asked.options())


def changes(view: Satchel, asked: Request, *, id: str) -> Changes:
    return Changes(changes=tuple(view.history(id, **asked.options())))


def relations(view: Satchel, asked: Request, *, id: str) -> Relations:
    return Relations(relations=tuple(view.relations(id, **asked.options())))


def relate(view: Satchel, asked: Request, *, id: str) -> Relation:
    return view.relate(id, **asked.options())


def unrelate(view: Satchel, asked: Request, *, id: str, target: str) -> Counted:
    return Counted(count=view.unrelate(id, target, **asked.options()))


def similar(view: Satchel, asked: Request, *, id: str) -> SimilarMemories:
    return SimilarMemories(similar=similar_ones(view.similar(id, **asked.options())))


def stats(view: Satchel, asked: Request) -> Stats:
    return view.stats(**asked.options())


def projects(view: Satchel, asked: Request) -> Names:
    return Names(names=view.projects(**asked.options()))


def tags(view: Satchel, asked: Request) -> Names:
    return Names(names=view.tags(**asked.options()))


def search(view: Satchel, asked: Request) -> SearchResult:
    return view.search(**asked.options()).result()


def context(view: Satchel, asked: Any) -> ContextResult:
    return view.context(**asked.options()).result(receipt=asked.receipt)


def pack(view: Satchel, asked: Request) -> PackResult:
    return view.context_pack(**asked.options()).result()


def _draft(given: Any) -> Draft:
    return Draft(**{name: value for name, value in msgspec.structs.asdict(given).items() if name != "similar"})
