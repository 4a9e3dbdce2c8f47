"""What leaves a context that has grown over its limit: least recently used first, a whole batch at once."""

from collections.abc import Iterable
from typing import NamedTuple

from satchel.model.limits import check_weight

__all__ = ["LOW", "Unit", "over_watermark"]

LOW = 0.7
"""The part of the limit down to which a batch clears."""


class Unit(NamedTuple):
    """What must stay together, such as a tool call and its result."""

    key: int
    tokens: int
    stub: int
    """The tokens of what stands in its place once it is evicted."""
    used: int
    """When it was last used; larger is later."""
    kept: bool
    """Whether it is pinned, or too new to go."""


def over_watermark(units: Iterable[Unit], *, limit: int, low: float = LOW) -> list[int]:
    """The keys of what to evict, in that order: nothing up to the limit, beyond it down to `low` of the limit.

    What is evicted changes the front of a prompt, and a prompt cache reads nothing beyond the first change. So it
    pays to change it seldom, and then by much. A unit whose stub would not be smaller stays.
    """
    target = check_weight(low, name="low watermark") * limit
    units = list(units)
    total = sum(unit.tokens for unit in units)
    evicted: list[int] = []
    if total <= limit:
        return evicted
    for unit in sorted(units, key=lambda unit: unit.used):
        if total <= target:
            break
        if not unit.kept and unit.stub < unit.tokens:
            total -= unit.tokens - unit.stub
            evicted.append(unit.key)
    return evicted
