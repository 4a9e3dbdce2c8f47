"""From candidates and a budget to a text that fits: sort out, choose, fill, assemble, count, account for it."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from satchel.errors import BudgetError
from satchel.fitting.choice import Choice, Choosing, Policy, Prices, Step, rooms_up_to
from satchel.fitting.cutting import ELLIPSIS, shortened
from satchel.fitting.engine import Assembly, Attempt, Count, largest, with_less_room
from satchel.fitting.renditions import first_word, tail
from satchel.model.packing import Entry, Item, Placed, Reason, Receipt
from satchel.text.near_duplicates import alike, equal, within
from satchel.text.passages import continues

__all__ = [
    "PINS",
    "Assemble",
    "Making",
    "Opened",
    "Packing",
    "Pins",
    "Sorted",
    "Verdict",
    "admitting_budgets",
    "fill",
    "pack",
    "receipt",
    "refill",
    "sort_out",
]


# As many are looked at closely as would fill a budget so many times, and some more; long ones count as if they
# were short, so that a larger budget looks at more of them whatever their length.
TIMES = 6
SOME_MORE = 2_000
SHORT = 64
# The best are looked at in any case.
ALWAYS = 50

CHARACTERS_PER_TOKEN = 4
LINE = 6


class Verdict(NamedTuple):
    """Why a candidate is not considered; `other` is the place of the one it repeats or that superseded it."""

    reason: Reason
    other: int | None = None


class Sorted(NamedTuple):
    """The places of those that are considered, the pinned first, then by rank."""

    considered: list[int]
    verdicts: dict[int, Verdict]

    @property
    def wanted(self) -> int:
        """How many there would be if there were room for all of them."""
        short = sum(verdict.reason == "over budget" for verdict in self.verdicts.values())
        return short + sum(place not in self.verdicts for place in self.considered)

    @property
    def irrelevant(self) -> int:
        """How many are not relevant."""
        return sum(verdict.reason == "not relevant" for verdict in self.verdicts.values())


def sort_out(items: Sequence[Item], *, budget: int | None) -> Sorted:
    """Leave out what is superseded, not relevant or said already; and of very many the least promising."""
    verdicts = _superseded(items)
    weak = (place for place, item in enumerate(items) if not item.relevant and not item.pinned)
    verdicts |= {place: Verdict("not relevant") for place in weak if place not in verdicts}
    left = list(range(len(items)))
    if verdicts:
        left = [place for place in left if place not in verdicts]
    if any(item.pinned for item in items):
        left.sort(key=lambda place: not items[place].pinned)
    left = _without(left, items, verdicts, equal)
    if budget is not None:
        left = _promising(left, items, TIMES * budget + SOME_MORE, verdicts)
    return Sorted(_without(left, items, verdicts, alike), verdicts)


def _superseded(items: Sequence[Item]) -> dict[int, Verdict]:
    old = {place: item.superseded_by for place, item in enumerate(items) if item.superseded_by}
    places = {item.id: place for place, item in enumerate(items)} if old else {}
    return {place: Verdict("superseded", places[new]) for place, new in old.items() if new in places}


def _without(
    places: list[int],
    items: Sequence[Item],
    verdicts: dict[int, Verdict],
    repeats: Callable[[Sequence[str]], dict[int, int]],
) -> list[int]:
    repeated = repeats([items[place].text for place in places])
    if not repeated:
        return places
    for number, other in repeated.items():
        verdicts[places[number]] = Verdict("duplicate", places[other])
    return [place for number, place in enumerate(places) if number not in repeated]


def _promising(places: list[int], items: Sequence[Item], most: int, verdicts: dict[int, Verdict]) -> list[int]:
    """Those that seem worth most for their tokens, up to so many tokens; what they cost is counted later."""
    if len(places) * SHORT <= most:
        return places
    # Imported where there are many: it takes longer to load than a few take.
    import numpy as np

    found = [items[place] for place in places]
    about = np.array([_about(item) for item in found])
    worth = np.array([item.value for item in found]) / about
    worth[:ALWAYS] = np.inf
    worth[np.array([item.pinned for item in found])] = np.inf
    order = np.argsort(-worth, kind="stable")
    chosen = np.zeros(len(places), bool)
    tokens = np.where(np.isinf(worth), 0, np.minimum(about, SHORT))
    chosen[order[np.cumsum(tokens[order]) <= most]] = True
    numbers = np.array(places)
    verdicts.update(dict.fromkeys(numbers[~chosen].tolist(), Verdict("over budget")))
    kept: list[int] = numbers[chosen].tolist()
    return kept


def _about(item: Item) -> int:
    return (len(item.text) // CHARACTERS_PER_TOKEN if item.tokens is None else item.tokens) + LINE


# A block in the making: what is placed so far, its text and what that costs.


Assemble = Callable[[Sequence[Placed]], str]


class Making(Assembly[Placed]):
    """A block in the making: what is placed in it, and what that costs."""

    def __init__(self, choosing: Choosing, budget: int, assemble: Assemble, count: Count) -> None:
        super().__init__(lambda placed: assemble(list(placed.values())), budget=budget, count=count)
        self.choosing = choosing

    @property
    def left(self) -> int:
        """What is left of the budget; an empty block may have a text, which gives way to what is placed first."""
        return self.budget - self.token_count if self.chosen else self.budget

    @property
    def whole(self) -> bool:
        """Whether all that is wanted of what is placed is there."""
        return all(placed.whole for placed in self.chosen.values())

    def opened(self) -> "Opened":
        """The headings that stand there."""
        return Opened(self.choosing, self.chosen)


class Opened:
    """The headings of a block, and what those of one more item cost."""

    def __init__(self, choosing: Choosing, placed: Iterable[int]) -> None:
        self._choosing = choosing
        self._sections: set[int] = set()
        self._groups: set[int] = set()
        for place in placed:
            self.add(place)

    def add(self, place: int) -> None:
        offer = self._choosing.offer(place)
        self._sections.add(offer.section)
        self._groups.add(offer.group)

    def price(self, place: int) -> int:
        offer, choosing = self._choosing.offer(place), self._choosing
        around = 0 if self._sections else choosing.prices.around
        section = 0 if offer.section in self._sections else choosing.sections[offer.section]
        return around + section + (0 if offer.group in self._groups else choosing.groups[offer.group])


# What is left of a budget once the choice is made: more items, and one that is cut to fit.


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
        fresh = step.first and step.item not in making.chosen and step.item not in closed
        if fresh and step.at_least <= left and _may_stand(making, step.item, more):
            price = choosing.cost(step) + opened.price(step.item)
            if price <= left:
                left -= price
                opened.add(step.item)
                more[step.item] = choosing.placed(step.item, step.level)
    making.take_most(more, beside=making.chosen)


def _may_stand(making: Making, place: int, more: Collection[int] = ()) -> bool:
    """Whether an item misleads nobody: what a newer one overtakes stands only beside that."""
    newer = making.choosing.newer.get(place)
    return newer is None or newer in making.chosen or newer in more


def fill(making: Making, closed: Collection[int]) -> None:
    """Cut one of the next items to what is left, or let one go on that is there in part."""
    tried = 0
    for step in making.choosing.by_worth:
        left = making.left
        most = MOST_TRIED if left > UNUSED * making.budget else CUTS_TRIED
        if left <= 0 or left < min(LEAST_CUT, UNUSED * making.budget) or tried >= most:
            return
        there = making.chosen.get(step.item)
        if (
            step.first
            and step.item not in closed
            and (there is None or not there.whole)
            and _may_stand(making, step.item)
        ):
            tried += bool(making.chosen)
            _take_part(making, step.item)


def _take_part(making: Making, place: int) -> None:
    """As much of an item as there is room for, from what matched best on."""
    item, prices = making.choosing.items[place], making.choosing.prices
    room, there = making.left, making.chosen.get(place)
    room += prices.lines(there) if there else -making.opened().price(place)
    if room < LEAST_CUT and making.left <= UNUSED * making.budget:
        return
    enough = max(0.0, 1 - UNUSED * making.budget / room) if room > 0 else 0.0
    before, text = tail(item)

    def price(part: str) -> int:
        return prices.lines(Placed(item, "excerpt", part))

    kept = shortened(text, room=room, price=lambda part: price(before + part), enough=enough)
    # Less than a word only where it fills what others leave unused.
    least = 1 if making.chosen and making.left > UNUSED * making.budget else len(first_word(text))
    part = before + kept + ELLIPSIS if len(kept) >= least else ""
    if before and kept == text:
        part = _end(item.text, len(item.text.rstrip()) - len(text), room=room, price=price)
    if len(part) > len(there.text if there else ""):
        making.take(making.chosen | {place: Placed(item, "excerpt", part)})


def _end(text: str, start: int, *, room: int, price: Callable[[str], int]) -> str:
    """The end of a text, from as far before this start as there is room, at a word if one begins near."""

    def part(first: int) -> str:
        return ELLIPSIS.strip() + " " + text[first:].rstrip()

    # Farther back costs more.
    first = start - largest(start, lambda characters: price(part(start - characters)) <= room)
    if (word := _WORD_START.search(text, first, min(start, first + NEAR))) is not None:
        return part(word.start())
    while first < start and continues(text, first):
        first += 1
    return part(first)


# The smallest budget that keeps an item that was left out.


def admitting_budgets(choosing: Choosing, places: Sequence[int], *, above: int) -> dict[int, int]:
    """For each place the smallest budget above this one with which the policy takes it."""
    match choosing.policy:
        case "greedy":
            budgets = _cumulated(choosing, choosing.by_rank)
        case "tier":
            budgets = _skipping(choosing, places, above=above)
        case "best":
            budgets = _best(choosing, places, above=above)
    return {place: max(budgets[place], above + 1) for place in places}


def _best(choosing: Choosing, places: Iterable[int], *, above: int) -> dict[int, int]:
    import numpy as np

    around = choosing.prices.around
    rooms = rooms_up_to(max(0, choosing.total - around))
    tables = [choosing.tabulated(steps, rooms) for steps in (choosing.by_worth, choosing.by_rank)]
    columns = [table.best() for table in tables]
    values = np.array([table.values[each] for table, each in zip(tables, columns, strict=True)])
    # Of equals the first, as in choosing.
    winner = np.argmax(values, axis=0)
    higher = np.array(rooms) + around > above
    admitted = {place: np.zeros(len(rooms), bool) for place in places}
    for number, table in enumerate(tables):
        for step, taken in table.taken:
            if step.first and step.item in admitted:
                admitted[step.item] |= taken[columns[number]] & (winner == number) & higher
    return {
        # The budget that holds everything takes everything.
        place: min(choosing.total, rooms[int(np.argmax(where))] + around) if where.any() else choosing.total
        for place, where in admitted.items()
    }


def _skipping(choosing: Choosing, places: Iterable[int], *, above: int) -> dict[int, int]:
    """Without a look at smaller budgets: each budget up to the one that holds all that comes before an item."""
    import numpy as np

    enough = _cumulated(choosing, choosing.by_tier)
    around = choosing.prices.around
    first = max(0, above + 1 - around)
    rooms = range(first, min(first + SKIPPED_THROUGH, max(enough.values()) - around) + 1)
    found = dict(enough)
    if rooms:
        for step, taken in choosing.tabulated(choosing.by_tier, rooms).taken:
            if taken.any():
                found[step.item] = min(enough[step.item], rooms[int(np.argmax(taken))] + around)
    return found


# How many budgets above the one given are looked at one by one.
SKIPPED_THROUGH = 4_096


def _cumulated(choosing: Choosing, steps: Iterable[Step]) -> dict[int, int]:
    """For each item the budget that holds all that comes before it in this order, and it."""
    total = choosing.prices.around
    sections, groups = set(), set()
    budgets: dict[int, int] = {}
    for step in steps:
        total += choosing.cost(step)
        if step.section not in sections:
            total += choosing.sections[step.section]
        if step.group not in groups:
            total += choosing.groups[step.group]
        sections.add(step.section)
        groups.add(step.group)
        budgets.setdefault(step.item, total)
    return budgets


# From candidates and a budget to a text that fits: sort out, choose, assemble, count, fill what is left.


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
        making.take(choosing.everything())
        return _packing(making, choosing.value_of_all, kept, None)
    making = Making(choosing, budget, assemble, count)
    if 0 < choosing.about <= budget and making.take(choosing.everything()):
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
            making.take({p: placed for p, placed in making.chosen.items() if p not in repeated})
            kept = Sorted(kept.considered, kept.verdicts | repeated)
        if len(making.chosen) + len(repeated) < len(kept.considered) or not making.whole:
            refill(making, kept.verdicts)
            if not choosing.whole:
                fill(making, kept.verdicts)
    smallest = None if making.chosen else making.take_least(choosing.alone())
    return Packing(making.chosen, making.text, making.token_count, value, kept, choosing, budget, smallest)


def _settled(making: Making) -> Choice:
    """The policy's choice; a smaller one where the text costs more than its parts."""
    choosing = making.choosing
    choice = Choice({}, 0)

    def chosen(room: int) -> Attempt[Choice]:
        nonlocal choice
        choice = choosing.choose(room)
        making.take({place: choosing.placed(place, level) for place, level in choice.levels.items()})
        return Attempt(choice, making.over)

    if (settled := with_less_room(making.budget, chosen, tries=TRIES)) is not None:
        return settled
    making.take_most({place: choosing.placed(place, choice.levels[place]) for place in sorted(choice.levels)})
    return Choice({place: choice.levels[place] for place in making.chosen}, 0)


def _repeated(making: Making) -> dict[int, Verdict]:
    """What stands in another item that is kept whole."""
    whole = [place for place, placed in making.chosen.items() if placed.level == "full"]
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


# The receipt of a packing.


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
