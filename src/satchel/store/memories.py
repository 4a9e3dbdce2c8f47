"""Read and change memories. Each function runs inside a transaction that its caller holds."""

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Literal

import msgspec

from satchel.errors import AmbiguousIdError, InputError, UnknownIdError
from satchel.model.filters import Filter
from satchel.model.ids import parse_id, short_id, short_length
from satchel.model.memory import (
    Change,
    Memory,
    Relation,
    Scope,
    checked,
    free_texts,
    utc_now,
    values_changed,
)
from satchel.store.contract import Candidate, Changed, Embedded, Record, Stats
from satchel.store.database import Database, Dialect
from satchel.store.index import Index
from satchel.store.rows import (
    filter_sql,
    from_micros,
    json_array,
    json_list,
    memory_from_row,
    micros,
    read_change,
    read_relation,
    relation_values,
    scope_columns,
    scope_sql,
    scope_values,
    spell_nul,
    text_key,
    write_changes,
)

__all__ = [
    "Batch",
    "KnownTexts",
    "Uses",
    "add",
    "by_number",
    "change",
    "changed",
    "confirmed",
    "count_names",
    "count_uses",
    "find_same_text",
    "forget",
    "history",
    "history_row",
    "memory_in_scope",
    "purge",
    "put",
    "put_relations",
    "records",
    "relate",
    "related_since",
    "relation_pages",
    "relations",
    "resolve",
    "select_ids",
    "short_ids",
    "stats",
    "taken_names",
    "to_forget",
    "unforget",
    "unrelate",
    "unrelated_since",
    "usage_row",
]


PAGE = 500
# How many memories an error lists for an ambiguous id, and how many characters of each.
CANDIDATES = 3
HEADLINE = 40

Reader = Callable[[], AbstractContextManager[Database]]


def resolve(db: Database, scope: Scope, identifier: str) -> str:
    """Return the full id of the memory in a scope that an id, a prefix or a short id names.

    No such memory and several such memories are errors.
    """
    named = parse_id(identifier)
    condition, values = scope_sql(db.dialect, scope, indexed=False)
    found: dict[str, None] = {}
    for statement, ids in (("ids_with_prefix", named.prefix), ("ids_with_tail", named.tail)):
        if ids is not None:
            sql = db.statement(statement, where=condition)
            limits = {"org": scope.org, "limit": CANDIDATES + 1, **ids._asdict()}
            found |= {row[0]: None for row in db.execute(sql, values | limits)}
    if not found:
        raise UnknownIdError(f"no memory has the id {identifier!r} here")
    if len(found) > 1:
        raise AmbiguousIdError(_ambiguous(db, scope, identifier, sorted(found)))
    return next(iter(found))


def _ambiguous(db: Database, scope: Scope, identifier: str, ids: Sequence[str]) -> str:
    shown = ids[:CANDIDATES]
    named = zip(short_ids(db, scope.org, shown), (memory_in_scope(db, scope, each) for each in shown), strict=True)
    some = ", ".join(f"{short} {memory.headline(HEADLINE)[:HEADLINE]!r}" for short, memory in named)
    more = ", …" if len(ids) > CANDIDATES else ""
    return f"{identifier!r} names several memories; did you mean one of these: {some}{more}"


def short_ids(db: Database, org: str, ids: Sequence[str]) -> list[str]:
    """Return a short id for each id, unique in its org. One statement serves all ids."""
    found = {}
    rows = db.execute(db.statement("tails_beside"), {"org": org, "ids": json_array(ids)}) if ids else ()
    for identifier, before, after, newest in rows:
        # The highest number is about how many memories there are; counting them would take long.
        found[identifier] = short_id(identifier, (before, after), least=short_length(newest))
    return [found[each] for each in ids]


def memory_in_scope(db: Database, scope: Scope, identifier: str) -> Memory:
    condition, values = scope_sql(db.dialect, scope, indexed=False)
    row = db.execute(db.statement("memory_in_scope", where=condition), values | {"id": identifier}).fetchone()
    if row is None:
        raise UnknownIdError(f"no memory has the id {identifier!r} here")
    return memory_from_row(row)


def by_number(db: Database, numbers: Sequence[int]) -> dict[int, Memory]:
    """Return the memories with these numbers, by number. Numbers without a memory are left out."""
    found = {row[-1]: memory_from_row(row) for row in db.memory_rows(numbers)}
    return {number: found[number] for number in numbers if number in found}


def select_ids(db: Database, where: Filter) -> list[str]:
    condition, values = filter_sql(db.dialect, where)
    return [row[0] for row in db.execute(db.statement("matching_ids", where=condition), values)]


def relations(db: Database, scope: Scope, ids: Sequence[str]) -> list[Relation]:
    source, values = scope_sql(db.dialect, scope, indexed=False)
    target, _ = scope_sql(db.dialect, scope, "o", indexed=False)
    sql = db.statement("relations_of", where=source, where_target=target)
    rows = {row: None for each in ids for row in db.execute(sql, values | {"org": scope.org, "id": each})}
    return [read_relation(row) for row in rows]


def history(db: Database, org: str, identifier: str) -> list[Change]:
    """Return the history of a memory, oldest first. After a purge it has one entry, the purge."""
    return [read_change(row) for row in db.execute(db.statement("history_of"), {"org": org, "memory": identifier})]


def changed(db: Database, where: Filter, since: datetime) -> list[Changed]:
    """Return the memories that match now and were changed after a moment, each with its history."""
    # `indexed=False`: the index on changes must be used, not the one on projects.
    condition, values = filter_sql(db.dialect, where, indexed=False)
    values |= {"org": where.scope.org, "since": micros(since)}
    rows = db.execute(db.statement("changed_memories", where=condition), values).fetchall()
    if not rows:
        return []
    told: dict[str, list[Change]] = {}
    for row in db.execute(db.statement("history_of_changed", where=condition), values):
        told.setdefault(row[0], []).append(read_change(row))
    return [Changed(row[-1], memory_from_row(row), tuple(told.get(row[0], ()))) for row in rows]


def unrelated_since(db: Database, org: str, since: datetime) -> list[Change]:
    """Return the history entries of relations that were removed after a moment, oldest first."""
    rows = db.execute(db.statement("unrelated_since"), {"org": org, "since": micros(since)})
    return [read_change(row) for row in rows]


def related_since(db: Database, org: str, since: datetime) -> bool:
    """Return whether any relation of an org was created after a moment."""
    return bool(db.execute(db.statement("related_since"), {"org": org, "since": micros(since)}).get)


def stats(db: Database, where: Filter, moment: datetime) -> Stats:
    """Count the memories that match, by kind, tier, status and project."""
    condition, values = filter_sql(db.dialect, where)
    now = micros(moment)
    count, tokens, oldest, newest, current = db.execute(
        db.statement("totals", where=condition), values | {"now": now}
    ).get

    def by(column: str) -> dict[str, int]:
        rows: list[Any] = db.execute(db.statement("count_by", column=column, where=condition), values).fetchall()
        return dict(rows)

    return Stats(
        memories=count,
        current=current,
        tokens=tokens,
        relations=_count_relations(db, where),
        by_kind=by("kind"),
        by_tier=by("tier"),
        by_status=by("status"),
        by_project=by("project"),
        oldest=None if oldest is None else from_micros(oldest),
        newest=None if newest is None else from_micros(newest),
    )


def count_names(db: Database, where: Filter, column: Literal["project", "tags"]) -> dict[str, int]:
    """Count the memories that match by project or tag, most frequent first, then by name.

    Tags that differ only in the case of ASCII letters are one tag, as in a filter. Its most frequent spelling is
    used.
    """
    condition, values = filter_sql(db.dialect, where)
    counts: Counter[str] = Counter()
    spelled: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for value, count in db.execute(db.statement("count_by", column=column, where=condition), values):
        names = json_list(value) if column == "tags" else [value] if value else []
        keys = {name: _lower_ascii(name) if column == "tags" else name for name in names}
        counts.update(dict.fromkeys(keys.values(), count))
        for name, key in keys.items():
            spelled[key][name] += count
    shown = {key: min(each, key=lambda name: (-each[name], name)) for key, each in spelled.items()}
    return {shown[key]: count for key, count in sorted(counts.items(), key=lambda pair: (-pair[1], shown[pair[0]]))}


def _lower_ascii(name: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _count_relations(db: Database, where: Filter) -> int:
    source, values = filter_sql(db.dialect, where, indexed=False)
    target, _ = filter_sql(db.dialect, where, "o", indexed=False)
    sql = db.statement("relations_inside", where=source, where_target=target)
    return int(db.execute(sql, values | {"org": where.scope.org}).get)


def records(dialect: Dialect, reader: Reader, where: Filter) -> Iterator[Record]:
    """Yield all records that match, by id.

    Each page is a short transaction, so that a slow export does not make the write-ahead log grow.
    """
    condition, values = filter_sql(dialect, where, indexed=False)
    last = ""
    while True:
        with reader() as db:
            sql = db.statement("page_by_id", where=condition)
            page = [memory_from_row(row) for row in db.execute(sql, values | {"after": last, "limit": PAGE})]
            found = [
                Record(memory=memory, history=tuple(history(db, memory.scope.org, memory.id))) for memory in page
            ]
        yield from found
        if len(page) < PAGE:
            return
        last = page[-1].id


def relation_pages(dialect: Dialect, reader: Reader, where: Filter) -> Iterator[Relation]:
    condition, values = filter_sql(dialect, where, indexed=False)
    target, _ = filter_sql(dialect, where, alias="o")
    last = {"source": "", "target": "", "kind": ""}
    while True:
        with reader() as db:
            sql = db.statement("relations_between", where=condition, where_target=target)
            page = db.execute(sql, values | last | {"limit": PAGE}).fetchall()
        yield from map(read_relation, page)
        if len(page) < PAGE:
            return
        last = dict(zip(last, page[-1], strict=False))


# Batches of new memories.


def history_row(memory: Memory, at: datetime, action: str, changes: dict[str, Any]) -> dict[str, Any]:
    return {
        "org": memory.scope.org,
        "memory": memory.id,
        "at": micros(at),
        "action": action,
        "changes": write_changes(changes),
    }


def usage_row(identifier: str, count: int, last: datetime) -> dict[str, Any]:
    return {"id": identifier, "count": count, "last_at": micros(last)}


class Batch:
    """Collects new memories and inserts them with few statements.

    FTS5 writes its pending data after each statement that fires triggers, so inserting row by row takes twice as
    long as a few hundred rows per statement.
    """

    def __init__(self, db: Database, index: Index) -> None:
        self.index = index
        self._db = db
        self._memories: list[Memory] = []
        self._history: list[dict[str, Any]] = []
        self._uses: list[dict[str, Any]] = []
        self._names: set[tuple[str, ...]] = set()

    def make_room(self, memory: Memory) -> None:
        """Write the batch if it contains the same memory: the caller is about to look for it in the store."""
        if not self._names.isdisjoint(_names(memory)):
            self.write()

    def take(self, memory: Memory, history: Sequence[dict[str, Any]]) -> None:
        self._memories.append(memory)
        self._names.update(_names(memory))
        self._history += history
        if memory.accessed_at is not None:
            self._uses.append(usage_row(memory.id, memory.access_count, memory.accessed_at))

    def write(self) -> None:
        if not self._memories:
            return
        first = int(self._db.execute(self._db.statement("newest_seq")).get) + 1
        numbered = list(enumerate(self._memories, start=first))
        with self._db.together():
            self._db.insert_memories([(seq, *self._db.row(memory)) for seq, memory in numbered])
            self._db.words_come(self._memories)
            self.index.enter(numbered)
            self._db.executemany(self._db.statement("insert_history"), self._history)
            self._db.executemany(self._db.statement("set_usage"), self._uses)
        self._memories, self._history, self._uses = [], [], []
        self._names.clear()


def _names(memory: Memory) -> Iterator[tuple[str, ...]]:
    """Yield the keys by which another memory would be the same as this one: id, ref, topic."""
    scope = scope_columns(memory.scope)
    yield ("id", memory.id)
    if memory.ref is not None:
        yield ("ref", *scope, memory.ref)
    if memory.topic_key is not None:
        yield ("topic", *scope[:4], memory.topic_key)


def taken_names(db: Database, new: Sequence[Memory]) -> set[tuple[str, ...]]:
    """Return the names of new memories that another memory may have: one in the store, or an earlier one of them.

    One query for the whole batch, because most memories that are imported are new.
    """
    if len(new) == 1:
        return {name for name in _names(new[0]) if name[0] != "id"}
    names = [name for memory in new for name in _names(memory)]
    counts = Counter(names)
    # JSON cannot pass NUL to the databases: these names are looked up one by one.
    taken = {name for name in counts if counts[name] > 1 or any(map(_has_nul, name))}
    for kind, statement in (("ref", "refs_held"), ("topic", "topics_held")):
        keys = [name for name in counts if name[0] == kind and name not in taken]
        if keys:
            rows = db.execute(db.statement(statement), {"keys": json_array(keys)})
            taken.update(keys[row[0]] for row in rows)
    return taken


def _has_nul(text: str) -> bool:
    return spell_nul(text) is not text


# Deduplication: a text that is added again confirms the memory that has it.


DEFAULT_KIND = "observation"
# Memories that differ in one of these are different, unless one of them has no value.
_NAMES = ("title", "speaker", "source", "ref", "topic_key")


class KnownTexts:
    """Which texts of a batch may be in the store already, by their hashes. One query for the whole batch."""

    def __init__(self, db: Database, candidates: Sequence[Candidate]) -> None:
        """Look up the hashes of candidates, which all belong to one org."""
        self._keys = {memory.id: key for memory, _, key in candidates if key is not None}
        rows: Iterable[Any] = ()
        keys = list(self._keys.values())
        if len(keys) == 1:
            one = {"org": candidates[0].memory.scope.org, "key": keys[0]}
            rows = db.execute(db.statement("text_key_held"), one)
        elif keys:
            listed = {"org": candidates[0].memory.scope.org, "keys": json_array(keys)}
            rows = db.execute(db.statement("text_keys_held"), listed)
        self._held: set[int] = {row[0] for row in rows}

    def add(self, memory: Memory) -> None:
        """Add a memory that was just stored or changed."""
        key = self._keys.get(memory.id) if memory.revision == 1 else text_key(memory)
        # A turn of a conversation has none.
        if key is not None:
            self._held.add(key)

    def __contains__(self, memory: Memory) -> bool:
        return self._keys.get(memory.id) in self._held


def find_same_text(db: Database, memory: Memory) -> Memory | None:
    """Return the stored memory that a new one repeats: same scope and text, and no conflicting field; or None.

    Of several it is the oldest that is still valid. The caller has checked that no memory has the same ref or
    topic.
    """
    place = db.dialect.value
    conditions = [f"{db.dialect.unindexed}m.org = {place('org')}", f"m.text_key = {place('text_key')}"]
    values = {"org": memory.scope.org, "text_key": text_key(memory), "now": micros(memory.created_at)}
    # A memory with the same ref or topic would have been found by it.
    conditions += [f"m.{name} IS NULL" for name in ("ref", "topic_key") if getattr(memory, name) is not None]
    for name in ("title", "speaker", "source"):
        if (value := getattr(memory, name)) is not None:
            conditions.append(f"(m.{name} IS NULL OR m.{name} = {place(name)})")
            values[name] = value
    if memory.kind != DEFAULT_KIND:
        conditions.append(f"m.kind IN ({place('default_kind')}, {place('kind')})")
        values |= {"default_kind": DEFAULT_KIND, "kind": memory.kind}
    sql = db.statement("memory_by_text", where=" AND ".join(conditions))
    row = db.execute(sql, values).fetchone()
    found = None if row is None else memory_from_row(row)
    # Different texts can have the same hash.
    same = found is not None and (found.scope, found.text) == (memory.scope, memory.text)
    return found if same else None


def confirmed(existing: Memory, candidate: Candidate) -> Memory:
    """Merge a memory with a candidate that has the same text, without losing a value of either.

    The earliest given `at` is kept, and the latest becomes `confirmed_at`. If one of the two has no limit of
    validity (`valid_from`, `invalid_at`), the result has none. Metadata is merged; for a key that both have, the
    newer value is used, and the history keeps the older one. An archived or superseded memory becomes active again,
    unless the candidate gives a status.
    """
    said, given = candidate.memory, candidate.given
    times = [said.at, *([existing.at] if "at" in given else []), existing.confirmed_at]
    fields: dict[str, Any] = {
        "kind": said.kind if existing.kind == DEFAULT_KIND else existing.kind,
        "tags": checked("tags", (*existing.tags, *said.tags)),
        "metadata": checked("metadata", existing.metadata | said.metadata),
        "pinned": existing.pinned or said.pinned,
        "valid_from": _unset_or(min, existing.valid_from, said.valid_from),
        "invalid_at": _unset_or(max, existing.invalid_at, said.invalid_at),
        "confirmations": existing.confirmations + 1,
        "confirmed_at": max(time for time in times if time is not None),
    }
    fields |= {name: getattr(said, name) for name in _NAMES if getattr(existing, name) is None}
    for name in ("importance", "confidence"):
        if name in given:
            fields[name] = max(getattr(existing, name), getattr(said, name))
    if "at" in given:
        fields["at"] = min(existing.at, said.at)
    if "tier" in given and said.tier == "knowledge":
        # "knowledge" lasts longer than "working".
        fields["tier"] = said.tier
    status = said.status if "status" in given else existing.status
    if "status" not in given and status in ("archived", "superseded"):
        status = "active"
    if status != existing.status:
        fields |= {"status": status, "superseded_by": None}
    return msgspec.structs.replace(existing, **fields)


def _unset_or(choose: Any, one: Any, other: Any) -> Any:
    return None if one is None or other is None else choose(one, other)


# Add, change, forget, relate.


# Derived from other fields or from uses: a difference in these alone is not a change.
_DERIVED = frozenset({"updated_at", "revision", "access_count", "accessed_at", "tokens", "masked"})


def add(
    db: Database, candidates: Sequence[Candidate], embedded: Embedded | None = None, *, deduplicate: bool = True
) -> list[Memory]:
    """Store candidates, all or none. The same ref or topic in the same scope updates the stored memory.

    With `deduplicate`, the same text in the same scope confirms the memory that has it, unless the two differ in
    title, kind, speaker, source, ref or topic, or are turns of a conversation.
    """
    batch = Batch(db, Index(db, embedded))
    known = KnownTexts(db, candidates if deduplicate else [])
    taken = taken_names(db, [candidate.memory for candidate in candidates])
    stored = [_add_one(db, candidate, batch, taken, known if deduplicate else None) for candidate in candidates]
    batch.write()
    return stored


def put(
    db: Database, scope: Scope, records: Sequence[Record], embedded: Embedded | None = None
) -> list[Literal["added", "updated", "kept"]]:
    """Store records under their own ids inside a scope. Of two versions the one changed last is kept."""
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
    embedded: Embedded | None = None,
) -> Memory:
    """Set fields of a memory and record the change in its history. `project` moves it to another project."""
    memory = memory_in_scope(db, scope, identifier)
    fields = dict(changes)
    if "project" in fields:
        fields["scope"] = msgspec.structs.replace(memory.scope, project=fields.pop("project"))
    changed = msgspec.structs.replace(memory, **fields)
    return _revise(db, memory, changed, Index(db, embedded), action=action)


def to_forget(db: Database, where: Filter, moment: datetime) -> list[Memory]:
    """Return the memories that `forget` would end: those that match and have not ended yet."""
    found = (memory_in_scope(db, where.scope, identifier) for identifier in select_ids(db, where))
    return [memory for memory in found if memory.invalid_at is None or memory.invalid_at > moment]


def forget(db: Database, where: Filter, moment: datetime) -> int:
    """End the memories that match, and return how many. Those that have ended already are not counted."""
    ending = to_forget(db, where, moment)
    index = Index(db)
    for memory in ending:
        _revise(db, memory, msgspec.structs.replace(memory, invalid_at=moment), index, action="forget")
    return len(ending)


def unforget(db: Database, scope: Scope, ids: Sequence[str] | None, moment: datetime | None) -> int:
    """Undo `forget` for these ids, or for all memories that ended at a moment, and return how many were restored.

    `invalid_at` gets its earlier value back. Memories that were not forgotten, or have been made valid since, are
    not counted. A memory that was superseded after it was forgotten stays ended; naming it by its id is an error.
    """
    restored = 0
    for identifier in ids if ids is not None else _ended_at(db, scope, moment):
        memory = memory_in_scope(db, scope, identifier)
        if memory.invalid_at is None or (moment is not None and memory.invalid_at != moment):
            continue
        before = _before_forgetting(db, memory)
        if before is None:
            continue
        if memory.status != "superseded":
            _revise(db, memory, msgspec.structs.replace(memory, **before), Index(db), action="unforget")
            restored += 1
        elif ids is not None:
            raise InputError(
                f"{memory.id} was superseded by {_superseder(db, scope, memory)} after it was forgotten; "
                "remove that relation first, or make it active by an update"
            )
    return restored


def _ended_at(db: Database, scope: Scope, moment: datetime | None) -> list[str]:
    condition, values = scope_sql(db.dialect, scope)
    at = None if moment is None else micros(moment)
    return [row[0] for row in db.execute(db.statement("ended_at", where=condition), values | {"at": at})]


def _before_forgetting(db: Database, memory: Memory) -> dict[str, Any] | None:
    """Return the values that forgetting a memory replaced; None if it was not ended by `forget`."""
    for entry in reversed(history(db, memory.scope.org, memory.id)):
        if entry.action == "forget":
            before, after = values_changed(entry)
            return before if after.get("invalid_at") == memory.invalid_at else None
    return None


def purge(db: Database, where: Filter) -> int:
    """Delete the memories that match with their histories, and return how many. One history entry says so."""
    ids = select_ids(db, where)
    org, now = where.scope.org, micros(utc_now())
    index = Index(db)
    db.scrub()
    seqs = [_seq(db, identifier) for identifier in ids]
    db.words_go(seqs)
    for identifier, seq in zip(ids, seqs, strict=True):
        index.remove(seq)
        told = {"org": org, "memory": identifier, "at": now, "action": "purge", "changes": "{}"}
        db.execute(db.statement("clear_history"), {"org": org, "memory": identifier})
        db.execute(db.statement("delete_memory"), {"id": identifier})
        db.execute(db.statement("insert_history"), told)
    return len(ids)


def relate(db: Database, scope: Scope, relation: Relation) -> Relation:
    """Store or replace a relation, and return it. `supersedes` also ends its target.

    If the same relation exists already, nothing is changed.
    """
    source = memory_in_scope(db, scope, relation.source)
    target = memory_in_scope(db, scope, relation.target)
    if source.id == target.id:
        raise InputError(f"a memory cannot be related to itself: {source.id}")
    if relation.kind == "supersedes" and source.status == "superseded":
        raise InputError(f"{source.id} is itself superseded, by {_superseder(db, scope, source)}")
    named = (relation.source, relation.target, relation.kind)
    found = (each for each in relations(db, scope, [source.id]) if (each.source, each.target, each.kind) == named)
    held = next(found, None)
    done = relation.kind != "supersedes" or target.status == "superseded"
    if held is not None and done and held.strength == relation.strength:
        return held
    _write_relation(db, scope.org, relation)
    # The replaced relation is recorded with its time, so that `as_of` can restore it.
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


def _superseder(db: Database, scope: Scope, memory: Memory) -> str:
    """Return the id of the memory that superseded another, unless it is outside the scope."""
    try:
        return memory_in_scope(db, scope, memory.superseded_by or "").id
    except UnknownIdError:
        return "another memory"


def unrelate(
    db: Database, scope: Scope, source: str, target: str, kind: str | None, moment: datetime
) -> list[Relation]:
    """Remove the relations from one memory to another, of one kind or of all, and return them.

    The target of `supersedes` gets its earlier status and end back, unless another memory supersedes it too.
    """
    ends = [memory_in_scope(db, scope, end) for end in (source, target)]
    held = [
        each
        for each in relations(db, scope, [source])
        if (each.source, each.target) == (source, target) and kind in (None, each.kind)
    ]
    for relation in held:
        named = {"org": scope.org, "source": source, "target": target, "kind": relation.kind}
        db.execute(db.statement("delete_relation"), named)
        for memory in ends:
            _record(db, memory, moment, "unrelate", {"relation": [msgspec.structs.asdict(relation), None]})
        if relation.kind == "supersedes":
            _unsupersede(db, scope, relation)
    return held


def _unsupersede(db: Database, scope: Scope, relation: Relation) -> None:
    """Restore the target of a removed `supersedes` relation."""
    target = memory_in_scope(db, scope, relation.target)
    if target.superseded_by != relation.source:
        return
    others = [
        each
        for each in relations(db, Scope(org=scope.org), [target.id])
        if each.kind == "supersedes" and each.target == target.id
    ]
    if others:
        newest = max(others, key=lambda each: (each.created_at, each.source))
        fields: dict[str, Any] = {"superseded_by": newest.source}
    else:
        fields = {"status": "active", "superseded_by": None} | _before_superseding(db, target, relation)
    _revise(db, target, msgspec.structs.replace(target, **fields), Index(db), action="unsupersede")


def _before_superseding(db: Database, target: Memory, relation: Relation) -> dict[str, Any]:
    """Return the values that superseding a memory replaced, for fields that were not changed later."""
    for entry in reversed(history(db, target.scope.org, target.id)):
        before, after = values_changed(entry)
        if entry.action == "supersede" and after.get("superseded_by") == relation.source:
            return {name: before[name] for name in before if after.get(name) == getattr(target, name)}
    # An imported relation may have no history entry.
    return {"invalid_at": None} if target.invalid_at == relation.created_at else {}


def put_relations(db: Database, scope: Scope, given: Sequence[Relation]) -> None:
    """Store imported relations. Unlike `relate`, this has no effect on the memories."""
    for relation in given:
        for end in (relation.source, relation.target):
            memory_in_scope(db, scope, end)
        _write_relation(db, scope.org, relation)


def count_uses(db: Database, uses: Mapping[str, tuple[int, datetime]]) -> None:
    """Add to the use counts of memories. Ids without a memory are ignored."""
    if not uses:
        return
    db.executemany(
        db.statement("add_usage"),
        [usage_row(identifier, *use) for identifier, use in uses.items()],
    )
    db.log_changes(uses)


def _add_one(
    db: Database, candidate: Candidate, batch: Batch, taken: set[tuple[str, ...]], known: KnownTexts | None
) -> Memory:
    """Store a candidate. Without `known`, equal texts are not merged."""
    found = bool(taken) and not taken.isdisjoint(_names(candidate.memory))
    stored = _updated(db, candidate, batch) if found else None
    if stored is None and known is not None and candidate.memory in known:
        stored = _confirmed(db, candidate, batch)
    if stored is None:
        stored = candidate.memory
        batch.take(stored, [history_row(stored, stored.created_at, "add", {})])
    if known is not None:
        known.add(stored)
    return stored


def _confirmed(db: Database, candidate: Candidate, batch: Batch) -> Memory | None:
    # The same text may be in the batch, which is not written yet.
    batch.write()
    existing = find_same_text(db, candidate.memory)
    if existing is None:
        return None
    return _revise(db, existing, confirmed(existing, candidate), batch.index, action="confirm")


def _updated(db: Database, candidate: Candidate, batch: Batch) -> Memory | None:
    """Update the memory with the candidate's ref or topic with the given fields; None if there is none."""
    memory = candidate.memory
    batch.make_room(memory)
    existing = _same_memory(db, memory)
    if existing is None:
        return None
    given = {name: getattr(memory, name) for name in candidate.given}
    if memory.scope.session is not None:
        # A topic moves to the session that mentioned it last.
        given["scope"] = memory.scope
    revised = msgspec.structs.replace(existing, **(_revival(existing, memory.created_at) | given))
    batch.write()
    return _revise(db, existing, revised, batch.index, action="update")


def _revival(existing: Memory, now: datetime) -> dict[str, Any]:
    """Return the changes that make an ended memory current again: saying something again means that it holds."""
    fields: dict[str, Any] = {}
    if existing.status in ("archived", "superseded"):
        fields |= {"status": "active", "superseded_by": None}
    if existing.invalid_at is not None and existing.invalid_at <= now:
        fields["invalid_at"] = None
    return fields


def _same_memory(db: Database, memory: Memory) -> Memory | None:
    scope = scope_values(memory.scope)
    found: list[Memory] = []
    if memory.ref is not None:
        row = db.execute(db.statement("memory_by_ref"), scope | {"ref": memory.ref}).fetchone()
        found += [memory_from_row(row)] if row else []
    if memory.topic_key is not None:
        row = db.execute(db.statement("memory_by_topic"), scope | {"topic_key": memory.topic_key}).fetchone()
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
    if db.execute(db.statement("id_exists"), {"id": memory.id}).fetchone():
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
        db.execute(db.statement("clear_history"), {"org": memory.scope.org, "memory": memory.id})
        entries = [history_row(memory, entry.at, entry.action, entry.changes) for entry in record.history]
        batch.take(memory, entries)
        return "added"
    batch.write()
    _write_row(db, existing, memory, batch.index)
    _replace_history(db, record)
    if memory.accessed_at is not None:
        db.execute(db.statement("set_usage"), usage_row(memory.id, memory.access_count, memory.accessed_at))
    return "updated"


def _complete_history(db: Database, record: Record) -> None:
    """Take over a longer history: relations add entries without changing the memory itself."""
    memory = record.memory
    if len(record.history) > len(history(db, memory.scope.org, memory.id)):
        _replace_history(db, record)


def _replace_history(db: Database, record: Record) -> None:
    memory = record.memory
    db.execute(db.statement("clear_history"), {"org": memory.scope.org, "memory": memory.id})
    for entry in record.history:
        _record(db, memory, entry.at, entry.action, entry.changes)


def _revise(db: Database, old: Memory, new: Memory, index: Index, *, action: str) -> Memory:
    """Write a changed memory with its next revision and a history entry; nothing if no field differs."""
    changes = {
        name: [before, after]
        for name in Memory.__struct_fields__
        if name not in _DERIVED and (before := getattr(old, name)) != (after := getattr(new, name))
    }
    if not changes:
        return old
    # Imported here, because most calls only read.
    from satchel.text.redact import masked_labels

    now = max(utc_now(), old.updated_at)
    new = msgspec.structs.replace(
        new,
        updated_at=now,
        revision=old.revision + 1,
        masked=masked_labels(*free_texts(msgspec.structs.asdict(new))),
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
    db.log_changes([seq])
    if worded:
        db.words_go([seq])
    names = [name.strip('"') for name in db.columns()]
    # Never the org: Citus refuses to set the column by which rows are distributed.
    assignments = ", ".join(f'"{name}" = {db.dialect.value(name)}' for name in names if name not in ("id", "org"))
    db.execute(db.statement("update_memory", assignments=assignments), dict(zip(names, db.row(new), strict=True)))
    if worded:
        db.words_come([new])
        index.replace(seq, new)


def _seq(db: Database, identifier: str) -> int:
    return int(db.execute(db.statement("memory_seq"), {"id": identifier}).get)


def _write_relation(db: Database, org: str, relation: Relation) -> None:
    db.execute(db.statement("upsert_relation"), {"org": org} | relation_values(relation))


def _record(db: Database, memory: Memory, at: datetime, action: str, changes: dict[str, Any]) -> None:
    db.execute(db.statement("insert_history"), history_row(memory, at, action, changes))


# Uses that are not written yet.


class Uses:
    """Counts uses in memory until the next write includes them, so that reads do not write."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, datetime]] = {}
        self._since: datetime | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __bool__(self) -> bool:
        self._leave_to_parent()
        return bool(self._waiting)

    def count(self, ids: Sequence[str], moment: datetime) -> float:
        """Count a use of each memory, and return how many seconds the oldest use has been waiting."""
        self._leave_to_parent()
        with self._lock:
            if self._since is None:
                self._since = moment
            for identifier in ids:
                count, _ = self._waiting.get(identifier, (0, moment))
                self._waiting[identifier] = (count + 1, moment)
            return (moment - self._since).total_seconds()

    def take(self) -> dict[str, tuple[int, datetime]]:
        """Return all waiting uses and forget them: the caller writes them."""
        self._leave_to_parent()
        with self._lock:
            taken, self._waiting, self._since = self._waiting, {}, None
        return taken

    def give_back(self, taken: Mapping[str, tuple[int, datetime]]) -> None:
        """Take uses back after a write failed."""
        with self._lock:
            for identifier, (count, last) in taken.items():
                later, newest = self._waiting.get(identifier, (0, last))
                self._waiting[identifier] = (count + later, newest)
                self._since = min(self._since or last, last)

    def added_to(self, memory: Memory) -> Memory:
        """Return a memory with its waiting uses included."""
        if (waiting := self._waiting.get(memory.id)) is None:
            return memory
        count, last = waiting
        return msgspec.structs.replace(memory, access_count=memory.access_count + count, accessed_at=last)

    def _leave_to_parent(self) -> None:
        """In a forked child, drop the uses that the parent counted: the parent writes them."""
        if self._pid != os.getpid():
            self._waiting, self._since, self._lock = {}, None, threading.Lock()
            self._pid = os.getpid()
