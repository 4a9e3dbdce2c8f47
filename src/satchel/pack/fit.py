"""Keeping the best parts whose assembled text stays within a token budget."""

import bisect
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["Fit", "fit", "fit_proposed"]

Assemble = Callable[[Sequence[int]], str]
Count = Callable[[str], int]
Propose = Callable[[int, Sequence[int], Sequence[int]], Sequence[int]]

# How often what is left of the budget is offered again after the first time.
REFILLS = 4


class Fit(NamedTuple):
    """The parts that were kept, in order, and the final text."""

    kept: tuple[int, ...]
    text: str
    smallest_budget: int | None
    """Where nothing was kept though there was something: the least budget that keeps a part."""


def fit(parts: Sequence[str], *, budget: int | None, count: Count, assemble: Assemble) -> Fit:
    """Take parts in order, skip what does not fit; the assembled text is counted, not the parts."""

    def in_order(room: int, kept: Sequence[int], refused: Sequence[int]) -> list[int]:
        chosen = []
        for index, part in enumerate(parts):
            if (cost := count(part)) <= room:
                chosen.append(index)
                room -= cost
        return chosen

    return fit_proposed(in_order, total=len(parts), budget=budget, count=count, assemble=assemble, refills=0)


def fit_proposed(
    propose: Propose,
    *,
    total: int,
    budget: int | None,
    count: Count,
    assemble: Assemble,
    refills: int = REFILLS,
) -> Fit:
    """Keep what is proposed for the room there is, best first, for as long as the assembled text fits.

    A proposal goes by what parts cost apart, which is only close: the whole text decides, and what was
    proposed last goes first. The room that is left is offered again, with what is kept and what was refused.
    """
    if budget is None:
        return Fit(tuple(range(total)), assemble(range(total)), None)
    kept: list[int] = []
    refused: list[int] = []
    spent = count(assemble(kept))
    for _ in range(1 + refills):
        proposed = propose(budget - spent, kept, refused)
        if not proposed:
            break
        size, cost = _longest(kept, proposed, budget=budget, count=count, assemble=assemble)
        kept += proposed[:size]
        refused += proposed[size : size + 1]
        spent = cost if size else spent
    if not kept and total:
        alone = [count(assemble([index])) for index in range(total)]
        smallest = min(alone)
        if smallest > budget:
            return Fit((), assemble([]) if spent <= budget else "", smallest)
        kept = [alone.index(smallest)]
    kept.sort()
    text = assemble(kept)
    return Fit(tuple(kept), text if kept or spent <= budget else "", None)


def _longest(
    kept: Sequence[int], proposed: Sequence[int], *, budget: int, count: Count, assemble: Assemble
) -> tuple[int, int]:
    """How many of the proposed can join the kept, and what all of it costs then."""

    def cost_with(size: int) -> int:
        return count(assemble(sorted([*kept, *proposed[:size]])))

    whole = cost_with(len(proposed))
    if whole <= budget:
        return len(proposed), whole
    size = bisect.bisect_right(range(1, len(proposed)), budget, key=cost_with)
    return size, cost_with(size) if size else 0
