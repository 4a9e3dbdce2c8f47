"""The one table of what `/v1` offers, and its description in OpenAPI 3.1."""

import functools
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from satchel import __version__
from satchel.api import answers
from satchel.fitting.context import ContextResult
from satchel.fitting.context_pack import PackResult
from satchel.fitting.hits import SearchResult, Timeline
from satchel.model.memory import Forgotten, Memory, Relation
from satchel.server.http import memories, requests, responses, sessions
from satchel.server.http.problems import MEDIA_TYPE, Problem, RefusedError
from satchel.session.account import SessionState
from satchel.session.results import Found, History, LedgerEntry, Shown
from satchel.store.contract import Stats

__all__ = ["ROUTES", "Matched", "Route", "openapi", "route_for"]


Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Route(NamedTuple):
    """One operation. Where a body names its place itself, there is no query."""

    operation: str
    method: Method
    path: str
    about: str
    access: Literal["read", "write"]
    work: Callable[..., Any]
    answer: type[msgspec.Struct] | None
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    status: HTTPStatus = HTTPStatus.OK


class Matched(NamedTuple):
    """A route, and what the path says in its places."""

    route: Route
    names: Mapping[str, str]


_SESSION = "/v1/sessions/{name}"
_MEMORY = "/v1/memories/{id}"
_CREATED = HTTPStatus.CREATED

# fmt: off
ROUTES: tuple[Route, ...] = (
    Route("memories.add", "POST", "/v1/memories", "Add a memory; the few similar ones.", "write",
          memories.add, answers.Saved, None, requests.AddRequest, _CREATED),
    Route("memories.add_many", "POST", "/v1/memories/batch", "Add several memories, all or none.", "write",
          memories.add_many, answers.AddedMemories, None, requests.AddManyRequest, _CREATED),
    Route("memories.list", "GET", "/v1/memories", "The newest memories.", "read",
          memories.recent, answers.Memories, requests.ListRequest),
    Route("memories.forget", "DELETE", "/v1/memories", "Forget memories by filters, or purge them.", "write",
          memories.forget, Forgotten, requests.ForgetRequest),
    Route("memories.get", "GET", _MEMORY, "One memory with its relations.", "read",
          memories.get, answers.MemoryAndRelations, requests.GetRequest),
    Route("memories.update", "PATCH", _MEMORY, "Change fields of a memory; its history is kept.", "write",
          memories.update, Memory, requests.ScopeRequest, requests.UpdateRequest),
    Route("memories.forget_one", "DELETE", _MEMORY, "Forget a memory, or purge it.", "write",
          memories.forget_one, Forgotten, requests.ForgetOneRequest),
    Route("memories.unforget", "POST", "/v1/memories/unforget", "Restore what was forgotten.", "write",
          memories.unforget, answers.Counted, None, requests.UnforgetRequest),
    Route("memories.timeline", "GET", f"{_MEMORY}/timeline", "What came before and after a memory.", "read",
          memories.timeline, Timeline, requests.TimelineRequest),
    Route("memories.similar", "GET", f"{_MEMORY}/similar", "The memories about the same thing.", "read",
          memories.similar, answers.SimilarMemories, requests.SimilarRequest),
    Route("memories.history", "GET", f"{_MEMORY}/history", "Every change of a memory, oldest first.", "read",
          memories.changes, answers.Changes, requests.ScopeRequest),
    Route("relations.list", "GET", f"{_MEMORY}/relations", "The relations of a memory.", "read",
          memories.relations, answers.Relations, requests.GetRequest),
    Route("relations.add", "POST", f"{_MEMORY}/relations", "Link a memory to another.", "write",
          memories.relate, Relation, requests.ScopeRequest, requests.RelateRequest, _CREATED),
    Route("relations.remove", "DELETE", f"{_MEMORY}/relations/{{target}}", "Remove relations to another.", "write",
          memories.unrelate, answers.Counted, requests.UnrelateRequest),
    Route("search", "POST", "/v1/search", "The best matches, within a budget.", "read",
          memories.search, SearchResult, None, requests.SearchRequest),
    Route("context", "POST", "/v1/context", "One text for a context window, within a budget.", "read",
          memories.context, ContextResult, None, requests.ContextRequest),
    Route("pack", "POST", "/v1/pack", "Whole memories as one text to carry elsewhere.", "read",
          memories.pack, PackResult, None, requests.PackRequest),
    Route("stats", "GET", "/v1/stats", "Counts of what is remembered.", "read",
          memories.stats, Stats, requests.ScopeRequest),
    Route("projects", "GET", "/v1/projects", "The projects, and how many memories each has.", "read",
          memories.projects, answers.Names, requests.ScopeRequest),
    Route("tags", "GET", "/v1/tags", "The tags, and how many memories have each.", "read",
          memories.tags, answers.Names, requests.ScopeRequest),
    Route("sessions.list", "GET", "/v1/sessions", "The sessions, those changed last first.", "read",
          sessions.sessions, responses.Sessions, requests.ListSessionsRequest),
    Route("sessions.open", "PUT", _SESSION, "Begin a session, or change how it is kept.", "write",
          sessions.open_session, SessionState, requests.SessionRequest, requests.OpenSessionRequest),
    Route("sessions.state", "GET", _SESSION, "What its budget has come to.", "read",
          sessions.state, SessionState, requests.SessionRequest),
    Route("sessions.remove", "DELETE", _SESSION, "Remove a session with all that it kept.", "write",
          sessions.remove, None, requests.SessionRequest, None, HTTPStatus.NO_CONTENT),
    Route("entries.list", "GET", f"{_SESSION}/entries", "What the context holds or names.", "read",
          sessions.entries, responses.Entries, requests.SessionRequest),
    Route("entries.add", "POST", f"{_SESSION}/entries", "Record what went into the context.", "write",
          sessions.record, LedgerEntry, requests.SessionRequest, requests.RecordRequest, _CREATED),
    Route("calls.add", "POST", f"{_SESSION}/calls", "Record that the model calls a tool.", "write",
          sessions.call, LedgerEntry, requests.SessionRequest, requests.CallRequest, _CREATED),
    Route("results.add", "POST", f"{_SESSION}/results", "Keep a tool's result; its first page.", "write",
          sessions.result, Shown, requests.SessionRequest, requests.ResultRequest, _CREATED),
    Route("results.expand", "GET", f"{_SESSION}/results/{{handle}}", "All that stands behind a handle.", "read",
          sessions.expand, responses.Whole, requests.SessionRequest),
    Route("results.find", "POST", f"{_SESSION}/results/{{handle}}/matches", "Lines that match a pattern.", "write",
          sessions.find, Found, requests.SessionRequest, requests.FindRequest),
    Route("pages.add", "POST", f"{_SESSION}/pages", "The page that a cursor points to.", "write",
          sessions.page, Shown, requests.SessionRequest, requests.PageRequest),
    Route("turns.add", "POST", f"{_SESSION}/turns", "Begin a turn.", "write",
          sessions.next_turn, responses.Turn, requests.SessionRequest, None, _CREATED),
    Route("sessions.history", "GET", f"{_SESSION}/history", "The work log as text, within a budget.", "read",
          sessions.history, History, requests.HistoryRequest),
)
# fmt: on

_PARTS = [(tuple(route.path.split("/")), route) for route in ROUTES]


def route_for(method: str, raw_path: bytes) -> Matched:
    """The route of a request; or a refusal that names the methods there are."""
    parts = _decoded(raw_path)
    here = [(pattern, route) for pattern, route in _PARTS if _fits(pattern, parts)]
    # `/v1/memories/batch` is no id.
    plain = [each for each in here if each[0] == parts] or here
    for pattern, route in plain:
        if route.method == method:
            pairs = zip(pattern, parts, strict=True)
            return Matched(route, {place[1:-1]: part for place, part in pairs if place.startswith("{")})
    if not here:
        raise RefusedError(
            HTTPStatus.NOT_FOUND, "unknown-path", "there is nothing at this path; /openapi.json names all"
        )
    allowed = ", ".join(sorted(route.method for _, route in plain))
    raise RefusedError(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "unknown-method",
        f"this path takes {allowed}, not {method[:20]}",
        Allow=allowed,
    )


@functools.lru_cache(maxsize=1024)
def _decoded(raw_path: bytes) -> tuple[str, ...]:
    # Split first: a name may have a slash of its own, as %2F.
    try:
        return tuple(unquote(part, errors="strict") for part in raw_path.decode("ascii").split("/"))
    except UnicodeDecodeError:
        raise RefusedError(
            HTTPStatus.BAD_REQUEST, "malformed-path", "the path is not UTF-8 in percent signs"
        ) from None


def _fits(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    return len(pattern) == len(parts) and all(
        bool(part) if place.startswith("{") else place == part for place, part in zip(pattern, parts, strict=True)
    )


# The description in OpenAPI 3.1, made from the table of routes and the types of the values


_REFS = "#/components/schemas/{name}"
_REFUSALS = {
    "400": "No JSON, no UTF-8, or no such parameter.",
    "401": "Without a token that is known.",
    "403": "The token does not allow it.",
    "404": "Nothing has this id in what the token may see.",
    "408": "The body did not come in time.",
    "409": "Several memories match this id.",
    "410": "What a handle stands for is no longer kept.",
    "413": "The body is too large.",
    "415": "The body is not announced as JSON.",
    "422": "A field is wrong, or the answer would be too large; nothing was changed.",
    "429": "Too many requests; Retry-After says when.",
    "503": "Busy or stopping; Retry-After says when.",
}


def openapi() -> dict[str, Any]:
    """The document at `/openapi.json`."""
    types = [each for route in ROUTES for each in (route.body, route.answer) if each is not None]
    named, components = msgspec.json.schema_components([*types, Problem], ref_template=_REFS)
    refs = dict(zip([*types, Problem], named, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Satchel",
            "version": __version__,
            "description": "Memory for LLM agents that fits the token budget you give it.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    done: dict[str, Any] = {"description": route.about}
    if route.answer is not None:
        done["content"] = {"application/json": {"schema": refs[route.answer]}}
    problem = {MEDIA_TYPE: {"schema": refs[Problem]}}
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.about,
        "description": f"Needs a token for {route.access}.",
        "parameters": [*_places(route), *_parameters(route.query)],
        "responses": {
            str(int(route.status)): done,
            **{status: {"description": about, "content": problem} for status, about in _REFUSALS.items()},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": refs[route.body]}}}
    return operation


def _places(route: Route) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    names = re.findall(r"\{(\w+)\}", route.path)
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _parameters(query: type[msgspec.Struct] | None) -> list[dict[str, Any]]:
    """A parameter for each field; one that takes several values is repeated."""
    if query is None:
        return []
    _, components = msgspec.json.schema_components([query], ref_template=_REFS)
    properties: dict[str, Any] = components[query.__name__]["properties"]
    return [{"name": name, "in": "query", **_form(_present(schema))} for name, schema in properties.items()]


def _form(schema: dict[str, Any]) -> dict[str, Any]:
    """An object is one parameter, written as JSON. Only described as content, it is not sent key by key."""
    return (
        {"content": {"application/json": {"schema": schema}}}
        if schema.get("type") == "object"
        else {"schema": schema}
    )


def _present(schema: dict[str, Any]) -> dict[str, Any]:
    """A query cannot say null: it says nothing."""
    given = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return dict(given[0]) if len(given) == 1 else schema
