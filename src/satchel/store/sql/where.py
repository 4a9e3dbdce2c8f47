"""A filter as SQL: conditions on an alias of `memory`, and their values in order."""

from typing import Any

import msgspec

from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.store.sql.database import Dialect
from satchel.store.sql.rows import micros

__all__ = ["filter_sql", "narrows", "scope_sql"]


def scope_sql(
    dialect: Dialect, scope: Scope, alias: str = "m", *, indexed: bool = True, narrowing: bool = True
) -> tuple[str, list[Any]]:
    """Inside a scope: `org` always, the other fields where they are set; these as the way in if `narrowing`.

    Not `indexed`, the whole is only tested, and never chosen as the way in instead of an id.
    """
    plain, tested = dialect.unindexed + alias, alias if narrowing else dialect.unindexed + alias
    alias, tested = (alias, tested) if indexed else (plain, plain)
    conditions, values = [f"{alias}.org = ?"], [scope.org]
    for name in ("project", "user", "agent", "session"):
        if value := getattr(scope, name):
            conditions.append(f"{tested}.{name} = ?")
            values.append(value)
    if scope.session and narrowing:
        # Said again for the planner: the index on sessions leaves out memories without one.
        conditions.append(f"{alias}.session <> ''")
    return " AND ".join(conditions), values


def filter_sql(dialect: Dialect, where: Filter, alias: str = "m", *, indexed: bool = True) -> tuple[str, list[Any]]:
    # The few that are pinned or important have an index of their own, which a project's does not beat.
    narrowing = not (where.pinned or where.important)
    condition, values = scope_sql(dialect, where.scope, alias, indexed=indexed, narrowing=narrowing)
    alias = alias if indexed else dialect.unindexed + alias
    conditions = [condition]
    for column, choices in (
        ("status", where.statuses),
        ("kind", where.kinds),
        ("tier", where.tiers),
    ):
        if choices:
            conditions.append(f"{alias}.{column} IN ({', '.join('?' * len(choices))})")
            values.extend(choices)
    if where.ids:
        # One value however many there are: the number of variables is limited.
        conditions.append(dialect.listed.format(alias=alias))
        values.append(msgspec.json.encode(where.ids).decode())
    # As the partial indexes say it.
    if where.pinned:
        conditions.append(f"{alias}.pinned = 1")
    if where.important:
        conditions.append(f"{alias}.importance > 0.7")
    if where.valid_at is not None:
        moment = micros(where.valid_at)
        conditions.append(f"({alias}.valid_from IS NULL OR {alias}.valid_from <= ?)")
        conditions.append(f"({alias}.invalid_at IS NULL OR {alias}.invalid_at > ?)")
        values.extend((moment, moment))
    if where.since is not None:
        conditions.append(f"{alias}.at >= ?")
        values.append(micros(where.since))
    if where.until is not None:
        # Between two bounds SQLite would rather read the times of the whole org than those of one project.
        by_project = indexed and narrowing and where.since is not None and where.scope.project
        conditions.append(f"{dialect.unindexed if by_project else ''}{alias}.at <= ?")
        values.append(micros(where.until))
    if where.unchanged_since is not None:
        conditions.append(f"({alias}.updated_at <= ? OR {alias}.revision = 1)")
        values.append(micros(where.unchanged_since))
    for tag in where.tags:
        conditions.append(dialect.tagged.format(alias=alias))
        values.append(tag)
    return " AND ".join(conditions), values


def narrows(where: Filter) -> bool:
    """Whether it is likely to leave little: then testing each match costs less than ranking them all."""
    scope = where.scope
    return bool(
        scope.project
        or scope.user
        or scope.agent
        or scope.session
        or where.kinds
        or where.tiers
        or where.tags
        or where.since
        or where.ids
        or where.pinned
        or where.important
    )
