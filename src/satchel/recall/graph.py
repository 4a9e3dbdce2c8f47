"""Spreading activation: from what was found to what it is related to, and to what names the same things."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel.recall.entities import entities
from satchel.recall.question import as_codes
from satchel.recall.sheet import Sheet
from satchel.store import Filter, Link, Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["SEEDS", "shared_names", "spread"]

# How many of the best finds others are reached from.
SEEDS = 8
DEPTH = 2
DECAY = 0.5
LINKS = 200
FAINT = 0.05


def spread(store: Store, where: Filter, seeds: Mapping[int, float]) -> tuple[dict[int, float], set[int]]:
    """How active each memory becomes that is related to the seeds, and which are contradicted by one.

    A link passes on half of what reaches it, times its strength; a memory has what the strongest brings.
    """
    active: dict[int, float] = {}
    refuted: set[int] = set()
    front = dict(seeds)
    for _ in range(DEPTH):
        if not front:
            break
        reached: dict[int, float] = {}
        for link in store.links(list(front), where, limit=LINKS):
            if link.kind == "contradicts":
                refuted.add(_refuted(link))
            passed = DECAY * link.strength * front[link.origin]
            if passed > max(active.get(link.key, 0.0), FAINT):
                reached[link.key] = max(passed, reached.get(link.key, 0.0))
        active |= reached
        front = reached
    return active, refuted


def _refuted(link: Link) -> int:
    """The memory that a contradiction speaks against."""
    return link.key if link.outgoing else link.origin


def shared_names(store: Store, sheet: Sheet, seeds: Sequence[int], strength: "Floats") -> "Floats":
    """How much of what the best seeds name each memory names too; a seed's own names count for others only."""
    found = np.zeros(sheet.size)
    told = store.memories([sheet.traces[place].key for place in seeds])
    weights: dict[tuple[int, ...], float] = {}
    holders: dict[tuple[int, ...], set[int]] = {}
    for place in seeds:
        memory = told.get(sheet.traces[place].key)
        if memory is None:
            continue
        for name in entities(memory.text[:4000])[:16]:
            codes = as_codes(name)
            if codes:
                weights[codes] = weights.get(codes, 0.0) + float(strength[place])
                holders.setdefault(codes, set()).add(place)
    for codes, weight in weights.items():
        standing = sheet.total(sheet.frequencies(codes[:3])) > 0
        count = int(standing.sum())
        if 1 < count <= max(8, sheet.size // 10):
            own = np.zeros(sheet.size)
            if len(holders[codes]) == 1:
                own[list(holders[codes])] = 1
            found += standing * (1 - own) * weight * np.log1p(sheet.size / count)
    highest = found.max(initial=0.0)
    return found / highest if highest > 0 else found
