"""Storing what another store holds, as it is: each function runs inside a write transaction of its caller."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from satchel.errors import InputError
from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.store.contract import Embedded, Embedding
from satchel.store.holdings import Mark, Outcome, Packet, Row
from satchel.store.sql.database import Database
from satchel.store.sql.index import Index
from satchel.store.sql.ledgers import ENTRY_COLUMNS, SESSION_COLUMNS
from satchel.store.sql.rows import micros
from satchel.store.sql.writing import purge, put
from satchel.text.passages import Part

__all__ = ["take", "take_contents", "take_purged", "take_relations", "take_session"]

_SESSION = SESSION_COLUMNS.split(", ")
_NAME = _SESSION.index("name")
_AGE = "updated_at, clock"
_AGES = [_SESSION.index(name) for name in _AGE.split(", ")]


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
            outcomes.append(outcome)
    return outcomes


def _embedded(packets: Sequence[Packet], embedding: Embedding) -> Embedded:
    """The passages under names of their own: the same text may have been embedded twice, and not alike."""
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
    """What `put` leaves as it is: uses and vectors of a memory that was here."""
    memory = packet.memory
    if memory.accessed_at is not None:
        used = (memory.id, memory.access_count, micros(memory.accessed_at))
        db.execute(db.statement("raise_usage"), used)
    if not indexed or (held.waiting and all(passage.vector for passage in packet.passages)):
        index.remove(held.number)
        index.enter(held.number, memory)


def take_purged(db: Database, org: str, rows: Sequence[Row], here: Mapping[str, Mark]) -> None:
    for (memory, place), change in rows:
        if (held := here.get(memory)) is not None:
            if held.updated_at > change[0]:
                continue
            purge(db, Filter(scope=Scope(org=org), ids=(memory,), statuses=()))
            db.execute(db.statement("clear_history"), (org, memory))
        if len(db.execute(db.statement("history_of"), (org, memory)).fetchall()) == place:
            db.execute(db.statement("insert_history"), (org, memory, *change))


def take_relations(db: Database, org: str, rows: Sequence[Row], here: Mapping[str, Mark]) -> None:
    # One that came while the memories were moved may be between memories that came with it.
    known = [row for row in rows if row.key[0] in here and row.key[1] in here]
    db.executemany(db.statement("renew_relation"), [(org, *row.key, *row.values) for row in known])


def take_contents(db: Database, org: str, rows: Sequence[Row]) -> None:
    db.executemany(db.statement("content_bring"), [(org, *row.key, *row.values) for row in rows])


def take_session(
    db: Database, org: str, session: Row, entries: Iterator[Row], turns: Iterator[Row]
) -> Literal["added", "updated", "newer"]:
    (id,), books = session
    held = db.execute(db.statement("session_by_id", columns_of=_AGE), (org, id)).fetchone()
    if held is not None and tuple(held) > tuple(books[place] for place in _AGES):
        return "newer"
    exact = db.statement("session_exact", columns_of="id")
    named = db.execute(exact, (*books[:4], books[_NAME])).fetchone()
    if named is not None and named[0] != id:
        raise InputError(f"a session {books[_NAME]!r} is here already, under the id {named[0]} instead of {id}")
    db.execute(db.statement("session_delete"), (org, id))
    db.execute(db.statement("session_insert", columns_of=SESSION_COLUMNS, marks=_marks(SESSION_COLUMNS)), books)
    entry = db.statement("entry_insert", columns_of=ENTRY_COLUMNS, marks=f"?, ?, {_marks(ENTRY_COLUMNS)}")
    db.executemany(entry, ((org, id, *row.values) for row in entries))
    db.executemany(db.statement("turn_end"), ((org, id, *row.values) for row in turns))
    return "added" if held is None else "updated"


def _marks(columns: str) -> str:
    return ", ".join("?" for _ in columns.split(", "))
