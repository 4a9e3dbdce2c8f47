"""A database as the shared code sees it: named statements, rows of the driver, connections handed to threads."""

import contextlib
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from satchel.errors import StoreBusyError, StoreError
from satchel.model.memory import Memory
from satchel.store.contract import Embedding

__all__ = ["Database", "Dialect", "Generation", "Pool", "Rows", "Statements", "VectorTables"]


SHARED = Path(__file__).with_name("statements.sql")

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)


# What is quoted, a cast, or a parameter.
_PARAMETER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|::|:([a-z_]+)")


class Statements:
    """Statements by name, with what is the same in all of them filled in.

    In the files a parameter is written `:name`. It is spelled as the driver wants it once, when they are read.
    """

    def __init__(self, folder: Path, fixed: Mapping[str, str], dialect: "Dialect") -> None:
        self._folder = folder
        self._dialect = dialect
        self.fixed = dict(fixed)
        self.statement = lru_cache(maxsize=512)(self._statement)

    def _statement(self, name: str, **parts: str) -> str:
        return self.named[name].format(**self.fixed, **parts)

    @cached_property
    def named(self) -> dict[str, str]:
        files = (SHARED, self._folder / "queries.sql", self._folder / "ledger.sql")
        blocks = _NAME.split("\n".join(file.read_text(encoding="utf-8") for file in files))[1:]
        return {
            name: self._spelled(_COMMENT.sub("", body).strip())
            for name, body in zip(blocks[::2], blocks[1::2], strict=True)
        }

    def _spelled(self, text: str) -> str:
        return _PARAMETER.sub(lambda found: self._dialect.value(found[1]) if found[1] else found[0], text)


# A connection as the shared code sees it: rows of named statements, whatever the driver.


class Dialect(NamedTuple):
    """How one database says what the others say otherwise."""

    unindexed: str
    """With this alias a filter is only tested, and never chosen as the way in instead of the id."""
    listed: str
    """A condition on {alias} that its id is in a JSON array, whose parameter is {value}."""
    tagged: str
    """A condition on {alias} that one tag, whose parameter is {value}, is there."""
    contains: str
    """A condition on {alias} that its metadata contains a text, whose parameter is {value}."""
    named: str
    """The parameter of a {name}."""
    numbered: str
    """The parameter with a {number}, from 1."""

    def value(self, name: str) -> str:
        """The place of a named value in a statement."""
        return self.named.format(name=name)

    def values(self, names: Iterable[str]) -> str:
        """The places of several named values."""
        return ", ".join(map(self.value, names))


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
    def vectors(self) -> "VectorTables":
        """Where vectors are kept."""

    def statement(self, name: str, **parts: str) -> str:
        """One statement by name, its variable parts filled in."""

    def execute(self, statements: str, bindings: Any = ...) -> Rows:
        """Run a statement with its values by name; a sequence is for numbered ones."""

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

    def scrub(self) -> None:
        """Keep no copy of what this transaction removes once it is committed."""


# Vectors by generation, which is what one embedder made.


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


class VectorTables(ABC):
    """The vectors that one connection sees."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def generation(self, state: str = "current") -> Generation | None:
        row = self._db.execute(self._db.statement("generation"), {"state": state}).fetchone()
        return None if row is None else Generation(*row)

    def generations(self) -> list[Generation]:
        """Those that have vectors."""
        found = [self.generation(state) for state in ("current", "building")]
        return [each for each in found if each is not None and each.dimensions]

    def create(self, embedding: Embedding, *, state: str) -> Generation:
        number = self._db.execute(
            self._db.statement("insert_generation"), {**embedding._asdict(), "state": state}
        ).get
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

    @abstractmethod
    def before_org_goes(self, org: str) -> None:
        """The same for all passages of an org."""


# The connections of one store, handed to whichever thread asks.


class Closable(Protocol):
    def close(self) -> Any: ...


C = TypeVar("C", bound=Closable)

# A forked child must neither use nor close its parent's connections: closing would drop locks.
_abandoned: list[object] = []


class Pool(Generic[C]):
    """Opens connections as threads need them, up to a limit, and reuses the idle ones."""

    def __init__(self, connect: Callable[[], C], *, limit: int, patience: float | None = None) -> None:
        self._connect = connect
        self._limit = limit
        self._patience = patience
        """For how many seconds a thread waits for one; None for as long as it takes."""
        self._idle: list[C] = []
        self._busy = 0
        self._closed = False
        self._changed = threading.Condition()
        self._writer = threading.RLock()
        self._pid = os.getpid()

    @contextlib.contextmanager
    def connection(self) -> Iterator[C]:
        connection = self.take()
        try:
            yield connection
        finally:
            self.give_back(connection)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One thread writes at a time; those that wait for their turn leave the connections to readers."""
        self._leave_to_parent()
        with self._writer:
            yield

    def close(self) -> None:
        """Close every connection, after those in use have come back."""
        self._leave_to_parent()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._busy == 0)
            while self._idle:
                self._idle.pop().close()

    def take(self) -> C:
        self._leave_to_parent()
        with self._changed:
            free = self._changed.wait_for(
                lambda: self._closed or self._idle or self._busy < self._limit, self._patience
            )
            if self._closed:
                raise StoreError("this store is closed; open it again")
            if not free:
                raise StoreBusyError(
                    f"all {self._limit} connections were in use for {self._patience:.0f} s; try again"
                )
            self._busy += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect()
        except BaseException:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()
            raise

    def give_back(self, connection: C) -> None:
        with self._changed:
            self._busy -= 1
            self._idle.append(connection)
            self._changed.notify_all()

    def adopt(self, connection: C) -> None:
        """Take in one that was made elsewhere."""
        with self._changed:
            self._idle.append(connection)
            self._changed.notify_all()

    def discard(self, connection: C) -> None:
        """Give back one that is of no more use."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()
        connection.close()

    def _leave_to_parent(self) -> None:
        """In a forked child: begin anew, with locks that no thread of the parent holds."""
        if self._pid != os.getpid():
            _abandoned.extend(self._idle)
            self._idle, self._busy = [], 0
            self._changed, self._writer = threading.Condition(), threading.RLock()
            self._pid = os.getpid()
