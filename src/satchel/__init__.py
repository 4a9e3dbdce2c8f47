"""Memory for LLM agents that fits the token budget you give it.

bag = satchel.open("notes.db")
bag.add("We rotate JWTs every hour.", kind="decision", tags=["auth"])
bag.search("token rotation", token_budget=800).text
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.api.aio import AsyncSatchel, AsyncSession, aopen
    from satchel.api.satchel import Satchel, open, restore
    from satchel.api.transfer import Imported, Problem
    from satchel.errors import (
        AmbiguousIdError,
        BudgetError,
        EmbedderError,
        ExpiredError,
        InputError,
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
    from satchel.fitting.context import ContextBlock
    from satchel.fitting.context_pack import ContextPack
    from satchel.fitting.cutting import Cut, truncate
    from satchel.fitting.documents import fit
    from satchel.fitting.hits import Hits, Timeline
    from satchel.model.memory import Change, Draft, Hit, Memory, Relation, Scope
    from satchel.model.packing import Receipt
    from satchel.session.budget import Budget
    from satchel.session.results import Shown
    from satchel.session.session import Session
    from satchel.store.contract import Check, Stats
    from satchel.text.tokens import Counter, count_tokens, counter, estimate_tokens

__version__ = "0.1.0"

__all__ = [
    "AmbiguousIdError",
    "AsyncSatchel",
    "AsyncSession",
    "Budget",
    "BudgetError",
    "Change",
    "Check",
    "ContextBlock",
    "ContextPack",
    "Counter",
    "Cut",
    "Draft",
    "EmbedderError",
    "ExpiredError",
    "Hit",
    "Hits",
    "Imported",
    "InputError",
    "Memory",
    "Problem",
    "Receipt",
    "Relation",
    "Satchel",
    "SatchelError",
    "Scope",
    "Session",
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
    "UnknownIdError",
    "__version__",
    "aopen",
    "count_tokens",
    "counter",
    "estimate_tokens",
    "fit",
    "open",
    "restore",
    "truncate",
]

# Imported when first used: `satchel --version` needs none of it.
_HOMES = {
    "api.aio": ("AsyncSatchel", "AsyncSession", "aopen"),
    "api.satchel": ("Satchel", "open", "restore"),
    "api.transfer": ("Imported", "Problem"),
    "fitting.context": ("ContextBlock",),
    "fitting.context_pack": ("ContextPack",),
    "fitting.cutting": ("Cut", "truncate"),
    "fitting.documents": ("fit",),
    "fitting.hits": ("Hits", "Timeline"),
    "model.memory": ("Change", "Draft", "Hit", "Memory", "Relation", "Scope"),
    "model.packing": ("Receipt",),
    "session.budget": ("Budget",),
    "session.results": ("Shown",),
    "session.session": ("Session",),
    "store.contract": ("Check", "Stats"),
    "text.tokens": ("Counter", "count_tokens", "counter", "estimate_tokens"),
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
