"""What stands around memories in their sessions and documents."""

import itertools
import re
from collections.abc import Sequence

import msgspec

from satchel.model.filters import Filter
from satchel.store.contract import Trace
from satchel.store.postgres.connection import PostgresConnection
from satchel.store.sql.where import filter_sql

__all__ = ["beside"]

_SAME = {
    "session": "m.session = t.thread AND m.session <> ''",
    "source": "m.source = t.thread AND m.source IS NOT NULL AND m.session = ''",
}


def beside(db: PostgresConnection, near: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
    """All in two questions, however many there are: each would take a way to the server and back."""
    threads = {trace.key: msgspec.json.decode(trace.thread) for trace in near if trace.thread is not None}
    earlier: dict[int, list[int]] = {trace.key: [] for trace in near}
    later: dict[int, list[int]] = {trace.key: [] for trace in near}
    for kind, same in _SAME.items():
        asked = [(trace, threads[trace.key][1:]) for trace in near if threads.get(trace.key, [None])[0] == kind]
        for origin, seq, comes_later in _asked(db, asked, where, same, reach) if asked else ():
            (later if comes_later else earlier)[origin].append(seq)
    return [[*earlier[trace.key], trace.key, *later[trace.key]] for trace in near]


def _asked(
    db: PostgresConnection,
    asked: Sequence[tuple[Trace, Sequence[str]]],
    where: Filter,
    same: str,
    reach: int,
) -> list[tuple[int, int, bool]]:
    # Numbered, since the condition stands there twice.
    condition, values = filter_sql(db.dialect, where)
    numbers = itertools.count(8)
    condition = re.sub(r"\?", lambda _: f"?{next(numbers)}", condition)
    sql = db.statement("beside", same=same, where=condition, reach=str(reach))
    places = [list(column) for column in zip(*(place for _, place in asked), strict=True)]
    keys, ats, ids = ([getattr(trace, name) for trace, _ in asked] for name in ("key", "at", "id"))
    return db.execute(sql, (keys, *places, ats, ids, *values)).fetchall()
