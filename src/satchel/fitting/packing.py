"""From candidates and a budget to a text that fits: sort out, choose, assemble, count, fill what is left."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from satchel.errors import BudgetError
from satchel.fitting.choice import Choice, Choosing, Policy
from satchel.fitting.filling import fill, refill
from satchel.fitting.making import Assemble, Count, Making
from satchel.fitting.prices import Prices
from satchel.fitting.sorting import Sorted, Verdict
from satchel.model.item import Item, Placed
from satchel.text.near_duplicates import within

__all__ = ["PINS", "Packing", "Pins", "pack"]

Pins = Literal["strict", "best_effort"]
PINS: tuple[str, ...] = get_args(Pins)

# How often less is chosen where the whole text costs more than its parts did.
TRIES = 4
NAMED = 3
UNLIMITED = 1 << 60


class Packing(NamedTuple):
    """What was chosen, in the order of rank, and the final text."""

    placed: dict[int, Placed]
    text: str
    token_count: int
    value: int
    """What the choice is worth; a cut that only fills what was left adds nothing."""
    sorted: Sorted
    choosing: Choosing
    budget: int | None
    smallest_budget: int | None = None
    """Where nothing was kept though something was found: the least budget that keeps a part of it."""


def pack(
    items: Sequence[Item],
    *,
    kept: Sorted,
    budget: int | None,
    prices: Prices,
    assemble: Assemble,
    count: Count,
    policy: Policy = "best",
    pins: Pins = "strict",
    whole: bool = False,
    best_first: bool = False,
) -> Packing:
    """The items of most value whose assembled text stays within the budget; `items` come in order of rank.

    `kept` are those of them that `sort_out` left. With `whole` an item is not cut, nor is only its title taken.
    With `best_first` the best match is there as far as it fits before any weaker one is.
    """
    choosing = Choosing(items, kept.considered, prices, policy, whole=whole, best_first=best_first)
    if budget is None:
        making = Making(choosing, UNLIMITED, assemble, count)
        making.settle(choosing.everything())
        return _packing(making, choosing.value_of_all, kept, None)
    making = Making(choosing, budget, assemble, count)
    if 0 < choosing.about <= budget and making.settle(choosing.everything()):
        return _packing(making, choosing.value_of_all, kept, budget)
    if pins == "strict" and 0 < budget < choosing.pinned_need:
        raise BudgetError(_too_many_pins(choosing, budget))
    choice = _settled(making)
    return _packing(making, choice.value, kept, budget)


def _packing(making: Making, value: int, kept: Sorted, budget: int | None) -> Packing:
    """What comes after the choice: what stands there twice goes, and what is left is filled."""
    choosing = making.choosing
    if choosing.policy == "best":
        repeated = _repeated(making)
        if repeated:
            making.settle({p: placed for p, placed in making.placed.items() if p not in repeated})
            kept = Sorted(kept.considered, kept.verdicts | repeated)
        if len(making.placed) + len(repeated) < len(kept.considered) or not making.whole:
            refill(making, kept.verdicts)
            if not choosing.whole:
                fill(making, kept.verdicts)
    smallest = None if making.placed else _least(making)
    return Packing(making.placed, making.text, making.spent, value, kept, choosing, budget, smallest)


def _least(making: Making) -> int | None:
    """Take the one that costs least, if that fits after all; what it costs, if not."""
    costs = [(making.cost([placed]), place, placed) for place, placed in making.choosing.alone()]
    if not costs:
        return None
    cost, place, placed = min(costs, key=lambda each: each[0])
    return None if making.settle({place: placed}) else cost


def _settled(making: Making) -> Choice:
    """The policy's choice; a smaller one where the text costs more than its parts."""
    choosing, room = making.choosing, making.budget
    for _ in range(TRIES):
        choice = choosing.choose(room)
        if making.settle({place: choosing.placed(place, level) for place, level in choice.levels.items()}):
            return choice
        room -= making.over
    placed = {place: choosing.placed(place, choice.levels[place]) for place in sorted(choice.levels)}
    while placed and not making.settle(placed):
        placed.popitem()
    return Choice({place: choice.levels[place] for place in placed}, 0)


def _repeated(making: Making) -> dict[int, Verdict]:
    """What stands in another item that is kept whole."""
    whole = [place for place, placed in making.placed.items() if placed.level == "full"]
    items = [making.choosing.items[place] for place in whole]
    return {
        whole[place]: Verdict("duplicate", whole[other])
        for place, other in within([item.text for item in items]).items()
        if not items[place].pinned
    }


def _too_many_pins(choosing: Choosing, budget: int) -> str:
    pinned = [choosing.items[offer.item] for offer in choosing.pinned]
    names = ", ".join(f"{item.id} {item.headline(40)!r}" for item in pinned[:NAMED])
    more = f" and {len(pinned) - NAMED} more" if len(pinned) > NAMED else ""
    return (
        f"what is pinned needs a budget of {choosing.pinned_need:,}, not {budget:,}: {names}{more}; "
        "raise the budget, unpin some, or take as many as fit with pins=best_effort"
    )
