"""What a transaction adds to the counts of a tenant's words, gathered until it ends.

Every memory would change the same rows of common words, and PostgreSQL keeps each old state of a row until the
transaction ends: a thousand of them would be walked through for every further one.
"""

import copy
from collections import Counter
from collections.abc import Iterable

__all__ = ["Tally"]


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
