"""Spreading activation: from what was found to what it is related to, and to what names the same things."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel.recall.entities import entities
from satchel.recall.question import as_codes
from satchel.recall.sheet import Sheet
from satchel.store.contract import Filter, Link, SearchStore

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
# How much of a seed is read for names, and how many of them count.
READ = 4000
NAMES = 16


def spread(
    store: SearchStore, where: Filter, seeds: Mapping[int, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """How active each memory becomes that is related to the seeds, and how strongly one contradicts which.

    A link passes on half of what reaches it, times its strength; a memory has what the strongest brings.
    Nothing comes back to where it came from, and nothing reaches what is contradicted.
    """
    links: dict[int, list[Link]] = {}
    refuted: dict[int, float] = {}
    front = list(seeds)
    for _ in range(DEPTH):
        for link in store.links(front, where, limit=LINKS) if front else ():
            links.setdefault(link.origin, []).append(link)
            if (against := _refuted(link)) is not None:
                refuted[against] = max(link.strength, refuted.get(against, 0.0))
        front = list({link.key: None for key in front for link in links.get(key, ()) if link.key not in links})
    active: dict[int, float] = {}
    for seed, strength in seeds.items():
        for key, passed in _reached(links, seed, strength).items():
            active[key] = max(passed, active.get(key, 0.0))
    return active, refuted


def _reached(links: Mapping[int, Sequence[Link]], seed: int, strength: float) -> dict[int, float]:
    """What one seed brings to each memory at most `DEPTH` links away."""
    found: dict[int, float] = {}
    front = {seed: strength}
    for _ in range(DEPTH):
        reached: dict[int, float] = {}
        for origin, brought in front.items():
            for link in links.get(origin, ()):
                if link.key in (seed, _refuted(link)):
                    continue
                passed = DECAY * link.strength * brought
                if passed > max(found.get(link.key, 0.0), FAINT):
                    reached[link.key] = max(passed, reached.get(link.key, 0.0))
        found |= reached
        front = reached
    return found


def _refuted(link: Link) -> int | None:
    """The memory that a contradiction speaks against."""
    if link.kind != "contradicts":
        return None
    return link.key if link.outgoing else link.origin


def shared_names(store: SearchStore, sheet: Sheet, seeds: Sequence[int], strength: "Floats") -> "Floats":
    """How much of what the best seeds name each memory names too; a seed's own names count for others only."""
    found = np.zeros(sheet.size)
    told = store.memories([sheet.traces[place].key for place in seeds])
    weights: dict[tuple[int, ...], float] = {}
    holders: dict[tuple[int, ...], set[int]] = {}
    for place in seeds:
        memory = told.get(sheet.traces[place].key)
        # A number may be used again after a purge, by a memory of another scope.
        if memory is None or memory.id != sheet.traces[place].id:
            continue
        for name in (*entities(memory.text[:READ])[:NAMES], *memory.tags):
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
