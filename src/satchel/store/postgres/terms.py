"""The words of a memory as the index keeps them, and the counts of a tenant's words."""

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


# Characters of a tenant's sign, which stands before each of its terms.
SIGN = 6
# Title over tags over text, as SQLite's index weighs them.
TITLE, TAGS, TEXT = 4, 2, 1
# PostgreSQL keeps no more positions of a term, no longer terms, and no longer lists of them.
MOST_POSITIONS = 255
LONGEST_TERM = 500
MOST_BYTES = 900_000

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


@lru_cache(maxsize=4096)
def sign(org: str) -> str:
    """Tells the terms of one tenant from those of others, so that their lists in the index are apart."""
    return blake2s(org.encode(), digest_size=SIGN // 2).hexdigest()


def tag_keys(memory: Memory) -> list[str]:
    """As SQLite compares tags: without regard to the case of ASCII letters."""
    return [tag.translate(_LOWER) for tag in memory.tags]


class IndexedTerms(NamedTuple):
    """A memory as the index keeps it."""

    vector: str
    """The text of a tsvector."""
    length: int
    """How many words there are in all."""
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
    """A term of the index, in quotes: letters and digits of any script need no more."""
    return f"'{before}{term}'"


def query_text(org: str, words: Iterable[str]) -> str:
    """All of these terms, as a tsquery."""
    before = sign(org)
    return " & ".join(quoted(before, word) for word in words if len(word.encode()) <= LONGEST_TERM)


_POSITIONS = ["", *(",".join(map(str, range(1, count + 1))) for count in range(1, MOST_POSITIONS + 1))]


# What a transaction adds to the counts of a tenant's words, gathered until it ends.
#
# Every memory would change the same rows of common words, and PostgreSQL keeps each old state of a row until the
# transaction ends: a thousand of them would be walked through for every further one.


class Tally:
    """The changes of one tenant's counts."""

    def __init__(self) -> None:
        self.terms: Counter[str] = Counter()
        self.memories = 0
        self.words = 0

    def count(self, terms: Iterable[str], length: int, *, sign: int = 1) -> None:
        """One memory that comes, or goes."""
        for term in terms:
            self.terms[term] += sign
        self.memories += sign
        self.words += sign * length

    @property
    def changes(self) -> list[tuple[str, int]]:
        """Terms that are in more or fewer memories, in an order that is the same for all."""
        return sorted((term, change) for term, change in self.terms.items() if change)

    def copied(self) -> "Tally":
        other = copy.copy(self)
        other.terms = self.terms.copy()
        return other
