"""Convert memories, relations and history entries to rows and back, and filters to SQL conditions."""

import operator
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from satchel.model.filters import Filter
from satchel.model.memory import Change, Memory, Relation, Scope
from satchel.model.metadata import metadata_lines
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.store.database import Dialect

if TYPE_CHECKING:
    import hashlib

__all__ = [
    "COLUMNS",
    "READ_COLUMNS",
    "filter_sql",
    "from_micros",
    "json_array",
    "json_list",
    "json_names",
    "memory_from_row",
    "memory_row",
    "micros",
    "narrows",
    "read_change",
    "read_relation",
    "relation_values",
    "scope_columns",
    "scope_sql",
    "scope_values",
    "spell_nul",
    "text_key",
    "write_changes",
]


# Kept in a table of their own, and read after all other columns.
_USES = ("access_count", "accessed_at")
_PLAIN = tuple(name for name in Memory.__struct_fields__ if name not in ("id", "scope", *_USES))
# Each field of a memory is a column of the same name; the scope is several columns.
COLUMNS = ("id", *SCOPE_FIELDS, *_PLAIN)
# The order that `memory_from_row` expects; the uses follow.
READ_COLUMNS = ", ".join(f"m.{name}" for name in COLUMNS)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_encode = msgspec.json.Encoder().encode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    # Positional arguments take half the time of named ones.
    return _EPOCH + timedelta(0, 0, value)


def scope_values(scope: Scope) -> dict[str, str]:
    """Return the columns of a scope by name."""
    return dict(zip(SCOPE_FIELDS, scope_columns(scope), strict=True))


def scope_columns(scope: Scope) -> tuple[str, str, str, str, str]:
    return (
        scope.org,
        scope.project or "",
        scope.user or "",
        scope.agent or "",
        scope.session or "",
    )


_READ = (*_PLAIN, *_USES)
_BEGIN = len(COLUMNS) - len(_PLAIN)
_END = _BEGIN + len(_READ)
# Stored in another form than the field's: times in microseconds, names and objects as JSON, booleans as 0 or 1.
_TYPES: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(Memory)}
_TIMES_AT, _NAMES_AT, _OBJECTS_AT, _TRUTHS_AT = (
    tuple(place for place, name in enumerate(_READ) if _TYPES[name] in types)
    for types in ((datetime, datetime | None), (tuple[str, ...],), (dict[str, Any],), (bool,))
)
_COUNT_AT = _READ.index("access_count")
_plain_values = operator.attrgetter(*_READ)


def memory_row(memory: Memory) -> tuple[Any, ...]:
    """Return the values of COLUMNS for a memory."""
    values = list(_plain_values(memory))
    for place in _TIMES_AT:
        if (moment := values[place]) is not None:
            values[place] = micros(moment)
    for place in _NAMES_AT:
        values[place] = json_names(values[place])
    for place in _OBJECTS_AT:
        values[place] = json_object(values[place])
    for place in _TRUTHS_AT:
        values[place] = int(values[place])
    return (memory.id, *scope_columns(memory.scope), *values[: len(_PLAIN)])


def memory_from_row(row: tuple[Any, ...]) -> Memory:
    """Return the memory of a row of READ_COLUMNS and uses. Further columns are ignored."""
    values = list(row[_BEGIN:_END])
    for place in _TIMES_AT:
        if (value := values[place]) is not None:
            values[place] = _EPOCH + timedelta(0, 0, value)
    for place in _NAMES_AT:
        values[place] = json_list(values[place])
    for place in _OBJECTS_AT:
        values[place] = _decode_object(value) if (value := values[place]) != "{}" else {}
    for place in _TRUTHS_AT:
        values[place] = bool(values[place])
    values[_COUNT_AT] = values[_COUNT_AT] or 0
    return Memory(id=row[0], scope=_scope(*row[1:_BEGIN]), **dict(zip(_READ, values, strict=True)))


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


def relation_values(relation: Relation) -> dict[str, Any]:
    return msgspec.structs.asdict(relation) | {"created_at": micros(relation.created_at)}


def read_change(row: tuple[Any, ...]) -> Change:
    memory, at, action, changes = row
    return Change(memory=memory, at=from_micros(at), action=action, changes=_decode_object(changes))


def write_changes(changes: dict[str, Any]) -> str:
    return _encode(changes).decode() if changes else "{}"


def json_list(text: str) -> tuple[str, ...]:
    """Decode a column with a list of names, such as `tags`."""
    return _decode_names(text) if text != "[]" else ()


def json_names(names: tuple[str, ...]) -> str:
    return _encode(names).decode() if names else "[]"


def json_object(value: dict[str, Any]) -> str:
    """Encode an object with each key and its value on a line, so that a filter can search for the line."""
    return "{" + ",".join(map(_on_a_line, metadata_lines(value))) + "}"


def _on_a_line(line: str) -> str:
    # JSON escapes line breaks inside values.
    return f"\n{line}\n"


# The hash by which a store looks for a text that is added again.


# PostgreSQL text cannot contain NUL: it is escaped with U+FDD0, which is escaped itself.
_SPELLED = {0: "\ufdd00", 0xFDD0: "\ufdd01"}


def spell_nul(text: str) -> str:
    """Return a text with NUL escaped for PostgreSQL. Every store hashes this form."""
    return text.translate(_SPELLED) if "\0" in text or "\ufdd0" in text else text


def text_key(memory: Memory) -> int | None:
    """Return 64 bits of MD5 over the scope (without its org) and the text; None for turns, which are never merged.

    PostgreSQL computes the same in a generated column. Two texts can have the same key, so compare the texts too.
    """
    if memory.tier == "conversation":
        return None
    digest = _begun(*scope_columns(memory.scope)[1:]).copy()
    digest.update(spell_nul(memory.text).encode())
    return int.from_bytes(digest.digest()[:8], signed=True)


@lru_cache(maxsize=1024)
def _begun(*names: str) -> "hashlib._Hash":
    """Return the hash object of a scope, to be continued. All parts have the same length: none can be confused."""
    return _md5("".join(_md5(spell_nul(name).encode()).hexdigest() for name in names).encode())


def _md5(content: bytes) -> "hashlib._Hash":
    # Imported here: it loads OpenSSL, and reading needs no hash.
    import hashlib

    return hashlib.md5(content, usedforsecurity=False)


# Filters as SQL conditions on an alias of `memory`, with named values.


def scope_sql(
    dialect: Dialect, scope: Scope, alias: str = "m", *, indexed: bool = True, narrowing: bool = True
) -> tuple[str, dict[str, Any]]:
    """Return the condition that a memory is inside a scope, and its values.

    With `indexed=False`, no index may be used for the condition, so that the planner starts from an id or another
    index. With `narrowing=False` that applies to all fields but `org`. The names of the values start with `where_`
    and are the same for every alias.
    """
    plain, tested = dialect.unindexed + alias, alias if narrowing else dialect.unindexed + alias
    alias, tested = (alias, tested) if indexed else (plain, plain)
    conditions, values = [f"{alias}.org = {dialect.value('where_org')}"], {"where_org": scope.org}
    for name in ("project", "user", "agent", "session"):
        if value := getattr(scope, name):
            conditions.append(f"{tested}.{name} = {dialect.value(f'where_{name}')}")
            values[f"where_{name}"] = value
    if scope.session and narrowing:
        # Lets the planner use the partial index on sessions.
        conditions.append(f"{alias}.session <> ''")
    return " AND ".join(conditions), values


def filter_sql(
    dialect: Dialect, where: Filter, alias: str = "m", *, indexed: bool = True
) -> tuple[str, dict[str, Any]]:
    # Pinned and important memories are few and have their own indexes, which are better than that of the project.
    narrowing = not (where.pinned or where.important)
    condition, values = scope_sql(dialect, where.scope, alias, indexed=indexed, narrowing=narrowing)
    alias = alias if indexed else dialect.unindexed + alias
    conditions = [condition]

    def placed(name: str, value: Any) -> str:
        values[f"where_{name}"] = value
        return dialect.value(f"where_{name}")

    for column, choices in (
        ("status", where.statuses),
        ("kind", where.kinds),
        ("tier", where.tiers),
    ):
        if choices:
            places = ", ".join(placed(f"{column}_{place}", choice) for place, choice in enumerate(choices))
            conditions.append(f"{alias}.{column} IN ({places})")
    if where.ids:
        conditions.append(dialect.listed.format(alias=alias, value=placed("ids", json_array(where.ids))))
    # In the same words as the partial indexes.
    if where.pinned:
        conditions.append(f"{alias}.pinned = 1")
    if where.important:
        conditions.append(f"{alias}.importance > 0.7")
    if where.valid_at is not None:
        moment = placed("valid_at", micros(where.valid_at))
        conditions.append(f"({alias}.valid_from IS NULL OR {alias}.valid_from <= {moment})")
        conditions.append(f"({alias}.invalid_at IS NULL OR {alias}.invalid_at > {moment})")
    if where.since is not None:
        conditions.append(f"{alias}.at >= {placed('since', micros(where.since))}")
    if where.until is not None:
        # With two bounds SQLite would prefer the index on the times of the whole org.
        by_project = indexed and narrowing and where.since is not None and where.scope.project
        unindexed = dialect.unindexed if by_project else ""
        conditions.append(f"{unindexed}{alias}.at <= {placed('until', micros(where.until))}")
    if where.unchanged_since is not None:
        moment = placed("unchanged_since", micros(where.unchanged_since))
        conditions.append(f"({alias}.updated_at <= {moment} OR {alias}.revision = 1)")
    for place, tag in enumerate(where.tags):
        conditions.append(dialect.tagged.format(alias=alias, value=placed(f"tag_{place}", tag)))
    for place, line in enumerate(where.metadata):
        conditions.append(dialect.contains.format(alias=alias, value=placed(f"line_{place}", _on_a_line(line))))
    return " AND ".join(conditions), values


def narrows(where: Filter) -> bool:
    """Return whether a filter probably selects few memories: then testing each match is cheaper than ranking."""
    scope = where.scope
    return bool(
        scope.project
        or scope.user
        or scope.agent
        or scope.session
        or where.kinds
        or where.tiers
        or where.tags
        or where.metadata
        or where.since
        or where.ids
        or where.pinned
        or where.important
    )


def json_array(values: Iterable[Any]) -> str:
    """Encode many values as one parameter: the number of parameters of a statement is limited."""
    return _encode(list(values)).decode()
