"""Memory for LLM agents that fits the token budget you give it.

bag = satchel.open("notes.db")
bag.add("We rotate JWTs every hour.", kind="decision", tags=["auth"])
bag.search("token rotation", token_budget=800).text
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.aio import AsyncSatchel, AsyncSession, aopen
    from satchel.bag import Satchel, open, restore
    from satchel.blocks import ContextBlock
    from satchel.budget import Budget, Session, Shown
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
    from satchel.loose import fit
    from satchel.memory import Change, Draft, Hit, Memory, Relation, Scope
    from satchel.pack import Cut, Receipt, truncate
    from satchel.packs import ContextPack
    from satchel.results import Hits, Timeline
    from satchel.store import Check, Stats
    from satchel.tokens import Counter, count_tokens, counter, estimate_tokens
    from satchel.transfer import Imported, Problem

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
    "aio": ("AsyncSatchel", "AsyncSession", "aopen"),
    "budget": ("Budget", "Session", "Shown"),
    "bag": ("Satchel", "open", "restore"),
    "loose": ("fit",),
    "memory": ("Change", "Draft", "Hit", "Memory", "Relation", "Scope"),
    "blocks": ("ContextBlock",),
    "pack": ("Cut", "Receipt", "truncate"),
    "packs": ("ContextPack",),
    "results": ("Hits", "Timeline"),
    "store": ("Check", "Stats"),
    "tokens": ("Counter", "count_tokens", "counter", "estimate_tokens"),
    "transfer": ("Imported", "Problem"),
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
