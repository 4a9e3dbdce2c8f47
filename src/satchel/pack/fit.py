"""Keeping the best parts whose assembled text stays within a token budget."""

import bisect
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["Fit", "fit"]


class Fit(NamedTuple):
    """The parts that were kept, in order, and the final text."""

    kept: tuple[int, ...]
    text: str
    smallest_budget: int | None
    """Where nothing was kept though there was something: the least budget that keeps a part."""


def fit(
    parts: Sequence[str],
    *,
    budget: int | None,
    count: Callable[[str], int],
    assemble: Callable[[Sequence[int]], str],
) -> Fit:
    """Take parts in order, skip what does not fit; the assembled text is counted, not the parts."""
    everything = range(len(parts))
    if budget is None:
        return Fit(tuple(everything), assemble(everything), None)
    kept = _within(parts, budget=budget, count=count, assemble=assemble)
    text = assemble(kept)
    fits = count(text) <= budget
    if kept or (fits and not parts):
        return Fit(tuple(kept), text, None)
    smallest = min((count(assemble([index])) for index in everything), default=None)
    return Fit((), text if fits else "", smallest)


def _within(
    parts: Sequence[str],
    *,
    budget: int,
    count: Callable[[str], int],
    assemble: Callable[[Sequence[int]], str],
) -> list[int]:
    costs = [count(part) for part in parts]
    room = budget - count(assemble([]))
    kept: list[int] = []
    for index, cost in enumerate(costs):
        if cost <= room:
            kept.append(index)
            room -= cost
    # Parts are counted apart, so their sum is only close: the whole text decides.
    fitting = bisect.bisect_right(range(1, len(kept) + 1), budget, key=lambda size: count(assemble(kept[:size])))
    if fitting:
        return kept[:fitting]
    cheapest_first = sorted(range(len(parts)), key=costs.__getitem__)
    return next(([index] for index in cheapest_first if count(assemble([index])) <= budget), [])
