"""Index entries of memories for full-text search, and word counts of a tenant."""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2s
from typing import NamedTuple

from satchel.model.memory import Memory
from satchel.store.rows import json_names
from satchel.text.terms import terms

__all__ = ["SIGN", "Tally", "index_entry", "query_text", "sign", "tag_keys"]


# The length of the prefix of a tenant, which each of its terms starts with.
SIGN = 6
# Weights of title, tags and text, as in SQLite.
TITLE, TAGS, TEXT = 4, 2, 1
# Limits of tsvector: positions of a term, length of a term, total size.
MOST_POSITIONS = 255
LONGEST_TERM = 500
MOST_BYTES = 900_000

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


@lru_cache(maxsize=4096)
def sign(org: str) -> str:
    """Return the prefix of a tenant's terms, which keeps the index entries of tenants apart."""
    return blake2s(org.encode(), digest_size=SIGN // 2).hexdigest()


def tag_keys(memory: Memory) -> list[str]:
    """Return the tags with ASCII letters in lower case: SQLite compares them the same way."""
    return [tag.translate(_LOWER) for tag in memory.tags]


class IndexedTerms(NamedTuple):
    """The index entry of a memory."""

    vector: str
    """The tsvector as text."""
    length: int
    """The number of words."""
    terms: list[str]


def index_entry(memory: Memory) -> IndexedTerms:
    weights: Counter[str] = Counter()
    length = 0
    tags = json_names(memory.tags) if memory.tags else ""
    for text, weight in ((memory.title or "", TITLE), (tags, TAGS), (memory.text, TEXT)):
        found = terms(text)
        length += len(found)
        for term in found:
            weights[term] += weight
    kept = list(_kept(weights.items()))
    before = sign(memory.scope.org)
    vector = " ".join(f"{quoted(before, term)}:{_POSITIONS[count]}" for term, count in kept)
    return IndexedTerms(vector, length, [term for term, _ in kept])


def _kept(weights: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    size = 0
    for term, weight in weights:
        count = min(weight, MOST_POSITIONS)
        bytes_of_term = len(term) if term.isascii() else len(term.encode())
        size += bytes_of_term + SIGN + 4 + 2 * count
        if size > MOST_BYTES:
            return
        if bytes_of_term <= LONGEST_TERM:
            yield term, count


def quoted(before: str, term: str) -> str:
    """Return a term in quotes. Letters and digits of any script need no further escaping."""
    return f"'{before}{term}'"


def query_text(org: str, words: Iterable[str]) -> str:
    """Return a tsquery that requires all of these terms."""
    before = sign(org)
    return " & ".join(quoted(before, word) for word in words if len(word.encode()) <= LONGEST_TERM)


_POSITIONS = ["", *(",".join(map(str, range(1, count + 1))) for count in range(1, MOST_POSITIONS + 1))]


# Changes of word counts, collected until the transaction ends.
#
# Otherwise every memory would update the rows of common words, and PostgreSQL keeps all old versions of a row until
# the transaction ends: each update would have to walk through them.


class Tally:
    """Changes of the word counts of one tenant."""

    def __init__(self) -> None:
        self.terms: Counter[str] = Counter()
        self.memories = 0
        self.words = 0

    def count(self, terms: Iterable[str], length: int, *, sign: int = 1) -> None:
        """Count a memory that is added, or removed with sign -1."""
        for term in terms:
            self.terms[term] += sign
        self.memories += sign
        self.words += sign * length

    @property
    def changes(self) -> list[tuple[str, int]]:
        """The changed terms in a fixed order, so that transactions lock rows in the same order."""
        return sorted((term, change) for term, change in self.terms.items() if change)

    def copied(self) -> "Tally":
        other = copy.copy(self)
        other.terms = self.terms.copy()
        return other
