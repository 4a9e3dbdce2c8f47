"""What `/v1` does with the books of sessions and the results in them."""

import base64
import binascii
from typing import Any

import msgspec

from satchel.api.satchel import Satchel
from satchel.errors import InputError
from satchel.server.http import requests
from satchel.server.http.requests import (
    Called,
    Cursor,
    NewSession,
    Pattern,
    Recorded,
    Result,
    SessionListing,
    SessionPlace,
)
from satchel.server.http.responses import Entries, Sessions, Turn, Whole
from satchel.session.account import SessionState
from satchel.session.budget import Budget
from satchel.session.results import Found, History, LedgerEntry, Shown

__all__ = [
    "call",
    "entries",
    "expand",
    "find",
    "history",
    "next_turn",
    "open_session",
    "page",
    "record",
    "remove",
    "result",
    "sessions",
    "state",
]


def sessions(view: Satchel, query: SessionListing) -> Sessions:
    return Sessions(sessions=tuple(view.sessions(limit=query.limit)))


def open_session(view: Satchel, query: SessionPlace, body: NewSession, *, name: str) -> SessionState:
    budget = None if body.budget is None else Budget(**msgspec.structs.asdict(body.budget))
    return view.session(name, budget=budget, model=body.model, holds=body.holds).state()


def state(view: Satchel, query: SessionPlace, *, name: str) -> SessionState:
    return view.find_session(name).state()


def remove(view: Satchel, query: SessionPlace, *, name: str) -> None:
    view.forget_session(name)


def record(view: Satchel, query: SessionPlace, body: Recorded, *, name: str) -> LedgerEntry:
    return view.find_session(name).record(body.category, body.text, name=body.name, pinned=body.pinned)


def entries(view: Satchel, query: SessionPlace, *, name: str) -> Entries:
    return Entries(entries=tuple(view.find_session(name).entries()))


def call(view: Satchel, query: SessionPlace, body: Called, *, name: str) -> LedgerEntry:
    return view.find_session(name).call(body.tool, body.arguments, body.call_id)


def result(view: Satchel, query: SessionPlace, body: Result, *, name: str) -> Shown:
    session = view.find_session(name)
    session.hints = body.hints
    return session.result(
        body.tool,
        _output(body),
        call_id=body.call_id,
        arguments=body.arguments,
        error=body.error,
        max_tokens=body.max_tokens,
        pinned=body.pinned,
        new_turn=body.new_turn,
    )


def page(view: Satchel, query: SessionPlace, body: Cursor, *, name: str) -> Shown:
    return view.find_session(name).page(body.cursor, max_tokens=body.max_tokens, call_id=body.call_id)


def find(view: Satchel, query: SessionPlace, body: Pattern, *, name: str, handle: str) -> Found:
    return view.find_session(name).find(handle, body.pattern, max_tokens=body.max_tokens, call_id=body.call_id)


def expand(view: Satchel, query: SessionPlace, *, name: str, handle: str) -> Whole:
    whole = view.find_session(name).expand(handle)
    if isinstance(whole, bytes):
        return Whole(handle=handle, encoding="base64", content=base64.b64encode(whole).decode())
    return Whole(handle=handle, encoding="text", content=whole)


def history(view: Satchel, query: requests.History, *, name: str) -> History:
    return view.find_session(name).history(query.max_tokens)


def next_turn(view: Satchel, query: SessionPlace, *, name: str) -> Turn:
    return Turn(turn=view.find_session(name).next_turn())


def _output(body: Result) -> Any:
    if body.encoding == "text":
        return body.output
    if not isinstance(body.output, str):
        raise InputError(f"output in base64 is a string, not {type(body.output).__name__}")
    try:
        return base64.b64decode(body.output, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"output is not base64: {error}") from error
