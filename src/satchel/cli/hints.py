"""Hints for filters that find nothing: which projects, tags, users, agents and sessions there are."""

from collections.abc import Collection, Iterable, Mapping

from satchel.api.satchel import Satchel
from satchel.cli.store_options import open_store_for
from satchel.model.memory import STATUSES

__all__ = ["names_of", "unknown_names"]

FIELDS = ("project", "user", "agent", "session")
# Users, agents and sessions are looked up in this many memories, the newest.
LOOKED_AT = 1_000
SHOWN_NAMES = 8


def unknown_names(db: str | None, scope: Mapping[str, str | None], tags: Iterable[str] = ()) -> list[str]:
    """Return a line for each name of a filter that no memory of the org has, with the names that are near it."""
    wanted = {field: [name] for field in FIELDS if (name := scope.get(field))} | {"tag": list(tags)}
    if not any(wanted.values()):
        return []
    with open_store_for(db, {"org": scope.get("org")}) as bag:
        return [line for field, names in wanted.items() for name in names for line in _missing(field, name, bag)]


def names_of(bag: Satchel, field: str) -> Collection[str]:
    """Return the names that memories of a view have in a field of their scope, or as tags."""
    if field == "project":
        return bag.projects()
    if field == "tag":
        return bag.tags()
    found = bag.recent(limit=LOOKED_AT, ended=True, status=STATUSES)
    return dict.fromkeys(name for memory in found if (name := getattr(memory.scope, field)))


def _missing(field: str, name: str, bag: Satchel) -> list[str]:
    from difflib import get_close_matches

    # Filters compare tags without regard to case.
    same = str.casefold if field == "tag" else str
    known = names_of(bag, field)
    if same(name) in map(same, known):
        return []
    by_lower = {each.casefold(): each for each in known}
    if near := get_close_matches(name.casefold(), by_lower, n=1):
        hint = f"did you mean {by_lower[near[0]]}?"
    elif known:
        more = ", …" if len(known) > SHOWN_NAMES else ""
        hint = f"there are: {', '.join(list(known)[:SHOWN_NAMES])}{more}"
    else:
        hint = f"no memory has a {field}"
    return [f'no {field} "{name}"; {hint}']
