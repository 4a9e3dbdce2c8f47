"""`Search`: the reads of `SearchStore` that both databases share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from satchel.model.filters import Filter, Sort
from satchel.model.memory import Memory, Relation, Scope
from satchel.store import memories
from satchel.store.contract import Link, Match, Trace, TracedPassage, Version
from satchel.store.database import Database
from satchel.store.rows import COLUMNS, filter_sql, json_array, memory_from_row, micros

__all__ = ["Search"]

# The position of the first column of the passage.
_PASSAGE = 15
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
    """Implements `SearchStore`. Each call is a read of its own, or part of the transaction of its thread.

    Each database implements full-text and vector search, and overrides reads that it does differently.
    """

    org: str = Scope().org
    """The org of calls that name no scope."""
    _uses: memories.Uses

    @abstractmethod
    def _read(self, org: str) -> AbstractContextManager[D]:
        """Return a connection for one statement: that of this thread's transaction, or an idle one."""

    @abstractmethod
    def _snapshot(self, org: str) -> AbstractContextManager[D]:
        """Return a connection for several statements that see the same state."""

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether this thread is inside a write transaction."""

    @abstractmethod
    def matches(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
        """Return the best BM25 matches for any of the terms, filtered before the limit; ties by time and id."""

    def leading_matches(self, terms: Sequence[str], *, limit: int) -> list[Match] | None:
        """Return the best matches of the whole index, without any filter; None if `matches` costs no more."""
        return None

    @abstractmethod
    def nearest(self, where: Filter, code: bytes, *, limit: int) -> list[Match]:
        """Return the memories with the passages nearest to a code by Hamming distance."""

    @abstractmethod
    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        """Return the approximate number of memories, and in how many of them each term occurs.

        Ended memories are included, since they hardly change which terms are common.
        """

    @abstractmethod
    def words_like(self, word: str, *, start: str) -> list[str]:
        """Return terms of the index that start like a word and have about its length."""

    def select(self, where: Filter, *, limit: int, sort: Sort = "at", offset: int = 0) -> list[Memory]:
        """Return memories in the given order, newest or highest first, after skipping `offset` of them."""
        if sort == "used":
            self._write_uses(patience=0.0)
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            sql = db.statement("first_by", where=condition, order=_ORDERS[sort])
            rows = db.execute(sql, values | {"limit": limit, "offset": offset})
            return [self._uses.added_to(memory_from_row(row)) for row in rows]

    @abstractmethod
    def _write_uses(self, *, patience: float) -> None:
        """Write waiting uses if that is possible now. It never makes a read fail or wait."""

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        """Return the memories just before and after one in time, without it, oldest first."""
        place = {"at": micros(memory.at), "id": memory.id}
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            sql = db.statement("before", where=condition)
            earlier = db.execute(sql, values | place | {"limit": before}).fetchall()
            sql = db.statement("after", where=condition)
            later = db.execute(sql, values | place | {"limit": after}).fetchall()
        return [self._uses.added_to(memory_from_row(row)) for row in (*reversed(earlier), *later)]

    def count(self, where: Filter, *, most: int) -> int:
        """Count the memories that match, up to `most`."""
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            return int(db.execute(db.statement("count_some", where=condition), values | {"most": most}).get)

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
        """Return the memories about a time in this span, newest first."""
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            sql = db.statement("seqs_between", where=condition)
            span = {"start": micros(start), "stop": micros(end), "limit": limit}
            return [row[0] for row in db.execute(sql, values | span)]

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        """Return for each memory its neighbours, up to `reach` before and after it in its session or document."""
        with self._read(where.scope.org) as db:
            # `indexed=False`: the index on sessions or documents must be used, not the one on projects.
            condition, values = filter_sql(db.dialect, where, indexed=False)
            return [
                _run(db, trace, condition, values | {"org": where.scope.org, "limit": reach}) for trace in traces
            ]

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        """Return the relations between these memories and others that match."""
        found: list[Link] = []
        with self._read(where.scope.org) as db:
            if db.execute(db.statement("any_relation")).fetchone() is None:
                return found
            condition, values = filter_sql(db.dialect, where, indexed=False)
            values |= {"numbers": json_array(keys), "limit": limit}
            for near, far, outgoing in (("source", "target", True), ("target", "source", False)):
                sql = db.statement("linked", near=near, far=far, where=condition)
                for key, origin, kind, strength in db.execute(sql, values):
                    found.append(Link(origin, key, kind, strength, outgoing))
        return found

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        """Return the traces of the memories that match, oldest first: of all, or of those with these numbers."""
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

    def keys(self, where: Filter) -> list[int]:
        """Return the numbers of the memories that match."""
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            return [row[0] for row in db.execute(db.statement("matching_seqs", where=condition), values)]

    def version(self, org: str) -> Version | None:
        """Return the version of what is read now; None if it must not be kept, as inside a write transaction."""
        if self.in_transaction:
            # What is written there may be rolled back.
            return None
        with self._snapshot(org) as db:
            row = db.execute(db.statement("last_change"), {"org": org}).fetchone()
            current = db.vectors.generation()
            if row is None:
                return None
            number, mark = row
            return Version(number, mark, current.number if current is not None else 0)

    def changed_keys(self, org: str, since: Version, *, limit: int) -> list[int] | None:
        """Return the memories that were added, changed or purged after a version; None if that is not known."""
        with self._snapshot(org) as db:
            values = {"org": org, "number": since.number}
            row = db.execute(db.statement("change_mark"), values).fetchone()
            if row is None or row[0] != since.mark:
                return None
            rows = db.execute(db.statement("changed_since"), values | {"limit": limit + 1}).fetchall()
            keys = list(dict.fromkeys(row[0] for row in rows))
            return keys if len(rows) <= limit else None

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        """Return the memories with these numbers, by number. Numbers without a memory are left out."""
        with self._read(self.org) as db:
            return memories.by_number(db, keys)

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        """Return the relations that start or end at one of these ids."""
        with self._read(scope.org) as db:
            return memories.relations(db, scope, ids)


def _traced(rows: Iterable[Any]) -> Iterator[Trace]:
    """Group rows into traces. The rows of a memory, one for each passage, follow each other."""
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
