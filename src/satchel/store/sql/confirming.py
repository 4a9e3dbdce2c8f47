"""A text that is added again: which memory it confirms, and what that memory becomes."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from satchel.model.memory import Memory, checked
from satchel.store.contract import Candidate
from satchel.store.sql.database import Database
from satchel.store.sql.rows import memory_from_row, micros
from satchel.store.sql.text_key import text_key

__all__ = ["KnownTexts", "confirmed", "find_same_text"]

DEFAULT_KIND = "observation"
# Two memories that differ in one of these are two memories, unless one of them does not say.
_NAMES = ("title", "speaker", "source", "ref", "topic_key")


class KnownTexts:
    """The hashes of texts that may be in the store: one question for a whole batch, of which most is new."""

    def __init__(self, db: Database, memories: Sequence[Memory]) -> None:
        """For memories of one org."""
        self._keys = {memory.id: key for memory in memories if (key := text_key(memory)) is not None}
        rows: Iterable[Any] = ()
        if self._keys:
            listed = msgspec.json.encode(list(self._keys.values())).decode()
            rows = db.execute(db.statement("text_keys_held"), (memories[0].scope.org, listed))
        self._held: set[int | None] = {row[0] for row in rows}

    def add(self, memory: Memory) -> None:
        """One that is new, or may have another text now."""
        self._held.add(self._keys.get(memory.id) if memory.revision == 1 else text_key(memory))

    def __contains__(self, memory: Memory) -> bool:
        return self._keys.get(memory.id) in self._held


def find_same_text(db: Database, memory: Memory) -> Memory | None:
    """The memory of the same scope that has this text and that nothing tells apart from this one.

    Of several the oldest that still holds. No memory has the ref or topic of this one.
    """
    conditions = [f"{db.dialect.unindexed}m.org = ?", "m.text_key = ?"]
    values: list[Any] = [memory.scope.org, text_key(memory)]
    # One with the same ref or topic would have been found by it.
    conditions += [f"m.{name} IS NULL" for name in ("ref", "topic_key") if getattr(memory, name) is not None]
    for name in ("title", "speaker", "source"):
        if (value := getattr(memory, name)) is not None:
            conditions.append(f"(m.{name} IS NULL OR m.{name} = ?)")
            values.append(value)
    if memory.kind != DEFAULT_KIND:
        conditions.append("m.kind IN (?, ?)")
        values += [DEFAULT_KIND, memory.kind]
    sql = db.statement("memory_by_text", where=" AND ".join(conditions))
    row = db.execute(sql, (*values, micros(memory.created_at))).fetchone()
    found = None if row is None else memory_from_row(row)
    # Different texts may have the same hash.
    same = found is not None and (found.scope, found.text) == (memory.scope, memory.text)
    return found if same else None


def confirmed(existing: Memory, candidate: Candidate) -> Memory:
    """What a memory becomes when its text is added again; nothing that either of the two says is lost.

    The earliest `at` that was given stays, and the latest is `confirmed_at`. Where one holds without a limit
    (`valid_from` or `invalid_at` unset), so does the outcome. What was archived or superseded is active again,
    unless the candidate gives a status.
    """
    said, given = candidate.memory, candidate.given
    times = [said.at, *([existing.at] if "at" in given else []), existing.confirmed_at]
    fields: dict[str, Any] = {
        "kind": said.kind if existing.kind == DEFAULT_KIND else existing.kind,
        "tags": checked("tags", (*existing.tags, *said.tags)),
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
        # What lasts is more than what is being worked on.
        fields["tier"] = said.tier
    status = said.status if "status" in given else existing.status
    if "status" not in given and status in ("archived", "superseded"):
        status = "active"
    if status != existing.status:
        fields |= {"status": status, "superseded_by": None}
    return msgspec.structs.replace(existing, **fields)


def _unset_or(choose: Any, one: Any, other: Any) -> Any:
    return None if one is None or other is None else choose(one, other)
