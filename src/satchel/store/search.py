"""What a search reads of a store: candidates, traces of memories, their neighbours in time and by relations."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from satchel.model.filters import Filter, Sort
from satchel.model.memory import Memory, Relation, Scope
from satchel.store import memories
from satchel.store.contract import Link, Match, Trace, TracedPassage
from satchel.store.database import Database
from satchel.store.rows import COLUMNS, filter_sql, json_array, memory_from_row, micros

__all__ = ["Search"]

# Where the columns of the passage begin.
_PASSAGE = 12
_ORDERS: dict[Sort, str] = {
    "at": "m.at DESC",
    "created": "m.created_at DESC",
    "updated": "m.updated_at DESC",
    # The last column is when a memory was used last.
    "used": f"{len(COLUMNS) + 2} DESC NULLS LAST",
    "importance": "m.importance DESC",
}
_AMONG_KEYS = "json_each({numbers}) j CROSS JOIN memory m ON m.seq = j.value"

D = TypeVar("D", bound=Database)


class Search(ABC, Generic[D]):
    """Fulfils `SearchStore`: each call is a read of its own, or part of what its thread reads or writes.

    A database overrides what it answers in another way; how it finds words and vectors is always its own.
    """

    org: str = Scope().org
    """Whose memories are meant where a call names no scope."""
    _uses: memories.Uses

    @abstractmethod
    def _read(self, org: str) -> AbstractContextManager[D]:
        """The connection of the transaction this thread is in, or any idle one: for a single statement."""

    @abstractmethod
    def _snapshot(self, org: str) -> AbstractContextManager[D]:
        """The same for several statements, which see one state."""

    @abstractmethod
    def matches(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
        """The best BM25 matches for any of the terms, filtered before the limit; ties by time and id."""

    @abstractmethod
    def nearest(self, where: Filter, code: bytes, *, limit: int) -> list[Match]:
        """The memories with a passage whose signs differ least from these, filtered before the limit."""

    @abstractmethod
    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        """About how many memories there are, and in how many of them each term stands.

        Ended memories are counted too: what is common does not change with them.
        """

    @abstractmethod
    def words_like(self, word: str, *, start: str) -> list[str]:
        """Terms of the index that are about as long as a word and start so."""

    def select(self, where: Filter, *, limit: int, sort: Sort = "at", offset: int = 0) -> list[Memory]:
        """The first memories in an order, newest or highest first, after an offset."""
        if sort == "used":
            self._write_uses(patience=0.0)
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            sql = db.statement("first_by", where=condition, order=_ORDERS[sort])
            rows = db.execute(sql, values | {"limit": limit, "offset": offset})
            return [self._uses.added_to(memory_from_row(row)) for row in rows]

    @abstractmethod
    def _write_uses(self, *, patience: float) -> None:
        """Best effort: a use that cannot be written now waits, and never fails a read or holds it up."""

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        """The memories just before and after one in time, without it, oldest first."""
        place = {"at": micros(memory.at), "id": memory.id}
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            sql = db.statement("before", where=condition)
            earlier = db.execute(sql, values | place | {"limit": before}).fetchall()
            sql = db.statement("after", where=condition)
            later = db.execute(sql, values | place | {"limit": after}).fetchall()
        return [self._uses.added_to(memory_from_row(row)) for row in (*reversed(earlier), *later)]

    def count(self, where: Filter, *, most: int) -> int:
        """How many memories match, counted no further than `most`."""
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            return int(db.execute(db.statement("count_some", where=condition), values | {"most": most}).get)

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
        """The memories that speak of a time in this span, newest first."""
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            sql = db.statement("seqs_between", where=condition)
            span = {"start": micros(start), "stop": micros(end), "limit": limit}
            return [row[0] for row in db.execute(sql, values | span)]

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        """For each of these, it and those up to `reach` places around it in its session or document, in order."""
        with self._read(where.scope.org) as db:
            # Only tested: the way in is the index on sessions or documents, not the one on projects.
            condition, values = filter_sql(db.dialect, where, indexed=False)
            return [
                _run(db, trace, condition, values | {"org": where.scope.org, "limit": reach}) for trace in traces
            ]

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        """Relations from these memories to others that match."""
        found = []
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where, indexed=False)
            values |= {"numbers": json_array(keys), "limit": limit}
            for near, far, outgoing in (("source", "target", True), ("target", "source", False)):
                sql = db.statement("linked", near=near, far=far, where=condition)
                for key, origin, kind, strength in db.execute(sql, values):
                    found.append(Link(origin, key, kind, strength, outgoing))
        return found

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        """What ranking needs of the memories that match, oldest first; of all, or of those with these numbers."""
        with self._snapshot(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where, indexed=keys is None)
            current = db.vectors.generation()
            among = "memory m"
            if keys is not None:
                among = _AMONG_KEYS.format(numbers=db.dialect.value("numbers"))
                values["numbers"] = json_array(keys)
            if current is None or not current.dimensions:
                sql = db.statement("traces", memories=among, where=condition)
            else:
                sql = db.statement("traces_with_vectors", memories=among, where=condition, **current.parts)
            return list(_traced(db.execute(sql, values)))

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        """The memories with these numbers that are still there."""
        with self._read(self.org) as db:
            return memories.by_number(db, keys)

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        """Every relation that starts or ends at one of these ids."""
        with self._read(scope.org) as db:
            return memories.relations(db, scope, ids)


def _traced(rows: Iterable[Any]) -> Iterator[Trace]:
    """Rows of one memory stand together, one for each passage."""
    last: tuple[Any, ...] = ()
    passages: list[TracedPassage] = []
    for row in rows:
        if last and row[0] != last[0]:
            yield Trace._make((*last, tuple(passages)))
            passages = []
        last = row[:_PASSAGE]
        passages.append(TracedPassage(*row[_PASSAGE:]))
    if last:
        yield Trace._make((*last, tuple(passages)))


def _run(db: Database, trace: Trace, condition: str, values: dict[str, Any]) -> list[int]:
    if trace.thread is None:
        return [trace.key]
    kind, *place = msgspec.json.decode(trace.thread)
    value = db.dialect.value
    same = f"m.org = {value('org')} AND " + "".join(
        f"+m.{name} = {value(name)} AND " for name in ("project", "user", "agent")
    )
    same += (
        f"m.session = {value('thread')} AND m.session <> ''"
        if kind == "session"
        else f"m.source = {value('thread')} AND m.source IS NOT NULL AND m.session = ''"
    )
    values = values | dict(zip(("project", "user", "agent", "thread"), place, strict=True))
    values |= {"at": trace.at, "id": trace.id}
    earlier, later = (
        [row[0] for row in db.execute(db.statement(name, where=f"{condition} AND {same}"), values)]
        for name in ("seqs_before", "seqs_after")
    )
    return [*reversed(earlier), trace.key, *later]
