"""Error responses as RFC 9457 problem details: each kind of error has its own type and status."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from satchel.errors import (
    AmbiguousIdError,
    BudgetError,
    EmbedderError,
    ExpiredError,
    InputError,
    SatchelError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    UnknownIdError,
)
from satchel.server.process import short_line

__all__ = [
    "MEDIA_TYPE",
    "NAMESPACE",
    "PROBLEMS",
    "Problem",
    "Refusal",
    "RefusedError",
    "as_problem",
    "type_of",
    "unexpected",
]

MEDIA_TYPE = "application/problem+json"
NAMESPACE = "urn:satchel:problem:"
SOON = 1


class Kind(NamedTuple):
    status: HTTPStatus
    title: str


PROBLEMS: dict[type[SatchelError], Kind] = {
    SatchelError: Kind(HTTPStatus.INTERNAL_SERVER_ERROR, "Error"),
    InputError: Kind(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid input"),
    BudgetError: Kind(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid token budget"),
    UnknownIdError: Kind(HTTPStatus.NOT_FOUND, "Unknown id"),
    AmbiguousIdError: Kind(HTTPStatus.CONFLICT, "Ambiguous id"),
    ExpiredError: Kind(HTTPStatus.GONE, "Expired"),
    EmbedderError: Kind(HTTPStatus.SERVICE_UNAVAILABLE, "Embedding failed"),
    StoreError: Kind(HTTPStatus.SERVICE_UNAVAILABLE, "Store error"),
    StoreBusyError: Kind(HTTPStatus.SERVICE_UNAVAILABLE, "Store busy"),
    StoreFullError: Kind(HTTPStatus.INSUFFICIENT_STORAGE, "Store full"),
}
"""An error class that is missing here gets the status of its base class, but its own type."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error response. `type` is stable for each kind of error; `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str


class Refusal(NamedTuple):
    """A problem to send as the response."""

    problem: Problem
    headers: Mapping[str, str] = {}
    complaint: str | None = None
    """What only the operator may see, in the log, such as where the store is."""


class RefusedError(SatchelError):
    """A request that the service itself rejects; nothing was changed."""

    def __init__(self, status: HTTPStatus, kind: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def as_problem(error: SatchelError) -> Refusal:
    """Convert an error to a response; temporary errors get a Retry-After header."""
    if isinstance(error, RefusedError):
        title = error.kind.replace("-", " ").capitalize()
        return Refusal(_problem(error.status, error.kind, title, short_line(str(error))), error.headers)
    status, title = next(PROBLEMS[each] for each in type(error).__mro__ if each in PROBLEMS)
    kind, said = type_of(type(error)), short_line(str(error))
    if isinstance(error, InputError):
        return Refusal(_problem(status, kind, title, said))
    headers = {"Retry-After": str(SOON)} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return Refusal(_problem(status, kind, title, f"{title.lower()}; see the log of the service"), headers, said)


def unexpected(error: Exception) -> Refusal:
    """Return the response to an unexpected exception. It shows only the class, as the text may contain memories."""
    name = f"unexpected {type(error).__name__}"
    problem = _problem(HTTPStatus.INTERNAL_SERVER_ERROR, "unexpected", "Unexpected", name)
    return Refusal(problem, complaint=name)


def _problem(status: HTTPStatus, kind: str, title: str, detail: str) -> Problem:
    return Problem(type=NAMESPACE + kind, title=title, status=int(status), detail=detail)


def type_of(error: type[SatchelError]) -> str:
    """Return the type of an error class: `UnknownIdError` is `unknown-id`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", error.__name__.removesuffix("Error")).lower()
