"""Memory for LLM agents that fits the token budget you give it.

bag = satchel.open("notes.db")
bag.add("We rotate JWTs every hour.", kind="decision", tags=["auth"])
bag.search("token rotation", token_budget=800).text
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.api.aio import AsyncSatchel, AsyncSession, Opening, aopen
    from satchel.api.satchel import Satchel, open, restore
    from satchel.api.transfer import Imported, Problem
    from satchel.embed.embedder import Embedder
    from satchel.errors import (
        AmbiguousIdError,
        BudgetError,
        EmbedderError,
        ExpiredError,
        InputError,
        ParameterError,
        SatchelError,
        StoreBusyError,
        StoreError,
        StoreFormatError,
        StoreFullError,
        StoreReadOnlyError,
        StoreUnreachableError,
        StoreVersionError,
        UnknownIdError,
    )
    from satchel.fitting.context import BlockFacts, ContextBlock, ContextResult, Frame
    from satchel.fitting.context_pack import ContextPack, PackResult
    from satchel.fitting.cutting import Cut, truncate
    from satchel.fitting.documents import fit
    from satchel.fitting.hits import Hits, SearchResult, Timeline
    from satchel.model.memory import Change, Draft, Forgotten, Hit, Memory, Relation, Scope
    from satchel.model.packing import Receipt, ReceiptEntry
    from satchel.session.account import Calibration, SessionState
    from satchel.session.budget import Budget
    from satchel.session.results import Found, History, LedgerEntry, Messages, Shown
    from satchel.session.session import Hints, Holds, Prepared, Session, ToolAnswer
    from satchel.store.contract import Check, LedgerRow, Stats, TurnRow
    from satchel.text.tokens import Counter, count_tokens, counter, estimate_tokens, known_counters

__version__ = "0.1.0"

__all__ = [
    "AmbiguousIdError",
    "AsyncSatchel",
    "AsyncSession",
    "BlockFacts",
    "Budget",
    "BudgetError",
    "Calibration",
    "Change",
    "Check",
    "ContextBlock",
    "ContextPack",
    "ContextResult",
    "Counter",
    "Cut",
    "Draft",
    "Embedder",
    "EmbedderError",
    "ExpiredError",
    "Forgotten",
    "Found",
    "Frame",
    "Hints",
    "History",
    "Hit",
    "Hits",
    "Holds",
    "Imported",
    "InputError",
    "LedgerEntry",
    "LedgerRow",
    "Memory",
    "Messages",
    "Opening",
    "PackResult",
    "ParameterError",
    "Prepared",
    "Problem",
    "Receipt",
    "ReceiptEntry",
    "Relation",
    "Satchel",
    "SatchelError",
    "Scope",
    "SearchResult",
    "Session",
    "SessionState",
    "Shown",
    "Stats",
    "StoreBusyError",
    "StoreError",
    "StoreFormatError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreUnreachableError",
    "StoreVersionError",
    "Timeline",
    "ToolAnswer",
    "TurnRow",
    "UnknownIdError",
    "__version__",
    "aopen",
    "count_tokens",
    "counter",
    "estimate_tokens",
    "fit",
    "known_counters",
    "open",
    "restore",
    "truncate",
]

# Imported when first used: `satchel --version` needs none of it.
_HOMES = {
    "api.aio": (
        "AsyncSatchel",
        "AsyncSession",
        "Opening",
        "aopen",
    ),
    "api.satchel": (
        "Satchel",
        "open",
        "restore",
    ),
    "api.transfer": (
        "Imported",
        "Problem",
    ),
    "embed.embedder": ("Embedder",),
    "fitting.context": (
        "BlockFacts",
        "ContextBlock",
        "ContextResult",
        "Frame",
    ),
    "fitting.context_pack": (
        "ContextPack",
        "PackResult",
    ),
    "fitting.cutting": (
        "Cut",
        "truncate",
    ),
    "fitting.documents": ("fit",),
    "fitting.hits": (
        "Hits",
        "SearchResult",
        "Timeline",
    ),
    "model.memory": (
        "Change",
        "Draft",
        "Forgotten",
        "Hit",
        "Memory",
        "Relation",
        "Scope",
    ),
    "model.packing": (
        "Receipt",
        "ReceiptEntry",
    ),
    "session.account": (
        "Calibration",
        "SessionState",
    ),
    "session.budget": ("Budget",),
    "session.results": (
        "Found",
        "History",
        "LedgerEntry",
        "Messages",
        "Shown",
    ),
    "session.session": (
        "Hints",
        "Holds",
        "Prepared",
        "Session",
        "ToolAnswer",
    ),
    "store.contract": (
        "Check",
        "LedgerRow",
        "Stats",
        "TurnRow",
    ),
    "text.tokens": (
        "Counter",
        "count_tokens",
        "counter",
        "estimate_tokens",
        "known_counters",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name, "errors" if name.endswith("Error") and name in __all__ else None)
    if home is None:
        raise AttributeError(f"module 'satchel' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"satchel.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
