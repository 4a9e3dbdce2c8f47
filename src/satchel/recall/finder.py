"""What a question finds, and what matters without one."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from satchel.model.checks import MAX_LIMIT
from satchel.model.filters import Filter
from satchel.model.memory import Hit, Memory, utc_now
from satchel.recall.indexer import Indexer
from satchel.store.contract import SearchStore
from satchel.text.near_duplicates import alike, equal, word_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MIN_RELEVANCE", "Finder", "Found", "Repeats", "enough_for", "is_relevant", "recall", "repeated"]


Repeats = Callable[[Sequence[Memory]], dict[int, int]]
"""For each memory that says the same as one before it, the place of that one."""


def recall(
    store: SearchStore,
    query: str,
    where: Filter,
    *,
    limit: int,
    vector: "Callable[[str], NDArray[np.float32] | None]" = lambda query: None,
    embedder: str = "none",
    now: datetime | None = None,
    surroundings: bool = False,
    explain: bool = False,
    repeats: Repeats | None = None,
    candidates: int | None = None,
) -> list[Hit]:
    """The memories that are most likely needed for a query, best first.

    `vector` embeds the query, `embedder` is the name of what does so; `surroundings` brings also what
    stands beside a match. `repeats` tells which memories say the same as one before them: these are not hits of
    their own, and the limit is filled with others, from as many `candidates` as there are, or by default
    from those that the limit itself asks for.
    """
    # Imported when first needed: numpy takes longer to load than most commands take in all.
    from satchel.recall.question import read_question
    from satchel.recall.ranking import rank
    from satchel.recall.scoring import family, near_enough, reads

    moment = now or utc_now()
    question = read_question(query, now=moment, vector=vector)
    if not reads(embedder, latin=question.latin):
        question = msgspec.structs.replace(question, vector=None)
    if not question.terms and not question.times:
        return []
    # The question is embedded before, since that may take a server's time.
    with store.reading(where.scope.org):
        return rank(
            store,
            question,
            where,
            limit=limit,
            now=moment,
            family=family(embedder),
            close=near_enough(embedder),
            surroundings=surroundings,
            explain=explain,
            repeats=repeats,
            candidates=candidates,
        )


# What a context is made of: what a question finds, and what matters without one.


SHORT_LINE = 6
FEWEST_CANDIDATES = 50
MOST_CANDIDATES = 2_000

# How many memories back it is until one is worth half of the newest.
HALF_AS_NEW = 20
PINNED_SCORE = 1.0

# Turns with fewer words are not compared: "Yes." said twice is two answers.
SHORTEST_TURN = 5

# So many duplicates may have kept others from being candidates.
MANY_COPIES = 100

# What is less likely to be needed than this is not worth reading, whatever `min_relevance` is.
FLOOR = 0.0001
# Chosen where evidence begins to be lost faster than tokens are saved: docs/recall.md has the curves.
MIN_RELEVANCE = 0.12


class Found(NamedTuple):
    """What was found, and whether by the question."""

    hits: list[Hit]
    matched: bool = True
    """False where nothing relevant matched and these are the newest and most important that pass a filter."""


def is_relevant(hit: Hit, min_relevance: float) -> bool:
    """Whether a hit is worth its tokens, however much room there is."""
    return hit.relevance >= min_relevance and hit.score >= FLOOR


def enough_for(budget: int | None) -> int:
    """How many candidates could fill a budget with short lines."""
    return MOST_CANDIDATES if budget is None else min(max(budget // SHORT_LINE, FEWEST_CANDIDATES), MOST_CANDIDATES)


class Finder:
    """Finds memories in a store, by a question or without one; questions are asked `now`, or as of a moment."""

    def __init__(self, store: SearchStore, indexer: Indexer, *, now: datetime | None = None) -> None:
        self._store = store
        self._indexer = indexer
        self._now = now

    def asked(
        self,
        query: str,
        where: Filter,
        *,
        limit: int,
        filtered: bool = False,
        min_relevance: float = 0.0,
        surroundings: bool = False,
        explain: bool = False,
        distinct: bool = False,
    ) -> Found:
        """The best matches, relevant or not; with `surroundings` also what stands beside them.

        With `distinct` memories that say the same are one hit, before the limit is applied.

        Where a caller `filtered` by kind, tag, tier or time, that is never answered with nothing while something
        passes the filter: if no match reaches `min_relevance`, the newest and most important come instead.
        """
        search = partial(
            recall,
            self._store,
            query,
            where,
            limit=limit,
            vector=self._indexer.query_vector,
            embedder=self._indexer.embedder.name if self._indexer.embedder else "none",
            now=self._now or where.valid_at,
            surroundings=surroundings,
            explain=explain,
            repeats=repeated if distinct else None,
        )
        hits = search()
        if len(hits) < limit and sum(len(hit.duplicates) for hit in hits) >= MANY_COPIES:
            # Of a large scope only so many candidates are looked at, and copies may be most of them.
            hits = search(candidates=MOST_CANDIDATES)
        if filtered and not any(hit.relevance >= min_relevance for hit in hits):
            newest = self._distinct(where, limit=limit) if distinct else self._unasked(where, limit=limit)
            return Found(newest, matched=False)
        return Found(hits)

    def sought(self, query: str) -> tuple[str, ...]:
        """What tells the sentence of a passage that a query is about."""
        from satchel.recall.question import sought_words

        return sought_words(query)

    def for_context(
        self,
        query: str | None,
        where: Filter,
        *,
        limit: int,
        filtered: bool = False,
        min_relevance: float = 0.0,
        explain: bool = False,
    ) -> Found:
        """What may go into a context: all that is pinned, then what is found, or else is recent and important."""
        pinned = self._store.select(msgspec.structs.replace(where, pinned=True), limit=MAX_LIMIT)
        if query is None:
            found = Found(self._unasked(where, limit=limit))
        else:
            found = self.asked(
                query,
                where,
                limit=limit,
                filtered=filtered,
                min_relevance=min_relevance,
                surroundings=True,
                explain=explain,
            )
        known = {hit.memory.id: hit for hit in found.hits}
        ahead = {memory.id: known.get(memory.id) or Hit(memory, PINNED_SCORE) for memory in pinned}
        hits = [*ahead.values(), *(hit for hit in found.hits if hit.memory.id not in ahead)]
        return found._replace(hits=hits)

    def _distinct(self, where: Filter, *, limit: int) -> list[Hit]:
        """The same as `_unasked`, but as many that differ, where there are so many."""
        wanted = limit
        while True:
            found = self._unasked(where, limit=wanted)
            same = repeated([hit.memory for hit in found])
            if len(found) - len(same) >= limit or len(found) < wanted or wanted == MAX_LIMIT:
                return _collapsed(found, same)[:limit]
            wanted = min(2 * wanted, MAX_LIMIT)

    def _unasked(self, where: Filter, *, limit: int) -> list[Hit]:
        """The newest, and older ones that are important; worth less with age, more with importance."""
        newest = self._store.select(where, limit=limit)
        important = self._store.select(msgspec.structs.replace(where, important=True), limit=limit)
        both: dict[str, Memory] = {memory.id: memory for memory in (*newest, *important)}
        by_age = sorted(both.values(), key=lambda memory: (memory.at, memory.id), reverse=True)
        hits = [Hit(memory, _worth(memory, place)) for place, memory in enumerate(by_age)]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]


def repeated(memories: Sequence[Memory]) -> dict[int, int]:
    """For each memory that says the same as one before it, the place of that one.

    Never two with different titles, of different speakers or about different users, whatever their texts; and no
    short turns of a conversation, where "Yes." is an answer to one question.
    """
    texts = [memory.text for memory in memories]
    same = alike(texts) | equal(texts)
    if not same:
        return {}
    found: dict[int, int] = {}
    first: dict[int, list[int]] = {}
    for place, memory in enumerate(memories):
        others = first.setdefault(_origin(same, place), [])
        other = next((each for each in others if _compatible(memory, memories[each])), None)
        if other is None:
            others.append(place)
        else:
            found[place] = other
    return found


def _origin(same: Mapping[int, int], place: int) -> int:
    while place in same:
        place = same[place]
    return place


def _compatible(one: Memory, other: Memory) -> bool:
    named = ((one.title, other.title), (one.speaker, other.speaker), (one.scope.user, other.scope.user))
    if any(mine and theirs and mine.casefold() != theirs.casefold() for mine, theirs in named):
        return False
    turns = "conversation" in (one.tier, other.tier)
    return not turns or word_count(one.text) >= SHORTEST_TURN


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
