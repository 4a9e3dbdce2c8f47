"""The one table of what `/v1` offers: paths, methods, what goes in and comes out, who may."""

import functools
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from satchel.fitting.hits import Timeline
from satchel.model.memory import Memory, Relation
from satchel.server.http import answers, memories, questions, sessions
from satchel.server.http.problems import RefusedError
from satchel.session.shown import Entry, Found, History, Shown
from satchel.store.contract import Stats

__all__ = ["ROUTES", "Matched", "Route", "route_for"]

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
          memories.add, answers.Saved, None, questions.OneMemory, _CREATED),
    Route("memories.add_many", "POST", "/v1/memories/batch", "Add several memories, all or none.", "write",
          memories.add_many, answers.AddedMemories, None, questions.NewMemories, _CREATED),
    Route("memories.list", "GET", "/v1/memories", "The newest memories.", "read",
          memories.recent, answers.Memories, questions.Listing),
    Route("memories.forget", "DELETE", "/v1/memories", "End memories by what they are, or purge them.", "write",
          memories.forget, answers.Counted, questions.Forgetting),
    Route("memories.get", "GET", _MEMORY, "One memory, by its id or a unique prefix.", "read",
          memories.get, Memory, questions.Seen),
    Route("memories.update", "PATCH", _MEMORY, "Change fields of a memory; its history is kept.", "write",
          memories.update, Memory, questions.Placed, questions.Changes),
    Route("memories.forget_one", "DELETE", _MEMORY, "End a memory, or purge it.", "write",
          memories.forget_one, answers.Counted, questions.Purging),
    Route("memories.timeline", "GET", f"{_MEMORY}/timeline", "What came before and after a memory.", "read",
          memories.timeline, Timeline, questions.Span),
    Route("memories.similar", "GET", f"{_MEMORY}/similar", "The memories about the same thing.", "read",
          memories.similar, answers.SimilarOnes, questions.SimilarAsked),
    Route("memories.history", "GET", f"{_MEMORY}/history", "Every change of a memory, oldest first.", "read",
          memories.changes, answers.Changed, questions.Placed),
    Route("relations.list", "GET", f"{_MEMORY}/relations", "The relations of a memory.", "read",
          memories.relations, answers.Related, questions.Seen),
    Route("relations.add", "POST", f"{_MEMORY}/relations", "Link a memory to another.", "write",
          memories.relate, Relation, questions.Placed, questions.NewRelation, _CREATED),
    Route("search", "POST", "/v1/search", "The best matches, within a budget.", "read",
          memories.search, answers.Searched, None, questions.SearchAsked),
    Route("context", "POST", "/v1/context", "One text for a context window, within a budget.", "read",
          memories.context, answers.Context, None, questions.ContextAsked),
    Route("pack", "POST", "/v1/pack", "Whole memories as one text to carry elsewhere.", "read",
          memories.pack, answers.Pack, None, questions.PackAsked),
    Route("stats", "GET", "/v1/stats", "Counts of what is remembered.", "read",
          memories.stats, Stats, questions.Placed),
    Route("sessions.list", "GET", "/v1/sessions", "The sessions, those changed last first.", "read",
          sessions.sessions, answers.Sessions, questions.SessionListing),
    Route("sessions.open", "PUT", _SESSION, "Begin a session, or change how it is kept.", "write",
          sessions.open_session, answers.State, questions.SessionPlace, questions.NewSession),
    Route("sessions.state", "GET", _SESSION, "What its budget has come to.", "read",
          sessions.state, answers.State, questions.SessionPlace),
    Route("sessions.remove", "DELETE", _SESSION, "Remove a session with all that it kept.", "write",
          sessions.remove, None, questions.SessionPlace, None, HTTPStatus.NO_CONTENT),
    Route("entries.list", "GET", f"{_SESSION}/entries", "What the context holds or names.", "read",
          sessions.entries, answers.Entries, questions.SessionPlace),
    Route("entries.add", "POST", f"{_SESSION}/entries", "Record what went into the context.", "write",
          sessions.record, Entry, questions.SessionPlace, questions.Recorded, _CREATED),
    Route("calls.add", "POST", f"{_SESSION}/calls", "Record that the model calls a tool.", "write",
          sessions.call, Entry, questions.SessionPlace, questions.Called, _CREATED),
    Route("results.add", "POST", f"{_SESSION}/results", "Keep a tool's result; its first page.", "write",
          sessions.result, Shown, questions.SessionPlace, questions.Result, _CREATED),
    Route("results.expand", "GET", f"{_SESSION}/results/{{handle}}", "All that stands behind a handle.", "read",
          sessions.expand, answers.Whole, questions.SessionPlace),
    Route("results.find", "POST", f"{_SESSION}/results/{{handle}}/matches", "Lines that match a pattern.", "write",
          sessions.find, Found, questions.SessionPlace, questions.Pattern),
    Route("pages.add", "POST", f"{_SESSION}/pages", "The page that a cursor points to.", "write",
          sessions.page, Shown, questions.SessionPlace, questions.Cursor),
    Route("turns.add", "POST", f"{_SESSION}/turns", "Begin a turn.", "write",
          sessions.next_turn, answers.Turn, questions.SessionPlace, None, _CREATED),
    Route("sessions.history", "GET", f"{_SESSION}/history", "The work log as text, within a budget.", "read",
          sessions.history, History, questions.History),
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
