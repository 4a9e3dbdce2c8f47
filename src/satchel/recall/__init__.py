"""From a query to ranked candidates."""

from satchel.memory import Hit
from satchel.segment import query_terms
from satchel.store import Filter, Store

__all__ = ["recall"]

# A pasted page is searched by its first words: more terms cost time and hardly change the ranking.
MAX_TERMS = 64


def recall(store: Store, query: str, where: Filter, *, limit: int) -> list[Hit]:
    """The memories that match any word of the query, best first."""
    return store.search(where, query_terms(query)[:MAX_TERMS], limit=limit)
