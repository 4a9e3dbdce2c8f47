"""What is remembered: memories, the drafts they start from, scopes, relations, history."""

from collections.abc import Sequence
from datetime import date, datetime
from functools import cache
from typing import Any, TypedDict

import msgspec

from satchel.errors import InputError
from satchel.model.fields import DEFAULT_ORG, RELATIONS, Kind, RelationKind, Status, Tier, check_name, checked
from satchel.model.limits import check_weight

__all__ = [
    "CHANGEABLE",
    "SCOPE_FIELDS",
    "Change",
    "ChangedFields",
    "Draft",
    "Fields",
    "Hit",
    "Memory",
    "PlacedFields",
    "Relation",
    "Scope",
    "compact",
]

SCOPE_FIELDS = ("org", "project", "user", "agent", "session")


def _force(struct: msgspec.Struct, name: str, value: object) -> None:
    # Frozen values are normalised once, while they are made.
    msgspec.structs.force_setattr(struct, name, value)


_fields = cache(msgspec.structs.fields)


def compact(value: msgspec.Struct) -> dict[str, Any]:
    """The fields that differ from their defaults, ready for JSON; the same for equal values."""
    # msgspec's own `omit_defaults` compares by identity, and so depends on where a value comes from.
    plain: dict[str, Any] = {}
    for field in _fields(type(value)):
        content = getattr(value, field.name)
        if field.required or content != field.default:
            plain[field.name] = compact(content) if isinstance(content, msgspec.Struct) else content
    return plain


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Where a memory belongs; when reading, an unset field means any, but `org` always isolates."""

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
    """A memory to be stored; what is left at None gets its default, or keeps what an update finds."""

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
    org: str | None = None
    project: str | None = None
    user: str | None = None
    agent: str | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None or name == "text":
                _force(self, name, checked(name, value))

    def given(self) -> dict[str, Any]:
        """The fields of a memory that this draft sets, the scope aside."""
        return {name: value for name in CHANGEABLE if (value := getattr(self, name)) is not None}


class Fields(TypedDict, total=False):
    """What can be set beside the text when a memory is added, or with the text when it changes."""

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


class PlacedFields(Fields, total=False):
    """The same, and where the memory belongs."""

    org: str | None
    project: str | None
    user: str | None
    agent: str | None
    session: str | None


class ChangedFields(Fields, total=False):
    """The same, and the text."""

    text: str


CHANGEABLE = tuple(name for name in Draft.__struct_fields__ if name not in SCOPE_FIELDS)


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One remembered thing, as it is stored."""

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
    revision: int = 1
    tokens: int
    masked: tuple[str, ...] = ()
    access_count: int = 0
    accessed_at: datetime | None = None
    confirmations: int = 0
    """How often the same text was added again."""
    confirmed_at: datetime | None = None
    """The latest time at which it was said again."""

    def current(self, moment: datetime) -> bool:
        """Whether it is active and valid at this moment."""
        return (
            self.status == "active"
            and (self.valid_from is None or self.valid_from <= moment)
            and (self.invalid_at is None or self.invalid_at > moment)
        )

    def headline(self, width: int = 80) -> str:
        """The title, or the first words of the text where there is none."""
        if self.title:
            return self.title
        line = " ".join(self.text[: 4 * width].split())
        return line if len(line) <= width else line[: width - 1].rstrip() + "…"


class Relation(msgspec.Struct, frozen=True, kw_only=True):
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


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a memory's audit history; `changes` maps a field to its old and new value."""

    memory: str
    at: datetime
    action: str
    changes: dict[str, Any] = {}


# Of what is longer than some four passages a question needs a part.
LONG_TEXT = 2_400


class Hit(msgspec.Struct, frozen=True):
    """A memory that was found, and how likely it is that it is needed, between 0 and 1."""

    memory: Memory
    score: float
    passages: tuple[tuple[int, int], ...] = ()
    """The characters of the text that matched, best first, where the text is longer than one passage."""
    parts: dict[str, float] | None = None
    """What each part of the ranking added to the score; only where an explanation was asked for."""
    overtaken_by: str | None = None
    """The id of a newer memory, found too, that tells anew what this one tells, where that is as good as sure."""
    duplicates: tuple[str, ...] = ()
    """The ids of memories that say the same, which were found too and are not shown."""
    relevance: float = 1.0
    """How sure it is that the question is answered here and needs this memory, between 0 and 1.

    Unlike the score it also goes by the question as a whole and by the other hits; `min_relevance` is held
    against it. 1 where there was no question.
    """
    closeness: tuple[float, ...] = ()
    """How near each of the passages comes to the first, between 0 and 1."""

    def needed(self, min_relevance: float) -> tuple[tuple[int, int], ...]:
        """The passages of a long text that are relevant themselves; none where the whole text is wanted."""
        if len(self.memory.text) <= LONG_TEXT or not min_relevance:
            return ()
        near = zip(self.passages, self.closeness, strict=False)
        return tuple(span for span, closeness in near if self.relevance * closeness >= min_relevance)

    @property
    def passage(self) -> tuple[int, int] | None:
        """The characters that matched best; None where the text is a single passage."""
        return self.passages[0] if self.passages else None
