"""What a request may say: its body as JSON, its query, each a value with checked fields."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from satchel.fitting.context_pack import PackFormat
from satchel.fitting.formats import Format
from satchel.fitting.listing import Detail
from satchel.fitting.packing import Pins
from satchel.fitting.policies import PolicyName
from satchel.model.checks import MAX_BUDGET, MAX_LIMIT
from satchel.model.memory import MAX_NAME, MAX_TAGS, MAX_TITLE, SCOPE_FIELDS, Kind, RelationKind, Status, Tier
from satchel.session.session import Hints, Holds

__all__ = [
    "Called",
    "Changes",
    "ContextAsked",
    "Cursor",
    "Forgetting",
    "History",
    "Listing",
    "NewMemories",
    "NewMemory",
    "NewRelation",
    "NewSession",
    "OneMemory",
    "PackAsked",
    "Pattern",
    "Placed",
    "Purging",
    "Recorded",
    "Result",
    "SearchAsked",
    "Seen",
    "SessionListing",
    "SessionPlace",
    "SimilarAsked",
    "Span",
]

MOST_MEMORIES = 1_000
LONGEST_QUERY = 10_000
LONGEST_PATTERN = 1_000

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=r"\S")]
Text = Annotated[str, Meta(min_length=1, pattern=r"\S")]
Title = Annotated[str, Meta(max_length=MAX_TITLE)]
Tags = Annotated[tuple[Name, ...], Meta(max_length=MAX_TAGS)]
Weight = Annotated[float, Meta(ge=0, le=1)]
Time = Annotated[str, Meta(description="ISO 8601; UTC where no zone is given.", examples=["2026-02-10T09:30:00Z"])]
When = Annotated[
    str,
    Meta(
        max_length=MAX_NAME,
        description="A date, a time or words; `since` takes the beginning of what is named, `until` its end.",
        examples=["2026-03-01", "2026-03", "last month", "2 weeks ago"],
    ),
]
Query = Annotated[str, Meta(max_length=LONGEST_QUERY)]
Tokens = Annotated[int, Meta(ge=0, le=MAX_BUDGET)]
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT)]
Count = Annotated[int, Meta(ge=0, le=MAX_LIMIT)]
CallId = Annotated[str, Meta(min_length=1, max_length=200)]
ToolName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=r"\S")]


class _Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Placed(_Asked, frozen=True, kw_only=True):
    """Where to look; the org is the token's, and may only be named as that."""

    org: Name | None = None
    project: Name | None = None
    user: Name | None = None
    agent: Name | None = None
    session: Name | None = None


class SessionPlace(_Asked, frozen=True, kw_only=True):
    """Where a session's books are."""

    org: Name | None = None
    project: Name | None = None
    user: Name | None = None
    agent: Name | None = None


class NewMemory(Placed, frozen=True, kw_only=True):
    """A memory to add; the same `ref` or `topic_key` in the same place changes the one that is there."""

    text: Text
    title: Title | None = None
    kind: Kind | None = None
    tier: Tier | None = None
    tags: Tags | None = None
    importance: Weight | None = None
    confidence: Weight | None = None
    status: Status | None = None
    pinned: bool | None = None
    at: Time | None = None
    valid_from: Time | None = None
    invalid_at: Time | None = None
    speaker: Name | None = None
    source: Name | None = None
    ref: Name | None = None
    topic_key: Name | None = None


class OneMemory(NewMemory, frozen=True, kw_only=True):
    """A memory to add alone; the answer names similar ones unless `similar` is false."""

    similar: bool = True


class NewMemories(_Asked, frozen=True, kw_only=True):
    """Memories to add, all of them or none."""

    memories: Annotated[tuple[NewMemory, ...], Meta(max_length=MOST_MEMORIES)]


class Changes(_Asked, frozen=True, kw_only=True):
    """Fields to set; null clears one that may be empty."""

    text: Text | UnsetType = UNSET
    title: Title | UnsetType | None = UNSET
    kind: Kind | UnsetType = UNSET
    tier: Tier | UnsetType = UNSET
    tags: Tags | UnsetType | None = UNSET
    importance: Weight | UnsetType = UNSET
    confidence: Weight | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    at: Time | UnsetType = UNSET
    valid_from: Time | UnsetType | None = UNSET
    invalid_at: Time | UnsetType | None = UNSET
    speaker: Name | UnsetType | None = UNSET
    source: Name | UnsetType | None = UNSET
    ref: Name | UnsetType | None = UNSET
    topic_key: Name | UnsetType | None = UNSET

    def given(self) -> dict[str, Any]:
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in fields if value is not UNSET}


class _Chosen(Placed, frozen=True, kw_only=True):
    kind: tuple[Kind, ...] = ()
    tier: tuple[Tier, ...] = ()
    tags: Tags = ()
    status: tuple[Status, ...] = ()
    since: When | None = None
    until: When | None = None

    def options(self) -> dict[str, Any]:
        """All but the place as `Satchel` takes it: a filter that is empty is none."""
        names = (name for name in self.__struct_fields__ if name not in (*SCOPE_FIELDS, "receipt"))
        return {name: None if (value := getattr(self, name)) == () else value for name in names}


class Listing(_Chosen, frozen=True, kw_only=True):
    """The newest memories, or of the pinned ones."""

    limit: Limit = 20
    pinned: bool = False
    ended: bool = False
    as_of: Time | None = None


class Forgetting(Placed, frozen=True, kw_only=True):
    """Which memories to end; all that the place holds only with `everything`."""

    kind: tuple[Kind, ...] = ()
    tier: tuple[Tier, ...] = ()
    tags: Tags = ()
    everything: bool = False
    purge: bool = False


class Purging(Placed, frozen=True, kw_only=True):
    purge: bool = False


class Seen(Placed, frozen=True, kw_only=True):
    """As it is, or as it was at an earlier moment."""

    as_of: Time | None = None


class Span(Seen, frozen=True, kw_only=True):
    """How many before and after."""

    before: Count = 5
    after: Count = 5


class SimilarAsked(Placed, frozen=True, kw_only=True):
    """How many similar memories are wanted."""

    limit: Limit = 3


class SearchAsked(_Chosen, frozen=True, kw_only=True):
    """A query, and how much of what it finds."""

    query: Query
    limit: Limit = 10
    token_budget: Tokens | None = None
    detail: Detail = "full"
    format: Literal["text", "json"] = "text"
    ended: bool = False
    explain: bool = False
    as_of: Time | None = None
    min_relevance: Weight | None = None


class _Wanted(_Chosen, frozen=True, kw_only=True):
    query: Query | None = None
    token_budget: Tokens | None = 2000
    policy: PolicyName = "best"
    pins: Pins = "strict"
    limit: Limit | None = None
    ended: bool = False
    as_of: Time | None = None
    min_relevance: Weight | None = None


class ContextAsked(_Wanted, frozen=True, kw_only=True):
    """What a context is wanted for, and within how many tokens."""

    format: Format = "system_prompt"
    detail: Detail = "full"
    receipt: bool = False


class PackAsked(_Wanted, frozen=True, kw_only=True):
    """What a portable pack is wanted for, and within how many tokens."""

    format: PackFormat = "markdown"


class NewRelation(_Asked, frozen=True, kw_only=True):
    """A link from the memory of the path to another."""

    target: Name
    kind: RelationKind = "related"
    strength: Weight = 1.0


class Share(_Asked, frozen=True, kw_only=True):
    """How a context window is shared out; a part that is left out gets its share."""

    total: Tokens | None = None
    system: Tokens | None = None
    history: Tokens | None = None
    tool_results: Tokens | None = None
    user: Tokens | None = None
    response: Tokens | None = None
    per_call: Tokens | None = None
    warn_below: Tokens | None = None
    critical_below: Tokens | None = None
    low: Annotated[float, Meta(gt=0, lt=1)] = 0.7


class NewSession(_Asked, frozen=True, kw_only=True):
    """How a session is kept; where it is there already, only what is given changes."""

    budget: Share | None = None
    model: Name | None = None
    holds: Holds | None = None


class SessionListing(SessionPlace, frozen=True, kw_only=True):
    limit: Limit = 20


class Recorded(_Asked, frozen=True, kw_only=True):
    """What went into the context beside results."""

    category: Literal["system", "user", "assistant", "history"]
    text: str
    name: Name | None = None
    pinned: bool = False


class Called(_Asked, frozen=True, kw_only=True):
    """That the model calls a tool."""

    tool: ToolName
    arguments: Mapping[str, Any] | None = None
    call_id: CallId | None = None


class Result(_Asked, frozen=True, kw_only=True):
    """What a tool said: a text, a JSON value, or bytes as base64."""

    tool: ToolName
    output: Any
    encoding: Literal["text", "base64"] = "text"
    call_id: CallId | None = None
    arguments: Mapping[str, Any] | None = None
    error: bool = False
    max_tokens: Tokens | None = None
    pinned: bool = False
    new_turn: bool = False
    hints: Hints = "footer"


class Cursor(_Asked, frozen=True, kw_only=True):
    """Which page."""

    cursor: Annotated[str, Meta(max_length=100)]
    max_tokens: Tokens | None = None
    call_id: CallId | None = None


class Pattern(_Asked, frozen=True, kw_only=True):
    """Which lines."""

    pattern: Annotated[str, Meta(max_length=LONGEST_PATTERN)]
    max_tokens: Tokens | None = None
    call_id: CallId | None = None


class History(SessionPlace, frozen=True, kw_only=True):
    max_tokens: Tokens | None = None
