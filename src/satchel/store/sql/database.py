"""A connection as the shared code sees it: rows of named statements, whatever the driver."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from satchel.model.memory import Memory

if TYPE_CHECKING:
    from satchel.store.sql.vectors import Vectors

__all__ = ["Database", "Dialect", "Rows"]


class Dialect(NamedTuple):
    """How one database says what the others say otherwise."""

    unindexed: str
    """With this alias a filter is only tested, and never chosen as the way in instead of the id."""
    listed: str
    """A condition on {alias} that its id is in a JSON array."""
    tagged: str
    """A condition on {alias} that one tag is there."""


class Rows(Protocol):
    """What a statement gives."""

    @property
    def get(self) -> Any:
        """The only value of the first row, or all of its values."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """One connection, inside a transaction or not."""

    dialect: Dialect

    @property
    def vectors(self) -> "Vectors":
        """Where vectors are kept."""

    def statement(self, name: str, **parts: str) -> str:
        """One statement by name, its variable parts filled in."""

    def execute(self, statements: str, bindings: Any = ...) -> Rows: ...
    def executemany(self, statements: str, sequenceofbindings: Iterable[Any]) -> Any: ...

    def changes(self) -> int:
        """How many rows the last statement changed."""

    def together(self) -> AbstractContextManager[None]:
        """Statements whose answers nobody waits for may be sent at once."""

    def columns(self) -> Sequence[str]:
        """What a memory's row has, in the order of `row`."""

    def row(self, memory: Memory) -> tuple[Any, ...]: ...

    def words_come(self, memories: Sequence[Memory]) -> None:
        """These memories, whose rows were just made by `row`, are new or have new words or tags: index them."""

    def words_go(self, seqs: Sequence[int]) -> None:
        """These are about to be removed, or to have other words or tags."""
