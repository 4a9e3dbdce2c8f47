"""Sessions of a store: begun, opened again, listed, removed."""

import os
from typing import Any, Literal

import msgspec

from satchel.errors import InputError, UnknownIdError
from satchel.fitting.as_json import as_json
from satchel.fitting.listing import clean
from satchel.model.fields import check_name, utc_now
from satchel.model.ids import new_id
from satchel.model.limits import check_limit
from satchel.model.memory import Scope
from satchel.session.accounts import account_of
from satchel.session.calibration import Calibration
from satchel.session.cursors import new_handle
from satchel.session.plan import Budget
from satchel.session.session import HINTS, Hints, Session
from satchel.session.settings import resolve_budget
from satchel.store.contract import Store
from satchel.store.ledger import Books
from satchel.text.tokens.counter import Counter

__all__ = [
    "HOLDS",
    "Holds",
    "find_session",
    "new_session_name",
    "open_session",
    "remove_session",
    "session_states",
]

Holds = Literal["digests", "whole"]
HOLDS = ("digests", "whole")


def open_session(
    store: Store,
    scope: Scope,
    name: str,
    *,
    counter: Counter,
    budget: Budget | None = None,
    model: str | None = None,
    hints: Hints = "footer",
    holds: Holds | None = None,
) -> Session:
    """The session of a name, begun if there is none; its budget is changed only if one is given."""
    for field, value, known in (("hints", hints, HINTS), ("holds", holds or "digests", HOLDS)):
        if value not in known:
            raise InputError(f"unknown {field} {value!r}; known: {', '.join(known)}")
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(f"budget must be a satchel.Budget, not {type(budget).__name__}")
    now = utc_now()
    changes: dict[str, Any] = {}
    if budget is not None or model is not None:
        changes["budget"] = as_json(resolve_budget(budget, model=model))
    if holds is not None:
        changes["holds"] = holds
    fresh = Books(
        id=new_id(),
        scope=msgspec.structs.replace(scope, session=None),
        name=_named(name),
        created_at=now,
        updated_at=now,
        secret=os.urandom(16),
        calibration=as_json(Calibration()),
        **({"budget": as_json(resolve_budget())} | changes if "budget" not in changes else changes),
    )
    books = store.ledgers.open(fresh)
    changes = {name: value for name, value in changes.items() if getattr(books, name) != value}
    if changes:
        store.ledgers.change(books.scope.org, books.id, changes)
    return Session(store, books, counter=counter, hints=hints)


def new_session_name(kind: str) -> str:
    """A name for a session that nobody named: what it is of, when it began, and a few letters of its own."""
    return f"{kind}-{utc_now():%Y%m%d-%H%M%S}-{new_handle()[:4]}"


def find_session(store: Store, scope: Scope, name: str, *, counter: Counter) -> Session:
    """The session of a name, or an error that names those there are."""
    return Session(store, _named_so(store, scope, name)[0], counter=counter)


def session_states(store: Store, scope: Scope, *, limit: int = 20) -> list[dict[str, Any]]:
    """The state of each session, those changed last first."""
    return [
        account_of(books).state()
        | {"project": books.scope.project, "created_at": books.created_at, "updated_at": books.updated_at}
        for books in store.ledgers.sessions(scope, limit=check_limit(limit))
    ]


def remove_session(store: Store, scope: Scope, name: str) -> None:
    """Remove a session with all that it kept; one of several of the name is not chosen."""
    books, *others = _named_so(store, scope, name)
    if others:
        places = ", ".join(clean(each.scope.project or "none") for each in (books, *others))
        raise InputError(f"{len(others) + 1} sessions have the name {name!r}; say which by its project: {places}")
    store.ledgers.remove(books.scope.org, books.id)


def _named_so(store: Store, scope: Scope, name: str) -> list[Books]:
    found = store.ledgers.named(scope, _named(name))
    if not found:
        known = ", ".join(clean(each.name) for each in store.ledgers.sessions(scope, limit=5))
        raise UnknownIdError(f"there is no session {name!r}; there {f'are: {known}' if known else 'is none yet'}")
    return found


def _named(name: object) -> str:
    checked = check_name("session", name)
    if checked is None:
        raise InputError("a session needs a name that is not blank")
    return checked
