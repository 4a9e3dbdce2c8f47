"""The parameters of operations, by name: what values they take, how these are checked, and a line of help.

The signatures of `Satchel` say which parameters an operation has and what their defaults are. This registry adds
what a signature cannot say: limits, help texts and placeholders. The command line, the MCP tools, the HTTP service
and the reference documents all read it, so a parameter is described once.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from msgspec import Meta

from satchel.model.checks import (
    MAX_BUDGET,
    MAX_LIMIT,
    MAX_OFFSET,
    check_budget,
    check_limit,
    check_offset,
    check_weight,
)
from satchel.model.memory import MAX_NAME, MAX_TAGS, MAX_TITLE, Kind, RelationKind, Status, Tier
from satchel.model.scope_fields import SCOPE_FIELDS, SCOPE_HELP
from satchel.recall.finder import MIN_RELEVANCE

__all__ = [
    "FIELDS",
    "FILTERS",
    "OPTIONS",
    "SCOPES",
    "Count",
    "Limit",
    "Name",
    "Offset",
    "Parameter",
    "Query",
    "Shape",
    "Tags",
    "Text",
    "Time",
    "Title",
    "Tokens",
    "Weight",
    "When",
    "shape_of",
]

LONGEST_QUERY = 10_000

# Types as a program sends them in JSON. Their limits hold on every interface.

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=r"\S")]
Text = Annotated[str, Meta(min_length=1, pattern=r"\S")]
Title = Annotated[str, Meta(max_length=MAX_TITLE)]
Tags = Annotated[tuple[Name, ...], Meta(max_length=MAX_TAGS)]
Query = Annotated[str, Meta(max_length=LONGEST_QUERY)]
Weight = Annotated[float, Meta(ge=0, le=1)]
Tokens = Annotated[int, Meta(ge=0, le=MAX_BUDGET)]
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT)]
Count = Annotated[int, Meta(ge=0, le=MAX_LIMIT)]
Offset = Annotated[int, Meta(ge=0, le=MAX_OFFSET)]
Time = Annotated[str, Meta(description="ISO 8601; UTC where no zone is given.", examples=["2026-02-10T09:30:00Z"])]
When = Annotated[
    str,
    Meta(
        max_length=MAX_NAME,
        description="A date, a time or words; `since` takes the beginning of what is named, `until` its end.",
        examples=["2026-03-01", "2026-03", "last month", "2 weeks ago"],
    ),
]


class Parameter(NamedTuple):
    """One parameter: its type in JSON, a line of help, and how the command line and MCP present it."""

    help: str
    type: Any = None
    """The type with its limits; None takes the annotation of the signature."""
    metavar: str | None = None
    """What stands for the value in the help of a command."""
    hint: str | None = None
    """The description in an MCP schema, in a few words: it costs tokens in every session."""


SCOPES: Mapping[str, Parameter] = {
    name: Parameter(SCOPE_HELP.format(field=name), Name, "NAME", f"only this {name}") for name in SCOPE_FIELDS
}
"""Where to look: the fields of a scope."""

FIELDS: Mapping[str, Parameter] = {
    "text": Parameter("The text.", Text, hint="one idea"),
    "title": Parameter("A short title.", Title, "TEXT", "a few words"),
    "kind": Parameter("What sort of memory it is.", Kind, hint="what it is"),
    "tier": Parameter("How long it is meant to last.", Tier, hint="how long it lasts"),
    "tags": Parameter("Tags.", Tags, "TAG", "labels"),
    "importance": Parameter("How much it matters, from 0 to 1.", Weight, "0…1", "0 to 1"),
    "confidence": Parameter("How sure it is, from 0 to 1.", Weight, "0…1"),
    "status": Parameter("Its status.", Status),
    "pinned": Parameter("Always include it in a context.", bool, hint="always in context"),
    "at": Parameter("The time it is about, as ISO 8601. Default: now.", Time, "TIME"),
    "valid_from": Parameter("It holds from this time on, as ISO 8601.", Time, "TIME"),
    "invalid_at": Parameter("It no longer holds from this time on, as ISO 8601.", Time, "TIME"),
    "speaker": Parameter("Who said it.", Name, "NAME"),
    "source": Parameter("Where it comes from.", Name, "TEXT"),
    "ref": Parameter("Your own id for it. The same ref again updates the memory.", Name, "TEXT"),
    "topic_key": Parameter("Its topic. The same topic again updates the memory.", Name, "KEY", "as in deploy/day"),
    "metadata": Parameter("Values of your own, as a JSON object.", dict[str, Any]),
    "move_to": Parameter("Move it to this project.", Name, "PROJECT", "another project"),
    **{name: Parameter(f"It belongs to this {name}.", Name, "NAME", f"{name} name") for name in SCOPE_FIELDS},
}
"""The fields of a memory that can be set."""

FILTERS: Mapping[str, Parameter] = {
    "kind": Parameter("Only this kind.", tuple[Kind, ...], hint="one or several"),
    "tier": Parameter("Only this tier.", tuple[Tier, ...]),
    "tags": Parameter("Only with this tag.", Tags, "TAG", "all of these"),
    "status": Parameter("Only this status. Default: active.", tuple[Status, ...], hint="default active"),
    "since": Parameter(
        'Only about this time or later: 2026-03-01, 2026-03, "last month", "2 weeks ago".',
        When,
        "DATE",
        "date or 2 weeks ago",
    ),
    "until": Parameter(
        "Only about this time or earlier, to its end: 2026-03 is all of March.", When, "DATE", "as since"
    ),
    "metadata": Parameter("Only with these values in its metadata.", dict[str, Any]),
}
"""Which memories a call is about. Several kinds, tiers or statuses mean any of them, several tags all of them."""

OPTIONS: Mapping[str, Parameter] = {
    "identifier": Parameter(
        "The id of a memory: whole, a unique prefix, or its short id.", Name, "ID", "memory id"
    ),
    "identifiers": Parameter("The ids of memories.", tuple[Name, ...], "ID", "one id or several"),
    "query": Parameter("A question or words to look for.", Query, "QUERY", "question or words"),
    "limit": Parameter("At most this many memories.", Limit, "N", "at most"),
    "context.limit": Parameter(
        "Choose among this many candidates. Default: as many as could fit.", Limit, "N", "candidates"
    ),
    "context_pack.limit": Parameter(
        "Choose among this many candidates. Default: as many as could fit.", Limit, "N"
    ),
    "token_budget": Parameter("At most this many tokens in the text.", Tokens, "N", "of the answer"),
    "min_relevance": Parameter(
        f"Leave out what is less relevant to the query, from 0 to 1; 0 fills the budget. Default: {MIN_RELEVANCE}.",
        Weight,
        "0…1",
        "0 to 1",
    ),
    "detail": Parameter("Titles, snippets of 300 characters, or whole texts.", hint="how much text"),
    "format": Parameter("The form of the text.", hint="of the text"),
    "policy": Parameter("Choose by value per token (best), by rank (greedy), or by tier and rank (tier)."),
    "pins": Parameter("All pinned memories must fit (strict), or as many as do (best_effort)."),
    "explain": Parameter("Also say why: the parts of each score."),
    "ended": Parameter("Also what was forgotten, superseded or has expired."),
    "as_of": Parameter("As the store was at this time, as ISO 8601.", Time, "TIME", "past state"),
    "ids": Parameter("Show the short id and the kind of each memory."),
    "recent.pinned": Parameter("Only pinned memories."),
    "before": Parameter("How many memories before it.", Count, "N", "at most"),
    "after": Parameter("How many memories after it.", Count, "N", "at most"),
    "offset": Parameter("Skip this many memories.", Offset, "N"),
    "sort": Parameter("Order, the newest or greatest first."),
    "dry_run": Parameter("Only count what would be forgotten."),
    "unforget.at": Parameter("All that one `forget` ended at this time.", Time, "TIME"),
    "purge": Parameter("Remove for good, with history. This cannot be undone.", hint="remove for good"),
    "everything": Parameter("All memories of the view."),
    "source": Parameter("The memory that the relation starts from.", Name, "ID", "memory id"),
    "target": Parameter("The memory that it leads to.", Name, "OTHER_ID", "id of the other"),
    "relate.kind": Parameter("What the first memory is to the second.", RelationKind, hint="of id to target"),
    "unrelate.kind": Parameter("Only this relation. Default: all of them.", RelationKind),
    "import_.source": Parameter("The file to read; `-` is standard input.", str, "FILE"),
    "strict": Parameter("Import nothing if any line is bad."),
    "strength": Parameter("How strong the relation is, from 0 to 1.", Weight, "0…1"),
}
"""Everything else. `context.limit` is the `limit` of `context`, where its meaning differs."""


# What a type means for an interface that has no types of its own.


class Shape(NamedTuple):
    """A type as an interface sees it: what it is made of, which values it takes, whether it takes several."""

    base: type
    """str, int, float, bool or dict; of several values the type of each."""
    choices: tuple[str, ...] = ()
    several: bool = False
    check: Callable[..., Any] | None = None
    """Checks a number, also one that arrives as text; takes the value and the parameter's name."""


_CHECKS: Mapping[Any, Callable[..., Any]] = {
    Tokens: lambda value, name: check_budget(value),
    Limit: partial(check_limit, least=1),
    Count: partial(check_limit, least=0),
    Offset: lambda value, name: check_offset(value),
    Weight: check_weight,
}


def shape_of(type_: Any) -> Shape:
    """Return the shape of a type; None as an alternative is left aside."""
    check = _CHECKS.get(type_)
    if get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    if get_origin(type_) in (Union, type(int | str)):
        # The first alternative is the form that JSON has; Python also takes None and other forms of the same.
        type_ = next(each for each in get_args(type_) if each is not type(None))
        return shape_of(type_)
    if get_origin(type_) is Literal:
        return Shape(str, choices=get_args(type_), check=check)
    if get_origin(type_) is tuple:
        each = shape_of(get_args(type_)[0])
        return each._replace(several=True)
    return Shape(get_origin(type_) or type_, check=check)
