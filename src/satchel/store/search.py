"""What a search reads of a store: candidates, traces of memories, their neighbours in time and by relations."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from satchel.model.memory import Memory, Relation, Scope
from satchel.store import memories
from satchel.store.contract import Filter, Link, Match, Trace, TracedPassage
from satchel.store.database import Database
from satchel.store.rows import Uses, filter_sql, json_array, memory_from_row, micros

__all__ = ["Search"]

# Where the columns of the passage begin.
_PASSAGE = 12
_AMONG_KEYS = "json_each(?) j CROSS JOIN memory m ON m.seq = j.value"

D = TypeVar("D", bound=Database)


class Search(ABC, Generic[D]):
    """Fulfils `SearchStore`: each call is a read of its own, or part of what its thread reads or writes.

    A database overrides what it answers in another way; how it finds words and vectors is always its own.
    """

    org: str = Scope().org
    """Whose memories are meant where a call names no scope."""
    _uses: Uses

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

    def select(self, where: Filter, *, limit: int) -> list[Memory]:
        """The newest memories, by the time they speak of."""
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            rows = db.execute(db.statement("newest", where=condition), (*values, limit))
            return [self._uses.added_to(memory_from_row(row)) for row in rows]

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        """The memories just before and after one in time, without it, oldest first."""
        place = (micros(memory.at), memory.id)
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            earlier = db.execute(db.statement("before", where=condition), (*values, *place, before)).fetchall()
            later = db.execute(db.statement("after", where=condition), (*values, *place, after)).fetchall()
        return [self._uses.added_to(memory_from_row(row)) for row in (*reversed(earlier), *later)]

    def count(self, where: Filter, *, most: int) -> int:
        """How many memories match, counted no further than `most`."""
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            return int(db.execute(db.statement("count_some", where=condition), (*values, most)).get)

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
        """The memories that speak of a time in this span, newest first."""
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            sql = db.statement("seqs_between", where=condition)
            return [row[0] for row in db.execute(sql, (*values, micros(start), micros(end), limit))]

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        """For each of these, it and those up to `reach` places around it in its session or document, in order."""
        with self._read(where.scope.org) as db:
            # Only tested: the way in is the index on sessions or documents, not the one on projects.
            condition, values = filter_sql(db.dialect, where, indexed=False)
            return [_run(db, trace, where.scope.org, condition, values, reach) for trace in traces]

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        """Relations from these memories to others that match."""
        found = []
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where, indexed=False)
            for near, far, outgoing in (("source", "target", True), ("target", "source", False)):
                sql = db.statement("linked", near=near, far=far, where=condition)
                for key, origin, kind, strength in db.execute(sql, (json_array(keys), *values, limit)):
                    found.append(Link(origin, key, kind, strength, outgoing))
        return found

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        """What ranking needs of the memories that match, oldest first; of all, or of those with these numbers."""
        with self._snapshot(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where, indexed=keys is None)
            current = db.vectors.generation()
            among = "memory m" if keys is None else _AMONG_KEYS
            if current is None or not current.dimensions:
                sql = db.statement("traces", memories=among, where=condition)
            else:
                sql = db.statement("traces_with_vectors", memories=among, where=condition, **current.parts)
            return list(_traced(db.execute(sql, values if keys is None else (json_array(keys), *values))))

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


def _run(db: Database, trace: Trace, org: str, condition: str, values: Sequence[Any], reach: int) -> list[int]:
    if trace.thread is None:
        return [trace.key]
    kind, *place = msgspec.json.decode(trace.thread)
    same = "m.org = ? AND +m.project = ? AND +m.user = ? AND +m.agent = ? AND "
    same += (
        "m.session = ? AND m.session <> ''"
        if kind == "session"
        else "m.source = ? AND m.source IS NOT NULL AND m.session = ''"
    )
    bounds = (*values, org, *place, trace.at, trace.id, reach)
    earlier, later = (
        [row[0] for row in db.execute(db.statement(name, where=f"{condition} AND {same}"), bounds)]
        for name in ("seqs_before", "seqs_after")
    )
    return [*reversed(earlier), trace.key, *later]
