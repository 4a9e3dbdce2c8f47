"""What `/v1` does with memories."""

from collections.abc import Sequence

import msgspec

from satchel.api.satchel import Satchel
from satchel.api.saving import outcome_of, similar_after_save, similar_ones
from satchel.fitting.hits import Timeline
from satchel.model.memory import Draft, Memory, Relation, utc_now
from satchel.server.http.requests import (
    Changes,
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
from satchel.server.http.responses import (
    Added,
    AddedMemories,
    Changed,
    Context,
    Counted,
    Memories,
    Pack,
    Related,
    Saved,
    Searched,
    SimilarOnes,
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
    added = _added(view, [body])[0]
    found = similar_after_save(view, added) if body.similar else ()
    return Saved(**msgspec.structs.asdict(added), similar=found)


def add_many(view: Satchel, body: NewMemories) -> AddedMemories:
    return AddedMemories(memories=_added(view, body.memories))


def _added(view: Satchel, given: Sequence[NewMemory]) -> tuple[Added, ...]:
    since = utc_now()
    stored = view.add_many([_draft(each) for each in given])
    histories = {memory.id: view.history(memory.id) for memory in stored if memory.revision > 1}
    return tuple(
        Added(
            **msgspec.structs.asdict(memory),
            outcome=outcome_of(memory, histories.get(memory.id, ()), since=since),
        )
        for memory in stored
    )


def recent(view: Satchel, query: Listing) -> Memories:
    return Memories(memories=tuple(view.recent(**query.options())))


def get(view: Satchel, query: Seen, *, id: str) -> Memory:
    return view.get(id, **query.options())


def update(view: Satchel, query: Placed, body: Changes, *, id: str) -> Memory:
    return view.update(id, **body.options())


def forget_one(view: Satchel, query: Purging, *, id: str) -> Counted:
    return Counted(count=view.forget(id, purge=query.purge))


def forget(view: Satchel, query: Forgetting) -> Counted:
    return Counted(count=view.forget(**query.options()))


def timeline(view: Satchel, query: Span, *, id: str) -> Timeline:
    return view.timeline(id, **query.options())


def changes(view: Satchel, query: Placed, *, id: str) -> Changed:
    return Changed(changes=tuple(view.history(id)))


def relations(view: Satchel, query: Seen, *, id: str) -> Related:
    return Related(relations=tuple(view.relations(id, **query.options())))


def relate(view: Satchel, query: Placed, body: NewRelation, *, id: str) -> Relation:
    return view.relate(id, **body.options())


def similar(view: Satchel, query: SimilarAsked, *, id: str) -> SimilarOnes:
    return SimilarOnes(similar=similar_ones(view.similar(id, **query.options())))


def stats(view: Satchel, query: Placed) -> Stats:
    return view.stats()


def search(view: Satchel, body: SearchAsked) -> Searched:
    hits = view.search(**body.options())
    return Searched(
        text=hits.text,
        token_count=hits.token_count,
        token_budget=body.token_budget,
        omitted=hits.omitted,
        tokens_omitted=hits.tokens_omitted,
        smallest_budget=hits.smallest_budget,
        matched=hits.matched,
        weak=hits.weak,
        hits=tuple(hits),
    )


def context(view: Satchel, body: ContextAsked) -> Context:
    block = view.context(**body.options())
    return Context(
        text=block.text,
        token_count=block.token_count,
        token_budget=body.token_budget,
        facts_included=block.facts_included,
        facts_omitted=block.facts_omitted,
        tokens_omitted=block.tokens_omitted,
        facts_wanted=block.facts_wanted,
        complete=block.complete,
        tier_breakdown=block.tier_breakdown,
        smallest_budget=block.smallest_budget,
        matched=block.matched,
        irrelevant=block.irrelevant,
        receipt=block.receipt if body.receipt else None,
    )


def pack(view: Satchel, body: PackAsked) -> Pack:
    made = view.context_pack(**body.options())
    return Pack(
        text=made.text,
        format=made.format,
        token_count=made.token_count,
        token_budget=made.token_budget,
        memories=tuple(memory.id for memory in made.memories),
        omitted=made.omitted,
        tokens_omitted=made.tokens_omitted,
        wanted=made.wanted,
        irrelevant=made.irrelevant,
        smallest_budget=made.smallest_budget,
    )


def _draft(given: NewMemory) -> Draft:
    return Draft(**{name: value for name, value in msgspec.structs.asdict(given).items() if name != "similar"})
