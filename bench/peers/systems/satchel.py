"""Satchel through its public interface, with an embedder that reads the table."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import satchel
from bench.peers.system import Hit, Memory, System
from bench.peers.vectors import DIMENSIONS, VectorTable

if TYPE_CHECKING:
    from satchel.embed.embedder import Vectors

__all__ = ["EMBEDDER_NAME", "Adapter", "draft_of"]

EMBEDDER_NAME = "table-of-minilm"


class TableEmbedder:
    """Reads vectors from the table; `missed` counts the texts that it had to embed because they were not there."""

    name = EMBEDDER_NAME
    dimensions = DIMENSIONS

    def __init__(self, vectors: VectorTable) -> None:
        self._vectors = vectors
        self.missed = 0

    def embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np

        found = [self._vectors.find(text) or self._missing(text) for text in texts]
        return np.frombuffer(bytearray().join(found), np.float32).reshape(-1, DIMENSIONS)

    def _missing(self, text: str) -> bytes:
        from satchel.embed.minilm import MINILM

        self.missed += 1
        return MINILM.embed([text]).tobytes()


def draft_of(memory: Memory) -> satchel.Draft:
    given: dict[str, Any] = {
        "at": memory.at,
        "session": memory.session,
        "speaker": memory.speaker,
        "title": memory.title,
        "kind": memory.kind,
        "tags": list(memory.tags),
        "project": memory.project,
        "tier": "conversation" if memory.speaker is not None else None,
    }
    known = {name: value for name, value in given.items() if value}
    return satchel.Draft(memory.text, ref=memory.id, **known)


class Adapter(System):
    packages = ("satchel",)
    setup = "the defaults; `add_many` in bulk; passages of long memories have vectors of their own"

    def __init__(self, folder: Path, vectors: VectorTable) -> None:
        self._embedder = TableEmbedder(vectors)
        self._bag = satchel.open(folder / "memory.db", embedder=self._embedder)

    @property
    def missed(self) -> int:
        return self._embedder.missed

    def ingest(self, memories: Sequence[Memory]) -> None:
        self._bag.add_many(map(draft_of, memories))
        self._bag.catch_up()

    def add(self, memory: Memory) -> None:
        self._bag.add_many([draft_of(memory)])

    def search(self, query: str, limit: int) -> list[Hit]:
        return [Hit(hit.memory.ref or "", hit.text, hit.score) for hit in self._bag.search(query, limit=limit)]

    def context(self, query: str, budget: int) -> list[str]:
        """Return the ids of the memories in a context."""
        return [hit.memory.ref or "" for hit in self._bag.context(query, token_budget=budget).hits]

    def ranked(
        self, query: str, budgets: Sequence[int], limit: int, min_relevance: float | None, as_of: str | None
    ) -> dict[str, Any]:
        """Return the text of a context for each budget, and the hits of a search. Reads do not count as uses."""
        from bench.evidence import uses_uncounted

        asked: dict[str, Any] = {"as_of": as_of, "min_relevance": min_relevance}
        with uses_uncounted(self._bag):
            texts = [self._bag.context(query, token_budget=budget, **asked).text for budget in budgets]
            hits = self._bag.search(query, limit=limit, **asked)
        return {"texts": texts, "hits": [(hit.memory.ref or "", hit.score) for hit in hits]}

    def close(self) -> None:
        self._bag.close()
