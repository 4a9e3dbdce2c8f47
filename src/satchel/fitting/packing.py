"""Pack candidates into a budget: sort out duplicates, let the policy choose, fill what is left, write the receipt.

The policy chooses by the prices of parts. `Assembly` then holds the assembled text against the budget.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from satchel.errors import BudgetError
from satchel.fitting.choice import Candidates, Choice, Prices
from satchel.fitting.cutting import ELLIPSIS, shortened
from satchel.fitting.engine import Assembly, Attempt, Count, largest, with_less_room
from satchel.fitting.policies import POLICIES, Policy
from satchel.fitting.renditions import first_word, tail
from satchel.model.packing import Item, Placed, Reason, Receipt, ReceiptEntry
from satchel.text.near_duplicates import alike, equal, within
from satchel.text.passages import continues

__all__ = [
    "PINS",
    "Assemble",
    "Packed",
    "Pins",
    "Sorted",
    "Verdict",
    "pack",
    "receipt",
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
    """Leave out superseded, irrelevant and duplicate items, and the least promising of very many."""
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


# The block: what is placed so far, and the headings that stand there.


Assemble = Callable[[Sequence[Placed]], str]


class _Block(Assembly[Placed]):
    """The text of a block, assembled from renditions of items."""

    def __init__(
        self, candidates: Candidates, policy: Policy, budget: int, assemble: Assemble, count: Count
    ) -> None:
        super().__init__(lambda placed: assemble(list(placed.values())), budget=budget, count=count)
        self.candidates = candidates
        self.policy = policy

    @property
    def left(self) -> int:
        """The tokens left. The text of an empty block, if it has one, is replaced and does not count."""
        return self.budget - self.token_count if self.chosen else self.budget

    @property
    def whole(self) -> bool:
        """Whether no item is included only in part."""
        return all(placed.whole for placed in self.chosen.values())

    def headings(self) -> "_Headings":
        """The headings that are there already."""
        return _Headings(self.candidates, self.chosen)


class _Headings:
    """The headings of a block, and the price of those that one more item needs."""

    def __init__(self, candidates: Candidates, placed: Iterable[int]) -> None:
        self._candidates = candidates
        self._sections: set[int] = set()
        self._groups: set[int] = set()
        for place in placed:
            self.add(place)

    def add(self, place: int) -> None:
        offer = self._candidates.offer(place)
        self._sections.add(offer.section)
        self._groups.add(offer.group)

    def price(self, place: int) -> int:
        offer, candidates = self._candidates.offer(place), self._candidates
        around = 0 if self._sections else candidates.prices.around
        section = 0 if offer.section in self._sections else candidates.sections[offer.section]
        return around + section + (0 if offer.group in self._groups else candidates.groups[offer.group])


# Filling the rest of a budget: more items, and one that is cut to fit.


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


def _refill(block: _Block, closed: Collection[int]) -> None:
    """Add items that still fit, by worth: removed duplicates and joined lines may have left room."""
    candidates, left, headings = block.candidates, block.left, block.headings()
    more: dict[int, Placed] = {}
    for step in candidates.by_worth:
        fresh = step.first and step.item not in block.chosen and step.item not in closed
        if fresh and step.at_least <= left and _may_stand(block, step.item, more):
            price = candidates.cost(step) + headings.price(step.item)
            if price <= left:
                left -= price
                headings.add(step.item)
                more[step.item] = candidates.placed(step.item, step.level)
    block.take_most(more, beside=block.chosen)


def _may_stand(block: _Block, place: int, more: Collection[int] = ()) -> bool:
    """Whether an item may be included: an overtaken one only together with the newer one."""
    newer = block.candidates.newer.get(place)
    return newer is None or newer in block.chosen or newer in more


def _fill(block: _Block, closed: Collection[int]) -> None:
    """Cut one of the next items to the room that is left, or extend one that is included in part."""
    tried = 0
    for step in block.candidates.by_worth:
        left = block.left
        most = MOST_TRIED if left > UNUSED * block.budget else CUTS_TRIED
        if left <= 0 or left < min(LEAST_CUT, UNUSED * block.budget) or tried >= most:
            return
        there = block.chosen.get(step.item)
        if (
            step.first
            and step.item not in closed
            and (there is None or not there.whole)
            and _may_stand(block, step.item)
        ):
            tried += bool(block.chosen)
            _take_part(block, step.item)


def _take_part(block: _Block, place: int) -> None:
    """Include as much of an item as fits, from its best matching passage on."""
    item, prices = block.candidates.items[place], block.candidates.prices
    room, there = block.left, block.chosen.get(place)
    room += prices.lines(there) if there else -block.headings().price(place)
    if room < LEAST_CUT and block.left <= UNUSED * block.budget:
        return
    enough = max(0.0, 1 - UNUSED * block.budget / room) if room > 0 else 0.0
    before, text = tail(item)

    def price(part: str) -> int:
        return prices.lines(Placed(item, "excerpt", part))

    kept = shortened(text, room=room, price=lambda part: price(before + part), enough=enough)
    # Less than a word only where it fills what others leave unused.
    least = 1 if block.chosen and block.left > UNUSED * block.budget else len(first_word(text))
    part = before + kept + ELLIPSIS if len(kept) >= least else ""
    if before and kept == text:
        part = _end(item.text, len(item.text.rstrip()) - len(text), room=room, price=price)
    if len(part) > len(there.text if there else ""):
        block.take(block.chosen | {place: Placed(item, "excerpt", part)})


def _end(text: str, start: int, *, room: int, price: Callable[[str], int]) -> str:
    """The end of a text, from as far before `start` as fits, beginning at a word if one is near."""

    def part(first: int) -> str:
        return ELLIPSIS.strip() + " " + text[first:].rstrip()

    # Farther back costs more.
    first = start - largest(start, lambda characters: price(part(start - characters)) <= room)
    if (word := _WORD_START.search(text, first, min(start, first + NEAR))) is not None:
        return part(word.start())
    while first < start and continues(text, first):
        first += 1
    return part(first)


# Packing: choose, assemble, count, fill what is left.


Pins = Literal["strict", "best_effort"]
PINS: tuple[str, ...] = get_args(Pins)

# How often less is chosen where the whole text costs more than its parts did.
TRIES = 4
NAMED = 3
UNLIMITED = 1 << 60


class Packed(NamedTuple):
    """The result of packing: the chosen items in order of rank, and the final text."""

    placed: dict[int, Placed]
    text: str
    token_count: int
    value: int
    """The value of the policy's choice; what only fills the rest of the budget adds nothing."""
    sorted: Sorted
    candidates: Candidates
    policy: Policy
    budget: int | None
    smallest_budget: int | None = None
    """If nothing was kept though there were candidates: the smallest budget that keeps something."""

    def missed(self) -> list[int]:
        """Return the places of those that are left out only because the budget has no room for them."""
        return [place for place in range(len(self.candidates.items)) if self._has_no_room(place)]

    def _has_no_room(self, place: int) -> bool:
        verdict = self.sorted.verdicts.get(place)
        return place not in self.placed and (verdict is None or verdict.reason == "over budget")

    def alone(self) -> list[Placed]:
        """Return every rendition that could be the only one in the block."""
        return [placed for _, placed in self.candidates.alone(first_only=self.policy.stops)]


def pack(
    items: Sequence[Item],
    *,
    kept: Sorted,
    budget: int | None,
    prices: Prices,
    assemble: Assemble,
    count: Count,
    policy: Policy = POLICIES["best"],
    pins: Pins = "strict",
    whole: bool = False,
    best_first: bool = False,
) -> Packed:
    """Choose the items of most value whose assembled text fits the budget; `items` come in order of rank.

    `kept` is what `sort_out` returned for them. With `whole`, items are neither cut nor reduced to their
    titles. With `best_first`, the best match is included, as far as it fits, before any weaker one. Raises
    `BudgetError` if pinned items do not fit and `pins` is "strict".
    """
    candidates = Candidates(
        items,
        kept.considered,
        prices,
        whole=whole or not policy.weighs,
        best_first=best_first and policy.weighs,
    )
    if budget is None:
        block = _Block(candidates, policy, UNLIMITED, assemble, count)
        block.take(candidates.everything())
        return _finished(block, candidates.value_of_all, kept, None)
    block = _Block(candidates, policy, budget, assemble, count)
    if 0 < candidates.about <= budget and block.take(candidates.everything()):
        return _finished(block, candidates.value_of_all, kept, budget)
    if pins == "strict" and 0 < budget < candidates.pinned_need:
        raise BudgetError(_too_many_pins(candidates, budget))
    choice = _settled(block)
    return _finished(block, choice.value, kept, budget)


def _finished(block: _Block, value: int, kept: Sorted, budget: int | None) -> Packed:
    """After the choice: remove items whose text is contained in another, then fill the rest of the budget."""
    candidates = block.candidates
    if block.policy.weighs:
        repeated = _repeated(block)
        if repeated:
            block.take({p: placed for p, placed in block.chosen.items() if p not in repeated})
            kept = Sorted(kept.considered, kept.verdicts | repeated)
        if len(block.chosen) + len(repeated) < len(kept.considered) or not block.whole:
            _refill(block, kept.verdicts)
            if not candidates.whole:
                _fill(block, kept.verdicts)
    smallest = None if block.chosen else block.take_least(candidates.alone(first_only=block.policy.stops))
    return Packed(
        placed=block.chosen,
        text=block.text,
        token_count=block.token_count,
        value=value,
        sorted=kept,
        candidates=candidates,
        policy=block.policy,
        budget=budget,
        smallest_budget=smallest,
    )


def _settled(block: _Block) -> Choice:
    """Accept the policy's choice, or a smaller one if the text costs more than its parts."""
    candidates = block.candidates
    choice = Choice({}, 0)

    def chosen(room: int) -> Attempt[Choice]:
        nonlocal choice
        choice = block.policy.choose(candidates, room)
        block.take({place: candidates.placed(place, level) for place, level in choice.levels.items()})
        return Attempt(choice, block.over)

    if (settled := with_less_room(block.budget, chosen, tries=TRIES)) is not None:
        return settled
    block.take_most({place: candidates.placed(place, choice.levels[place]) for place in sorted(choice.levels)})
    return Choice({place: choice.levels[place] for place in block.chosen}, 0)


def _repeated(block: _Block) -> dict[int, Verdict]:
    """Items whose text is contained in another item that is kept whole."""
    whole = [place for place, placed in block.chosen.items() if placed.level == "full"]
    items = [block.candidates.items[place] for place in whole]
    return {
        whole[place]: Verdict("duplicate", whole[other])
        for place, other in within([item.text for item in items]).items()
        if not items[place].pinned
    }


def _too_many_pins(candidates: Candidates, budget: int) -> str:
    pinned = [candidates.items[offer.item] for offer in candidates.pinned]
    names = ", ".join(f"{item.id} {item.headline(40)!r}" for item in pinned[:NAMED])
    more = f" and {len(pinned) - NAMED} more" if len(pinned) > NAMED else ""
    return (
        f"what is pinned needs a budget of {candidates.pinned_need:,}, not {budget:,}: {names}{more}; "
        "raise the budget, unpin some, or take as many as fit with pins=best_effort"
    )


# The receipt.


def receipt(packed: Packed, *, counter: str, format: str) -> Receipt:
    """Return what became of every candidate, in order of rank."""
    return Receipt(
        budget=packed.budget,
        counter=counter,
        policy=packed.policy.name,
        format=format,
        token_count=packed.token_count,
        entries=tuple(_entries(packed)),
    )


def _entries(packed: Packed) -> Iterator[ReceiptEntry]:
    items, prices = packed.candidates.items, packed.candidates.prices
    budgets = _budgets(packed, packed.missed())
    for place, item in enumerate(items):
        if (placed := packed.placed.get(place)) is not None:
            yield _entry(item, cost=prices.lines(placed), level=placed.level)
            continue
        cost = prices.lines(Placed(item, "full", item.text))
        if place in budgets:
            yield _entry(item, cost=cost, reason="over budget", admitted_at=budgets[place])
        else:
            reason, other = packed.sorted.verdicts[place]
            yield _entry(item, cost=cost, reason=reason, other=None if other is None else items[other].id)


def _entry(item: Item, **outcome: object) -> ReceiptEntry:
    return ReceiptEntry(id=item.id, headline=item.headline(), tier=item.tier, value=item.value, **outcome)  # type: ignore[arg-type]


def _budgets(packed: Packed, missed: list[int]) -> dict[int, int]:
    if not missed or packed.budget is None:
        return {}
    candidates = packed.candidates
    if any(place in packed.sorted.verdicts for place in missed):
        # Some were not looked at closely; a larger budget would look at them.
        everything = sort_out(candidates.items, budget=None)
        candidates = candidates.among(list(dict.fromkeys([*everything.considered, *missed])))
    return packed.policy.admitting_budgets(candidates, missed, above=packed.budget)
