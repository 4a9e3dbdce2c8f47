"""From candidates and a budget to a text that fits: sort out, choose, assemble, count, fill what is left."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from satchel.errors import BudgetError
from satchel.pack.choice import Choice, Choosing, Policy
from satchel.pack.filling import fill, refill
from satchel.pack.item import Item, Placed
from satchel.pack.likeness import within
from satchel.pack.making import Assemble, Count, Making
from satchel.pack.prices import Prices
from satchel.pack.sorting import Sorted, Verdict, sort_out

__all__ = ["PINS", "Packing", "Pins", "pack"]

Pins = Literal["strict", "best_effort"]
PINS: tuple[str, ...] = get_args(Pins)

# How often less is chosen where the whole text costs more than its parts did.
TRIES = 4
NAMED = 3


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
    floor: float = 0.0

    @property
    def smallest_budget(self) -> int | None:
        """Where nothing was kept though something was found: the least budget that keeps a part of it."""
        # Stopping at the first that does not fit, no other one counts.
        offers = self.choosing.offers[: 1 if self.choosing.policy == "greedy" else None]
        return None if self.placed or not offers else min(map(self.choosing.least, offers))


def pack(
    items: Sequence[Item],
    *,
    budget: int | None,
    prices: Prices,
    assemble: Assemble,
    count: Count,
    policy: Policy = "best",
    pins: Pins = "strict",
    floor: float = 0.0,
    whole: bool = False,
) -> Packing:
    """The items of most value whose assembled text stays within the budget; `items` come in order of rank.

    With `whole` an item is not cut, nor is only its title taken.
    """
    kept = sort_out(items, budget=budget, floor=floor)
    choosing = Choosing(items, kept.considered, prices, policy, whole=whole)
    if budget is None:
        everything = {offer.item: len(offer.options) - 1 for offer in choosing.offers}
        placed = {place: choosing.placed(place, number) for place, number in everything.items()}
        text = assemble(list(placed.values()))
        return Packing(placed, text, count(text), choosing.value_of_all, kept, choosing, budget, floor)
    if pins == "strict" and 0 < budget < choosing.pinned_need:
        raise BudgetError(_too_many_pins(choosing, budget))
    making = Making(choosing, budget, assemble, count)
    choice = _settled(making)
    if policy == "best":
        repeated = _repeated(making)
        if repeated:
            making.settle({p: placed for p, placed in making.placed.items() if p not in repeated})
            kept = Sorted(kept.considered, kept.verdicts | repeated)
        refill(making, kept.verdicts)
        if not whole:
            fill(making, kept.verdicts)
    return Packing(making.placed, making.text, making.spent, choice.value, kept, choosing, budget, floor)


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
        for place, other in within(items).items()
        if not items[place].pinned
    }


def _too_many_pins(choosing: Choosing, budget: int) -> str:
    pinned = [choosing.items[offer.item] for offer in choosing.offers if choosing.items[offer.item].pinned]
    names = ", ".join(f"{item.id} {item.headline(40)!r}" for item in pinned[:NAMED])
    more = f" and {len(pinned) - NAMED} more" if len(pinned) > NAMED else ""
    return (
        f"what is pinned needs a budget of {choosing.pinned_need:,}, not {budget:,}: {names}{more}; "
        "raise the budget, unpin some, or take as many as fit with pins=best_effort"
    )
