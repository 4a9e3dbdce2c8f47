"""The oracle's rules for a single memory: which filters it passes, its scope, and its words."""

import json
from datetime import datetime

import msgspec

from satchel.model.filters import Filter
from satchel.model.memory import Memory, Scope
from satchel.text.terms import terms

__all__ = [
    "changed_since",
    "contains",
    "fields_of",
    "folded",
    "in_scope",
    "passes",
    "place_of",
    "thread_of",
    "words_of",
]


def passes(memory: Memory, where: Filter) -> bool:
    """Whether a memory passes a filter."""
    tags = {folded(tag) for tag in memory.tags}
    moment = where.valid_at
    return (
        in_scope(memory, where.scope)
        and memory.kind in (where.kinds or (memory.kind,))
        and memory.tier in (where.tiers or (memory.tier,))
        and memory.status in (where.statuses or (memory.status,))
        and memory.id in (where.ids or (memory.id,))
        and all(folded(tag) in tags for tag in where.tags)
        and all(_has(memory, line) for line in where.metadata)
        and (moment is None or memory.valid_from is None or memory.valid_from <= moment)
        and (moment is None or memory.invalid_at is None or memory.invalid_at > moment)
        and (where.since is None or memory.at >= where.since)
        and (where.until is None or memory.at <= where.until)
        and (memory.pinned or not where.pinned)
        and (memory.importance > 0.7 or not where.important)
        and not (where.unchanged_since is not None and changed_since(memory, where.unchanged_since))
    )


def _has(memory: Memory, line: str) -> bool:
    """Whether a key of its metadata has the value of a line, both as JSON, so that true is not 1."""
    ((key, value),) = json.loads(f"{{{line}}}").items()
    held = memory.metadata.get(key, ...)
    return held is not ... and json.dumps(held, sort_keys=True) == json.dumps(value, sort_keys=True)


def changed_since(memory: Memory, moment: datetime) -> bool:
    return memory.revision > 1 and memory.updated_at > moment


def in_scope(memory: Memory, scope: Scope) -> bool:
    wanted = {name: value for name, value in msgspec.structs.asdict(scope).items() if value is not None}
    return all(getattr(memory.scope, name) == value for name, value in wanted.items())


def folded(tag: str) -> str:
    """Fold case in ASCII only, because databases differ for other letters."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in tag)


def place_of(memory: Memory) -> tuple[datetime, str]:
    return memory.at, memory.id


def thread_of(memory: Memory) -> tuple[object, ...] | None:
    """Its session, or the document it is from."""
    whole = memory.scope if memory.scope.session else (memory.scope, memory.source)
    return None if memory.scope.session is None and memory.source is None else (whole,)


def fields_of(memory: Memory) -> list[list[str]]:
    return [terms(memory.title or ""), terms(memory.text), terms(" ".join(memory.tags))]


def words_of(memory: Memory) -> set[str]:
    return {word for field in fields_of(memory) for word in field}


def contains(words: list[str], phrase: list[str]) -> bool:
    places = range(len(words) - len(phrase) + 1)
    return bool(phrase) and any(words[place : place + len(phrase)] == phrase for place in places)
