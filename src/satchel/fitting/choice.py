"""The candidates of a packing: levels of detail, prices, and steps ordered by rank or by value per token.

A step includes an item at a level of detail, or upgrades it to a higher level. `tabulate` takes steps in turn for
many budgets at once. Prices are counted on parts of the text. Their sum is at least the cost of the whole text.
"""

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from satchel.fitting.cutting import ELLIPSIS
from satchel.fitting.renditions import Rendition, first_word, renditions, tail
from satchel.model.packing import Item, Placed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "NOTHING",
    "Candidates",
    "Choice",
    "Offer",
    "Option",
    "Prices",
    "Step",
    "Table",
    "by_value_per_token",
    "level_by_level",
    "rooms_up_to",
    "tabulate",
    "whole",
]


class Prices(Protocol):
    """The prices of the parts of a block, in tokens. Their sum is at least the cost of the block."""

    @property
    def around(self) -> int:
        """The price of the text around all items."""

    def section(self, item: Item) -> tuple[Hashable, int]:
        """Return the key of an item's section, and the price of the lines that open and close it."""

    def group(self, item: Item) -> tuple[Hashable, int]:
        """Return the key of an item's heading within its section, and the price of that heading."""

    def lines(self, placed: Placed) -> int:
        """Return the price of an item's own lines."""

    def text(self, item: Item) -> int | None:
        """Return the stored token count of an item's text; None if it would have to be counted."""


# Steps and their order. The order by value per token does not depend on the budget: a larger budget takes the same
# steps and then more of them.


# Tokens added to the price of each line for the reader's attention. Without it, one-word lines would win.
ATTENTION = 6


class Option(NamedTuple):
    """One level of detail of an item: the estimated cost of its lines, and its value as an integer."""

    cost: int
    value: int
    at_least: int = 0
    """A lower bound of the cost."""


class Offer(NamedTuple):
    """An item with its levels, lowest first, and the numbers of its section and heading."""

    item: int
    options: Sequence[Option]
    section: int
    group: int
    cheaper: bool = False
    """Whether a level with less value per token may be taken if no other level fits."""


NOTHING = -1


class Step(NamedTuple):
    """Includes an item at a level of detail, or upgrades it from a lower level."""

    item: int
    level: int
    before: int
    """The level before the upgrade; `NOTHING` if the step includes the item."""
    cost: int
    """An estimate. The exact cost is counted only if the step may fit."""
    at_least: int
    value: int
    section: int
    group: int

    @property
    def first(self) -> bool:
        """Whether the step includes the item, instead of upgrading it."""
        return self.before == NOTHING


def whole(offer: Offer) -> Step:
    """Return the step that includes an item whole."""
    cost, value, at_least = offer.options[-1]
    return Step(offer.item, len(offer.options) - 1, NOTHING, cost, at_least, value, offer.section, offer.group)


def level_by_level(offer: Offer) -> Iterator[Step]:
    """Yield the steps of one item through all its levels, so that as much of it as possible is included."""
    before, cheaper = NOTHING, Option(0, 0)
    for level, option in enumerate(offer.options):
        cost, value = option.cost - cheaper.cost, option.value - cheaper.value
        at_least = option.at_least - cheaper.cost
        yield Step(offer.item, level, before, cost, at_least, value, offer.section, offer.group)
        before, cheaper = level, option


def by_value_per_token(
    offers: Sequence[Offer], *, sections: Sequence[int], groups: Sequence[int]
) -> Iterator[Step]:
    """Yield the steps of all items by value per token; the first step under a heading also pays for the heading."""
    return _ValueOrder(offers, sections, groups).steps()


class _ValueOrder:
    """A heap of the next step of each item. A step is pushed again when its headings have been paid for."""

    def __init__(self, offers: Sequence[Offer], sections: Sequence[int], groups: Sequence[int]) -> None:
        self.section_costs = list(sections)
        self.group_costs = list(groups)
        self.upgrades = [list(_upgrades(offer)) for offer in offers]
        self.heap: list[tuple[float, int, int, int, int]] = []
        self.waiting: defaultdict[int, list[int]] = defaultdict(list)
        self.groups_of: defaultdict[int, set[int]] = defaultdict(set)
        for place, offer in enumerate(offers):
            self.waiting[offer.group].append(place)
            self.groups_of[offer.section].add(offer.group)
            self._push(place, 0)

    def steps(self) -> Iterator[Step]:
        taken = [0] * len(self.upgrades)
        while self.heap:
            *_, place, number, headings = heapq.heappop(self.heap)
            step = self.upgrades[place][number]
            if taken[place] != number or headings != self._headings(step):
                # Outdated: the step was taken, or pushed again with the current cost of its headings.
                continue
            yield step
            taken[place] += 1
            for opened in self._open(step):
                if not taken[opened]:
                    self._push(opened, 0)
            if number + 1 < len(self.upgrades[place]):
                self._push(place, number + 1)

    def _headings(self, step: Step) -> int:
        return self.section_costs[step.section] + self.group_costs[step.group] if step.first else 0

    def _push(self, place: int, number: int) -> None:
        step = self.upgrades[place][number]
        headings = self._headings(step)
        price = step.cost + headings + (ATTENTION if step.first else 0)
        heapq.heappush(self.heap, (-step.value / max(1, price), -step.value, place, number, headings))

    def _open(self, step: Step) -> Iterable[int]:
        """Mark the headings of a step as paid, and return the items that become cheaper by that."""
        cheaper: Iterable[int] = ()
        if self.section_costs[step.section]:
            groups = sorted(self.groups_of[step.section])
            cheaper = itertools.chain.from_iterable(self.waiting[group] for group in groups)
        elif self.group_costs[step.group]:
            cheaper = self.waiting[step.group]
        self.section_costs[step.section] = self.group_costs[step.group] = 0
        return cheaper


def _upgrades(offer: Offer) -> Iterator[Step]:
    """Yield the steps from nothing to the whole item, each with less value per token than the one before.

    These are the upper convex hull of the levels. After them come the levels that are cheaper than the first step,
    in case it does not fit.
    """
    if len(offer.options) == 1:
        yield whole(offer)
        return
    hull = [(NOTHING, Option(0, 0))]
    for level, option in sorted(enumerate(offer.options), key=lambda pair: pair[1].cost):
        if option.value <= hull[-1][1].value:
            continue
        while len(hull) > 1 and _slope(hull[-2][1], hull[-1][1]) <= _slope(hull[-2][1], option):
            hull.pop()
        hull.append((level, option))
    for (lower, before), (level, after) in itertools.pairwise(hull):
        cost, value = after.cost - before.cost, after.value - before.value
        at_least = after.at_least - before.cost
        yield Step(offer.item, level, lower, cost, at_least, value, offer.section, offer.group)
    if offer.cheaper:
        first = hull[1][0]
        for level in reversed(range(first)):
            cost, value, at_least = offer.options[level]
            yield Step(offer.item, level, NOTHING, cost, at_least, value, offer.section, offer.group)


def _slope(low: Option, high: Option) -> float:
    return (high.value - low.value) / max(1, high.cost - low.cost)


# Tables: taking steps for many budgets at once.
#
# numpy is imported inside the functions, because loading it takes longer than most commands.


# How often to check whether any column has room for one of the remaining steps.
STEPS_BETWEEN_CHECKS = 8

# A room considers steps until their total cost is REACH_FACTOR times the room plus REACH_EXTRA tokens. A step
# counts as at most COUNTED_TOKENS.
REACH_FACTOR = 3
REACH_EXTRA = 1_000
COUNTED_TOKENS = 64

# The grid of rooms, as pairs of (end, stride): every number at first, then fewer, some hundreds below any budget.
# It is the same for all budgets, so a larger budget tries every room that a smaller one tries.
_STRIDES = ((512, 1), (2_048, 4), (8_192, 16), (65_536, 256), (1 << 20, 4_096), (1 << 31, 1 << 17))


class Table(NamedTuple):
    """The steps taken for each of several budgets, and their total value; each budget is a column."""

    taken: list[tuple[Step, Any]]
    """Each step with a mask of the columns in which it is taken."""
    values: Any

    def chosen(self, column: int) -> list[Step]:
        """Return the steps taken in one column."""
        return [step for step, columns in self.taken if columns[column]]

    def best(self) -> "NDArray[np.int64]":
        """Return for each column the most valuable column up to it; of equal ones, the last."""
        import numpy as np

        highest = np.maximum.accumulate(self.values)
        columns = np.where(self.values == highest, np.arange(len(highest)), 0)
        found: NDArray[np.int64] = np.maximum.accumulate(columns)
        return found


def tabulate(
    steps: Sequence[Step],
    rooms: "Sequence[int]",
    *,
    cost: Callable[[Step], int],
    sections: Sequence[int],
    groups: Sequence[int],
    stop: bool = False,
    nearby: bool = False,
    beside: Mapping[int, int] | None = None,
) -> Table:
    """Take each step in turn in every column where it fits.

    `rooms` are the tokens that lines and headings may cost in each column. The first step under a heading pays for
    the heading. `cost` counts a step exactly; it is called only for steps that may fit. With `stop`, a column takes
    nothing after the first step that does not fit. With `nearby`, a column stops at the reach of its room. `beside`
    maps an item to another item without which it is not taken.
    """
    import numpy as np

    every = np.array(rooms, np.int64)
    room = every.copy()
    far = _rooms_that_reach(steps) if nearby else [0] * len(steps)
    values = np.zeros(len(room), np.int64)
    section_prices = [np.full(len(room), cost, np.int64) for cost in sections]
    group_prices: dict[int, Any] = {}
    held: dict[int, Any] = {}
    at: dict[tuple[int, int], Any] = {}
    going = np.ones(len(room), bool)
    taken: list[tuple[Step, Any]] = []
    least = list(itertools.accumulate((step.at_least for step in reversed(steps)), min))[::-1]
    most = 0
    for number, step in enumerate(steps):
        if not number % STEPS_BETWEEN_CHECKS:
            most = int(room.max(where=every >= far[number], initial=-1))
            if most < least[number]:
                break
        if step.at_least > most and not stop:
            continue
        headings = []
        if step.first:
            if step.group not in group_prices:
                group_prices[step.group] = np.full(len(room), groups[step.group], np.int64)
            headings = [section_prices[step.section], group_prices[step.group]]
            price = headings[0] + headings[1]
            price += cost(step)
            fits = price <= room
            if step.item in held:
                fits &= ~held[step.item]
        elif (step.item, step.before) in at:
            price = np.full(len(room), cost(step), np.int64)
            fits = price <= room
            fits &= at[step.item, step.before]
        else:
            continue
        if beside and step.item in beside:
            fits &= held.get(beside[step.item], False)
        if far[number] > 0:
            fits &= every >= far[number]
        if stop:
            going &= fits
            fits &= going
        price *= fits
        room -= price
        values += fits * step.value
        for heading in headings:
            heading *= ~fits
        held[step.item] = held[step.item] | fits if step.item in held else fits
        at[step.item, step.level] = fits
        taken.append((step, fits))
    return Table(taken, values)


def _rooms_that_reach(steps: Sequence[Step]) -> list[int]:
    """Return for each step the smallest room whose reach includes it.

    The cost of a step is capped, so that the reach of a room does not depend on which steps fit into it.
    """
    tokens = itertools.accumulate(min(step.cost, COUNTED_TOKENS) for step in steps)
    return [max(0, -((REACH_EXTRA - each) // REACH_FACTOR)) for each in tokens]


def rooms_up_to(most: int) -> list[int]:
    """Return the rooms that are tried for a budget, up to `most`."""
    found: list[int] = []
    start = 0
    for end, stride in _STRIDES:
        found += range(start, min(end, most + 1), stride)
        start = end
    return found


# Candidates. Pinned items come first. With `best_first`, the best match comes next, as much of it as fits. Items
# that a newer one replaces come last, and only together with the newer one.


# Values are integers, so that their sum does not depend on the order. A pinned item outweighs all others.
UNIT = 1_000_000_000
PINNED_BONUS = 10**14
# Each level of the best match outweighs all items that are not pinned (at most 10,000).
BEST_MATCH_BONUS = 12 * 10**12

# How many of the best items may be included in part, even as one sentence, if the whole does not fit.
CUTTABLE = 8

# Estimates: the tokens before a text, those of a label with id and kind, and the characters of a token.
LINE_TOKENS = 3
LABEL_TOKENS = 6
CHARACTERS_PER_TOKEN = 4


class Choice(NamedTuple):
    """The chosen items, as places with the number of the rendition, and their total value."""

    levels: dict[int, int]
    value: int


class Candidates:
    """The items to choose from, with their renditions and prices.

    Items are identified by their place in `items`. Everything is computed when first needed.
    """

    def __init__(
        self,
        items: Sequence[Item],
        considered: Sequence[int],
        prices: Prices,
        *,
        whole: bool,
        best_first: bool = False,
    ) -> None:
        self.items = items
        self.prices = prices
        self.whole = whole
        """Whether items are included whole or not at all."""
        self.considered = considered
        self.best_first = best_first
        self._sections: list[int] = []
        self._groups: list[int] = []
        self._numbers: dict[Hashable, int] = {}
        self._costs: dict[tuple[int, int], int] = {}
        self._levels: dict[int, Sequence[Rendition]] = {}

    def renditions(self, place: int) -> Sequence[Rendition]:
        """Return the levels of detail of an item that is considered."""
        found = self._levels.get(place)
        if found is None:
            item = self.items[place]
            found = renditions(item, sentence=place in self._cuttable, of_long=place == self._best_match)
            found = self._levels[place] = found[-1:] if self.whole or item.pinned else found
        return found

    @cached_property
    def _best_match(self) -> int | None:
        """The place of the best match, if it is to be included first."""
        matches = (place for place in self.considered if not self.items[place].pinned)
        return next(matches, None) if self.best_first else None

    @cached_property
    def newer(self) -> dict[int, int]:
        """The place of the newer item for each older one, which would mislead without it."""
        if not self.best_first or not any(self.items[place].overtaken_by for place in self.considered):
            return {}
        places = {self.items[place].id: place for place in self.considered}
        found = {place: places.get(self.items[place].overtaken_by or "") for place in self.considered}
        return {
            place: other
            for place, other in found.items()
            if other is not None and place != self._best_match and not self.items[place].pinned
        }

    @cached_property
    def _cuttable(self) -> frozenset[int]:
        return frozenset(self.considered[:CUTTABLE])

    @cached_property
    def offers(self) -> list[Offer]:
        """The levels of each item that is considered, with estimated costs."""
        return [self._offer(place) for place in self.considered]

    @cached_property
    def _by_place(self) -> dict[int, Offer]:
        return {offer.item: offer for offer in self.offers}

    def offer(self, place: int) -> Offer:
        """Return the offer of one item."""
        return self._by_place[place]

    @property
    def sections(self) -> list[int]:
        """The price of each section, by the numbers in the offers."""
        return self._sections if self.offers else []

    @property
    def groups(self) -> list[int]:
        """The price of each heading within a section, by the numbers in the offers."""
        return self._groups if self.offers else []

    @property
    def estimate(self) -> int:
        """The estimated cost of all items, without rendering them."""
        return sum(_estimated_tokens(self.items[place], self.prices) for place in self.considered)

    def everything(self) -> dict[int, Placed]:
        """Return all items, uncut."""
        items = ((place, self.items[place]) for place in self.considered)
        return {
            place: self.placed(place, -1) if item.needed else Placed(item, "full", item.text.strip())
            for place, item in items
        }

    def among(self, considered: Sequence[int]) -> "Candidates":
        """Return the same candidates with another list of places to consider."""
        return Candidates(self.items, considered, self.prices, whole=self.whole, best_first=self.best_first)

    def placed(self, place: int, level: int) -> Placed:
        """Render an item at a level of detail."""
        item, rendition = self.items[place], self.renditions(place)[level]
        return Placed(item, rendition.level, rendition.text(item))

    def tabulated(
        self, steps: Sequence[Step], rooms: Sequence[int], *, stop: bool = False, nearby: bool = False
    ) -> Table:
        """Call `tabulate` with the prices of these candidates."""
        return tabulate(
            steps,
            rooms,
            cost=self.cost,
            sections=self.sections,
            groups=self.groups,
            stop=stop,
            nearby=nearby,
            beside=self.newer,
        )

    def cost(self, step: Step) -> int:
        """Return the exact cost of a step."""
        return self._cost(step.item, step.level) - (0 if step.first else self._cost(step.item, step.before))

    @cached_property
    def by_rank(self) -> list[Step]:
        """Steps that include whole items by rank, after pinned items and the best match."""
        others = [whole(offer) for offer in self.offers if offer.item not in self._special]
        return [*self._first_steps, *others, *self._last_steps]

    @cached_property
    def _special(self) -> frozenset[int]:
        """The places of items that are not in the common order: pinned ones, the best match, replaced ones."""
        pinned = [offer.item for offer in self.pinned]
        return frozenset([*pinned, *self.newer, *([] if self._best_match is None else [self._best_match])])

    @cached_property
    def _first_steps(self) -> list[Step]:
        """Steps for pinned items, then for the best match."""
        best_match = [] if self._best_match is None else level_by_level(self.offer(self._best_match))
        return [*map(whole, self.pinned), *best_match]

    @property
    def _last_steps(self) -> list[Step]:
        return [whole(self.offer(place)) for place in self.newer]

    @cached_property
    def by_value_per_token(self) -> list[Step]:
        """Steps by value per token, after pinned items and the best match."""
        others = [offer for offer in self.offers if offer.item not in self._special]
        sections, groups = list(self.sections), list(self.groups)
        for step in self._first_steps:
            sections[step.section] = groups[step.group] = 0
        ordered = by_value_per_token(others, sections=sections, groups=groups)
        return [*self._first_steps, *ordered, *self._last_steps]

    @property
    def pinned(self) -> list[Offer]:
        """The offers of pinned items."""
        return [offer for offer in self.offers if self.items[offer.item].pinned]

    @cached_property
    def pinned_need(self) -> int:
        """The budget that holds all pinned items; 0 if there are none."""
        return self._need(self.pinned) if self.pinned else 0

    @cached_property
    def total(self) -> int:
        """The budget that holds everything."""
        return self._need(self.offers)

    def holds_everything(self, budget: int) -> bool:
        """Return whether all items fit into a budget; counts exactly only if the lower bounds fit."""
        at_least = sum(offer.options[-1].at_least for offer in self.offers)
        return at_least <= budget and self.total <= budget

    @property
    def value_of_all(self) -> int:
        """The value of all items, uncut."""
        bonus = 0 if self._best_match is None else BEST_MATCH_BONUS * len(self.renditions(self._best_match))
        return bonus + sum(_integer_value(self.items[place]) for place in self.considered)

    @property
    def all_of_them(self) -> Choice:
        """The choice of all items, uncut."""
        return Choice({place: len(self.renditions(place)) - 1 for place in self.considered}, self.value_of_all)

    def alone(self, *, first_only: bool = False) -> Iterator[tuple[int, Placed]]:
        """Yield everything that could be alone in a block: every rendition, and the first word of each text."""
        for place in self.considered[: 1 if first_only else None]:
            if place in self.newer:
                continue
            for level in range(len(self.renditions(place))):
                yield place, self.placed(place, level)
            if not self.whole:
                item = self.items[place]
                before, text = tail(item)
                word = first_word(text)
                yield place, Placed(item, "excerpt", before + word + (ELLIPSIS if word != text else ""))

    def _need(self, offers: Sequence[Offer]) -> int:
        sections = {offer.section for offer in offers}
        groups = {offer.group for offer in offers}
        headings = sum(self.sections[number] for number in sections) + sum(self.groups[n] for n in groups)
        whole = sum(self._cost(offer.item, len(offer.options) - 1) for offer in offers)
        return self.prices.around + headings + whole

    def _cost(self, place: int, level: int) -> int:
        if (place, level) not in self._costs:
            self._costs[place, level] = self.prices.lines(self.placed(place, level))
        return self._costs[place, level]

    def _offer(self, place: int) -> Offer:
        item, found = self.items[place], self.renditions(place)
        section, cost = self.prices.section(item)
        section_number = self._number(("section", section), cost, self._sections)
        group, cost = self.prices.group(item)
        group_number = self._number(("group", section, group), cost, self._groups)
        value = _integer_value(item)
        opening = _opening(item) + (len(item.title or "") + len(item.speaker or "")) // CHARACTERS_PER_TOKEN
        text_cost = self.prices.text(item)
        options = []
        for level, rendition in enumerate(found):
            if text_cost is None:
                about = at_least = self._cost(place, level)
            else:
                text = text_cost * rendition.characters // max(1, len(item.text))
                about = opening + text
                # Tokens may merge with their neighbours at both ends of a text. Control characters and blank lines
                # are not written as they are stored, and the cost of a part is only a guess.
                as_stored = rendition.level == "full" and item.text.isprintable()
                at_least = text - 4 if as_stored else text // 3
            bonus = BEST_MATCH_BONUS * (level + 1) if place == self._best_match else 0
            options.append(Option(about, bonus + max(1, round(value * rendition.share)), at_least))
        return Offer(place, options, section_number, group_number, cheaper=place in self._cuttable)

    def _number(self, key: Hashable, cost: int, costs: list[int]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(costs)
            costs.append(cost)
        return self._numbers[key]


def _integer_value(item: Item) -> int:
    return max(1, round(item.value * UNIT)) + PINNED_BONUS * item.pinned


def _estimated_tokens(item: Item, prices: Prices) -> int:
    text = prices.text(item)
    return _opening(item) + (len(item.text) // CHARACTERS_PER_TOKEN if text is None else text)


def _opening(item: Item) -> int:
    return LINE_TOKENS if item.short_id is None else LINE_TOKENS + LABEL_TOKENS
