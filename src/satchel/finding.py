"""What a context is made of: what a question finds, and what matters without one."""

from typing import NamedTuple

import msgspec

from satchel.indexing import Indexer
from satchel.limits import MAX_LIMIT
from satchel.memory import Hit, Memory
from satchel.recall import recall
from satchel.store import Filter, Store

__all__ = ["FLOOR", "Finder", "Found", "enough_for"]

SHORT_LINE = 6
FEWEST_CANDIDATES = 50
MOST_CANDIDATES = 2_000

# How many memories back it is until one is worth half of the newest.
HALF_AS_NEW = 20
PINNED_SCORE = 1.0

# What is less likely to be needed than this is not worth reading, however much room there is.
FLOOR = 0.0001


class Found(NamedTuple):
    """What was found, and whether by the question."""

    hits: list[Hit]
    matched: bool = True
    """False where nothing matched and these are the newest and most important that pass an explicit filter."""


def enough_for(budget: int | None) -> int:
    """How many candidates could fill a budget with short lines."""
    return MOST_CANDIDATES if budget is None else min(max(budget // SHORT_LINE, FEWEST_CANDIDATES), MOST_CANDIDATES)


class Finder:
    """Finds memories in a store, by a question or without one."""

    def __init__(self, store: Store, indexer: Indexer) -> None:
        self._store = store
        self._indexer = indexer

    def asked(
        self,
        query: str,
        where: Filter,
        *,
        limit: int,
        filtered: bool = False,
        surroundings: bool = False,
        explain: bool = False,
    ) -> Found:
        """The best matches; with `surroundings` also what stands beside them.

        Where a caller `filtered` by kind, tag, tier or time, that is never answered with nothing while something
        passes the filter.
        """
        hits = recall(
            self._store,
            query,
            where,
            limit=limit,
            vector=self._indexer.query_vector,
            embedder=self._indexer.embedder.name if self._indexer.embedder else "none",
            now=where.valid_at,
            surroundings=surroundings,
            explain=explain,
        )
        if not hits and filtered:
            return Found(self._unasked(where, limit=limit), matched=False)
        return Found(hits)

    def similar(self, memory: Memory, where: Filter, *, limit: int) -> list[Hit]:
        """What is about the same thing as a memory."""
        from satchel.recall.similar import similar

        return similar(self._store, memory, where, limit=limit)

    def sought(self, query: str) -> tuple[str, ...]:
        """What tells the sentence of a passage that a query is about."""
        from satchel.recall.question import sought_words

        return sought_words(query)

    def for_context(
        self, query: str | None, where: Filter, *, limit: int, filtered: bool = False, explain: bool = False
    ) -> Found:
        """What may go into a context: all that is pinned, then what is found, or else is recent and important."""
        pinned = self._store.select(msgspec.structs.replace(where, pinned=True), limit=MAX_LIMIT)
        if query is None:
            found = Found(self._unasked(where, limit=limit))
        else:
            found = self.asked(query, where, limit=limit, filtered=filtered, surroundings=True, explain=explain)
        known = {hit.memory.id: hit for hit in found.hits}
        ahead = {memory.id: known.get(memory.id) or Hit(memory, PINNED_SCORE) for memory in pinned}
        hits = [*ahead.values(), *(hit for hit in found.hits if hit.memory.id not in ahead)]
        return found._replace(hits=hits)

    def _unasked(self, where: Filter, *, limit: int) -> list[Hit]:
        """The newest, and older ones that are important; worth less with age, more with importance."""
        newest = self._store.select(where, limit=limit)
        important = self._store.select(msgspec.structs.replace(where, important=True), limit=limit)
        both: dict[str, Memory] = {memory.id: memory for memory in (*newest, *important)}
        by_age = sorted(both.values(), key=lambda memory: (memory.at, memory.id), reverse=True)
        hits = [Hit(memory, _worth(memory, place)) for place, memory in enumerate(by_age)]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]


def _worth(memory: Memory, place: int) -> float:
    return (0.1 + 0.9 * memory.importance) / (1 + place / HALF_AS_NEW)
