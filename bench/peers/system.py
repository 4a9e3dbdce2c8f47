"""What a system is given and what it must do. Needs only the standard library, like everything a worker imports."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from bench.peers.vectors import VectorTable

__all__ = ["Hit", "Memory", "System"]


class Memory(NamedTuple):
    """One memory. Systems without these fields index `searched`, which starts with the speaker or the title."""

    id: str
    text: str
    searched: str
    at: str | None = None
    session: str | None = None
    speaker: str | None = None
    title: str | None = None
    kind: str | None = None
    tags: Sequence[str] = ()
    project: str | None = None

    @property
    def metadata(self) -> dict[str, str]:
        """What is known besides the text."""
        known = {"at": self.at, "session": self.session, "speaker": self.speaker, "project": self.project}
        return {name: value for name, value in known.items() if value is not None}


class Hit(NamedTuple):
    """One result: the caller's id, the text as the system returned it, and its score; more is better."""

    id: str
    text: str
    score: float


class System(ABC):
    """A store in a folder that is its own. Creating an object opens the store, or creates it in an empty folder."""

    packages: ClassVar[Sequence[str]]
    """The distributions whose versions are shown."""
    setup: ClassVar[str]
    """In one line, how it is configured."""

    @abstractmethod
    def __init__(self, folder: Path, vectors: VectorTable) -> None:
        pass

    @abstractmethod
    def ingest(self, memories: Sequence[Memory]) -> None:
        """Add memories through the bulk interface, if there is one. They are on disk afterwards."""

    @abstractmethod
    def add(self, memory: Memory) -> None:
        """Add one memory. It is on disk afterwards."""

    @abstractmethod
    def search(self, query: str, limit: int) -> Iterable[Hit]:
        """Return at most `limit` results with their texts, best first."""

    @abstractmethod
    def close(self) -> None:
        pass
