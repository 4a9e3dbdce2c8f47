"""Search: one call from the text of a query to ranked hits, or without a query to recent and important memories."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from satchel.model.checks import MAX_LIMIT
from satchel.model.filters import Filter
from satchel.model.memory import Hit, Memory, utc_now
from satchel.recall.indexer import Indexer
from satchel.store.contract import Embedding, SearchStore

if TYPE_CHECKING:
    from satchel.recall.question import Question
    from satchel.recall.ranking import Weak

__all__ = ["MIN_RELEVANCE", "Recalled", "enough_for", "find", "find_for_context", "is_relevant"]


SHORT_LINE = 6
FEWEST_CANDIDATES = 50
MOST_CANDIDATES = 2_000

# If so many memories are newer, a memory has half the score of the newest.
HALF_LIFE = 20
PINNED_SCORE = 1.0

# With so many duplicates among the hits, they may have displaced other candidates.
MANY_DUPLICATES = 100

# Hits with a lower score are not used, whatever `min_relevance` is.
FLOOR = 0.0001
# Above this, evidence is lost faster than tokens are saved: docs/explanation/recall.md has the curves.
MIN_RELEVANCE = 0.12


class Recalled(NamedTuple):
    """The hits of a search, and whether they matched the question."""

    hits: list[Hit]
    matched: bool = True
    """False if nothing relevant matched and these are the newest and most important that pass the filter."""
    sought: tuple[str, ...] = ()
    """The stems of the question's content words. They select the best sentence of a passage."""
    pinned: Sequence[Memory] = ()
    """The pinned memories that pass the filter, if they were asked for."""
    weak: "Weak | None" = None
    """Candidates that are not relevant enough, if they were not read; None if there are none."""


def is_relevant(hit: Hit, min_relevance: float) -> bool:
    """Return whether a hit may be used at all, however much room there is."""
    return hit.relevance >= min_relevance and hit.score >= FLOOR


def enough_for(budget: int | None) -> int:
    """Return how many candidates to search for, so that short ones could fill a budget."""
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
    relevant_only: bool = False,
    with_pinned: bool = False,
) -> Recalled:
    """Return the best matches for a query, relevant or not.

    With `surroundings`, memories next to a match are included. With `distinct`, duplicates become one hit before
    the limit is applied. The question is asked at the moment `now`, which defaults to the moment of the filter,
    then the present.

    `filtered` says that the caller filters by kind, tag, tier or time. Then the result is not empty while anything
    passes the filter: if no match reaches `min_relevance`, it has the newest and most important memories instead.
    With `relevant_only`, matches that are not relevant are not read; `weak` has them. With `with_pinned`, `pinned`
    has the pinned memories of the same state of the store.
    """
    # Imported here: numpy takes longer to load than most commands.
    from satchel.recall.question import read_question
    from satchel.recall.ranking import Ranked, rank

    question = read_question(query, now=now or where.valid_at or utc_now())
    ranked = Ranked([])
    pinned: Sequence[Memory] = ()
    if question.terms or question.times:
        ranking = partial(
            rank,
            store,
            where=where,
            limit=limit,
            surroundings=surroundings,
            explain=explain,
            distinct=distinct,
            least=(min_relevance, FLOOR) if relevant_only else (0.0, 0.0),
        )
        # The question is embedded before the read transaction starts, because a server may take a while. If the
        # store has another embedder by now, it is embedded again.
        for expected in (True, False):
            embedded = _embedded(indexer, question, query, where.scope.org, expected=expected)
            with store.reading(where.scope.org):
                if expected and embedded.recorded not in (None, indexer.embedding(org=where.scope.org)):
                    continue
                kept = indexer.columns.select(store, where)
                if with_pinned and (kept is None or kept.has_pinned):
                    pinned = _pinned(store, where)
                ranked = ranking(embedded.question, embedder=embedded.embedder, kept=kept)
                break
        hits = ranked.hits
        if len(hits) < limit and sum(len(hit.duplicates) for hit in hits) >= MANY_DUPLICATES:
            # Only so many candidates of a large scope are considered, and most of them may be duplicates.
            with store.reading(where.scope.org):
                ranked = ranking(
                    embedded.question,
                    embedder=embedded.embedder,
                    candidates=MOST_CANDIDATES,
                    kept=indexer.columns.select(store, where),
                )
    elif with_pinned:
        pinned = _pinned(store, where)
    if filtered and not any(hit.relevance >= min_relevance for hit in ranked.hits):
        newest = (
            _distinct(store, where, limit=limit) if distinct else _newest_and_important(store, where, limit=limit)
        )
        return Recalled(newest, matched=False, sought=question.sought, pinned=pinned)
    return Recalled(ranked.hits, sought=question.sought, pinned=pinned, weak=ranked.weak)


class _Embedded(NamedTuple):
    """A question with its vector, if it has a useful one."""

    question: "Question"
    embedder: str
    recorded: Embedding | None
    """The embedding that the store was taken to have."""


def _embedded(indexer: Indexer, question: "Question", query: str, org: str, *, expected: bool) -> _Embedded:
    from satchel.recall.scoring import has_useful_vectors

    recorded, vector = None, None
    if question.terms:
        recorded = indexer.embedding(org=org, expected=expected)
        vector = indexer.query_vector(query, org=org, recorded=recorded)
    # Afterwards, because this may have changed it.
    embedder = indexer.embedder.name if indexer.embedder else "none"
    if vector is not None and has_useful_vectors(embedder, latin=question.latin):
        question = msgspec.structs.replace(question, vector=vector)
    return _Embedded(question, embedder, recorded)


def _pinned(store: SearchStore, where: Filter) -> list[Memory]:
    return store.select(msgspec.structs.replace(where, pinned=True), limit=MAX_LIMIT)


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
    relevant_only: bool = False,
) -> Recalled:
    """Return the candidates of a context block: pinned memories, then matches of the query.

    Without a query, the recent and important memories take the place of matches. `relevant_only` is that of `find`.
    """
    if query is None:
        found = Recalled(_newest_and_important(store, where, limit=limit), pinned=_pinned(store, where))
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
            relevant_only=relevant_only,
            with_pinned=True,
        )
    known = {hit.memory.id: hit for hit in found.hits}
    ahead = {memory.id: known.get(memory.id) or Hit(memory, PINNED_SCORE) for memory in found.pinned}
    if not ahead:
        return found
    hits = [*ahead.values(), *(hit for hit in found.hits if hit.memory.id not in ahead)]
    return found._replace(hits=hits, weak=_behind(found, ahead))


def _behind(found: Recalled, ahead: Collection[str]) -> "Weak | None":
    """Return the weak candidates behind hits of which some were moved to the front."""
    if (weak := found.weak) is None:
        return None
    import numpy as np

    moved = np.cumsum([0, *(hit.memory.id in ahead for hit in found.hits)])
    return weak._replace(places=len(ahead) + weak.places - moved[weak.places])


def _distinct(store: SearchStore, where: Filter, *, limit: int) -> list[Hit]:
    """Return the newest and most important memories, with duplicates merged; reads more until there are enough."""
    from satchel.recall.ranking import duplicates

    wanted = limit
    while True:
        found = _newest_and_important(store, where, limit=wanted)
        same = duplicates([hit.memory for hit in found])
        if len(found) - len(same) >= limit or len(found) < wanted or wanted == MAX_LIMIT:
            return _merged(found, same)[:limit]
        wanted = min(2 * wanted, MAX_LIMIT)


def _newest_and_important(store: SearchStore, where: Filter, *, limit: int) -> list[Hit]:
    """Return the newest memories and older important ones. Scores fall with age and rise with importance."""
    newest = store.select(where, limit=limit)
    important = store.select(msgspec.structs.replace(where, important=True), limit=limit)
    both: dict[str, Memory] = {memory.id: memory for memory in (*newest, *important)}
    by_age = sorted(both.values(), key=lambda memory: (memory.at, memory.id), reverse=True)
    hits = [Hit(memory, _score(memory, place)) for place, memory in enumerate(by_age)]
    return sorted(hits, key=lambda hit: -hit.score)[:limit]


def _merged(hits: Sequence[Hit], same: Mapping[int, int]) -> list[Hit]:
    copies: dict[int, list[str]] = {}
    for place, other in same.items():
        copies.setdefault(other, []).append(hits[place].memory.id)
    return [
        msgspec.structs.replace(hit, duplicates=tuple(copies.get(place, ())))
        for place, hit in enumerate(hits)
        if place not in same
    ]


def _score(memory: Memory, place: int) -> float:
    return (0.1 + 0.9 * memory.importance) / (1 + place / HALF_LIFE)
