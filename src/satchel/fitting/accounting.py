"""The receipt of a packing."""

from collections.abc import Iterator

from satchel.fitting.admission import admitting_budgets
from satchel.fitting.packing import Packing
from satchel.fitting.sorting import sort_out
from satchel.model.item import Item, Placed
from satchel.model.receipt import Entry, Receipt

__all__ = ["receipt"]


def receipt(packing: Packing, *, counter: str, format: str) -> Receipt:
    """What became of every candidate, in the order of rank."""
    return Receipt(
        budget=packing.budget,
        counter=counter,
        policy=packing.choosing.policy,
        format=format,
        token_count=packing.token_count,
        entries=tuple(_entries(packing)),
    )


def _entries(packing: Packing) -> Iterator[Entry]:
    items, prices = packing.choosing.items, packing.choosing.prices
    missed = [place for place in range(len(items)) if _for_want_of_room(packing, place)]
    budgets = _budgets(packing, missed)
    for place, item in enumerate(items):
        if (placed := packing.placed.get(place)) is not None:
            yield _entry(item, cost=prices.lines(placed), level=placed.level)
            continue
        cost = prices.lines(Placed(item, "full", item.text))
        if place in budgets:
            yield _entry(item, cost=cost, reason="over budget", admitted_at=budgets[place])
        else:
            reason, other = packing.sorted.verdicts[place]
            yield _entry(item, cost=cost, reason=reason, other=None if other is None else items[other].id)


def _entry(item: Item, **outcome: object) -> Entry:
    return Entry(id=item.id, headline=item.headline(), tier=item.tier, value=item.value, **outcome)  # type: ignore[arg-type]


def _for_want_of_room(packing: Packing, place: int) -> bool:
    verdict = packing.sorted.verdicts.get(place)
    return place not in packing.placed and (verdict is None or verdict.reason == "over budget")


def _budgets(packing: Packing, missed: list[int]) -> dict[int, int]:
    if not missed or packing.budget is None:
        return {}
    choosing = packing.choosing
    if any(place in packing.sorted.verdicts for place in missed):
        # Some were not looked at closely; a larger budget would look at them.
        everything = sort_out(choosing.items, budget=None)
        choosing = choosing.among(list(dict.fromkeys([*everything.considered, *missed])))
    return admitting_budgets(choosing, missed, above=packing.budget)
