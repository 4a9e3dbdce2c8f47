"""Changing memories: each function runs inside a write transaction that its caller holds."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from satchel.errors import InputError, UnknownIdError
from satchel.model.filters import Filter
from satchel.model.memory import Memory, Relation, Scope, utc_now
from satchel.store.contract import Candidate, Embedded, Record
from satchel.store.sql.batch import Batch, history_row
from satchel.store.sql.confirming import KnownTexts, confirmed, find_same_text
from satchel.store.sql.database import Database
from satchel.store.sql.index import Index
from satchel.store.sql.reading import history, memory_in_scope, relations, select_ids
from satchel.store.sql.rows import memory_from_row, micros, scope_columns
from satchel.text.redact import masked_labels

__all__ = ["add", "change", "forget", "purge", "put", "put_relations", "relate", "use"]

# Fields that follow from others or from use: a difference in them alone is no change.
_DERIVED = frozenset({"updated_at", "revision", "access_count", "accessed_at", "tokens", "masked"})


def add(
    db: Database, candidates: Sequence[Candidate], embedded: Embedded | None, *, deduplicate: bool = True
) -> list[Memory]:
    batch = Batch(db, Index(db, embedded))
    known = KnownTexts(db, [candidate.memory for candidate in candidates] if deduplicate else [])
    stored = [_add_one(db, candidate, batch, known if deduplicate else None) for candidate in candidates]
    batch.write()
    return stored


def put(
    db: Database, scope: Scope, records: Sequence[Record], embedded: Embedded | None
) -> list[Literal["added", "updated", "kept"]]:
    batch = Batch(db, Index(db, embedded))
    outcomes = [_put_one(db, scope, record, batch) for record in records]
    batch.write()
    return outcomes


def change(
    db: Database,
    scope: Scope,
    identifier: str,
    changes: Mapping[str, Any],
    *,
    action: str,
    embedded: Embedded | None,
) -> Memory:
    memory = memory_in_scope(db, scope, identifier)
    changed = msgspec.structs.replace(memory, **changes)
    return _revise(db, memory, changed, Index(db, embedded), action=action)


def forget(db: Database, where: Filter, moment: datetime) -> int:
    """What has ended already keeps its end, and is not counted."""
    found = [memory_in_scope(db, where.scope, identifier) for identifier in select_ids(db, where)]
    ending = [memory for memory in found if memory.invalid_at is None or memory.invalid_at > moment]
    index = Index(db)
    for memory in ending:
        _revise(db, memory, msgspec.structs.replace(memory, invalid_at=moment), index, action="forget")
    return len(ending)


def purge(db: Database, where: Filter) -> int:
    """Everything goes, the history's texts too; one line stays that says it was purged."""
    ids = select_ids(db, where)
    org, now = where.scope.org, micros(utc_now())
    index = Index(db)
    seqs = [_seq(db, identifier) for identifier in ids]
    db.words_go(seqs)
    for identifier, seq in zip(ids, seqs, strict=True):
        index.remove(seq)
        db.execute(db.statement("clear_history"), (org, identifier))
        db.execute(db.statement("delete_memory"), (identifier,))
        db.execute(db.statement("insert_history"), (org, identifier, now, "purge", "{}"))
    return len(ids)


def relate(db: Database, scope: Scope, relation: Relation) -> Relation:
    source = memory_in_scope(db, scope, relation.source)
    target = memory_in_scope(db, scope, relation.target)
    if source.id == target.id:
        raise InputError(f"a memory cannot be related to itself: {source.id}")
    if relation.kind == "supersedes" and source.status == "superseded":
        raise InputError(f"{source.id} is itself superseded, by {source.superseded_by}")
    named = (relation.source, relation.target, relation.kind)
    found = (each for each in relations(db, scope, [source.id]) if (each.source, each.target, each.kind) == named)
    held = next(found, None)
    done = relation.kind != "supersedes" or target.status == "superseded"
    if held is not None and done and held.strength == relation.strength:
        return held
    _write_relation(db, scope.org, relation)
    # What is overwritten is told with its time, so that `as_of` can restore it.
    before = None if held is None else msgspec.structs.asdict(held)
    after = {"kind": relation.kind, "source": source.id, "target": target.id, "strength": relation.strength}
    for memory in (source, target):
        _record(db, memory, relation.created_at, "relate", {"relation": [before, after]})
    if relation.kind == "supersedes" and target.status != "superseded":
        ended = msgspec.structs.replace(
            target,
            status="superseded",
            superseded_by=source.id,
            invalid_at=target.invalid_at or relation.created_at,
        )
        _revise(db, target, ended, Index(db), action="supersede")
    return relation


def put_relations(db: Database, scope: Scope, given: Sequence[Relation]) -> None:
    """Relations as another store had them: nothing follows from them a second time."""
    for relation in given:
        for end in (relation.source, relation.target):
            memory_in_scope(db, scope, end)
        _write_relation(db, scope.org, relation)


def use(db: Database, uses: Mapping[str, tuple[int, datetime]]) -> None:
    """Add to the count of uses of each memory that is still there."""
    db.executemany(
        db.statement("add_usage"),
        [(identifier, count, micros(last)) for identifier, (count, last) in uses.items()],
    )


def _add_one(db: Database, candidate: Candidate, batch: Batch, known: KnownTexts | None) -> Memory:
    """Store a candidate; without `known` texts, equal texts are different memories."""
    stored = _updated(db, candidate, batch)
    if stored is None and known is not None and candidate.memory in known:
        stored = _confirmed(db, candidate, batch)
    if stored is None:
        stored = candidate.memory
        batch.take(stored, [history_row(stored, stored.created_at, "add", {})])
    if known is not None:
        known.add(stored)
    return stored


def _confirmed(db: Database, candidate: Candidate, batch: Batch) -> Memory | None:
    # It may repeat one that is held back.
    batch.write()
    existing = find_same_text(db, candidate.memory)
    if existing is None:
        return None
    return _revise(db, existing, confirmed(existing, candidate), batch.index, action="confirm")


def _updated(db: Database, candidate: Candidate, batch: Batch) -> Memory | None:
    """The memory that has the candidate's ref or topic, with the fields that were given."""
    memory = candidate.memory
    batch.make_room(memory)
    existing = _same_memory(db, memory)
    if existing is None:
        return None
    given = {name: getattr(memory, name) for name in candidate.given}
    if memory.scope.session is not None:
        # A topic outlives sessions, and is found in the one that spoke of it last.
        given["scope"] = memory.scope
    revised = msgspec.structs.replace(existing, **(_revival(existing, memory.created_at) | given))
    batch.write()
    return _revise(db, existing, revised, batch.index, action="update")


def _revival(existing: Memory, now: datetime) -> dict[str, Any]:
    """To say something again is to say that it holds, even if it was ended meanwhile."""
    fields: dict[str, Any] = {}
    if existing.status in ("archived", "superseded"):
        fields |= {"status": "active", "superseded_by": None}
    if existing.invalid_at is not None and existing.invalid_at <= now:
        fields["invalid_at"] = None
    return fields


def _same_memory(db: Database, memory: Memory) -> Memory | None:
    scope = scope_columns(memory.scope)
    found: list[Memory] = []
    if memory.ref is not None:
        row = db.execute(db.statement("memory_by_ref"), (*scope, memory.ref)).fetchone()
        found += [memory_from_row(row)] if row else []
    if memory.topic_key is not None:
        row = db.execute(db.statement("memory_by_topic"), (*scope[:4], memory.topic_key)).fetchone()
        found += [memory_from_row(row)] if row else []
    if len({each.id for each in found}) > 1:
        raise InputError(
            f"ref {memory.ref!r} and topic {memory.topic_key!r} belong to two different memories: "
            f"{found[0].id} and {found[1].id}"
        )
    return found[0] if found else None


def _put_one(db: Database, scope: Scope, record: Record, batch: Batch) -> Literal["added", "updated", "kept"]:
    memory = record.memory
    existing = None
    batch.make_room(memory)
    if db.execute(db.statement("id_exists"), (memory.id,)).fetchone():
        try:
            existing = memory_in_scope(db, scope, memory.id)
        except UnknownIdError:
            raise InputError(f"the id {memory.id} belongs to another scope here") from None
        if existing.updated_at >= memory.updated_at:
            if existing.updated_at == memory.updated_at:
                _complete_history(db, record)
            return "kept"
    clash = _same_memory(db, memory)
    if clash is not None and clash.id != memory.id:
        raise InputError(f"ref {memory.ref!r} or topic {memory.topic_key!r} is taken here by {clash.id}")
    if existing is None:
        db.execute(db.statement("clear_history"), (memory.scope.org, memory.id))
        entries = [history_row(memory, entry.at, entry.action, entry.changes) for entry in record.history]
        batch.take(memory, entries)
        return "added"
    batch.write()
    _write_row(db, existing, memory, batch.index)
    _replace_history(db, record)
    if memory.accessed_at is not None:
        db.execute(db.statement("set_usage"), (memory.id, memory.access_count, micros(memory.accessed_at)))
    return "updated"


def _complete_history(db: Database, record: Record) -> None:
    """A relation adds to the history of a memory without changing the memory itself."""
    memory = record.memory
    if len(record.history) > len(history(db, memory.scope.org, memory.id)):
        _replace_history(db, record)


def _replace_history(db: Database, record: Record) -> None:
    memory = record.memory
    db.execute(db.statement("clear_history"), (memory.scope.org, memory.id))
    for entry in record.history:
        _record(db, memory, entry.at, entry.action, entry.changes)


def _revise(db: Database, old: Memory, new: Memory, index: Index, *, action: str) -> Memory:
    """Write what differs, with the next revision and a line of history; nothing if nothing does."""
    changes = {
        name: [before, after]
        for name in Memory.__struct_fields__
        if name not in _DERIVED and (before := getattr(old, name)) != (after := getattr(new, name))
    }
    if not changes:
        return old
    now = max(utc_now(), old.updated_at)
    new = msgspec.structs.replace(
        new,
        updated_at=now,
        revision=old.revision + 1,
        masked=masked_labels(new.text, new.title, new.source, new.speaker, *new.tags),
    )
    clash = _same_memory(db, new) if {"ref", "topic_key", "scope"} & changes.keys() else None
    if clash is not None and clash.id != new.id:
        raise InputError(f"that ref or topic is taken by another memory: {clash.id}")
    _write_row(db, old, new, index)
    _record(db, new, now, action, changes)
    return new


def _write_row(db: Database, old: Memory, new: Memory, index: Index) -> None:
    worded = (old.text, old.title, old.tags) != (new.text, new.title, new.tags)
    seq = _seq(db, new.id)
    if worded:
        db.words_go([seq])
    names, values = db.columns()[1:], db.row(new)[1:]
    assignments = ", ".join(f"{name} = ?" for name in names)
    db.execute(db.statement("update_memory", assignments=assignments), (*values, new.id))
    if worded:
        db.words_come([new])
        index.replace(seq, new)


def _seq(db: Database, identifier: str) -> int:
    return int(db.execute(db.statement("memory_seq"), (identifier,)).get)


def _write_relation(db: Database, org: str, relation: Relation) -> None:
    db.execute(
        db.statement("upsert_relation"),
        (
            org,
            relation.source,
            relation.target,
            relation.kind,
            relation.strength,
            micros(relation.created_at),
        ),
    )


def _record(db: Database, memory: Memory, at: datetime, action: str, changes: dict[str, Any]) -> None:
    db.execute(db.statement("insert_history"), history_row(memory, at, action, changes))
