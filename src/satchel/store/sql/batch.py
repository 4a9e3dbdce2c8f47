"""New memories written several at a time.

After each statement that fires triggers FTS5 writes out what it has gathered, so a row at a time costs
twice as much as a few hundred in one statement.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from satchel.model.memory import Memory
from satchel.store.sql.database import Database
from satchel.store.sql.index import Index
from satchel.store.sql.rows import micros, scope_columns, write_changes

__all__ = ["Batch", "history_row"]

# How many rows a statement takes, largest first; few sizes, so that each is prepared once.
SIZES = (256, 32, 4, 1)


def history_row(memory: Memory, at: datetime, action: str, changes: dict[str, Any]) -> tuple[Any, ...]:
    return memory.scope.org, memory.id, micros(at), action, write_changes(changes)


class Batch:
    """Memories that are known to be new, held back until `write`."""

    def __init__(self, db: Database, index: Index) -> None:
        self.index = index
        self._db = db
        self._memories: list[Memory] = []
        self._history: list[tuple[Any, ...]] = []
        self._uses: list[tuple[Any, ...]] = []
        self._names: set[object] = set()

    def make_room(self, memory: Memory) -> None:
        """Write what is held back if one of it is the same as this memory: the store is asked for that next."""
        if not self._names.isdisjoint(_names(memory)):
            self.write()

    def take(self, memory: Memory, history: Sequence[tuple[Any, ...]]) -> None:
        self._memories.append(memory)
        self._names.update(_names(memory))
        self._history += history
        if memory.accessed_at is not None:
            self._uses.append((memory.id, memory.access_count, micros(memory.accessed_at)))

    def write(self) -> None:
        if not self._memories:
            return
        first = int(self._db.execute(self._db.statement("newest_seq")).get) + 1
        numbered = list(enumerate(self._memories, start=first))
        with self._db.together():
            for rows in _slices([(seq, *self._db.row(memory)) for seq, memory in numbered]):
                values = ", ".join(["(" + ", ".join("?" * len(rows[0])) + ")"] * len(rows))
                sql = self._db.statement("insert_memories", values=values)
                self._db.execute(sql, [value for row in rows for value in row])
            self._db.words_come(self._memories)
            for seq, memory in numbered:
                self.index.enter(seq, memory)
            self._db.executemany(self._db.statement("insert_history"), self._history)
            self._db.executemany(self._db.statement("set_usage"), self._uses)
        self._memories, self._history, self._uses = [], [], []
        self._names.clear()


def _names(memory: Memory) -> Iterator[object]:
    """All by which another memory could be the same as this one."""
    scope = scope_columns(memory.scope)
    yield memory.id
    if memory.ref is not None:
        yield ("ref", *scope, memory.ref)
    if memory.topic_key is not None:
        yield ("topic", *scope[:4], memory.topic_key)


def _slices(rows: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    start = 0
    for size in SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
