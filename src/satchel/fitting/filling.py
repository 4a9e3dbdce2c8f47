"""What is left of a budget once the choice is made: more items, and one that is cut to fit."""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection

from satchel.fitting.making import Making
from satchel.fitting.renditions import first_word, tail
from satchel.model.item import Placed
from satchel.text.cutting import ELLIPSIS, cut
from satchel.text.passages import continues

__all__ = ["fill", "refill"]

# Where more than this share of a budget is left, a text is cut within a sentence to use it.
UNUSED = 0.1
# Fewer tokens than this are not worth a cut, unless they are that share.
LEAST_CUT = 12
# How many items are tried, and how many where more than that share is left.
CUTS_TRIED = 8
MOST_TRIED = 64

# How far on a word is looked for to begin with.
NEAR = 40

_WORD_START = re.compile(r"(?<!\S)\S")


def refill(making: Making, closed: Collection[int]) -> None:
    """Take what still fits, in the order of worth: what was repeated, or cost less together, left room."""
    choosing, left, opened = making.choosing, making.left, making.opened()
    more: dict[int, Placed] = {}
    for step in choosing.by_worth:
        fresh = step.first and step.item not in making.placed and step.item not in closed
        if fresh and step.at_least <= left and _may_stand(making, step.item, more):
            price = choosing.cost(step) + opened.price(step.item)
            if price <= left:
                left -= price
                opened.add(step.item)
                more[step.item] = choosing.placed(step.item, step.level)
    while more and not making.settle(making.placed | more):
        more.popitem()


def _may_stand(making: Making, place: int, more: Collection[int] = ()) -> bool:
    """Whether an item misleads nobody: what a newer one overtakes stands only beside that."""
    newer = making.choosing.newer.get(place)
    return newer is None or newer in making.placed or newer in more


def fill(making: Making, closed: Collection[int]) -> None:
    """Cut one of the next items to what is left, or let one go on that is there in part."""
    tried = 0
    for step in making.choosing.by_worth:
        left = making.left
        most = MOST_TRIED if left > UNUSED * making.budget else CUTS_TRIED
        if left <= 0 or left < min(LEAST_CUT, UNUSED * making.budget) or tried >= most:
            return
        there = making.placed.get(step.item)
        if (
            step.first
            and step.item not in closed
            and (there is None or not there.whole)
            and _may_stand(making, step.item)
        ):
            tried += bool(making.placed)
            _cut(making, step.item)


def _cut(making: Making, place: int) -> None:
    item, prices = making.choosing.items[place], making.choosing.prices
    room, there = making.left, making.placed.get(place)
    room += prices.lines(there) if there else -making.opened().price(place)
    if room < LEAST_CUT and making.left <= UNUSED * making.budget:
        return
    enough = max(0.0, 1 - UNUSED * making.budget / room) if room > 0 else 0.0
    before, text = tail(item)

    def price(part: str) -> int:
        return prices.lines(Placed(item, "excerpt", part))

    kept = cut(text, room=room, price=lambda part: price(before + part), enough=enough)
    # Less than a word only where it fills what others leave unused.
    least = 1 if making.placed and making.left > UNUSED * making.budget else len(first_word(text))
    part = before + kept + ELLIPSIS if len(kept) >= least else ""
    if before and kept == text:
        part = _end(item.text, len(item.text.rstrip()) - len(text), room=room, price=price)
    if len(part) > len(there.text if there else ""):
        making.settle(making.placed | {place: Placed(item, "excerpt", part)})


def _end(text: str, start: int, *, room: int, price: Callable[[str], int]) -> str:
    """The end of a text, from as far before this start as there is room, at a word if one begins near."""

    def part(first: int) -> str:
        return ELLIPSIS.strip() + " " + text[first:].rstrip()

    # Farther back costs more.
    first = bisect_left(range(start), -room, key=lambda at: -price(part(at)))
    if (word := _WORD_START.search(text, first, min(start, first + NEAR))) is not None:
        return part(word.start())
    while first < start and continues(text, first):
        first += 1
    return part(first)
