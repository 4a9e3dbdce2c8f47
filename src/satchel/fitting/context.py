"""Context blocks: items packed into one text within a budget, and what may stand around that text."""

from abc import ABC, abstractmethod
from collections import Counter as Tally
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from satchel.errors import InputError
from satchel.fitting.engine import Count, budget_that_holds
from satchel.fitting.formats import Layout, as_messages
from satchel.fitting.packing import PINS, Packed, Pins, Pruned, pack, prune, receipt
from satchel.fitting.policies import POLICIES, PolicyName
from satchel.model.checks import check_known
from satchel.model.memory import TIERS, Hit
from satchel.model.packing import Item, Placed, Receipt, marked
from satchel.text.tokens import DEFAULT_COUNTER, Counter

__all__ = ["BlockFacts", "ContextBlock", "Frame", "Pricing", "fitted_block"]


class BlockFacts(NamedTuple):
    """The numbers of a block, which a frame may state."""

    token_count: int
    """The tokens of the block's own text, without the frame."""
    facts_included: int
    facts_omitted: int
    """How many candidates were left out, whatever the reason: the receipt names it."""
    facts_wanted: int
    """How many there would be if there were room for all that is worth its tokens."""
    complete: bool
    """Whether those are all here, in full."""
    tier_breakdown: dict[str, int]
    """How many of each tier were included."""
    matched: bool = True
    """False where nothing matched: then these are the newest and most important that pass the filters."""
    irrelevant: int = 0
    """How many candidates were left out because they are not relevant enough."""

    @classmethod
    def widest(cls, candidates: int, *, matched: bool) -> "BlockFacts":
        """Numbers with at least as many digits as any that a block of so many candidates can have."""
        most = 10 * candidates + 10
        return cls(
            token_count=_WIDEST_TOKENS,
            facts_included=most,
            facts_omitted=most,
            facts_wanted=most,
            complete=False,
            tier_breakdown=dict.fromkeys(TIERS, most),
            matched=matched,
        )


_WIDEST_TOKENS = 999_999


class Frame(ABC):
    """The text around a block, which may state numbers about it: a prompt, a footer, a JSON object.

    The budget applies to the final text, which `write` returns. The cost of the frame is reserved before
    anything is chosen. A subclass must define `write`, `encode` if it escapes the block, and `within` if it
    states the budget.
    """

    @abstractmethod
    def write(self, body: str, facts: BlockFacts) -> str:
        """Return the final text, given the block's own text and its numbers."""

    def encode(self, part: str) -> str:
        """Return a part of the block's text as it is inside the frame, such as escaped for JSON."""
        return part

    def within(self, budget: int) -> "Frame":
        """Return the same frame for another budget."""
        return self

    def reserve(self, around: str, candidates: int, *, matched: bool, count: Count) -> int:
        """Return the tokens to reserve for the frame and for what the layout puts `around` all items."""
        return count(self.write(around, BlockFacts.widest(candidates, matched=matched)))


class ContextBlock:
    """A text for a model's context window, within its budget, and what went into it."""

    def __init__(
        self,
        *,
        text: str,
        body: str,
        token_count: int,
        facts: BlockFacts,
        tokens_omitted: int,
        smallest_budget: int | None,
        hits: Sequence[Hit],
        receipt: Callable[[], Receipt],
    ) -> None:
        self.text = text
        self.body = body
        """The text without the frame around it; the same as `text` where there is none."""
        self.token_count = token_count
        self.facts = facts
        """The same facts that a frame states, as they turned out."""
        self.facts_included = facts.facts_included
        self.facts_omitted = facts.facts_omitted
        """How many candidates were left out, whatever the reason: the receipt names it."""
        self.tokens_omitted = tokens_omitted
        """What the texts of those would cost, as far as that is known."""
        self.facts_wanted = facts.facts_wanted
        """How many there would be if there were room for all that is worth its tokens."""
        self.complete = facts.complete
        """Whether those are all here, in full."""
        self.tier_breakdown = facts.tier_breakdown
        """How many of each tier were included."""
        self.smallest_budget = smallest_budget
        """Where nothing fitted though something was found: the least budget that holds a part of it."""
        self.hits = tuple(hits)
        """What was included, best first."""
        self.matched = facts.matched
        """False where nothing matched: then these are the newest and most important that pass the filters."""
        self.irrelevant = facts.irrelevant
        """How many candidates were left out because they are not relevant enough."""
        self._receipt = receipt

    @cached_property
    def receipt(self) -> Receipt:
        """What became of every candidate; worked out when first asked for."""
        return self._receipt()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The block as a list of messages, as providers take them."""
        return as_messages(self.text)

    def __repr__(self) -> str:
        return (
            f"<ContextBlock: {self.token_count} tokens, {self.facts_included} kept, {self.facts_omitted} omitted>"
        )


class Pricing:
    """The prices of the parts of a layout, counted as they are inside the frame."""

    def __init__(
        self, layout: Layout, counter: Counter, frame: Frame | None, candidates: int, *, matched: bool = True
    ) -> None:
        self._layout = layout
        self._count = counter.count
        self._counts_as_stored = counter.name == DEFAULT_COUNTER
        self._encode = str if frame is None else frame.encode
        self._headings: dict[tuple[str, Hashable], int] = {}
        if frame is None:
            self.around = counter.count(layout.around)
        else:
            self.around = frame.reserve(layout.around, candidates, matched=matched, count=counter.count)

    def section(self, item: Item) -> tuple[Hashable, int]:
        key, text = self._layout.section(item)
        return key, self._heading(("section", key), text)

    def group(self, item: Item) -> tuple[Hashable, int]:
        key, text = self._layout.group(item)
        return key, self._heading(("group", key), text)

    def lines(self, placed: Placed) -> int:
        return self._count(self._encode(self._layout.lines(placed)))

    def text(self, item: Item) -> int | None:
        return item.tokens if self._counts_as_stored else None

    def _heading(self, key: tuple[str, Hashable], text: str) -> int:
        if key not in self._headings:
            self._headings[key] = self._count(self._encode(text))
        return self._headings[key]


def _tokens(items: Iterable[Item]) -> int:
    return sum(item.tokens or 0 for item in items)


def _told(hits: Sequence[Hit], places: Iterable[int]) -> list[Hit]:
    """The hits at these places, without the marks that name what is not among them."""
    shown = [hits[place] for place in places]
    there = {hit.memory.id for hit in shown}
    return [hit if hit.overtaken_by in there else replace(hit, overtaken_by=None) for hit in shown]


def fitted_block(
    items: Sequence[Item],
    *,
    budget: int | None,
    counter: Counter,
    layout: Layout,
    policy: PolicyName = "best",
    pins: Pins = "strict",
    whole: bool = False,
    best_first: bool = False,
    frame: Frame | None = None,
    hits: Sequence[Hit] | None = None,
    matched: bool = True,
) -> ContextBlock:
    """Pack items, given in order of rank, into one block within the budget.

    `hits` are the same items as recall found them; the block lists those it includes. `matched` is False if the
    items are not matches but the newest and most important ones. The other options are those of `pack`.
    """
    check_known("policy", policy, tuple(POLICIES))
    check_known("pins", pins, PINS)
    if frame is not None and not isinstance(frame, Frame):
        raise InputError(f"frame must be a Frame, not {type(frame).__name__}")
    kept = prune(items, budget=budget)
    writer = _Writer(items, kept, layout=layout, count=counter.count, frame=frame, matched=matched)
    packed = pack(
        items,
        pruned=kept,
        budget=budget,
        prices=Pricing(layout, counter, frame, len(items), matched=matched),
        assemble=writer.text,
        count=counter.count,
        policy=POLICIES[policy],
        pins=pins,
        whole=whole,
        best_first=best_first,
    )
    placed = list(packed.placed.values())
    body = packed.text if frame is None else writer.body(placed)
    return ContextBlock(
        text=packed.text,
        body=body,
        token_count=packed.token_count,
        # What turned out to be said already is not wanted any more.
        facts=writer.facts(
            placed, packed.token_count if frame is None else counter.count(body), packed.pruned.wanted
        ),
        tokens_omitted=_tokens(items) - _tokens(each.item for each in placed),
        smallest_budget=writer.smallest_budget(packed),
        hits=_told(hits, packed.placed) if hits else (),
        receipt=lambda: receipt(packed, counter=counter.name, format=layout.name),
    )


class _Writer:
    """Writes chosen items as a block of the layout, inside the frame if there is one."""

    def __init__(
        self,
        items: Sequence[Item],
        kept: Pruned,
        *,
        layout: Layout,
        count: Count,
        frame: Frame | None,
        matched: bool,
    ) -> None:
        self._items = items
        self._kept = kept
        self._layout = layout
        self._count = count
        self._frame = frame
        self._matched = matched

    def text(self, placed: Sequence[Placed]) -> str:
        """Return the final text."""
        return self.body(placed) if self._frame is None else self._framed(placed, self._frame)

    def body(self, placed: Sequence[Placed]) -> str:
        """Return the block without the frame."""
        return self._layout.block(marked(placed))

    def facts(self, placed: Sequence[Placed], tokens: int, wanted: int) -> BlockFacts:
        """Return the numbers of a block that costs so many tokens."""
        return BlockFacts(
            token_count=tokens,
            facts_included=len(placed),
            facts_omitted=len(self._items) - len(placed),
            facts_wanted=wanted,
            complete=len(placed) >= wanted and all(each.whole for each in placed),
            tier_breakdown=dict(Tally(each.item.tier for each in placed)),
            matched=self._matched,
            irrelevant=self._kept.irrelevant,
        )

    def smallest_budget(self, packed: Packed) -> int | None:
        """If nothing fitted, the smallest budget that holds something and a frame that states that budget."""
        smallest, frame = packed.smallest_budget, self._frame
        if smallest is None or frame is None:
            return smallest
        alone = packed.alone()

        def least(budget: int) -> int:
            stating = frame.within(budget)
            return min(self._count(self._framed([each], stating)) for each in alone)

        return budget_that_holds(least, smallest)

    def _framed(self, placed: Sequence[Placed], frame: Frame) -> str:
        body = self.body(placed)
        return frame.write(body, self.facts(placed, self._count(body), self._kept.wanted))
