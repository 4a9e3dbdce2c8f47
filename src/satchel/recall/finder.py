"""What a question finds, and what matters without one: one call from the text of a query to hits."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from satchel.model.checks import MAX_LIMIT
from satchel.model.filters import Filter
from satchel.model.memory import Hit, Memory, utc_now
from satchel.recall.indexer import Indexer
from satchel.store.contract import SearchStore

__all__ = ["MIN_RELEVANCE", "Recalled", "enough_for", "find", "find_for_context", "is_relevant"]


SHORT_LINE = 6
FEWEST_CANDIDATES = 50
MOST_CANDIDATES = 2_000

# How many memories back it is until one is worth half of the newest.
HALF_AS_NEW = 20
PINNED_SCORE = 1.0

# So many duplicates may have kept others from being candidates.
MANY_COPIES = 100

# What is less likely to be needed than this is not worth reading, whatever `min_relevance` is.
FLOOR = 0.0001
# Chosen where evidence begins to be lost faster than tokens are saved: docs/explanation/recall.md has the curves.
MIN_RELEVANCE = 0.12


class Recalled(NamedTuple):
    """What was found, and whether by the question."""

    hits: list[Hit]
    matched: bool = True
    """False where nothing relevant matched and these are the newest and most important that pass a filter."""
    sought: tuple[str, ...] = ()
    """The stems of the words of the question that tell, by which a passage is cut to the sentences about it."""


def is_relevant(hit: Hit, min_relevance: float) -> bool:
    """Whether a hit is worth its tokens, however much room there is."""
    return hit.relevance >= min_relevance and hit.score >= FLOOR


def enough_for(budget: int | None) -> int:
    """How many candidates could fill a budget with short lines."""
    return MOST_CANDIDATES if budget is None else min(max(budget // SHORT_LINE, FEWEST_CANDIDATES), MOST_CANDIDATES)


def find(
    store: SearchStore,
    indexer: Indexer,
    query: str,
    where: Filter,
    *,
    limit: int,
    now: datetime | None = None,
    filtered: bool = False,
    min_relevance: float = 0.0,
    surroundings: bool = False,
    explain: bool = False,
    distinct: bool = False,
) -> Recalled:
    """The best matches for a query, relevant or not; with `surroundings` also what stands beside them.

    With `distinct` memories that say the same are one hit, before the limit is applied. The question is asked
    `now`, or at the moment that the filter names.

    Where a caller `filtered` by kind, tag, tier or time, that is never answered with nothing while something passes
    the filter: if no match reaches `min_relevance`, the newest and most important come instead.
    """
    # Imported when first needed: numpy takes longer to load than most commands take in all.
    from satchel.recall.question import read_question
    from satchel.recall.ranking import rank
    from satchel.recall.scoring import reads

    question = read_question(query, now=now or where.valid_at or utc_now())
    embedder = indexer.embedder.name if indexer.embedder else "none"
    hits: list[Hit] = []
    if question.terms or question.times:
        vector = indexer.query_vector(query) if question.terms else None
        if vector is not None and reads(embedder, latin=question.latin):
            question = msgspec.structs.replace(question, vector=vector)
        ranked = partial(
            rank,
            store,
            question,
            where,
            limit=limit,
            embedder=embedder,
            surroundings=surroundings,
            explain=explain,
            distinct=distinct,
        )
        # The question is embedded before, since that may take a server's time.
        with store.reading(where.scope.org):
            hits = ranked()
        if len(hits) < limit and sum(len(hit.duplicates) for hit in hits) >= MANY_COPIES:
            # Of a large scope only so many candidates are looked at, and copies may be most of them.
            with store.reading(where.scope.org):
                hits = ranked(candidates=MOST_CANDIDATES)
    if filtered and not any(hit.relevance >= min_relevance for hit in hits):
        newest = _distinct(store, where, limit=limit) if distinct else _unasked(store, where, limit=limit)
        return Recalled(newest, matched=False, sought=question.sought)
    return Recalled(hits, sought=question.sought)


def find_for_context(
    store: SearchStore,
    indexer: Indexer,
    query: str | None,
    where: Filter,
    *,
    limit: int,
    now: datetime | None = None,
    filtered: bool = False,
    min_relevance: float = 0.0,
    explain: bool = False,
) -> Recalled:
    """What may go into a context: all that is pinned, then what is found, or else is recent and important."""
    pinned = store.select(msgspec.structs.replace(where, pinned=True), limit=MAX_LIMIT)
    if query is None:
        found = Recalled(_unasked(store, where, limit=limit))
    else:
        found = find(
            store,
            indexer,
            query,
            where,
            limit=limit,
            now=now,
            filtered=filtered,
            min_relevance=min_relevance,
            surroundings=True,
            explain=explain,
        )
    known = {hit.memory.id: hit for hit in found.hits}
    ahead = {memory.id: known.get(memory.id) or Hit(memory, PINNED_SCORE) for memory in pinned}
    hits = [*ahead.values(), *(hit for hit in found.hits if hit.memory.id not in ahead)]
    return found._replace(hits=hits)


def _distinct(store: SearchStore, where: Filter, *, limit: int) -> list[Hit]:
    """The same as `_unasked`, but as many that differ, where there are so many."""
    from satchel.recall.ranking import duplicates

    wanted = limit
    while True:
        found = _unasked(store, where, limit=wanted)
        same = duplicates([hit.memory for hit in found])
        if len(found) - len(same) >= limit or len(found) < wanted or wanted == MAX_LIMIT:
            return _collapsed(found, same)[:limit]
        wanted = min(2 * wanted, MAX_LIMIT)


def _unasked(store: SearchStore, where: Filter, *, limit: int) -> list[Hit]:
    """The newest, and older ones that are important; worth less with age, more with importance."""
    newest = store.select(where, limit=limit)
    important = store.select(msgspec.structs.replace(where, important=True), limit=limit)
    both: dict[str, Memory] = {memory.id: memory for memory in (*newest, *important)}
    by_age = sorted(both.values(), key=lambda memory: (memory.at, memory.id), reverse=True)
    hits = [Hit(memory, _worth(memory, place)) for place, memory in enumerate(by_age)]
    return sorted(hits, key=lambda hit: -hit.score)[:limit]


def _collapsed(hits: Sequence[Hit], same: Mapping[int, int]) -> list[Hit]:
    alike_to: dict[int, list[str]] = {}
    for place, other in same.items():
        alike_to.setdefault(other, []).append(hits[place].memory.id)
    return [
        msgspec.structs.replace(hit, duplicates=tuple(alike_to.get(place, ())))
        for place, hit in enumerate(hits)
        if place not in same
    ]


def _worth(memory: Memory, place: int) -> float:
    return (0.1 + 0.9 * memory.importance) / (1 + place / HALF_AS_NEW)
