"""What goes wrong, as RFC 9457 writes it: each kind of error has a type and a status of its own."""

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
    SatchelError: Kind(HTTPStatus.INTERNAL_SERVER_ERROR, "It failed"),
    InputError: Kind(HTTPStatus.UNPROCESSABLE_ENTITY, "What was given cannot be used"),
    BudgetError: Kind(HTTPStatus.UNPROCESSABLE_ENTITY, "Not a token budget"),
    UnknownIdError: Kind(HTTPStatus.NOT_FOUND, "Nothing has this id"),
    AmbiguousIdError: Kind(HTTPStatus.CONFLICT, "Several memories share this prefix"),
    ExpiredError: Kind(HTTPStatus.GONE, "No longer kept"),
    EmbedderError: Kind(HTTPStatus.SERVICE_UNAVAILABLE, "No vectors could be made"),
    StoreError: Kind(HTTPStatus.SERVICE_UNAVAILABLE, "The store failed"),
    StoreBusyError: Kind(HTTPStatus.SERVICE_UNAVAILABLE, "The store is busy"),
    StoreFullError: Kind(HTTPStatus.INSUFFICIENT_STORAGE, "The store has no room"),
}
"""An error that is not here has the status of what it is a kind of, and a type of its own all the same."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong; `type` stays the same for the same kind of error, `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str


class Refusal(NamedTuple):
    """A problem on its way to whoever asked."""

    problem: Problem
    headers: Mapping[str, str] = {}
    complaint: str | None = None
    """What only whoever runs the service is told, such as where the store is."""


class RefusedError(SatchelError):
    """A request that the service itself does not take; nothing was done."""

    def __init__(self, status: HTTPStatus, kind: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def as_problem(error: SatchelError) -> Refusal:
    """An error as it is told; whoever may try again soon is told that, too."""
    if isinstance(error, RefusedError):
        title = error.kind.replace("-", " ").capitalize()
        return Refusal(_problem(error.status, error.kind, title, short_line(str(error))), error.headers)
    status, title = next(PROBLEMS[each] for each in type(error).__mro__ if each in PROBLEMS)
    kind, said = type_of(type(error)), short_line(str(error))
    if isinstance(error, InputError):
        return Refusal(_problem(status, kind, title, said))
    headers = {"Retry-After": str(SOON)} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return Refusal(
        _problem(status, kind, title, f"{title.lower()}; the log of the service says more"), headers, said
    )


def unexpected(error: Exception) -> Refusal:
    """A fault of ours, of which no more is told than its name: its words may be those of a memory."""
    name = f"unexpected {type(error).__name__}"
    problem = _problem(HTTPStatus.INTERNAL_SERVER_ERROR, "unexpected", "Unexpected", name)
    return Refusal(problem, complaint=name)


def _problem(status: HTTPStatus, kind: str, title: str, detail: str) -> Problem:
    return Problem(type=NAMESPACE + kind, title=title, status=int(status), detail=detail)


def type_of(error: type[SatchelError]) -> str:
    """`UnknownIdError` is `unknown-id`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", error.__name__.removesuffix("Error")).lower()
