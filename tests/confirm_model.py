"""A plain Python model of deduplication: when two memories have the same text, and how they are merged."""

from datetime import datetime
from typing import Any

import msgspec

from satchel.errors import InputError
from satchel.model.memory import Memory

__all__ = ["first_same_text", "merged"]

MOST_TAGS = 100


def first_same_text(memory: Memory, others: list[Memory]) -> Memory | None:
    """Return the memory that a memory repeats: the oldest of those still valid, otherwise the oldest of all."""
    same = [each for each in others if _repeats(memory, each)]
    holding = [each for each in same if _holds(each, memory.created_at)]
    return min(holding or same, key=lambda each: (each.created_at, each.id), default=None)


def _repeats(one: Memory, other: Memory) -> bool:
    if "conversation" in (one.tier, other.tier) or (one.scope, one.text) != (other.scope, other.text):
        return False
    for name in ("title", "speaker", "source", "ref", "topic_key"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine is not None and theirs is not None and mine != theirs:
            return False
    return one.kind == other.kind or "observation" in (one.kind, other.kind)


def _holds(memory: Memory, now: datetime) -> bool:
    if memory.status == "archived" or memory.status == "superseded":
        return False
    return memory.invalid_at is None or memory.invalid_at > now


def merged(old: Memory, new: Memory, given: frozenset[str]) -> Memory:
    """Merge an older memory with one of the same text, of which the fields in `given` were set by the caller."""
    tags = list(old.tags)
    for tag in new.tags:
        if tag not in tags:
            tags.append(tag)
    if len(tags) > MOST_TAGS:
        raise InputError
    metadata = dict(old.metadata)
    metadata.update(new.metadata)
    said: dict[str, Any] = {"tags": tuple(tags), "metadata": metadata, "confirmations": old.confirmations + 1}
    for name in ("title", "speaker", "source", "ref", "topic_key"):
        said[name] = getattr(new, name) if getattr(old, name) is None else getattr(old, name)
    if old.kind == "observation":
        said["kind"] = new.kind
    if new.pinned:
        said["pinned"] = True
    for name in {"importance", "confidence"} & given:
        if getattr(new, name) > getattr(old, name):
            said[name] = getattr(new, name)
    if new.valid_from is None or old.valid_from is None:
        said["valid_from"] = None
    elif new.valid_from < old.valid_from:
        said["valid_from"] = new.valid_from
    if new.invalid_at is None or old.invalid_at is None:
        said["invalid_at"] = None
    elif new.invalid_at > old.invalid_at:
        said["invalid_at"] = new.invalid_at
    said_at = [new.at]
    if "at" in given:
        said["at"], later = sorted([old.at, new.at])
        said_at.append(later)
    if old.confirmed_at is not None:
        said_at.append(old.confirmed_at)
    said["confirmed_at"] = sorted(said_at)[-1]
    if new.tier == "knowledge" and "tier" in given:
        said["tier"] = "knowledge"
    if "status" in given:
        said["status"] = new.status
    elif old.status != "pending":
        said["status"] = "active"
    if said.get("status", old.status) != old.status:
        said["superseded_by"] = None
    return msgspec.structs.replace(old, **said)
