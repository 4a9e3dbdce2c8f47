"""Pack candidates into a budget: prune, let the policy choose, fill the rest, write the receipt.

Pruning removes superseded, irrelevant and duplicate items. The policy chooses by the prices of parts. `Assembly`
then counts the assembled text and accepts it only if it is within the budget.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from satchel.errors import BudgetError
from satchel.fitting.choice import Candidates, Choice, Prices
from satchel.fitting.cutting import ELLIPSIS, shortened
from satchel.fitting.engine import Assembly, Attempt, Count, largest, with_less_room
from satchel.fitting.policies import POLICIES, Policy
from satchel.fitting.renditions import first_word, tail
from satchel.model.packing import Item, Pins, Placed, Reason, Receipt, ReceiptEntry, Unread
from satchel.model.patterns import lazy_pattern
from satchel.text.near_duplicates import contained_texts, exact_duplicates, near_duplicates
from satchel.text.passages import continues

__all__ = [
    "Assemble",
    "Packed",
    "Pruned",
    "Verdict",
    "pack",
    "prune",
    "receipt",
]


# Pruning: which candidates are considered.


# Of very many candidates, the most promising are considered: as many as would fill the budget POOL_FACTOR times,
# plus POOL_EXTRA tokens. An item counts as at most COUNTED_TOKENS, so a larger budget considers more items,
# however long.
POOL_FACTOR = 6
POOL_EXTRA = 2_000
COUNTED_TOKENS = 64
# So many of the best are considered in any case.
ALWAYS_CONSIDERED = 50

CHARACTERS_PER_TOKEN = 4
LINE_TOKENS = 6


class Verdict(NamedTuple):
    """Why a candidate is left out. `other` is the place of the item it duplicates or that superseded it."""

    reason: Reason
    other: int | None = None


class Pruned(NamedTuple):
    """The places of the items to consider, pinned ones first, then by rank; and why others were left out."""

    considered: list[int]
    verdicts: dict[int, Verdict]

    @property
    def wanted(self) -> int:
        """How many items would be included if there were room for all."""
        short = sum(verdict.reason == "over budget" for verdict in self.verdicts.values())
        return short + sum(place not in self.verdicts for place in self.considered)

    @property
    def irrelevant(self) -> int:
        """How many items are not relevant enough."""
        return sum(verdict.reason == "not relevant" for verdict in self.verdicts.values())


def prune(items: Sequence[Item], *, budget: int | None) -> Pruned:
    """Leave out superseded, irrelevant and duplicate items, and of very many the least promising.

    `items` are in order of rank. Near-duplicates are compared only among the items that remain. Without a budget no
    item is left out for lack of promise.
    """
    verdicts = _superseded(items)
    weak = (place for place, item in enumerate(items) if not item.relevant and not item.pinned)
    verdicts |= {place: Verdict("not relevant") for place in weak if place not in verdicts}
    left = list(range(len(items)))
    if verdicts:
        left = [place for place in left if place not in verdicts]
    if any(item.pinned for item in items):
        left.sort(key=lambda place: not items[place].pinned)
    left = _deduplicated(left, items, verdicts, exact_duplicates)
    if budget is not None:
        left = _most_promising(left, items, POOL_FACTOR * budget + POOL_EXTRA, verdicts)
    return Pruned(_deduplicated(left, items, verdicts, near_duplicates), verdicts)


def _superseded(items: Sequence[Item]) -> dict[int, Verdict]:
    old = {place: item.superseded_by for place, item in enumerate(items) if item.superseded_by}
    places = {item.id: place for place, item in enumerate(items)} if old else {}
    return {place: Verdict("superseded", places[new]) for place, new in old.items() if new in places}


def _deduplicated(
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


def _most_promising(places: list[int], items: Sequence[Item], most: int, verdicts: dict[int, Verdict]) -> list[int]:
    """Keep the items with the most value per token, up to `most` tokens, both estimated."""
    if len(places) * COUNTED_TOKENS <= most:
        return places
    # Imported here: loading it takes longer than handling a few items.
    import numpy as np

    found = [items[place] for place in places]
    about = np.array([_estimated_tokens(item) for item in found])
    worth = np.array([item.value for item in found]) / about
    worth[:ALWAYS_CONSIDERED] = np.inf
    worth[np.array([item.pinned for item in found])] = np.inf
    order = np.argsort(-worth, kind="stable")
    chosen = np.zeros(len(places), bool)
    tokens = np.where(np.isinf(worth), 0, np.minimum(about, COUNTED_TOKENS))
    chosen[order[np.cumsum(tokens[order]) <= most]] = True
    numbers = np.array(places)
    verdicts.update(dict.fromkeys(numbers[~chosen].tolist(), Verdict("over budget")))
    kept: list[int] = numbers[chosen].tolist()
    return kept


def _estimated_tokens(item: Item) -> int:
    return (len(item.text) // CHARACTERS_PER_TOKEN if item.tokens is None else item.tokens) + LINE_TOKENS


# The block: the items included so far, and their headings.


Assemble = Callable[[Sequence[Placed]], str]


class _Block(Assembly[Placed]):
    """A block under construction: renditions of items whose assembled text is within the budget."""

    def __init__(
        self, candidates: Candidates, policy: Policy, budget: int, assemble: Assemble, count: Count
    ) -> None:
        super().__init__(lambda placed: assemble(list(placed.values())), budget=budget, count=count)
        self.candidates = candidates
        self.policy = policy

    @property
    def left(self) -> int:
        """The tokens left. An empty block has them all: its text, such as "[]", is replaced."""
        return self.budget - self.token_count if self.chosen else self.budget

    @property
    def whole(self) -> bool:
        """Whether all included items are uncut."""
        return all(placed.whole for placed in self.chosen.values())

    def headings(self) -> "_Headings":
        """Return the headings that the block has already."""
        return _Headings(self.candidates, self.chosen)


class _Headings:
    """The headings of a block, and the price of the ones that another item would add."""

    def __init__(self, candidates: Candidates, placed: Iterable[int]) -> None:
        self._candidates = candidates
        self._sections: set[int] = set()
        self._groups: set[int] = set()
        for place in placed:
            self.add(place)

    def add(self, place: int) -> None:
        """Add the headings of an item."""
        offer = self._candidates.offer(place)
        self._sections.add(offer.section)
        self._groups.add(offer.group)

    def price(self, place: int) -> int:
        """Return the price of the headings that an item needs and the block does not have."""
        offer, candidates = self._candidates.offer(place), self._candidates
        around = 0 if self._sections else candidates.prices.around
        section = 0 if offer.section in self._sections else candidates.sections[offer.section]
        return around + section + (0 if offer.group in self._groups else candidates.groups[offer.group])


# Filling the rest of a budget: more items, then items cut to fit.


# If more than this share of a budget is left, a text may be cut within a sentence to use it.
UNUSED_SHARE = 0.1
# Fewer tokens than this are not worth a cut, unless they are that share.
SMALLEST_CUT = 12
# How many items are tried, and how many if more than that share is left.
CUTS_TRIED = 8
MOST_TRIED = 64

# How many characters ahead to search for the start of a word.
WORD_SEARCH = 40

_WORD_START = lazy_pattern(r"(?<!\S)\S")


def _refill(block: _Block, closed: Collection[int]) -> None:
    """Add items that still fit, by value per token. Removed duplicates and merged tokens may have left room."""
    candidates, left, headings = block.candidates, block.left, block.headings()
    more: dict[int, Placed] = {}
    for step in candidates.by_value_per_token:
        fresh = step.first and step.item not in block.chosen and step.item not in closed
        if fresh and step.at_least <= left and _may_include(block, step.item, more):
            price = candidates.cost(step) + headings.price(step.item)
            if price <= left:
                left -= price
                headings.add(step.item)
                more[step.item] = candidates.placed(step.item, step.level)
    block.take_most(more, beside=block.chosen)


def _may_include(block: _Block, place: int, more: Collection[int] = ()) -> bool:
    """Return whether an item may be included: one that a newer item replaces, only together with the newer."""
    newer = block.candidates.newer.get(place)
    return newer is None or newer in block.chosen or newer in more


def _fill(block: _Block, closed: Collection[int]) -> None:
    """Use the room that is left for parts of further items, or for more of an item that is included in part."""
    tried = 0
    for step in block.candidates.by_value_per_token:
        left = block.left
        most = MOST_TRIED if left > UNUSED_SHARE * block.budget else CUTS_TRIED
        if left <= 0 or left < min(SMALLEST_CUT, UNUSED_SHARE * block.budget) or tried >= most:
            return
        there = block.chosen.get(step.item)
        if (
            step.first
            and step.item not in closed
            and (there is None or not there.whole)
            and _may_include(block, step.item)
        ):
            tried += bool(block.chosen)
            _take_part(block, step.item)


def _take_part(block: _Block, place: int) -> None:
    """Include as much of an item as fits, from its best matching passage on."""
    item, prices = block.candidates.items[place], block.candidates.prices
    room, there = block.left, block.chosen.get(place)
    room += prices.lines(there) if there else -block.headings().price(place)
    if room < SMALLEST_CUT and block.left <= UNUSED_SHARE * block.budget:
        return
    enough = max(0.0, 1 - UNUSED_SHARE * block.budget / room) if room > 0 else 0.0
    before, text = tail(item)

    def price(part: str) -> int:
        return prices.lines(Placed(item, "excerpt", part))

    kept = shortened(text, room=room, price=lambda part: price(before + part), enough=enough)
    # Less than a word is included only if much of the budget would be unused.
    least = 1 if block.chosen and block.left > UNUSED_SHARE * block.budget else len(first_word(text))
    part = before + kept + ELLIPSIS if len(kept) >= least else ""
    if before and kept == text:
        part = _end(item.text, len(item.text.rstrip()) - len(text), room=room, price=price)
    if len(part) > len(there.text if there else ""):
        block.take(block.chosen | {place: Placed(item, "excerpt", part)})


def _end(text: str, start: int, *, room: int, price: Callable[[str], int]) -> str:
    """Return the longest end of a text that fits and includes `start`, beginning with a word if one is near."""

    def part(first: int) -> str:
        return ELLIPSIS.strip() + " " + text[first:].rstrip()

    first = start - largest(start, lambda characters: price(part(start - characters)) <= room)
    if (word := _WORD_START.search(text, first, min(start, first + WORD_SEARCH))) is not None:
        return part(word.start())
    while first < start and continues(text, first):
        first += 1
    return part(first)


# Packing: choose, assemble, count, fill the rest.


# How many smaller choices are tried if the whole text costs more than its parts.
TRIES = 4
PINS_NAMED = 3
UNLIMITED = 1 << 60


class Packed(NamedTuple):
    """The result of packing: the chosen items in order of rank, and the final text."""

    placed: dict[int, Placed]
    text: str
    token_count: int
    choice: Choice | None
    """What the policy chose; None if everything is included."""
    pruned: Pruned
    candidates: Candidates
    policy: Policy
    budget: int | None
    smallest_budget: int | None = None
    """If there were candidates but none fitted: the smallest budget that includes something."""

    @property
    def value(self) -> int:
        """The value of the policy's choice. Items that fill the rest of the budget do not add to it."""
        return self.candidates.value_of_all if self.choice is None else self.choice.value

    def missed(self) -> list[int]:
        """Return the places of those that are left out only because the budget has no room for them."""
        return [place for place in range(len(self.candidates.items)) if self._has_no_room(place)]

    def _has_no_room(self, place: int) -> bool:
        verdict = self.pruned.verdicts.get(place)
        return place not in self.placed and (verdict is None or verdict.reason == "over budget")

    def alone(self) -> list[Placed]:
        """Return every rendition that could be alone in the block."""
        return [placed for _, placed in self.candidates.alone(first_only=self.policy.stops)]


def pack(
    items: Sequence[Item],
    *,
    pruned: Pruned,
    budget: int | None,
    prices: Prices,
    assemble: Assemble,
    count: Count,
    policy: Policy = POLICIES["best"],
    pins: Pins = "strict",
    whole: bool = False,
    best_first: bool = False,
) -> Packed:
    """Choose the most valuable items whose assembled text fits the budget.

    `items` are in order of rank, and `pruned` is the result of `prune` for them. With `whole`, items are neither
    cut nor reduced to their titles. With `best_first`, as much of the best match as fits is included before any
    other match. Raises `BudgetError` if pinned items do not fit and `pins` is "strict".
    """
    candidates = Candidates(
        items,
        pruned.considered,
        prices,
        whole=whole or not policy.weighs,
        best_first=best_first and policy.weighs,
    )
    if budget is None:
        block = _Block(candidates, policy, UNLIMITED, assemble, count)
        block.take(candidates.everything())
        return _finish(block, None, pruned, None)
    block = _Block(candidates, policy, budget, assemble, count)
    if 0 < candidates.estimate <= budget and block.take(candidates.everything()):
        return _finish(block, None, pruned, budget)
    if pins == "strict" and 0 < budget < candidates.pinned_need:
        raise BudgetError(_pins_do_not_fit(candidates, budget))
    return _finish(block, _fit_choice(block), pruned, budget)


def _finish(block: _Block, choice: Choice | None, pruned: Pruned, budget: int | None) -> Packed:
    """Remove items whose text is contained in another, then fill the rest of the budget."""
    candidates = block.candidates
    if block.policy.weighs:
        repeated = _contained(block)
        if repeated:
            block.take({p: placed for p, placed in block.chosen.items() if p not in repeated})
            pruned = Pruned(pruned.considered, pruned.verdicts | repeated)
        if len(block.chosen) + len(repeated) < len(pruned.considered) or not block.whole:
            _refill(block, pruned.verdicts)
            if not candidates.whole:
                _fill(block, pruned.verdicts)
    smallest = None if block.chosen else block.take_least(candidates.alone(first_only=block.policy.stops))
    return Packed(
        placed=block.chosen,
        text=block.text,
        token_count=block.token_count,
        choice=choice,
        pruned=pruned,
        candidates=candidates,
        policy=block.policy,
        budget=budget,
        smallest_budget=smallest,
    )


def _fit_choice(block: _Block) -> Choice:
    """Accept the policy's choice, or a smaller one if the whole text costs more than its parts."""
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


def _contained(block: _Block) -> dict[int, Verdict]:
    """Return the items whose text is contained in another item of the block, both included whole."""
    whole = [place for place, placed in block.chosen.items() if placed.level == "full"]
    items = [block.candidates.items[place] for place in whole]
    return {
        whole[place]: Verdict("duplicate", whole[other])
        for place, other in contained_texts([item.text for item in items]).items()
        if not items[place].pinned
    }


def _pins_do_not_fit(candidates: Candidates, budget: int) -> str:
    pinned = [candidates.items[offer.item] for offer in candidates.pinned]
    names = ", ".join(f"{item.id} {item.headline(40)!r}" for item in pinned[:PINS_NAMED])
    more = f" and {len(pinned) - PINS_NAMED} more" if len(pinned) > PINS_NAMED else ""
    return (
        f"pinned memories need a budget of {candidates.pinned_need:,} tokens, not {budget:,}: {names}{more}; "
        "raise the budget, unpin some, or include as many as fit with pins=best_effort"
    )


# The receipt.


def receipt(packed: Packed, *, counter: str, format: str, unread: Unread | None = None) -> Receipt:
    """Return the receipt: for every candidate, in order of rank, whether it was kept and why not."""
    entries = list(_entries(packed))
    if unread is not None:
        entries = _with_irrelevant(entries, unread.read(), packed.candidates.prices)
    return Receipt(
        budget=packed.budget,
        counter=counter,
        policy=packed.policy.name,
        format=format,
        token_count=packed.token_count,
        entries=tuple(entries),
    )


def _with_irrelevant(
    entries: Sequence[ReceiptEntry], irrelevant: Sequence[tuple[int, Item]], prices: Prices
) -> list[ReceiptEntry]:
    """Insert the entries of irrelevant items; each comes with the number of entries that rank before it."""
    found = [
        (before, _entry(item, cost=prices.lines(Placed(item, "full", item.text)), reason="not relevant"))
        for before, item in irrelevant
    ]
    # A stable sort: an entry of the first list ranks before the irrelevant ones that follow it.
    ranked = [*((place - 0.5, entry) for place, entry in enumerate(entries, start=1)), *found]
    return [entry for _, entry in sorted(ranked, key=lambda each: each[0])]


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
            reason, other = packed.pruned.verdicts[place]
            yield _entry(item, cost=cost, reason=reason, other=None if other is None else items[other].id)


def _entry(item: Item, **outcome: object) -> ReceiptEntry:
    return ReceiptEntry(id=item.id, headline=item.headline(), tier=item.tier, value=item.value, **outcome)  # type: ignore[arg-type]


def _budgets(packed: Packed, missed: list[int]) -> dict[int, int]:
    if not missed or packed.budget is None:
        return {}
    candidates = packed.candidates
    if any(place in packed.pruned.verdicts for place in missed):
        # Some were pruned as least promising; a larger budget would consider them.
        everything = prune(candidates.items, budget=None)
        candidates = candidates.among(list(dict.fromkeys([*everything.considered, *missed])))
    return packed.policy.admitting_budgets(candidates, missed, above=packed.budget)
