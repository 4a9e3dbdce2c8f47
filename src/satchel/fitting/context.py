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
from satchel.fitting.packing import Packed, Pruned, pack, prune, receipt
from satchel.fitting.policies import POLICIES
from satchel.model.checks import check_known
from satchel.model.ids import whole_short_id
from satchel.model.memory import TIERS, Hit
from satchel.model.packing import PINS, Item, Pins, Placed, PolicyName, Receipt, Unread, marked
from satchel.model.result import FittedResult, Result
from satchel.text.tokens import DEFAULT_COUNTER, Counter

__all__ = ["BlockFacts", "ContextBlock", "ContextResult", "Frame", "Pricing", "fitted_block", "fitted_summary"]


class BlockFacts(NamedTuple):
    """The numbers of a block, which a frame may state."""

    token_count: int
    """The tokens of the block's own text, without the frame."""
    included: int
    omitted: int
    """How many relevant candidates did not fit into the budget."""
    left_out: int
    """How many candidates were left out, whatever the reason; the receipt names it."""
    complete: bool
    """Whether everything relevant is included, and nothing of it was cut."""
    tier_breakdown: dict[str, int]
    """How many of each tier were included."""
    matched: bool = True
    """False if nothing matched: then these are the newest and most important that pass the filters."""
    irrelevant: int = 0
    """How many candidates were below `min_relevance`."""
    ids: tuple[str, ...] = ()
    """The ids of the included items."""

    @classmethod
    def widest(cls, candidates: int, *, matched: bool) -> "BlockFacts":
        """Return numbers with at least as many digits as any that a block of so many candidates can have."""
        most = 5 * candidates + 5
        return cls(
            token_count=_WIDEST_TOKENS,
            included=most,
            omitted=most,
            left_out=most,
            complete=False,
            tier_breakdown=dict.fromkeys(TIERS, most),
            matched=matched,
            irrelevant=most,
        )


_WIDEST_TOKENS = 999_999


class Frame(ABC):
    """The text around a block, which may state numbers about it: a prompt, a footer, a JSON object.

    The budget applies to the final text, which `write` returns. The cost of the frame is reserved before
    anything is chosen. A subclass must define `write`, `encode` if it escapes the block, `beside` if it lists the
    items, and `within` if it states the budget.
    """

    @abstractmethod
    def write(self, body: str, facts: BlockFacts) -> str:
        """Return the final text, given the block's own text and its numbers."""

    def encode(self, part: str) -> str:
        """Return a part of the block's text as it is inside the frame, such as escaped for JSON."""
        return part

    def beside(self, identifier: str) -> str:
        """Return what the frame writes for each item outside the block, such as its id in a list."""
        return ""

    def within(self, budget: int) -> "Frame":
        """Return the same frame for another budget."""
        return self

    def reserve(self, around: str, candidates: int, *, matched: bool, count: Count) -> int:
        """Return the tokens to reserve for the frame and for what the layout puts `around` all items."""
        return count(self.write(around, BlockFacts.widest(candidates, matched=matched)))


class ContextResult(FittedResult, frozen=True, kw_only=True):
    """A text for a model's context window, within its budget, and what went into it."""

    tier_breakdown: dict[str, int]
    """How many of each tier were included."""
    hits: tuple[Hit, ...]
    """What was included, best first."""
    short_ids: tuple[str, ...] = ()
    """The short ids of these memories."""
    receipt: Receipt | None = None
    """What became of every candidate, if it was asked for."""


class ContextBlock(Result):
    """A text for a model's context window, within its budget, and what went into it.

    `text` goes to the model. The numbers say what is in it and what is not: `included` memories, `omitted` relevant
    ones that did not fit (`tokens_omitted` tokens), `irrelevant` ones below `min_relevance`. `receipt` names each.
    """

    def __init__(
        self,
        *,
        text: str,
        body: str,
        token_count: int,
        token_budget: int | None,
        facts: BlockFacts,
        tokens_omitted: int,
        smallest_budget: int | None,
        hits: Sequence[Hit],
        receipt: Callable[[], Receipt],
    ) -> None:
        self.text = text
        self.body = body
        """The text without the frame around it; the same as `text` if there is no frame."""
        self.token_count = token_count
        self.token_budget = token_budget
        self.facts = facts
        """The numbers that a frame states."""
        self.included = facts.included
        """How many memories are in the text."""
        self.omitted = facts.omitted
        """How many relevant memories did not fit into the budget."""
        self.tokens_omitted = tokens_omitted
        """What the texts of those would cost, as far as that is known."""
        self.irrelevant = facts.irrelevant
        """How many candidates were below `min_relevance`."""
        self.facts_included = facts.included
        """The same as `included`."""
        self.facts_omitted = facts.left_out
        """How many candidates were left out, whatever the reason: `len(receipt.left_out)`."""
        self.complete = facts.complete
        """Whether everything relevant is included, and nothing of it was cut."""
        self.tier_breakdown = facts.tier_breakdown
        """How many of each tier were included."""
        self.smallest_budget = smallest_budget
        """If nothing fitted though something was found: the smallest budget that holds a part of it."""
        self.hits = tuple(hits)
        """What was included, best first."""
        self.matched = facts.matched
        """False if nothing matched: then these are the newest and most important that pass the filters."""
        self._receipt = receipt

    @cached_property
    def receipt(self) -> Receipt:
        """What became of every candidate; computed when first asked for."""
        return self._receipt()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The block as a list of messages, as providers take them."""
        return as_messages(self.text)

    def result(self, *, receipt: bool = False) -> ContextResult:
        """Return the block as the value that `to_dict`, `json`, `--json` and the HTTP service encode.

        With `receipt` it has the receipt too.
        """
        return ContextResult(
            text=self.text,
            token_count=self.token_count,
            token_budget=self.token_budget,
            included=self.included,
            omitted=self.omitted,
            tokens_omitted=self.tokens_omitted,
            irrelevant=self.irrelevant,
            complete=self.complete,
            matched=self.matched,
            smallest_budget=self.smallest_budget,
            tier_breakdown=self.tier_breakdown,
            hits=self.hits,
            short_ids=tuple(whole_short_id(hit.memory.id) for hit in self.hits),
            receipt=self.receipt if receipt else None,
        )

    def _plain(self) -> ContextResult:
        return self.result()

    def _summary(self) -> str:
        return fitted_summary(self.included, self.omitted, self.token_count, self.token_budget)


def fitted_summary(included: int, omitted: int, tokens: int, budget: int | None) -> str:
    """Return the counts that the `repr` of a fitted result shows."""
    memories = "1 memory" if included == 1 else f"{included:,} memories"
    limit = "" if budget is None else f" of {budget:,}"
    return f"{memories}, {omitted:,} omitted, {tokens:,}{limit} tokens"


class Pricing:
    """The prices of the parts of a layout, counted as they are inside the frame."""

    def __init__(
        self, layout: Layout, counter: Counter, frame: Frame | None, candidates: int, *, matched: bool = True
    ) -> None:
        self._layout = layout
        self._count = counter.count
        self._counts_as_stored = counter.name == DEFAULT_COUNTER
        self._encode = str if frame is None else frame.encode
        self._beside = None if frame is None else frame.beside
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
        price = self._count(self._encode(self._layout.lines(placed)))
        if self._beside is not None and (beside := self._beside(placed.item.id)):
            price += self._count(beside)
        return price

    def text(self, item: Item) -> int | None:
        return item.tokens if self._counts_as_stored else None

    def _heading(self, key: tuple[str, Hashable], text: str) -> int:
        if key not in self._headings:
            self._headings[key] = self._count(self._encode(text))
        return self._headings[key]


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
    unread: Unread | None = None,
    matched: bool = True,
) -> ContextBlock:
    """Pack items, given in order of rank, into one block within the budget.

    `hits` are the same items as recall found them; the block lists those it includes. `unread` are candidates that
    are not relevant: they are counted, and read for the receipt. `matched` is False if the
    items are not matches but the newest and most important ones. The other options are those of `pack`.
    """
    check_known("policy", policy, tuple(POLICIES))
    check_known("pins", pins, PINS)
    if frame is not None and not isinstance(frame, Frame):
        raise InputError(f"frame must be a Frame, not {type(frame).__name__}")
    kept = prune(items, budget=budget)
    others = 0 if unread is None else unread.total
    writer = _Writer(len(items), kept, others, layout=layout, count=counter.count, frame=frame, matched=matched)
    packed = pack(
        items,
        pruned=kept,
        budget=budget,
        prices=Pricing(layout, counter, frame, len(items) + others, matched=matched),
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
        token_budget=budget,
        # What turned out to be said already is not wanted any more.
        facts=writer.facts(
            placed, packed.token_count if frame is None else counter.count(body), packed.pruned.wanted
        ),
        tokens_omitted=sum(items[place].tokens or 0 for place in packed.missed()),
        smallest_budget=writer.smallest_budget(packed),
        hits=_told(hits, packed.placed) if hits else (),
        receipt=lambda: receipt(packed, counter=counter.name, format=layout.name, unread=unread),
    )


class _Writer:
    """Writes chosen items as a block of the layout, inside the frame if there is one."""

    def __init__(
        self,
        candidates: int,
        kept: Pruned,
        unread: int,
        *,
        layout: Layout,
        count: Count,
        frame: Frame | None,
        matched: bool,
    ) -> None:
        self._candidates = candidates + unread
        self._kept = kept
        self._irrelevant = kept.irrelevant + unread
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
            included=len(placed),
            omitted=max(0, wanted - len(placed)),
            left_out=self._candidates - len(placed),
            complete=len(placed) >= wanted and all(each.whole for each in placed),
            tier_breakdown=dict(Tally(each.item.tier for each in placed)),
            matched=self._matched,
            irrelevant=self._irrelevant,
            ids=tuple(each.item.id for each in placed),
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
