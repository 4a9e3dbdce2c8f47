"""A list cut to a token budget: parts in order, without those that do not fit."""

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
    if budget is None:
        return Fit(tuple(range(len(parts))), assemble(range(len(parts))), None)

    def cost(kept: Sequence[int]) -> int:
        return count(assemble(kept))

    room, chosen = budget, []
    for index, part in enumerate(parts):
        if (price := count(part)) <= room:
            chosen.append(index)
            room -= price
    # What joins the parts costs too: as many of them as still fit with it.
    if cost(chosen) > budget:
        chosen = chosen[: bisect.bisect_right(range(1, len(chosen)), budget, key=lambda size: cost(chosen[:size]))]
    if not chosen and parts:
        alone = [cost([index]) for index in range(len(parts))]
        smallest = min(alone)
        if smallest > budget:
            return Fit((), assemble([]) if cost([]) <= budget else "", smallest)
        chosen = [alone.index(smallest)]
    text = assemble(chosen)
    return Fit(tuple(chosen), text if chosen or count(text) <= budget else "", None)
