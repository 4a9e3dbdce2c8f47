"""All that a store holds for one org, row by row: what moves to another store, and what is compared there."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, get_args

from satchel.model.memory import Memory
from satchel.store.contract import Embedding, Record

__all__ = ["KINDS", "Held", "Holdings", "Mark", "Outcome", "Packet", "Passage", "Row"]

Held = Literal[
    "memories",
    "uses",
    "history",
    "relations",
    "passages",
    "vectors",
    "sessions",
    "entries",
    "turns",
    "contents",
]
KINDS: tuple[Held, ...] = get_args(Held)

Outcome = Literal["added", "updated", "kept", "newer"]
"""What became of something that was brought: it was there already, or is there in a newer version."""


class Row(NamedTuple):
    """One row of a kind, the same in every store that holds it."""

    key: tuple[Any, ...]
    values: tuple[Any, ...]


class Mark(NamedTuple):
    """What tells whether a memory is the same in two stores, without its text."""

    number: int
    id: str
    updated_at: int
    changes: int
    uses: int | None
    used_at: int | None
    waiting: int | None
    """1 if it waits for its vectors."""

    @property
    def state(self) -> tuple[int | None, ...]:
        return self[2:]


class Passage(NamedTuple):
    """One passage as a store keeps it, with the vector and code of the store's embedder, if it has them."""

    start: int
    end: int
    flags: int
    codes: bytes
    vector: tuple[bytes, bytes] | None


class Packet(NamedTuple):
    """A memory with all that is kept of it."""

    record: Record
    passages: tuple[Passage, ...]

    @property
    def memory(self) -> Memory:
        return self.record.memory


class Holdings(Protocol):
    """What one org has in one store. Each page that is read, and each call that writes, is a transaction."""

    def exists(self) -> bool:
        """Whether the org has anything here."""

    def whereabouts(self) -> str:
        """What tells the place of this store from all others, however it was named; '' in memory."""

    def amounts(self) -> dict[Held, int]:
        """How many rows there are of each kind."""

    def embedding(self) -> Embedding | None:
        """The embedder whose vectors these are."""

    def rows(self, kind: Held) -> Iterator[Row]:
        """All rows of a kind, in the order of their keys."""

    def rows_of_session(self, kind: Literal["entries", "turns"], session: str) -> Iterator[Row]:
        """The rows of one session, in the order of their keys."""

    def purged(self) -> Iterator[Row]:
        """The history of memories that are gone."""

    def marks(self, *, after: int, limit: int) -> list[Mark]:
        """The memories with numbers above one, in the order of their numbers."""

    def marks_of(self, ids: Sequence[str]) -> dict[str, Mark]:
        """Those of these memories that are here."""

    def packets(self, marks: Sequence[Mark]) -> list[Packet]:
        """All that is kept of these memories, in the same order; without those that are gone."""

    def take(self, packets: Sequence[Packet], embedding: Embedding | None) -> list[Outcome]:
        """Store memories of another store as they are, all or none, in this order; what is newer here stays."""

    def take_purged(self, rows: Sequence[Row]) -> None:
        """Store the history of memories that are gone; what is left of them here goes, unless it is newer."""

    def take_relations(self, rows: Sequence[Row]) -> None:
        """Store relations between memories that are here; what is newer here stays."""

    def take_contents(self, rows: Sequence[Row]) -> None:
        """Store contents that are not here; those that are were last used at the later time."""

    def take_session(self, session: Row, entries: Iterator[Row], turns: Iterator[Row]) -> Outcome:
        """Store the books of a session with all of its entries and turns; one that has gone on here stays."""

    def session(self, id: str) -> Row | None:
        """The books of one session."""
