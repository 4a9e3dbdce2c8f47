"""Memories, drafts, scopes, relations and hits, and the checks of their fields."""

import contextlib
import reprlib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from functools import cache, partial
from typing import Any, Literal, TypedDict, get_args

import msgspec

from satchel.errors import InputError
from satchel.model.checks import check_weight, repair_surrogates
from satchel.model.ids import short_id
from satchel.model.metadata import check_metadata, texts_in
from satchel.model.result import Result, quoted
from satchel.model.scope_fields import DEFAULT_ORG, SCOPE_FIELDS

__all__ = [
    "CHANGEABLE",
    "FREE_TEXT",
    "IDENTITY",
    "KINDS",
    "MAX_TEXT_BYTES",
    "RELATIONS",
    "STATUSES",
    "TIERS",
    "Change",
    "ChangedFields",
    "Draft",
    "Fields",
    "Forgotten",
    "Hit",
    "Identifier",
    "Kind",
    "Memory",
    "PlacedFields",
    "Relation",
    "RelationKind",
    "Scope",
    "Status",
    "Tier",
    "as_name",
    "as_time",
    "check_name",
    "checked",
    "compact",
    "free_texts",
    "utc_now",
    "values_changed",
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

MAX_TEXT_BYTES = 1_000_000
MAX_TITLE = 1_000
MAX_NAME = 500
# PostgreSQL limits the size of an index entry, which may contain two names.
MAX_NAME_BYTES = 1_000
MAX_TAGS = 100


def utc_now() -> datetime:
    return datetime.now(UTC)


def as_time(value: object, *, name: str = "time") -> datetime:
    """Return a moment in UTC from a datetime, a date or an ISO 8601 string; without a time zone it is UTC."""
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
    """Return the value of a field in its stored form, or raise an `InputError` that says what is wrong."""
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
    if not isinstance(value, str | list | tuple | set | frozenset):
        raise InputError(f"tags must be a string or a list of strings, not {type(value).__name__}")
    value = (value,) if isinstance(value, str) else value
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
    # NFC: the same name typed on two systems must be equal.
    name = (value if value.isascii() else unicodedata.normalize("NFC", repair_surrogates(value))).strip()
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
    "metadata": check_metadata,
    **{name: partial(as_time, name=name) for name in ("at", "valid_from", "invalid_at")},
    **{
        name: partial(check_name, name)
        for name in ("speaker", "source", "ref", "topic_key", "org", "project", "user", "agent", "session")
    },
}


def as_name(field: str, value: object) -> str:
    """Return a name that is not blank. A blank name is an error: None would mean "any"."""
    name = check_name(field, value)
    if name is None:
        raise InputError(f"{field} is blank; name it, or leave it out")
    return name


# Memories, drafts, scopes, relations, history.


def _force(struct: msgspec.Struct, name: str, value: object) -> None:
    # Only while a frozen struct is created: its fields are normalised once.
    msgspec.structs.force_setattr(struct, name, value)


_fields = cache(msgspec.structs.fields)


def _shown_id(identifier: str) -> str:
    """The short id that a `repr` shows, which methods take as well."""
    try:
        return short_id(identifier, (), least=6)
    except ValueError:
        return identifier


def compact(value: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that differ from their defaults as a dict. Equal structs give equal dicts."""
    # msgspec's `omit_defaults` compares by identity, so its result would depend on how a value was created.
    plain: dict[str, Any] = {}
    for field in _fields(type(value)):
        content = getattr(value, field.name)
        if field.required or content != _default(field):
            plain[field.name] = compact(content) if isinstance(content, msgspec.Struct) else content
    return plain


def _default(field: msgspec.structs.FieldInfo) -> Any:
    made = field.default_factory
    return field.default if made is msgspec.NODEFAULT else made()


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Where a memory belongs. When reading, an unset field means any value, except `org`, which is always set."""

    org: str = DEFAULT_ORG
    project: str | None = None
    user: str | None = None
    agent: str | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        for name in SCOPE_FIELDS:
            if (value := getattr(self, name)) is not None:
                _force(self, name, check_name(name, value))
        if not self.org:
            _force(self, "org", DEFAULT_ORG)


class Draft(msgspec.Struct, frozen=True):
    """A memory to be stored.

    A field that is None gets its default, or keeps its value if the same `ref` or `topic_key` updates a memory.
    `at` is the time that the memory is about, not the time it is saved.
    """

    text: str
    title: str | None = None
    kind: Kind | None = None
    tier: Tier | None = None
    tags: Sequence[str] | None = None
    importance: float | None = None
    confidence: float | None = None
    status: Status | None = None
    pinned: bool | None = None
    at: datetime | date | str | None = None
    valid_from: datetime | date | str | None = None
    invalid_at: datetime | date | str | None = None
    speaker: str | None = None
    source: str | None = None
    ref: str | None = None
    topic_key: str | None = None
    metadata: Mapping[str, Any] | None = None
    org: str | None = None
    project: str | None = None
    user: str | None = None
    agent: str | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        force = msgspec.structs.force_setattr
        for name, value in zip(self.__struct_fields__, msgspec.structs.astuple(self), strict=True):
            if value is not None or name == "text":
                force(self, name, _CHECKS[name](value))

    def given(self) -> dict[str, Any]:
        """Return the fields that this draft sets, without the scope."""
        pairs = zip(self.__struct_fields__, msgspec.structs.astuple(self), strict=True)
        return {name: value for name, value in pairs if value is not None and name not in SCOPE_FIELDS}


class Fields(TypedDict, total=False):
    """The fields besides the text that `add` and `update` can set."""

    title: str | None
    kind: Kind | None
    tier: Tier | None
    tags: Sequence[str] | None
    importance: float | None
    confidence: float | None
    status: Status | None
    pinned: bool | None
    at: datetime | date | str | None
    valid_from: datetime | date | str | None
    invalid_at: datetime | date | str | None
    speaker: str | None
    source: str | None
    ref: str | None
    topic_key: str | None
    metadata: Mapping[str, Any] | None


class PlacedFields(Fields, total=False):
    """The fields that `add` takes: also those of the scope."""

    org: str | None
    project: str | None
    user: str | None
    agent: str | None
    session: str | None


class ChangedFields(Fields, total=False):
    """The fields that `update` takes: also the text, and the project to move a memory to."""

    text: str
    move_to: str | None


CHANGEABLE = tuple(name for name in Draft.__struct_fields__ if name not in SCOPE_FIELDS)


class Memory(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A stored memory."""

    id: str
    text: str
    title: str | None = None
    kind: Kind = "observation"
    tier: Tier = "knowledge"
    status: Status = "active"
    scope: Scope = Scope()
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    confidence: float = 1.0
    pinned: bool = False
    at: datetime
    created_at: datetime
    updated_at: datetime
    valid_from: datetime | None = None
    invalid_at: datetime | None = None
    superseded_by: str | None = None
    speaker: str | None = None
    source: str | None = None
    ref: str | None = None
    topic_key: str | None = None
    metadata: dict[str, Any] = {}
    """The caller's own values, as a JSON object with sorted keys."""
    revision: int = 1
    tokens: int
    masked: tuple[str, ...] = ()
    access_count: int = 0
    accessed_at: datetime | None = None
    confirmations: int = 0
    """How often the same text was added again."""
    confirmed_at: datetime | None = None
    """When the same text was last added again."""

    def __hash__(self) -> int:
        return hash((self.id, self.revision))

    def current(self, moment: datetime) -> bool:
        """Return whether it is active and valid at this moment."""
        return (
            self.status == "active"
            and (self.valid_from is None or self.valid_from <= moment)
            and (self.invalid_at is None or self.invalid_at > moment)
        )

    def headline(self, width: int = 80) -> str:
        """Return the title, or the first words of the text if there is none."""
        if self.title:
            return self.title
        line = " ".join(self.text[: 4 * width].split())
        return line if len(line) <= width else line[: width - 1].rstrip() + "…"

    def _summary(self) -> str:
        status = "" if self.status == "active" else f" {self.status}"
        return f"{_shown_id(self.id)} {self.kind}{status} {quoted(self.headline())}"


IDENTITY = ("ref", "topic_key")
"""Fields that identify a memory. They are never masked, because two masked values could become equal."""

_TOLD_FIRST = ("text", "title", "source", "speaker")
FREE_TEXT = _TOLD_FIRST + tuple(
    field.name
    for field in _fields(Memory)
    if field.type in (str, str | None) and field.name in CHANGEABLE and field.name not in _TOLD_FIRST + IDENTITY
)
"""Text fields in which secrets are masked, in the order of `Memory.masked`. A new text field is one of them."""


def free_texts(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield all texts of a memory in which secrets are masked, from a mapping of its fields."""
    yield from filter(None, map(fields.get, FREE_TEXT))
    yield from fields.get("tags") or ()
    if metadata := fields.get("metadata"):
        yield from texts_in(metadata)


class Relation(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A directed link between two memories."""

    source: str
    target: str
    kind: RelationKind = "related"
    strength: float = 1.0
    created_at: datetime

    def __post_init__(self) -> None:
        if self.kind not in RELATIONS:
            raise InputError(f"unknown relation {self.kind!r}; known: {', '.join(RELATIONS)}")
        check_weight(self.strength, name="strength")

    def _summary(self) -> str:
        return f"{_shown_id(self.source)} {self.kind} {_shown_id(self.target)}"


class Change(Result, msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a memory's audit history; `changes` maps a field to its old and new value."""

    memory: str
    at: datetime
    action: str
    changes: dict[str, Any] = {}

    def _summary(self) -> str:
        what = ", ".join(self.changes)
        return f"{_shown_id(self.memory)} {self.action} {self.at:%Y-%m-%d %H:%M} {what}".rstrip()


def values_changed(entry: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of fields before and after a change, converted to the types of `Memory`.

    Values that a memory cannot have are left out; an import may contain such entries.
    """
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    types = _replayed_types()
    for name, pair in entry.changes.items():
        if name in types and isinstance(pair, list) and len(pair) == 2:
            for values, value in zip((before, after), pair, strict=True):
                with contextlib.suppress(msgspec.ValidationError):
                    values[name] = msgspec.convert(value, types[name])
    return before, after


# Derived from other fields or from uses, and so not part of the history.
_NOT_REPLAYED = frozenset({"id", "updated_at", "revision", "access_count", "accessed_at", "tokens", "masked"})


@cache
def _replayed_types() -> dict[str, Any]:
    return {field.name: field.type for field in _fields(Memory) if field.name not in _NOT_REPLAYED}


class Forgotten(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of `forget`."""

    count: int
    """How many memories were ended or purged, or would be in a dry run."""
    purged: bool = False
    """Whether they were removed permanently."""
    at: datetime | None = None
    """When they ended: `unforget(at=…)` restores all of them. None if there is nothing to restore."""

    def _summary(self) -> str:
        return f"{self.count:,} {'purged' if self.purged else 'forgotten'}"


# A text longer than about four passages is rarely needed as a whole.
LONG_TEXT = 2_400


class Hit(Result, msgspec.Struct, frozen=True):
    """A search hit: a memory, and the probability that it is needed (`score`, 0 to 1)."""

    memory: Memory
    score: float
    passages: tuple[tuple[int, int], ...] = ()
    """The ranges of characters that matched, best first; empty if the text is a single passage."""
    parts: dict[str, float] | None = None
    """What each feature added to the score; None without `explain`."""
    overtaken_by: str | None = None
    """The id of a newer hit that very likely replaces this one."""
    duplicates: tuple[str, ...] = ()
    """The ids of duplicates that were found too and are not listed."""
    relevance: float = 1.0
    """The probability that the store answers the query and that this memory is part of the answer, 0 to 1.

    Unlike the score, it also depends on the query as a whole and on the other hits. `min_relevance` is compared
    with it. Without a query it is 1.
    """
    closeness: tuple[float, ...] = ()
    """How well each passage matched compared with the first, 0 to 1."""

    @property
    def id(self) -> str:
        """The id of the memory."""
        return self.memory.id

    @property
    def text(self) -> str:
        """The text of the memory, whole."""
        return self.memory.text

    def needed(self, min_relevance: float) -> tuple[tuple[int, int], ...]:
        """Return the passages of a long text that are relevant; empty if the whole text is needed."""
        if len(self.memory.text) <= LONG_TEXT or not min_relevance:
            return ()
        near = zip(self.passages, self.closeness, strict=False)
        return tuple(span for span, closeness in near if self.relevance * closeness >= min_relevance)

    @property
    def passage(self) -> tuple[int, int] | None:
        """The range of characters that matched best; None if the text is a single passage."""
        return self.passages[0] if self.passages else None

    def _summary(self) -> str:
        return f"{self.score:.2f} {self.memory._summary()}"


Identifier = str | Memory | Hit
"""How a call names a memory: by its id, a prefix of at least 8 digits, its short id, a `Memory` or a `Hit`."""
