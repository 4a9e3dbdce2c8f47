"""Vectors by generation, which is what one embedder made."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from satchel.store.contract import Embedding
from satchel.store.sql.database import Database

__all__ = ["Generation", "Vectors"]


class Generation(NamedTuple):
    """The vectors of one embedder, as a store records them."""

    number: int
    name: str
    dimensions: int

    @property
    def embedding(self) -> Embedding:
        return Embedding(self.name, self.dimensions)

    @property
    def code_bytes(self) -> int:
        return -(-self.dimensions // 8)

    @property
    def parts(self) -> dict[str, str]:
        """What statements about its vectors name."""
        return {"generation": str(self.number), "vectors": f"vector_{self.number}", "codes": f"code_{self.number}"}


class Vectors(ABC):
    """The vectors that one connection sees."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def generation(self, state: str = "current") -> Generation | None:
        row = self._db.execute(self._db.statement("generation"), (state,)).fetchone()
        return None if row is None else Generation(*row)

    def generations(self) -> list[Generation]:
        """Those that have vectors."""
        found = [self.generation(state) for state in ("current", "building")]
        return [each for each in found if each is not None and each.dimensions]

    def create(self, embedding: Embedding, *, state: str) -> Generation:
        number = self._db.execute(self._db.statement("insert_generation"), (*embedding, state)).get
        return Generation(number, *embedding)

    @abstractmethod
    def drop(self, found: Generation) -> None: ...

    @abstractmethod
    def write(self, to: Generation, passages: Sequence[tuple[int, bytes, bytes]]) -> None:
        """Write the vector and the code of each passage; none of them has one."""

    @abstractmethod
    def delete(self, found: Generation, passages: Sequence[tuple[int]]) -> None: ...

    @abstractmethod
    def before_passages_go(self, found: Iterable[Generation], passages: Sequence[tuple[int]]) -> None:
        """Take out what does not go along with its passage by itself."""
