"""Agent sessions: their rows, ledger entries, contents and turns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import msgspec

from satchel.model.memory import Scope
from satchel.store.contract import Category, Content, LedgerRow, SessionRow, TurnRow
from satchel.store.database import Database, Dialect
from satchel.store.rows import from_micros, json_array, micros, scope_sql, scope_values

__all__ = [
    "ENTRY_COLUMNS",
    "ENTRY_FIELDS",
    "SESSION_COLUMNS",
    "SESSION_FIELDS",
    "TURN_FIELDS",
    "Ledgers",
    "insert_entry",
    "insert_session",
    "needed",
]

_SCOPE = ("org", "project", "user", "agent")
_SESSION_COLUMNS = tuple(name for name in SessionRow.__struct_fields__ if name != "scope")
# Quoted: in PostgreSQL `user` is the name of the login.
SESSION_FIELDS = (*_SCOPE, *_SESSION_COLUMNS)
ENTRY_FIELDS = LedgerRow.__struct_fields__
TURN_FIELDS = TurnRow.__struct_fields__
SESSION_COLUMNS = ", ".join('"user"' if name == "user" else name for name in SESSION_FIELDS)
ENTRY_COLUMNS = ", ".join(ENTRY_FIELDS)
_WORDS = frozenset({"digest", "stub", "note"})
_WITHOUT_WORDS = ", ".join("''" if name in _WORDS else name for name in ENTRY_FIELDS)
# A scalar subquery, which PostgreSQL does not turn into a join.
_NEEDED = (
    "((SELECT 1 FROM entry e WHERE e.org = {org} AND e.content = content.hash AND e.level = 'whole' "
    "AND (e.pinned = 1 OR e.role NOT IN ('result', 'page')) LIMIT 1) IS NOT NULL)"
)
_TIMES = frozenset({"at", "created_at", "updated_at"})
_TRUTHS = frozenset({"pinned", "error"})

Connected = Callable[[str], AbstractContextManager[Database]]
"""A connection for one org."""


class Ledgers:
    """The session ledgers of a store. Each call is one transaction, or part of the one its thread is in."""

    def __init__(self, read: Connected, write: Connected, hold: Connected) -> None:
        self._read = read
        self._write = write
        self._hold = hold
        """Returns a connection that locks what it reads until the end of this thread's transaction."""

    def open(self, fresh: SessionRow) -> SessionRow:
        """Return the session of this scope and name, or create it from `fresh`."""
        scope = scope_values(fresh.scope)
        if (found := self._exact(scope, fresh.name)) is not None:
            return found
        values = scope | {name: _stored(name, getattr(fresh, name)) for name in _SESSION_COLUMNS}
        with self._write(fresh.scope.org) as db:
            db.execute(insert_session(db), values)
            # Another process may have stored it first.
            held = self._exact(scope, fresh.name)
        return held or fresh

    def named(self, scope: Scope, name: str) -> list[SessionRow]:
        """Return the sessions with a name inside a scope, last changed first."""
        with self._read(scope.org) as db:
            where, values = scope_sql(db.dialect, msgspec.structs.replace(scope, session=None))
            sql = db.statement("session_by_name", columns_of=SESSION_COLUMNS, where=where)
            return [_session_row(row) for row in db.execute(sql, values | {"name": name})]

    def sessions(self, scope: Scope, *, limit: int) -> list[SessionRow]:
        """Return the sessions inside a scope, last changed first."""
        with self._read(scope.org) as db:
            where, values = scope_sql(db.dialect, msgspec.structs.replace(scope, session=None))
            sql = db.statement("session_list", columns_of=SESSION_COLUMNS, where=where)
            return [_session_row(row) for row in db.execute(sql, values | {"limit": limit})]

    def session(self, org: str, session: str) -> SessionRow | None:
        """Return a session. Inside a transaction it is locked, so nobody else changes it before the end."""
        with self._hold(org) as db:
            sql = db.statement("session_by_id", columns_of=SESSION_COLUMNS)
            row = db.execute(sql, {"org": org, "id": session}).fetchone()
        return None if row is None else _session_row(row)

    def change(self, org: str, session: str, changes: Mapping[str, Any]) -> None:
        """Set fields of a session."""
        with self._write(org) as db:
            values = {name: _stored(name, value) for name, value in changes.items()}
            sql = db.statement("session_update", assignments=_assignments(db.dialect, changes))
            db.execute(sql, values | {"org": org, "id": session})

    def post(self, org: str, session: str, entry: LedgerRow) -> None:
        """Insert new entries."""
        values = {name: _stored(name, getattr(entry, name)) for name in ENTRY_FIELDS}
        with self._write(org) as db:
            db.execute(insert_entry(db), values | {"org": org, "session": session})

    def repost(self, org: str, session: str, seqs: Sequence[int], changes: Mapping[str, Any]) -> None:
        """Set the same fields of several entries."""
        values = {name: _stored(name, value) for name, value in changes.items()}
        values |= {"org": org, "session": session, "seqs": json_array(seqs)}
        with self._write(org) as db:
            db.execute(db.statement("entry_update", assignments=_assignments(db.dialect, changes)), values)

    def held(
        self, org: str, session: str, category: Category | None = None, *, words: bool = True
    ) -> list[LedgerRow]:
        """Return the entries that are in the context, oldest first; without texts if only sizes are needed."""
        columns = ENTRY_COLUMNS if words else _WITHOUT_WORDS
        name = "entries_held" if category is None else "entries_held_in"
        return self._entries(name, columns, org=org, session=session, category=category)

    def last_of_call(self, org: str, session: str, call_id: str) -> LedgerRow | None:
        """Return the newest entry with a call id."""
        found = self._entries("entry_last_of_call", org=org, session=session, call_id=call_id)
        return found[0] if found else None

    def results(self, org: str, session: str, *, limit: int) -> list[LedgerRow]:
        """Return the newest tool results, newest first, including evicted ones."""
        return self._entries("entries_results", org=org, session=session, limit=limit)

    def by_handle(self, org: str, handle: str) -> tuple[str, LedgerRow] | None:
        """Return the entry of a handle, and the id of its session."""
        with self._read(org) as db:
            sql = db.statement("entry_by_handle", columns_of=ENTRY_COLUMNS)
            row = db.execute(sql, {"org": org, "handle": handle}).fetchone()
        return None if row is None else (row[0], _entry(row[1:]))

    def keep(self, org: str, content: Content, moment: datetime) -> None:
        """Store a content if it is new, and mark it as used now."""
        with self._write(org) as db:
            used = {"org": org, "hash": content.hash, "used_at": micros(moment)}
            db.execute(db.statement("content_touch"), used)
            if not db.changes():
                values = used | {"bytes": len(content.data), "codec": content.codec, "data": content.data}
                db.execute(db.statement("content_insert"), values)

    def content(self, org: str, hash: bytes) -> Content | None:
        """Return a content by its hash; None if it has expired."""
        with self._read(org) as db:
            row = db.execute(db.statement("content_get"), {"org": org, "hash": hash}).fetchone()
        return None if row is None else Content(*row)

    def expire(self, org: str, *, before: datetime, most_bytes: int) -> int:
        """Delete contents not used since a moment, then the least recently used ones above a total size.

        Returns how many were deleted. Pinned entries keep their content, and so do entries other than tool results
        that are in a context as a whole, such as a system prompt.
        """
        with self._write(org) as db:
            db.execute(
                db.statement("content_expire", needed=needed(db.dialect)), {"org": org, "before": micros(before)}
            )
            dropped = db.changes()
            over = db.execute(db.statement("content_total"), {"org": org}).get - most_bytes
            going = []
            for hash, size in (
                db.execute(db.statement("content_oldest", needed=needed(db.dialect)), {"org": org})
                if over > 0
                else ()
            ):
                if over <= 0:
                    break
                going.append({"org": org, "hash": hash})
                over -= size
            db.executemany(db.statement("content_delete"), going)
            return dropped + len(going)

    def content_bytes(self, org: str) -> int:
        """Return the total size of the contents in bytes."""
        with self._read(org) as db:
            return int(db.execute(db.statement("content_total"), {"org": org}).get)

    def end_turn(self, org: str, session: str, row: TurnRow) -> None:
        """Store the sums at the end of a turn. The same turn again replaces them."""
        with self._write(org) as db:
            values = msgspec.structs.asdict(row) | {"org": org, "session": session, "at": micros(row.at)}
            db.execute(db.statement("turn_end"), values)

    def turns(self, org: str, session: str) -> list[TurnRow]:
        """Return the turns that have ended, oldest first."""
        with self._read(org) as db:
            rows = db.execute(db.statement("turn_list"), {"org": org, "session": session})
            return [TurnRow(number, from_micros(at), *counts) for number, at, *counts in rows]

    def remove(self, org: str, session: str) -> None:
        """Delete a session with its entries, and contents that no other entry uses."""
        with self._write(org) as db:
            db.execute(db.statement("content_unshared"), {"org": org, "session": session})
            db.execute(db.statement("session_delete"), {"org": org, "id": session})

    def _exact(self, scope: dict[str, str], name: str) -> SessionRow | None:
        with self._read(scope["org"]) as db:
            sql = db.statement("session_exact", columns_of=SESSION_COLUMNS)
            row = db.execute(sql, scope | {"name": name}).fetchone()
        return None if row is None else _session_row(row)

    def _entries(self, name: str, columns: str = ENTRY_COLUMNS, **values: Any) -> list[LedgerRow]:
        with self._read(values["org"]) as db:
            return [_entry(row) for row in db.execute(db.statement(name, columns_of=columns), values)]


def _stored(name: str, value: Any) -> Any:
    if name in _TIMES:
        return micros(value)
    return int(value) if name in _TRUTHS else value


def _session_row(row: Sequence[Any]) -> SessionRow:
    org, project, user, agent = row[: len(_SCOPE)]
    scope = Scope(org=org, project=project or None, user=user or None, agent=agent or None)
    fields = dict(zip(_SESSION_COLUMNS, row[len(_SCOPE) :], strict=True))
    for name in ("created_at", "updated_at"):
        fields[name] = from_micros(fields[name])
    return SessionRow(scope=scope, **fields)


def _entry(row: Sequence[Any]) -> LedgerRow:
    fields = dict(zip(ENTRY_FIELDS, row, strict=True))
    fields["at"] = from_micros(fields["at"])
    fields["pinned"], fields["error"] = bool(fields["pinned"]), bool(fields["error"])
    return LedgerRow(**fields)


def insert_session(db: Database) -> str:
    """Return the statement that inserts a session, with parameters named as in `SESSION_FIELDS`."""
    values = db.dialect.values(SESSION_FIELDS)
    return db.statement("session_insert", columns_of=SESSION_COLUMNS, marks=values)


def insert_entry(db: Database) -> str:
    """Return the statement that inserts an entry: parameters `org`, `session` and those of `ENTRY_FIELDS`."""
    values = db.dialect.values(("org", "session", *ENTRY_FIELDS))
    return db.statement("entry_insert", columns_of=ENTRY_COLUMNS, marks=values)


def _assignments(dialect: Dialect, names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {dialect.value(name)}" for name in names)


def needed(dialect: Dialect) -> str:
    """Return the condition that a content may not expire."""
    return _NEEDED.format(org=dialect.value("org"))
