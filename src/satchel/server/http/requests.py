"""What a request may say: its body as JSON, or its query, each a value with checked fields.

The requests about memories are made from the table of operations (`api.operations`). Those about agent sessions are
written out here.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from satchel.api.operations import Offered, offered
from satchel.api.parameters import Limit, Name, Tokens
from satchel.api.satchel import NEVER_EMPTY
from satchel.model.checks import MAX_OFFSET
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.session.session import Hints, Holds

__all__ = [
    "AddManyRequest",
    "AddRequest",
    "Addition",
    "CallRequest",
    "ContextRequest",
    "FindRequest",
    "ForgetOneRequest",
    "ForgetRequest",
    "GetRequest",
    "HistoryRequest",
    "ListRequest",
    "ListSessionsRequest",
    "NewMemory",
    "OpenSessionRequest",
    "PackRequest",
    "PageRequest",
    "RecordRequest",
    "RelateRequest",
    "Request",
    "ResultRequest",
    "ScopeRequest",
    "SearchRequest",
    "SessionRequest",
    "SimilarRequest",
    "TimelineRequest",
    "UnforgetRequest",
    "UnrelateRequest",
    "UpdateRequest",
]

MOST_MEMORIES = 1_000
LONGEST_PATTERN = 1_000

CallId = Annotated[str, Meta(min_length=1, max_length=200)]
ToolName = Name


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request; a field that it does not know is an error."""

    def options(self) -> dict[str, Any]:
        """Return the arguments for the method of `Satchel`: what differs from its default, the scope aside."""
        fields = ((field, getattr(self, field.name)) for field in msgspec.structs.fields(self))
        return {
            field.name: value
            for field, value in fields
            if field.name not in _OF_THE_SERVICE and (field.required or value != field.default)
        }


class Addition(Request, frozen=True, kw_only=True):
    """A memory to add, whose scope is part of what is saved."""


_OF_THE_SERVICE = (*SCOPE_FIELDS, "receipt", "similar")


class SessionRequest(Request, frozen=True, kw_only=True):
    """Where the ledger of a session is."""

    org: Name | None = None
    project: Name | None = None
    user: Name | None = None
    agent: Name | None = None


# Requests about memories, made from the table of operations.


def _request(
    name: str,
    about: str,
    method: str,
    *,
    own: Mapping[str, tuple[Any, Any]] | None = None,
    partial: bool = False,
    base: type[Request] = Request,
) -> Any:
    """Make the type of a request for a method; `partial` tells what was left out from what was set to null."""
    parameters = offered(method, "http")
    fields = [_field(each, partial=partial) for each in parameters]
    fields += [(field, type_, default) for field, (type_, default) in (own or {}).items()]
    return msgspec.defstruct(
        name,
        fields,
        bases=(base,),
        namespace={"__doc__": about},
        module=__name__,
        rename={each.python_name: each.name for each in parameters},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def _field(parameter: Offered, *, partial: bool) -> tuple[str, Any] | tuple[str, Any, Any]:
    described = _described(parameter)
    if parameter.required:
        return parameter.python_name, described
    if partial and parameter.python_name not in SCOPE_FIELDS:
        cleared = described | UnsetType if parameter.python_name in NEVER_EMPTY else described | UnsetType | None
        return parameter.python_name, cleared, UNSET
    if parameter.default is not None:
        return parameter.python_name, described | None if parameter.nullable else described, parameter.default
    # Repeated in a query; an empty list is none.
    name = parameter.python_name
    return (name, described, ()) if parameter.shape.several else (name, described | None, None)


def _described(parameter: Offered) -> Any:
    return Annotated[parameter.type, Meta(extra_json_schema={"description": parameter.about.help})]


NewMemory = _request(
    "NewMemory",
    "A memory to add. The same `ref` or `topic_key` in the same scope updates it.",
    "add",
    base=Addition,
)
AddRequest = _request(
    "AddRequest",
    "A memory to add alone. The answer names similar ones unless `similar` is false.",
    "add",
    own={"similar": (bool, True)},
    base=Addition,
)
UpdateRequest = _request(
    "UpdateRequest", "Fields to set; null clears one that may be empty.", "update", partial=True
)
ListRequest = _request("ListRequest", "The newest memories.", "recent")
ForgetRequest = _request(
    "ForgetRequest", "Which memories to forget; all of a scope only with `everything`.", "forget"
)
UnforgetRequest = _request("UnforgetRequest", "Which memories to restore: by id, or all of one moment.", "unforget")
UnrelateRequest = _request("UnrelateRequest", "Which relations to remove.", "unrelate")
GetRequest = _request("GetRequest", "As it is, or as it was at an earlier time.", "get")
TimelineRequest = _request("TimelineRequest", "How many memories before and after.", "timeline")
SimilarRequest = _request("SimilarRequest", "How many similar memories.", "similar")
SearchRequest = _request("SearchRequest", "A query, and how much of what it finds.", "search")
ContextRequest = _request(
    "ContextRequest", "What a context is for, and its budget.", "context", own={"receipt": (bool, False)}
)
PackRequest = _request("PackRequest", "What a portable pack is for, and its budget.", "context_pack")
RelateRequest = _request("RelateRequest", "A link from the memory of the path to another.", "relate")
ScopeRequest = _request("ScopeRequest", "Where to look.", "stats")
ForgetOneRequest = _request(
    "ForgetOneRequest", "Whether to remove it for good.", "stats", own={"purge": (bool, False)}
)


class AddManyRequest(Request, frozen=True, kw_only=True):
    """Memories to add, all of them or none."""

    memories: Annotated[tuple[NewMemory, ...], Meta(max_length=MOST_MEMORIES)]  # type: ignore[valid-type]


# Requests about agent sessions.


class BudgetShares(Request, frozen=True, kw_only=True):
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


class OpenSessionRequest(Request, frozen=True, kw_only=True):
    """How a session is kept; where it is there already, only what is given changes."""

    budget: BudgetShares | None = None
    model: Name | None = None
    holds: Holds | None = None


class ListSessionsRequest(SessionRequest, frozen=True, kw_only=True):
    limit: Limit = 20


class RecordRequest(Request, frozen=True, kw_only=True):
    """What went into the context beside results."""

    category: Literal["system", "user", "assistant", "history"]
    text: str
    name: Name | None = None
    pinned: bool = False
    remember: bool = False
    """Also save it as a memory of the conversation."""


class CallRequest(Request, frozen=True, kw_only=True):
    """That the model calls a tool."""

    tool: ToolName
    arguments: Mapping[str, Any] | None = None
    call_id: CallId | None = None


class ResultRequest(Request, frozen=True, kw_only=True):
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
    mask_results: bool = False
    """Mask secrets in the output before it is stored."""


class PageRequest(Request, frozen=True, kw_only=True):
    """Which page."""

    cursor: Annotated[str, Meta(max_length=100)]
    max_tokens: Tokens | None = None
    call_id: CallId | None = None


class FindRequest(Request, frozen=True, kw_only=True):
    """Which matches."""

    pattern: Annotated[str, Meta(max_length=LONGEST_PATTERN)]
    start: Annotated[int, Meta(ge=1, le=MAX_OFFSET)] = 1
    max_tokens: Tokens | None = None
    call_id: CallId | None = None


class HistoryRequest(SessionRequest, frozen=True, kw_only=True):
    max_tokens: Tokens | None = None
