"""The order of a block: by tier, then by day; in a day, what belongs to one session stays together."""

from collections.abc import Hashable, Iterator, Sequence
from datetime import UTC, date, datetime

from satchel.model.fields import TIERS, Tier
from satchel.model.item import Item, Placed

__all__ = ["Days", "day_of", "in_order", "in_sections"]

Days = dict[date | None, list[Placed]]

_START = datetime.min.replace(tzinfo=UTC)


def in_sections(placed: Sequence[Placed]) -> dict[Tier, Days]:
    """The days of each tier that has any; what has no time comes first, in the order given."""
    sections: dict[Tier, Days] = {}
    for each in sorted(placed, key=_by_tier_and_time):
        sections.setdefault(each.item.tier, {}).setdefault(day_of(each.item), []).append(each)
    return {
        tier: {day: _by_thread(items) if day else items for day, items in days.items()}
        for tier, days in sections.items()
    }


def in_order(placed: Sequence[Placed]) -> Iterator[Placed]:
    """The same order without the borders."""
    for days in in_sections(placed).values():
        for items in days.values():
            yield from items


def day_of(item: Item) -> date | None:
    return item.at.date() if item.at else None


def _by_tier_and_time(placed: Placed) -> tuple[int, bool, datetime, str]:
    item = placed.item
    tier = TIERS.index(item.tier)
    return (tier, True, item.at, item.id) if item.at else (tier, False, _START, "")


def _by_thread(placed: Sequence[Placed]) -> list[Placed]:
    threads: dict[Hashable, list[Placed]] = {}
    for each in placed:
        threads.setdefault(each.item.thread, []).append(each)
    return [each for members in threads.values() for each in members]
