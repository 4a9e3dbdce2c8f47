"""Rows of one org: read page by page, stored from another store, erased."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

from satchel.errors import InputError
from satchel.model.filters import Filter
from satchel.model.memory import Change, Scope
from satchel.store.contract import KINDS, Embedded, Embedding, Held, Mark, Outcome, Packet, Passage, Record, Row
from satchel.store.database import Database, Dialect
from satchel.store.index import Index, embedding
from satchel.store.memories import by_number, purge, put, usage_row
from satchel.store.rows import COLUMNS, json_array, micros, read_change
from satchel.store.sessions import (
    ENTRY_COLUMNS,
    ENTRY_FIELDS,
    SESSION_COLUMNS,
    SESSION_FIELDS,
    TURN_FIELDS,
    insert_entry,
    insert_session,
)
from satchel.text.passages import Part

__all__ = [
    "Holdings",
    "amounts",
    "erase",
    "take",
    "take_contents",
    "take_purged",
    "take_relations",
    "take_session",
]


_AGE = "updated_at, clock"
_RELATION = ("source", "target", "kind", "strength", "created_at")
_CONTENT = ("hash", "used_at", "bytes", "codec", "data")


def take(
    db: Database,
    org: str,
    packets: Sequence[Packet],
    embedding: Embedding | None,
    before: Mapping[str, Mark],
) -> list[Outcome]:
    embedded = None if embedding is None else _embedded(packets, embedding)
    stored = put(db, Scope(org=org), [packet.record for packet in packets], embedded)
    index = Index(db, embedded)
    outcomes: list[Outcome] = []
    for packet, outcome in zip(packets, stored, strict=True):
        held = before.get(packet.memory.id)
        if held is None or outcome == "added":
            outcomes.append(outcome)
        elif outcome == "kept" and held.updated_at > micros(packet.memory.updated_at):
            outcomes.append("newer")
        else:
            _complete(db, packet, held, index, indexed=outcome == "kept")
            _drop_unrelated(db, org, packet.record)
            outcomes.append(outcome)
    return outcomes


def _embedded(packets: Sequence[Packet], embedding: Embedding) -> Embedded:
    """Return the vectors under a name for each passage: the same text may have two different vectors."""
    parts: dict[str, list[Part]] = {}
    vectors: dict[str, tuple[bytes, bytes]] = {}
    for packet in packets:
        parts[packet.memory.id] = made = []
        for place, passage in enumerate(packet.passages):
            name = f"{packet.memory.id} {place}"
            made.append(Part(passage.start, passage.end, name, passage.codes, passage.flags))
            if passage.vector is not None:
                vectors[name] = passage.vector
    return Embedded(*embedding, parts, vectors)


def _complete(db: Database, packet: Packet, held: Mark, index: Index, *, indexed: bool) -> None:
    """Update what `put` leaves unchanged for an existing memory: uses and vectors."""
    memory = packet.memory
    if memory.accessed_at is not None:
        used = usage_row(memory.id, memory.access_count, memory.accessed_at)
        db.execute(db.statement("raise_usage"), used)
    if not indexed or (held.waiting and all(passage.vector for passage in packet.passages)):
        index.remove(held.number)
        index.enter([(held.number, memory)])


def _drop_unrelated(db: Database, org: str, record: Record) -> None:
    """Delete relations that were removed in the source since the last move, unless they were made again here."""
    for entry in record.history:
        before = entry.changes.get("relation", [None])[0]
        if entry.action == "unrelate" and isinstance(before, dict):
            named = {name: before.get(name) for name in ("source", "target", "kind")}
            db.execute(db.statement("drop_relation"), {"org": org, "until": micros(entry.at), **named})


def take_purged(db: Database, org: str, rows: Sequence[Row], here: Mapping[str, Mark]) -> None:
    for (memory, place), change in rows:
        if (held := here.get(memory)) is not None:
            if held.updated_at > change[0]:
                continue
            purge(db, Filter(scope=Scope(org=org), ids=(memory,), statuses=()))
            db.execute(db.statement("clear_history"), {"org": org, "memory": memory})
        if len(db.execute(db.statement("history_of"), {"org": org, "memory": memory}).fetchall()) == place:
            at, action, changes = change
            told = {"org": org, "memory": memory, "at": at, "action": action, "changes": changes}
            db.execute(db.statement("insert_history"), told)


def take_relations(db: Database, org: str, rows: Sequence[Row], here: Mapping[str, Mark]) -> None:
    # A relation that was added during the move may belong to memories that are not here yet.
    known = [row for row in rows if row.key[0] in here and row.key[1] in here]
    db.executemany(db.statement("renew_relation"), _named(_RELATION, org, known))


def take_contents(db: Database, org: str, rows: Sequence[Row]) -> None:
    db.executemany(db.statement("content_bring"), _named(_CONTENT, org, rows))


def take_session(
    db: Database, org: str, session: Row, entries: Iterator[Row], turns: Iterator[Row]
) -> Literal["added", "updated", "newer"]:
    (id,), values = session
    books = dict(zip(SESSION_FIELDS, values, strict=True))
    held = db.execute(db.statement("session_by_id", columns_of=_AGE), {"org": org, "id": id}).fetchone()
    if held is not None and tuple(held) > tuple(books[name] for name in _AGE.split(", ")):
        return "newer"
    exact = db.statement("session_exact", columns_of="id")
    named = db.execute(exact, books).fetchone()
    if named is not None and named[0] != id:
        raise InputError(f"a session {books['name']!r} is here already, under the id {named[0]} instead of {id}")
    of_session = {"org": org, "session": id}
    db.execute(db.statement("session_delete"), {"org": org, "id": id})
    db.execute(insert_session(db), books)
    db.executemany(
        insert_entry(db), (of_session | dict(zip(ENTRY_FIELDS, row.values, strict=True)) for row in entries)
    )
    db.executemany(
        db.statement("turn_end"), (of_session | dict(zip(TURN_FIELDS, row.values, strict=True)) for row in turns)
    )
    return "added" if held is None else "updated"


def _named(names: Sequence[str], org: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{"org": org} | dict(zip(names, (*row.key, *row.values), strict=True)) for row in rows]


# Reading the rows of an org page by page.


PAGE = 200
# Contents can be large.
CONTENTS = 8

Connected = Callable[[], AbstractContextManager[Database]]
_ID_OF_SESSION = SESSION_FIELDS.index("id")


class Holdings:
    """All rows of one org in a store. Each page that is read and each call that writes is one transaction."""

    def __init__(self, org: str, dialect: Dialect, read: Connected, write: Connected) -> None:
        self.org = org
        self._read = read
        self._write = write
        # The index on ids or numbers must be used.
        self._of_org = f"{dialect.unindexed}m.org = {dialect.value('org')}"

    def exists(self) -> bool:
        """Return whether the org has any rows."""
        with self._read() as db:
            return bool(db.execute(db.statement("org_exists"), {"org": self.org}).get)

    def whereabouts(self) -> str:
        """Return a text that identifies the database, however its location was written; '' in memory."""
        with self._read() as db:
            return str(db.execute(db.statement("whereabouts")).get or "")

    def amounts(self) -> dict[Held, int]:
        """Return the number of rows of each kind."""
        with self._read() as db:
            return amounts(db, self.org)

    def embedding(self) -> Embedding | None:
        """Return the embedder of the vectors."""
        with self._read() as db:
            return embedding(db)

    def rows(self, kind: Held) -> Iterator[Row]:
        """Yield all rows of a kind, ordered by key."""
        match kind:
            case "memories":
                for row in self._pages("page_by_id", {"after": ""}, where=self._of_org):
                    # Without the uses, which come last: they are rows of their own.
                    yield Row(row[:1], row[1 : len(COLUMNS)])
            case "uses" | "passages" | "vectors":
                yield from self._beside_memories(kind)
            case "history":
                yield from self._changes("history_page")
            case "relations":
                for row in self._pages("relation_page", {"source": "", "target": "", "kind": ""}):
                    yield Row(row[:3], row[3:])
            case "sessions":
                for row in self._pages("session_page", {"id": ""}, at=_ID_OF_SESSION, columns_of=SESSION_COLUMNS):
                    yield Row((row[_ID_OF_SESSION],), row)
            case "entries" | "turns":
                for session in self.rows("sessions"):
                    yield from self.rows_of_session(kind, session.key[0])
            case "contents":
                for row in self._pages("content_page", {"hash": b""}, limit=CONTENTS):
                    yield Row(row[:1], row[1:])

    def rows_of_session(self, kind: Literal["entries", "turns"], session: str) -> Iterator[Row]:
        """Yield the entries or turns of one session, ordered by key."""
        if kind == "entries":
            for row in self._pages("entry_page", {"seq": -1}, session=session, columns_of=ENTRY_COLUMNS):
                yield Row((session, row[0]), row)
            return
        with self._read() as db:
            found = db.execute(db.statement("turn_list"), {"org": self.org, "session": session}).fetchall()
        yield from (Row((session, row[0]), tuple(row)) for row in found)

    def purged(self) -> Iterator[Row]:
        """Yield the history of purged memories."""
        return self._changes("purged_page")

    def marks(self, *, after: int, limit: int) -> list[Mark]:
        """Return the marks of memories with a number above `after`, by number."""
        with self._read() as db:
            where = f"{self._of_org} AND m.seq > {db.dialect.value('after')}"
            return _marks(db, where, org=self.org, after=after, limit=limit)

    def marks_of(self, ids: Sequence[str]) -> dict[str, Mark]:
        """Return the marks of these memories, by id. Ids without a memory are left out."""
        with self._read() as db:
            return marks_of(db, self.org, ids)

    def packets(self, marks: Sequence[Mark]) -> list[Packet]:
        """Return these memories with history and passages, in the same order. Deleted ones are left out."""
        with self._read() as db:
            memories = by_number(db, [mark.number for mark in marks])
            numbers = json_array([mark.number for mark in marks])
            changes: dict[str, list[Change]] = defaultdict(list)
            ids = json_array([mark.id for mark in marks])
            for row in db.execute(db.statement("histories_of"), {"org": self.org, "ids": ids}):
                changes[row[0]].append(read_change(row))
            passages = _passages(db, numbers)
        return [
            Packet(
                Record(memory=memory, history=tuple(changes[memory.id])),
                tuple(passages[mark.number]),
            )
            for mark in marks
            if (memory := memories.get(mark.number)) is not None
        ]

    def take(self, packets: Sequence[Packet], embedding: Embedding | None) -> list[Outcome]:
        """Store memories of another store in this order, all or none. Newer versions here are kept."""
        with self._write() as db:
            before = marks_of(db, self.org, [packet.memory.id for packet in packets])
            return take(db, self.org, packets, embedding, before)

    def take_purged(self, rows: Sequence[Row]) -> None:
        """Store the history of purged memories, and purge them here too, unless they are newer here."""
        with self._write() as db:
            take_purged(db, self.org, rows, marks_of(db, self.org, [row.key[0] for row in rows]))

    def take_relations(self, rows: Sequence[Row]) -> None:
        """Store relations between memories that exist here. Newer versions here are kept."""
        with self._write() as db:
            ids = {identifier for row in rows for identifier in row.key[:2]}
            take_relations(db, self.org, rows, marks_of(db, self.org, sorted(ids)))

    def take_contents(self, rows: Sequence[Row]) -> None:
        """Store contents that do not exist here. For existing ones, the later time of use is kept."""
        with self._write() as db:
            take_contents(db, self.org, rows)

    def take_session(self, session: Row, entries: Iterator[Row], turns: Iterator[Row]) -> Outcome:
        """Store a session with all its entries and turns; a session that is newer here stays."""
        with self._write() as db:
            return take_session(db, self.org, session, entries, turns)

    def session(self, id: str) -> Row | None:
        """Return one session."""
        with self._read() as db:
            sql = db.statement("session_by_id", columns_of=SESSION_COLUMNS)
            row = db.execute(sql, {"org": self.org, "id": id}).fetchone()
        return None if row is None else Row((id,), tuple(row))

    def _beside_memories(self, kind: Literal["uses", "passages", "vectors"]) -> Iterator[Row]:
        last = ""
        while True:
            with self._read() as db:
                sql = db.statement("id_page", where=self._of_org)
                page = db.execute(sql, {"org": self.org, "after": last, "limit": PAGE}).fetchall()
                numbers = json_array([number for number, _ in page])
                found: dict[int, list[Row]] = defaultdict(list)
                for number, *values in _of_memories(db, kind, numbers):
                    key, rest = ((), values) if kind == "uses" else ((values[0],), values[1:])
                    found[number].append(Row(key, tuple(rest)))
            for number, identifier in page:
                for row in found[number]:
                    yield Row((identifier, *row.key), row.values)
            if len(page) < PAGE:
                return
            last = page[-1][1]

    def _changes(self, name: str) -> Iterator[Row]:
        """Yield history rows keyed by memory and position, because row numbers differ between stores."""
        rows = self._pages(name, {"memory": "", "seq": -1})
        for memory, group in itertools.groupby(rows, key=lambda row: row[0]):
            for place, row in enumerate(group):
                yield Row((memory, place), row[2:])

    def _pages(
        self,
        name: str,
        after: dict[str, Any],
        *,
        session: str | None = None,
        at: int = 0,
        limit: int = PAGE,
        **parts: str,
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a paged statement. `after` is the key to start after, whose columns start at `at`."""
        inside = {"org": self.org, "session": session, "limit": limit}
        while True:
            with self._read() as db:
                page = db.execute(db.statement(name, **parts), inside | after).fetchall()
            yield from map(tuple, page)
            if len(page) < limit:
                return
            after = dict(zip(after, page[-1][at:], strict=False))


def amounts(db: Database, org: str, *, every_vector: bool = False) -> dict[Held, int]:
    """Count the rows of an org by kind; vectors of the current generation, or of all generations."""
    others = [kind for kind in KINDS if kind != "vectors"]
    found_amounts = db.execute(db.statement("amounts"), {"org": org}).get
    counts: dict[Held, int] = dict(zip(others, found_amounts, strict=True))
    found = db.vectors.generations()
    current = db.vectors.generation()
    chosen = found if every_vector else [each for each in found if each == current]
    counts["vectors"] = sum(
        db.execute(db.statement("amount_of_vectors", **each.parts), {"org": org}).get for each in chosen
    )
    return {kind: counts[kind] for kind in KINDS}


def marks_of(db: Database, org: str, ids: Sequence[str]) -> dict[str, Mark]:
    listed = db.dialect.listed.format(alias="m", value=db.dialect.value("ids"))
    where = f"{db.dialect.unindexed}m.org = {db.dialect.value('org')} AND {listed}"
    return {mark.id: mark for mark in _marks(db, where, org=org, ids=json_array(ids), limit=len(ids))}


def _marks(db: Database, where: str, **values: Any) -> list[Mark]:
    return [Mark(*row) for row in db.execute(db.statement("marks", where=where), values)]


def _of_memories(db: Database, kind: Literal["uses", "passages", "vectors"], numbers: str) -> Iterator[Any]:
    if kind == "uses":
        return iter(db.execute(db.statement("uses_of"), {"numbers": numbers}))
    if kind == "passages":
        return iter(db.execute(db.statement("passages_held"), {"numbers": numbers}))
    return iter(_vectors(db, numbers))


def _vectors(db: Database, numbers: str) -> list[Any]:
    current = db.vectors.generation()
    if current is None or not current.dimensions:
        return []
    return db.execute(db.statement("vectors_held", **current.parts), {"numbers": numbers}).fetchall()


def _passages(db: Database, numbers: str) -> dict[int, list[Passage]]:
    vectors = {(memory, place): (vector, code) for memory, place, vector, code in _vectors(db, numbers)}
    found: dict[int, list[Passage]] = defaultdict(list)
    for memory, place, start, end, flags, codes in db.execute(db.statement("passages_held"), {"numbers": numbers}):
        found[memory].append(Passage(start, end, flags, codes, vectors.get((memory, place))))
    return found


# Erasing an org: rows, index, vectors, history, sessions and contents.


_STATEMENTS = ("erase_memories", "erase_sessions", "erase_contents", "erase_rest")


def erase(db: Database, org: str) -> dict[Held, int]:
    """Delete an org, and return how many rows of each kind it had. Foreign keys and triggers delete the rest."""
    db.scrub()
    counts = amounts(db, org, every_vector=True)
    for name in _STATEMENTS:
        db.execute(db.statement(name), {"org": org})
    db.vectors.passages_went()
    return counts
