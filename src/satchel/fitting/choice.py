"""The policies: which items are taken within a budget, and at which level.

`best` takes what is worth most for its tokens, `greedy` goes by rank and stops at the first that does not
fit, `tier` takes working memories first, then the conversation, then knowledge, and skips what does not fit.
With all of them pinned items come first. With `best_first` the best match comes next, as much of it as fits, and
what a newer item overtakes comes last, and only beside that one.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from satchel.fitting.order import Offer, Option, Step, by_worth, level_by_level, whole
from satchel.fitting.prices import Prices
from satchel.fitting.renditions import Rendition, first_word, renditions, tail
from satchel.fitting.table import Table, rooms_up_to, tabulate
from satchel.model.fields import TIERS
from satchel.model.item import Item, Placed
from satchel.text.cutting import ELLIPSIS as CUT

__all__ = ["POLICIES", "Choice", "Choosing", "Policy"]

Policy = Literal["best", "greedy", "tier"]
POLICIES: tuple[str, ...] = get_args(Policy)

# Values as whole numbers add up to the same in any order; what is pinned outweighs all that is not.
UNIT = 1_000_000_000
PINNED = 10**14
# Each level of the best match outweighs all that is not pinned: 10,000 items at most.
LEAD = 12 * 10**12

# Of so many of the best a part is taken where the whole does not fit, be it a sentence.
BEST = 8

# About what stands before a text, and how many characters a token has.
LINE = 3
CHARACTERS_PER_TOKEN = 4


class Choice(NamedTuple):
    """The items taken, by their places, each with the number of its rendition; and what that is worth."""

    levels: dict[int, int]
    value: int


class Choosing:
    """The items that are considered, with their renditions and what each of them costs."""

    def __init__(
        self,
        items: Sequence[Item],
        considered: Sequence[int],
        prices: Prices,
        policy: Policy,
        *,
        whole: bool,
        best_first: bool = False,
    ) -> None:
        self.items = items
        self.prices = prices
        self.policy = policy
        self.whole = whole or policy != "best"
        """Whether items are taken whole or not at all."""
        self.considered = considered
        self.best_first = best_first and policy == "best"
        self._sections: list[int] = []
        self._groups: list[int] = []
        self._numbers: dict[Hashable, int] = {}
        self._costs: dict[tuple[int, int], int] = {}

    @cached_property
    def renditions(self) -> dict[int, Sequence[Rendition]]:
        return {
            place: self._renditions(self.items[place], best=number < BEST, lead=place == self._lead)
            for number, place in enumerate(self.considered)
        }

    @cached_property
    def _lead(self) -> int | None:
        """The place of the best match, where that is served before the others."""
        matches = (place for place in self.considered if not self.items[place].pinned)
        return next(matches, None) if self.best_first else None

    @cached_property
    def newer(self) -> dict[int, int]:
        """For each item that another one considered overtakes, the place of that one: without it, it misleads."""
        if not self.best_first or not any(self.items[place].overtaken_by for place in self.considered):
            return {}
        places = {self.items[place].id: place for place in self.considered}
        found = {place: places.get(self.items[place].overtaken_by or "") for place in self.considered}
        return {
            place: other
            for place, other in found.items()
            if other is not None and place != self._lead and not self.items[place].pinned
        }

    @cached_property
    def _best(self) -> frozenset[int]:
        return frozenset(self.considered[:BEST])

    @cached_property
    def offers(self) -> list[Offer]:
        return [self._offer(place) for place in self.considered]

    @cached_property
    def _by_place(self) -> dict[int, Offer]:
        return {offer.item: offer for offer in self.offers}

    def offer(self, place: int) -> Offer:
        return self._by_place[place]

    @property
    def sections(self) -> list[int]:
        """What each section costs, by its number in the offers."""
        return self._sections if self.offers else []

    @property
    def groups(self) -> list[int]:
        return self._groups if self.offers else []

    @property
    def about(self) -> int:
        """About what everything costs, which takes no rendering."""
        return sum(_about(self.items[place], self.prices) for place in self.considered)

    def everything(self) -> dict[int, Placed]:
        """All items, each with all that is wanted of it."""
        items = ((place, self.items[place]) for place in self.considered)
        return {
            place: self.placed(place, -1) if item.needed else Placed(item, "full", item.text.strip())
            for place, item in items
        }

    def among(self, considered: Sequence[int]) -> "Choosing":
        """The same with other items considered."""
        return Choosing(
            self.items, considered, self.prices, self.policy, whole=self.whole, best_first=self.best_first
        )

    def placed(self, place: int, level: int) -> Placed:
        item, rendition = self.items[place], self.renditions[place][level]
        return Placed(item, rendition.level, rendition.text(item))

    def choose(self, budget: int) -> Choice:
        """What the policy takes within a budget, by the prices."""
        room = budget - self.prices.around
        if room < 0 or not self.offers:
            return Choice({}, 0)
        if self.policy == "greedy":
            return _choice(self.tabulated(self.by_rank, [room], stop=True))
        if self.policy == "tier":
            return _choice(self.tabulated(self.by_tier, [room]))
        if self.holds_everything(budget):
            return Choice({place: len(self.renditions[place]) - 1 for place in self.considered}, self.value_of_all)
        rooms = rooms_up_to(room)
        first, second = self.tabulated(self.by_worth, rooms), self.tabulated(self.by_rank, rooms)
        return max(_choice(first), _choice(second), key=lambda choice: choice.value)

    def tabulated(self, steps: Sequence[Step], rooms: Sequence[int], *, stop: bool = False) -> Table:
        return tabulate(
            steps,
            rooms,
            cost=self.cost,
            sections=self.sections,
            groups=self.groups,
            stop=stop,
            nearby=self.policy == "best",
            beside=self.newer,
        )

    def cost(self, step: Step) -> int:
        """What a step costs exactly."""
        return self._cost(step.item, step.level) - (0 if step.first else self._cost(step.item, step.before))

    @cached_property
    def by_rank(self) -> list[Step]:
        others = [whole(offer) for offer in self.offers if offer.item not in self._served]
        return [*self._served_first, *others, *self._outdated_last]

    @cached_property
    def _served(self) -> frozenset[int]:
        """The places of items whose turn does not follow from their worth."""
        pinned = [offer.item for offer in self.pinned]
        return frozenset([*pinned, *self.newer, *([] if self._lead is None else [self._lead])])

    @cached_property
    def _served_first(self) -> list[Step]:
        """Pinned items, then the best match."""
        lead = [] if self._lead is None else level_by_level(self.offer(self._lead))
        return [*map(whole, self.pinned), *lead]

    @property
    def _outdated_last(self) -> list[Step]:
        return [whole(self.offer(place)) for place in self.newer]

    @cached_property
    def by_tier(self) -> list[Step]:
        def priority(step: Step) -> tuple[bool, int]:
            item = self.items[step.item]
            return not item.pinned, TIERS.index(item.tier)

        return sorted(self.by_rank, key=priority)

    @cached_property
    def by_worth(self) -> list[Step]:
        """The order by worth, after what is served first."""
        others = [offer for offer in self.offers if offer.item not in self._served]
        sections, groups = list(self.sections), list(self.groups)
        for step in self._served_first:
            sections[step.section] = groups[step.group] = 0
        ordered = by_worth(others, sections=sections, groups=groups)
        return [*self._served_first, *ordered, *self._outdated_last]

    @property
    def pinned(self) -> list[Offer]:
        return [offer for offer in self.offers if self.items[offer.item].pinned]

    @cached_property
    def pinned_need(self) -> int:
        """The budget that holds all that is pinned; 0 where nothing is."""
        return self._need(self.pinned) if self.pinned else 0

    @cached_property
    def total(self) -> int:
        """The budget that holds everything."""
        return self._need(self.offers)

    def holds_everything(self, budget: int) -> bool:
        at_least = sum(offer.options[-1].at_least for offer in self.offers)
        return at_least <= budget and self.total <= budget

    @property
    def value_of_all(self) -> int:
        lead = 0 if self._lead is None else LEAD * len(self.renditions[self._lead])
        return lead + sum(_worth(self.items[place]) for place in self.considered)

    def alone(self) -> Iterator[tuple[int, Placed]]:
        """What could stand alone, however little it is: every rendition, and the first word of a text."""
        # Where it stops at the first that does not fit, no other one counts.
        for place in self.considered[: 1 if self.policy == "greedy" else None]:
            if place in self.newer:
                continue
            for level in range(len(self.renditions[place])):
                yield place, self.placed(place, level)
            if not self.whole:
                item = self.items[place]
                before, text = tail(item)
                word = first_word(text)
                yield place, Placed(item, "excerpt", before + word + (CUT if word != text else ""))

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

    def _renditions(self, item: Item, *, best: bool, lead: bool) -> Sequence[Rendition]:
        found = renditions(item, sentence=best, of_long=lead)
        return found[-1:] if self.whole or item.pinned else found

    def _offer(self, place: int) -> Offer:
        item, found = self.items[place], self.renditions[place]
        section, cost = self.prices.section(item)
        section_number = self._number(("section", section), cost, self._sections)
        group, cost = self.prices.group(item)
        group_number = self._number(("group", section, group), cost, self._groups)
        worth = _worth(item)
        opening = LINE + (len(item.title or "") + len(item.speaker or "")) // CHARACTERS_PER_TOKEN
        text_cost = self.prices.text(item)
        options = []
        for level, rendition in enumerate(found):
            if text_cost is None:
                about = at_least = self._cost(place, level)
            else:
                text = text_cost * rendition.characters // max(1, len(item.text))
                about = opening + text
                # Where a text begins and ends, its tokens may join others. Control characters and blank lines
                # are written otherwise than they are stored, and of a part the cost is a guess.
                as_stored = rendition.level == "full" and item.text.isprintable()
                at_least = text - 4 if as_stored else text // 3
            lead = LEAD * (level + 1) if place == self._lead else 0
            options.append(Option(about, lead + max(1, round(worth * rendition.share)), at_least))
        return Offer(place, options, section_number, group_number, cheaper=place in self._best)

    def _number(self, key: Hashable, cost: int, costs: list[int]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(costs)
            costs.append(cost)
        return self._numbers[key]


def _worth(item: Item) -> int:
    return max(1, round(item.value * UNIT)) + PINNED * item.pinned


def _about(item: Item, prices: Prices) -> int:
    text = prices.text(item)
    return LINE + (len(item.text) // CHARACTERS_PER_TOKEN if text is None else text)


def _choice(table: Table) -> Choice:
    """What is taken under the largest of the budgets, or under a smaller one where that brings more."""
    column = int(table.best()[-1])
    steps = table.chosen(column)
    return Choice({step.item: step.level for step in steps}, int(table.values[column]))
