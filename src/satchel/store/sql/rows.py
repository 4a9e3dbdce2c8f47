"""Memories, relations and history entries as rows, and back."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from satchel.model.memory import Change, Memory, Relation, Scope

__all__ = [
    "COLUMNS",
    "READ_COLUMNS",
    "from_micros",
    "json_names",
    "memory_from_row",
    "memory_row",
    "micros",
    "read_change",
    "read_relation",
    "scope_columns",
    "write_changes",
]

COLUMNS = (
    "id",
    "org",
    "project",
    "user",
    "agent",
    "session",
    "status",
    "valid_from",
    "invalid_at",
    "kind",
    "tier",
    "pinned",
    "importance",
    "confidence",
    "at",
    "created_at",
    "updated_at",
    "revision",
    "tokens",
    "superseded_by",
    "speaker",
    "source",
    "ref",
    "topic_key",
    "tags",
    "masked",
    "confirmations",
    "confirmed_at",
    "title",
    "text",
)
# The order in which `memory_from_row` takes them, and then the usage.
READ_COLUMNS = ", ".join(f"m.{name}" for name in COLUMNS)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_encode = msgspec.json.Encoder().encode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_changes = msgspec.json.Decoder(dict[str, Any]).decode


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def scope_columns(scope: Scope) -> tuple[str, str, str, str, str]:
    return (
        scope.org,
        scope.project or "",
        scope.user or "",
        scope.agent or "",
        scope.session or "",
    )


def memory_row(memory: Memory) -> tuple[Any, ...]:
    """The values of COLUMNS."""
    return (
        memory.id,
        *scope_columns(memory.scope),
        memory.status,
        _maybe_micros(memory.valid_from),
        _maybe_micros(memory.invalid_at),
        memory.kind,
        memory.tier,
        int(memory.pinned),
        memory.importance,
        memory.confidence,
        micros(memory.at),
        micros(memory.created_at),
        micros(memory.updated_at),
        memory.revision,
        memory.tokens,
        memory.superseded_by,
        memory.speaker,
        memory.source,
        memory.ref,
        memory.topic_key,
        json_names(memory.tags),
        json_names(memory.masked),
        memory.confirmations,
        _maybe_micros(memory.confirmed_at),
        memory.title,
        memory.text,
    )


def memory_from_row(row: tuple[Any, ...]) -> Memory:
    """A memory from READ_COLUMNS; further columns are ignored."""
    return Memory(
        id=row[0],
        scope=_scope(*row[1:6]),
        status=row[6],
        valid_from=_maybe_moment(row[7]),
        invalid_at=_maybe_moment(row[8]),
        kind=row[9],
        tier=row[10],
        pinned=bool(row[11]),
        importance=row[12],
        confidence=row[13],
        at=from_micros(row[14]),
        created_at=from_micros(row[15]),
        updated_at=from_micros(row[16]),
        revision=row[17],
        tokens=row[18],
        superseded_by=row[19],
        speaker=row[20],
        source=row[21],
        ref=row[22],
        topic_key=row[23],
        tags=_decode_names(row[24]) if row[24] != "[]" else (),
        masked=_decode_names(row[25]) if row[25] != "[]" else (),
        confirmations=row[26],
        confirmed_at=_maybe_moment(row[27]),
        title=row[28],
        text=row[29],
        access_count=row[30] or 0,
        accessed_at=_maybe_moment(row[31]),
    )


@lru_cache(maxsize=1024)
def _scope(org: str, *names: str) -> Scope:
    project, user, agent, session = (name or None for name in names)
    return Scope(org=org, project=project, user=user, agent=agent, session=session)


def read_relation(row: tuple[Any, ...]) -> Relation:
    source, target, kind, strength, created_at = row
    return Relation(
        source=source,
        target=target,
        kind=kind,
        strength=strength,
        created_at=from_micros(created_at),
    )


def read_change(row: tuple[Any, ...]) -> Change:
    memory, at, action, changes = row
    return Change(memory=memory, at=from_micros(at), action=action, changes=_decode_changes(changes))


def write_changes(changes: dict[str, Any]) -> str:
    return _encode(changes).decode() if changes else "{}"


def json_names(names: tuple[str, ...]) -> str:
    return _encode(names).decode() if names else "[]"


def _maybe_micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def _maybe_moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)
