"""The session ledger: allocation, results and pages, digests, eviction, warnings, hints."""

from satchel.budget.opening import (
    HOLDS,
    Holds,
    find_session,
    new_session_name,
    open_session,
    remove_session,
    session_states,
)
from satchel.budget.plan import Budget
from satchel.budget.provider import PROVIDERS, Provider
from satchel.budget.session import HINTS, RECORDED, Hints, Session
from satchel.budget.settings import resolve_budget
from satchel.budget.shown import Entry, Found, History, Messages, Shown

__all__ = [
    "HINTS",
    "HOLDS",
    "PROVIDERS",
    "RECORDED",
    "Budget",
    "Entry",
    "Found",
    "Hints",
    "History",
    "Holds",
    "Messages",
    "Provider",
    "Session",
    "Shown",
    "find_session",
    "new_session_name",
    "open_session",
    "remove_session",
    "resolve_budget",
    "session_states",
]
