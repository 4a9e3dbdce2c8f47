"""What the API answers with, and how large that may be."""

from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal, NamedTuple

import msgspec

from satchel.api.saving import Outcome, Similar
from satchel.fitting.hits import Timeline
from satchel.model.memory import Change, Hit, Memory, Relation
from satchel.model.packing import Receipt
from satchel.server.http.problems import RefusedError
from satchel.server.http.requests import Listing, Span
from satchel.session.results import Found, LedgerEntry, Shown

__all__ = [
    "Added",
    "AddedMemories",
    "Changed",
    "Context",
    "Counted",
    "Entries",
    "Memories",
    "Pack",
    "Related",
    "Saved",
    "Searched",
    "Sessions",
    "SimilarOnes",
    "Spent",
    "State",
    "Turn",
    "Whole",
    "check_size",
    "read_within",
    "spent",
]


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Added(Memory, frozen=True, kw_only=True):
    """The memory that a text was added to, and what adding it did."""

    outcome: Outcome


class AddedMemories(_Answer, frozen=True, kw_only=True):
    memories: tuple[Added, ...]


class Memories(_Answer, frozen=True, kw_only=True):
    memories: tuple[Memory, ...]


class Saved(Added, frozen=True, kw_only=True):
    """A memory that was saved, and the few that are about the same thing, which it may replace."""

    similar: tuple[Similar, ...] = ()


class SimilarOnes(_Answer, frozen=True, kw_only=True):
    """The memories that are about the same thing as one, most alike first."""

    similar: tuple[Similar, ...]


class Searched(_Answer, frozen=True, kw_only=True):
    """What was found. `text` is for a model and within the budget; `hits` are the same memories for a program."""

    text: str
    token_count: int
    token_budget: int | None
    omitted: int
    """How many more were found and did not fit."""
    tokens_omitted: int
    smallest_budget: int | None
    matched: bool
    """False where nothing matched and these are the newest and most important that pass the filters."""
    weak: int
    """How many matches were less relevant than `min_relevance`."""
    hits: tuple[Hit, ...]


class Context(_Answer, frozen=True, kw_only=True):
    """A text for a model's context window, within its budget, and what went into it."""

    text: str
    token_count: int
    token_budget: int | None
    facts_included: int
    facts_omitted: int
    tokens_omitted: int
    facts_wanted: int
    complete: bool
    tier_breakdown: dict[str, int]
    smallest_budget: int | None
    matched: bool
    """False where nothing matched and these are the newest and most important that pass the filters."""
    irrelevant: int
    """How many candidates were less relevant than `min_relevance`."""
    receipt: Receipt | None = None


class Pack(_Answer, frozen=True, kw_only=True):
    """Whole memories as one text to carry elsewhere."""

    text: str
    format: str
    token_count: int
    token_budget: int | None
    memories: tuple[str, ...]
    """The ids of what is in it, best first."""
    omitted: int
    tokens_omitted: int
    wanted: int
    irrelevant: int
    """How many candidates were less relevant than `min_relevance`."""
    smallest_budget: int | None


class Changed(_Answer, frozen=True, kw_only=True):
    changes: tuple[Change, ...]


class Related(_Answer, frozen=True, kw_only=True):
    relations: tuple[Relation, ...]


class Counted(_Answer, frozen=True, kw_only=True):
    count: int


class State(_Answer, frozen=True, kw_only=True):
    """What a session's budget has come to."""

    session: str
    total_budget: int
    used: dict[str, int]
    remaining: int
    per_tool_budget: int
    warning: str | None
    turn: int
    results: int
    delivered: int
    evicted: int
    project: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


class Sessions(_Answer, frozen=True, kw_only=True):
    sessions: tuple[State, ...]


class Entries(_Answer, frozen=True, kw_only=True):
    entries: tuple[LedgerEntry, ...]


class Whole(_Answer, frozen=True, kw_only=True):
    """All that stands behind a handle, as it was."""

    handle: str
    encoding: Literal["text", "base64"]
    content: str


class Turn(_Answer, frozen=True, kw_only=True):
    turn: int


class Spent(NamedTuple):
    """Tokens that were asked for, used and left out, or left for later pages; memories left out."""

    asked: int = 0
    used: int = 0
    left: int = 0
    omitted: int = 0


def spent(value: Any) -> Spent:
    """What an answer says of its tokens."""
    if isinstance(value, Searched | Pack):
        return Spent(value.token_budget or 0, value.token_count, value.tokens_omitted, value.omitted)
    if isinstance(value, Context):
        return Spent(value.token_budget or 0, value.token_count, value.tokens_omitted, value.facts_omitted)
    if isinstance(value, Shown):
        return Spent(value.allocation, value.token_count, value.remaining_tokens)
    if isinstance(value, Found):
        return Spent(value.allocation, value.token_count)
    return Spent()


# How large an answer may be


FIRST_PORTION = 32
# Which fields of a query say how many; only what is asked without any effect can be asked for twice.
_HOW_MANY: dict[type, tuple[str, ...]] = {Listing: ("limit",), Span: ("before", "after")}


def read_within(read: Callable[[Any], Any], query: Any, most: int) -> Any:
    """The answer to a query, refused if it has more than `most` bytes.

    Of a long list the first few are read to see how large they are: 10,000 memories may have 40 GB, which must not
    be read before they are refused.
    """
    wanted = {name: getattr(query, name) for name in _HOW_MANY.get(type(query), ())}
    portion = FIRST_PORTION
    while portion < max(wanted.values(), default=0):
        fewer = {name: min(number, portion) for name, number in wanted.items()}
        size = check_size(_text_size(read(msgspec.structs.replace(query, **fewer))), most)
        # As many as would fit if all have the same size.
        portion = max(2 * portion, portion * most // max(size, 1))
    value = read(query)
    check_size(_text_size(value), most)
    return value


def check_size(size: int, most: int) -> int:
    if size > most:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "large-answer",
            f"the answer has more than {most:,} bytes; ask for fewer, within a token budget, or by pages",
        )
    return size


def _text_size(value: Any) -> int:
    """The number of characters of the texts in an answer; each takes a byte or more."""
    match value:
        case Memories():
            return sum(len(memory.text) for memory in value.memories)
        case Timeline():
            return sum(len(memory.text) for memory in (*value.before, value.focus, *value.after))
        case Searched():
            return len(value.text) + sum(len(hit.memory.text) for hit in value.hits)
        case Context() | Pack():
            return len(value.text)
        case Whole():
            return len(value.content)
    return 0
