"""The database interface that both stores share: named statements, connections, vectors, connection pool."""

import itertools
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
from satchel.model.patterns import lazy_pattern
from satchel.store.contract import Embedding

__all__ = [
    "ROWS_AT_ONCE",
    "Database",
    "Dialect",
    "Generation",
    "Insert",
    "Pool",
    "Rows",
    "Statements",
    "VectorTables",
    "in_slices",
    "insert_of",
]


SHARED = Path(__file__).with_name("statements.sql")

_NAME = lazy_pattern(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = lazy_pattern(r"^--.*\n?", re.MULTILINE)
_ONE_ROW = lazy_pattern(r"(INSERT (?:OR IGNORE )?INTO [^:?%]+\sVALUES )(\(.*\))((?: ON CONFLICT DO NOTHING)?)")


# Matches a quoted text, a cast, or a parameter.
_PARAMETER = lazy_pattern(r"'(?:[^']|'')*'|\"[^\"]*\"|::|:([a-z_]+)")


class Statements:
    """SQL statements by name, with their common parts filled in.

    In the files a parameter is written `:name`. It is converted to the placeholder of the driver when the files are
    read.
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


# The interface of a connection.


class Dialect(NamedTuple):
    """The SQL fragments that differ between databases."""

    unindexed: str
    """A prefix for an alias that keeps the planner from using an index for a condition."""
    listed: str
    """The condition that the id of {alias} is in the JSON array {value}."""
    tagged: str
    """The condition that {alias} has the tag {value}."""
    contains: str
    """The condition that the metadata of {alias} contains the text {value}."""
    named: str
    """The placeholder for a parameter with a {name}."""
    numbered: str
    """The placeholder for a parameter with a {number}, from 1."""

    def value(self, name: str) -> str:
        """Return the placeholder for a named value."""
        return self.named.format(name=name)

    def values(self, names: Iterable[str]) -> str:
        """Return the placeholders for several named values, with commas."""
        return ", ".join(map(self.value, names))


class Rows(Protocol):
    """The result of a statement."""

    @property
    def get(self) -> Any:
        """The first row, or its value if it has only one."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection to a database."""

    dialect: Dialect

    @property
    def vectors(self) -> "VectorTables":
        """The vectors of the store."""

    def statement(self, name: str, **parts: str) -> str:
        """Return a statement by its name, with its variable parts filled in."""

    def execute(self, statements: str, bindings: Any = ...) -> Rows:
        """Run a statement. Values are a mapping for named parameters, or a sequence for numbered ones."""

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any]) -> Any: ...

    def memory_rows(self, numbers: Sequence[int]) -> Sequence[tuple[Any, ...]]:
        """Return the rows of memories with these numbers: READ_COLUMNS, uses and number."""

    def insert_memories(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert new memories, each with its number and its `columns`."""

    def changes(self) -> int:
        """Return how many rows the last statement changed."""

    def together(self) -> AbstractContextManager[None]:
        """Statements inside may be sent in one batch, since nobody waits for their results."""

    def columns(self) -> Sequence[str]:
        """Return the columns of a memory, in the order of `row`."""

    def row(self, memory: Memory) -> tuple[Any, ...]: ...

    def words_come(self, memories: Sequence[Memory]) -> None:
        """Index the words and tags of new or changed memories, whose rows were just made by `row`."""

    def words_go(self, seqs: Sequence[int]) -> None:
        """Remove memories from the index of words, before they are deleted or changed."""

    def log_changes(self, changed: Iterable[int | str]) -> None:
        """Note which memories this transaction changes, by number or id, if no triggers do it."""

    def see_all_orgs(self) -> None:
        """Let the rest of the transaction read the rows of all orgs, if the login may."""

    def scrub(self) -> None:
        """Make sure that no copy is left of what this transaction deletes."""


# Rows per statement when many are inserted, largest first. Few sizes, so that each statement is prepared once.
ROWS_AT_ONCE = (256, 32, 4, 1)

T = TypeVar("T")


def in_slices(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the rows in slices, each as many as one statement inserts."""
    start = 0
    for size in ROWS_AT_ONCE:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


# Inserting many rows with few statements.


class Insert(NamedTuple):
    """A statement that inserts one row of named values, from which statements for many rows are made."""

    head: str
    between: tuple[str, ...]
    """The text of the row before, between and after its values."""
    tail: str
    names: tuple[str, ...]
    numbered: str
    """The placeholder for a parameter with a {number}."""

    def of(self, rows: int) -> str:
        """Return the statement for this many rows, with numbered parameters."""
        return _insert_of_rows(self, rows)

    def values(self, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Return the values of some rows in the order of the parameters."""
        return [row[name] for row in rows for name in self.names]


@lru_cache(maxsize=256)
def insert_of(statement: str, dialect: Dialect) -> Insert | None:
    """Take a statement apart that inserts one row; None for any other statement."""
    found = _ONE_ROW.fullmatch(statement)
    name = re.escape(dialect.named.format(name="NAME")).replace("NAME", r"([a-z_]+)")
    parts = re.split(name, found[2]) if found else []
    if found is None or len(parts) < 2:
        return None
    return Insert(found[1], tuple(parts[::2]), found[3], tuple(parts[1::2]), dialect.numbered)


@lru_cache(maxsize=256)
def _insert_of_rows(insert: Insert, rows: int) -> str:
    places = map(str, itertools.count(1))

    def row() -> str:
        numbers = [insert.numbered.format(number=next(places)) for _ in insert.names]
        return "".join(map("".join, itertools.zip_longest(insert.between, numbers, fillvalue="")))

    return insert.head + ", ".join(row() for _ in range(rows)) + insert.tail


# Vectors. A generation is the set of vectors of one embedder.


class Generation(NamedTuple):
    """The record of one embedder's vectors."""

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
        """The variable parts of statements about its vectors."""
        return {"generation": str(self.number), "vectors": f"vector_{self.number}", "codes": f"code_{self.number}"}


class VectorTables(ABC):
    """Access to vectors through one connection."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def generation(self, state: str = "current") -> Generation | None:
        row = self._db.execute(self._db.statement("generation"), {"state": state}).fetchone()
        return None if row is None else Generation(*row)

    def generations(self) -> list[Generation]:
        """Return the generations that have vectors."""
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
        """Insert the vector and the code of passages that have none yet."""

    @abstractmethod
    def delete(self, found: Generation, passages: Sequence[tuple[int]]) -> None: ...

    @abstractmethod
    def passages_went(self) -> None:
        """Note that passages were deleted. Foreign keys delete their vectors."""


# Connection pool.


class Closable(Protocol):
    def close(self) -> Any: ...


C = TypeVar("C", bound=Closable)

# A forked child must neither use nor close its parent's connections: closing would release locks.
_abandoned: list[object] = []


class _Lent(Generic[C]):
    # Not a generator: every read and write enters this.
    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: "Pool[C]") -> None:
        self._pool = pool

    def __enter__(self) -> C:
        self._connection = self._pool.take()
        return self._connection

    def __exit__(self, *error: object) -> None:
        self._pool.give_back(self._connection)


class Pool(Generic[C]):
    """A connection pool: opens connections on demand, up to a limit, and reuses idle ones."""

    def __init__(self, connect: Callable[[], C], *, limit: int, patience: float | None = None) -> None:
        self._connect = connect
        self._limit = limit
        self._patience = patience
        """How many seconds a thread waits for a connection; None means without a limit."""
        self._idle: list[C] = []
        self._busy = 0
        self._closed = False
        self._changed = threading.Condition()
        self._writer = threading.RLock()
        self._pid = os.getpid()

    def connection(self) -> "_Lent[C]":
        """Return a context that takes a connection and gives it back."""
        return _Lent(self)

    def writing(self) -> AbstractContextManager[Any]:
        """Let one thread write at a time. Waiting writers occupy no connection, so readers can use them."""
        self._leave_to_parent()
        return self._writer

    def close(self) -> None:
        """Close all connections, after those in use have been given back."""
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
            if self._idle and not self._closed:
                self._busy += 1
                return self._idle.pop()
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
        """Add a connection that was made elsewhere."""
        with self._changed:
            self._idle.append(connection)
            self._changed.notify_all()

    def discard(self, connection: C) -> None:
        """Close a connection that cannot be used any more."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()
        connection.close()

    def _leave_to_parent(self) -> None:
        """In a forked child, start with no connections and with new locks."""
        if self._pid != os.getpid():
            _abandoned.extend(self._idle)
            self._idle, self._busy = [], 0
            self._changed, self._writer = threading.Condition(), threading.RLock()
            self._pid = os.getpid()
