"""Handlers of `/v1/sessions`: session ledgers and the results in them."""

import base64
import binascii
from typing import Any

import msgspec

from satchel.api.satchel import Satchel
from satchel.errors import InputError
from satchel.server.http import requests
from satchel.server.http.requests import (
    CallRequest,
    FindRequest,
    ListSessionsRequest,
    OpenSessionRequest,
    PageRequest,
    RecordRequest,
    ResultRequest,
    SessionRequest,
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


def sessions(view: Satchel, asked: ListSessionsRequest) -> Sessions:
    return Sessions(sessions=tuple(view.sessions(limit=asked.limit)))


def open_session(view: Satchel, asked: OpenSessionRequest, *, name: str) -> SessionState:
    budget = None if asked.budget is None else Budget(**msgspec.structs.asdict(asked.budget))
    return view.session(name, budget=budget, model=asked.model, holds=asked.holds).state()


def state(view: Satchel, asked: SessionRequest, *, name: str) -> SessionState:
    return view.find_session(name).state()


def remove(view: Satchel, asked: SessionRequest, *, name: str) -> None:
    view.forget_session(name)


def record(view: Satchel, asked: RecordRequest, *, name: str) -> LedgerEntry:
    return view.find_session(name).record(
        asked.category, asked.text, name=asked.name, pinned=asked.pinned, remember=asked.remember
    )


def entries(view: Satchel, asked: SessionRequest, *, name: str) -> Entries:
    return Entries(entries=tuple(view.find_session(name).entries()))


def call(view: Satchel, asked: CallRequest, *, name: str) -> LedgerEntry:
    return view.find_session(name).call(asked.tool, asked.arguments, asked.call_id)


def result(view: Satchel, asked: ResultRequest, *, name: str) -> Shown:
    session = view.find_session(name)
    session.hints, session.mask_results = asked.hints, asked.mask_results
    return session.result(
        asked.tool,
        _output(asked),
        call_id=asked.call_id,
        arguments=asked.arguments,
        error=asked.error,
        max_tokens=asked.max_tokens,
        pinned=asked.pinned,
        new_turn=asked.new_turn,
    )


def page(view: Satchel, asked: PageRequest, *, name: str) -> Shown:
    return view.find_session(name).page(asked.cursor, max_tokens=asked.max_tokens, call_id=asked.call_id)


def find(view: Satchel, asked: FindRequest, *, name: str, handle: str) -> Found:
    return view.find_session(name).find(
        handle, asked.pattern, start=asked.start, max_tokens=asked.max_tokens, call_id=asked.call_id
    )


def expand(view: Satchel, asked: SessionRequest, *, name: str, handle: str) -> Whole:
    whole = view.find_session(name).expand(handle)
    if isinstance(whole, bytes):
        return Whole(handle=handle, encoding="base64", content=base64.b64encode(whole).decode())
    return Whole(handle=handle, encoding="text", content=whole)


def history(view: Satchel, asked: requests.HistoryRequest, *, name: str) -> History:
    return view.find_session(name).history(asked.max_tokens)


def next_turn(view: Satchel, asked: SessionRequest, *, name: str) -> Turn:
    return Turn(turn=view.find_session(name).next_turn())


def _output(asked: ResultRequest) -> Any:
    if asked.encoding == "text":
        return asked.output
    if not isinstance(asked.output, str):
        raise InputError(f"output in base64 is a string, not {type(asked.output).__name__}")
    try:
        return base64.b64decode(asked.output, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"output is not base64: {error}") from error
