"""From a query to ranked candidates: words, surroundings, meaning, relations, time and trust, fused."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from satchel.model.fields import utc_now
from satchel.model.memory import Hit, Memory
from satchel.store.contract import Filter, SearchStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Repeats", "recall"]

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
    from satchel.recall.fusion import family, near_enough, reads
    from satchel.recall.question import read_question
    from satchel.recall.ranking import rank

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
