"""What each field of a memory may hold: the known kinds and tiers, the limits, the checks."""

import reprlib
import unicodedata
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from functools import partial
from typing import Any, Literal, get_args

from satchel.errors import InputError
from satchel.model.limits import check_weight
from satchel.model.surrogates import repair_surrogates

__all__ = [
    "DEFAULT_ORG",
    "KINDS",
    "MAX_TEXT_BYTES",
    "RELATIONS",
    "STATUSES",
    "TIERS",
    "Kind",
    "RelationKind",
    "Status",
    "Tier",
    "as_name",
    "as_time",
    "check_name",
    "checked",
    "utc_now",
]

Kind = Literal[
    "observation",
    "decision",
    "pattern",
    "error",
    "fix",
    "preference",
    "fact",
    "lesson",
    "todo",
    "procedure",
    "prompt",
    "summary",
]
Tier = Literal["working", "conversation", "knowledge"]
Status = Literal["active", "archived", "superseded", "pending"]
RelationKind = Literal[
    "caused_by",
    "fixes",
    "supersedes",
    "related",
    "contradicts",
    "depends_on",
    "implements",
    "part_of",
]

KINDS: tuple[str, ...] = get_args(Kind)
TIERS: tuple[str, ...] = get_args(Tier)
STATUSES: tuple[str, ...] = get_args(Status)
RELATIONS: tuple[str, ...] = get_args(RelationKind)

DEFAULT_ORG = "default"
MAX_TEXT_BYTES = 1_000_000
MAX_TITLE = 1_000
MAX_NAME = 500
# Two names and more fit into one entry of an index of PostgreSQL.
MAX_NAME_BYTES = 1_000
MAX_TAGS = 100


def utc_now() -> datetime:
    return datetime.now(UTC)


def as_time(value: object, *, name: str = "time") -> datetime:
    """A moment in UTC from a datetime, a date or an ISO 8601 string; without a zone UTC is meant."""
    moment = value
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.strip())
        except ValueError:
            raise InputError(
                f"{name} {value!r} is not a time; write it as 2026-02-10 or 2026-02-10T09:30:00Z"
            ) from None
    elif isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    if not isinstance(moment, datetime):
        raise InputError(f"{name} {value!r} is not a time")
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise InputError(f"{name} {value!r} is outside the years 1 to 9999") from None


def checked(name: str, value: Any) -> Any:
    """The value of a field in its stored form, or an `InputError` that says what is wrong with it."""
    if value is None and name != "text":
        return None
    check = _CHECKS.get(name)
    if check is None:
        raise InputError(f"unknown field {name!r}; known: {', '.join(_CHECKS)}")
    return check(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"text must be a string, not {type(value).__name__}")
    text = repair_surrogates(value)
    if not text.strip():
        raise InputError("text is empty; there is nothing to remember")
    if len(text) * 4 > MAX_TEXT_BYTES and (size := len(text.encode())) > MAX_TEXT_BYTES:
        raise InputError(f"text has {size:,} bytes; a memory holds at most {MAX_TEXT_BYTES:,}: split it up")
    return text


def _title(value: object) -> str | None:
    if not isinstance(value, str):
        raise InputError(f"title must be a string, not {type(value).__name__}")
    title = " ".join(repair_surrogates(value).split())
    if len(title) > MAX_TITLE:
        raise InputError(f"title has {len(title):,} characters; the most is {MAX_TITLE:,}")
    return title or None


def _tags(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise InputError(f"tags must be a list of strings, not {type(value).__name__}")
    named = [tag for item in value if (tag := check_name("tag", item))]
    tags = tuple(dict.fromkeys(sorted(named) if isinstance(value, set | frozenset) else named))
    if len(tags) > MAX_TAGS:
        raise InputError(f"{len(tags)} tags are too many; the most is {MAX_TAGS}")
    return tags


def check_name(field: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"{field} must be a string, not {type(value).__name__}")
    # Composed, so that one name typed on two systems is one name.
    name = unicodedata.normalize("NFC", repair_surrogates(value)).strip()
    if len(name) > MAX_NAME:
        raise InputError(f"{field} has {len(name):,} characters; the most is {MAX_NAME}")
    if len(name) * 4 > MAX_NAME_BYTES and (size := len(name.encode())) > MAX_NAME_BYTES:
        raise InputError(f"{field} has {size:,} bytes of UTF-8; the most is {MAX_NAME_BYTES:,}")
    return name or None


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"pinned {value!r} is neither true nor false")
    return value


def _choice(name: str, known: tuple[str, ...], value: object) -> object:
    if value not in known:
        raise InputError(f"unknown {name} {reprlib.repr(value)}; known: {', '.join(known)}")
    return value


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "text": _text,
    "title": _title,
    "kind": partial(_choice, "kind", KINDS),
    "tier": partial(_choice, "tier", TIERS),
    "tags": _tags,
    "importance": partial(check_weight, name="importance"),
    "confidence": partial(check_weight, name="confidence"),
    "status": partial(_choice, "status", STATUSES),
    "pinned": _flag,
    **{name: partial(as_time, name=name) for name in ("at", "valid_from", "invalid_at")},
    **{
        name: partial(check_name, name)
        for name in ("speaker", "source", "ref", "topic_key", "org", "project", "user", "agent", "session")
    },
}


def as_name(field: str, value: object) -> str:
    """A name that is not blank: a blank one must not be taken for none, which means any."""
    name = check_name(field, value)
    if name is None:
        raise InputError(f"{field} is blank; name it, or leave it out")
    return name
