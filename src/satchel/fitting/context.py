"""A text for a model's context window, within its budget, and what went into it."""

from collections import Counter as Tally
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msgspec.structs import replace

from satchel.errors import SatchelError
from satchel.fitting.formats import Layout, as_messages
from satchel.fitting.packing import PINS, Pins, pack, receipt, sort_out
from satchel.fitting.policies import POLICIES, PolicyName
from satchel.model.checks import check_known
from satchel.model.memory import Hit
from satchel.model.packing import Item, Placed, Receipt, marked
from satchel.text.tokens import DEFAULT_COUNTER, Counter

__all__ = ["ContextBlock", "Frame", "Wrap", "fitted_block"]


class ContextBlock:
    """A text for a model's context window, within its budget, and what went into it."""

    def __init__(
        self,
        *,
        text: str,
        token_count: int,
        facts_included: int,
        facts_omitted: int,
        tier_breakdown: dict[str, int],
        facts_wanted: int = 0,
        complete: bool = True,
        smallest_budget: int | None = None,
        tokens_omitted: int = 0,
        hits: Sequence[Hit] = (),
        receipt: Callable[[], Receipt] | None = None,
        matched: bool = True,
        irrelevant: int = 0,
    ) -> None:
        self.text = text
        self.token_count = token_count
        self.facts_included = facts_included
        self.facts_omitted = facts_omitted
        """How many candidates were left out, whatever the reason: the receipt names it."""
        self.tokens_omitted = tokens_omitted
        """What the texts of those would cost, as far as that is known."""
        self.facts_wanted = facts_wanted
        """How many there would be if there were room for all that is worth its tokens."""
        self.complete = complete
        """Whether those are all here, in full."""
        self.tier_breakdown = tier_breakdown
        """How many of each tier were included."""
        self.smallest_budget = smallest_budget
        """Where nothing fitted though something was found: the least budget that holds a part of it."""
        self.hits = tuple(hits)
        """What was included, best first."""
        self.matched = matched
        """False where nothing matched: then these are the newest and most important that pass the filters."""
        self.irrelevant = irrelevant
        """How many candidates were left out because they are not relevant enough."""
        self._receipt = receipt

    @cached_property
    def receipt(self) -> Receipt:
        """What became of every candidate; worked out when first asked for."""
        if self._receipt is None:
            raise SatchelError("a frame is given a block in the making, which has no receipt yet")
        return self._receipt()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The block as a list of messages, as providers take them."""
        return as_messages(self.text)

    def __repr__(self) -> str:
        return (
            f"<ContextBlock: {self.token_count} tokens, {self.facts_included} kept, {self.facts_omitted} omitted>"
        )


Wrap = Callable[[ContextBlock], str]


class Frame(NamedTuple):
    """Makes the final text of a block, such as a prompt around it; the budget is held against that."""

    wrap: Wrap
    encode: Callable[[str], str] = str
    """What becomes of each part of the block's own text inside the frame, such as the escapes of JSON."""


class Pricing:
    """What the parts of a layout cost with a counter, inside a frame if there is one."""

    def __init__(
        self, layout: Layout, counter: Counter, frame: Frame | None, candidates: int, *, matched: bool = True
    ) -> None:
        self._layout = layout
        self._count = counter.count
        self._counts_as_stored = counter.name == DEFAULT_COUNTER
        self._encode = frame.encode if frame else str
        self._headings: dict[tuple[str, Hashable], int] = {}
        self.around = self._count(layout.around)
        if frame:
            # With numbers at least as long as any that can come.
            most = 10 * candidates + 10
            tiers = dict.fromkeys(("working", "conversation", "knowledge"), most)
            widest = ContextBlock(
                text=layout.around,
                token_count=999_999,
                facts_included=most,
                facts_omitted=most,
                facts_wanted=most,
                complete=False,
                tier_breakdown=tiers,
                matched=matched,
            )
            self.around = self._count(frame.wrap(widest))

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
    frame: Frame | Wrap | None = None,
    hits: Sequence[Hit] | None = None,
    matched: bool = True,
) -> ContextBlock:
    """What is worth most of the items, which come in order of rank, as one block within the budget.

    `hits` are the same items as they were found, for the block to tell which of them it holds.
    """
    check_known("policy", policy, tuple(POLICIES))
    check_known("pins", pins, PINS)
    count = counter.count
    if frame is not None and not isinstance(frame, Frame):
        frame = Frame(frame)

    kept = sort_out(items, budget=budget)
    at_first = kept.wanted

    def block(placed: Sequence[Placed], text: str, tokens: int, wanted: int, **more: Any) -> ContextBlock:
        return ContextBlock(
            text=text,
            token_count=tokens,
            facts_included=len(placed),
            facts_omitted=len(items) - len(placed),
            tokens_omitted=_tokens(items) - _tokens(each.item for each in placed),
            facts_wanted=wanted,
            complete=len(placed) >= wanted and all(each.whole for each in placed),
            tier_breakdown=dict(Tally(each.item.tier for each in placed)),
            matched=matched,
            irrelevant=kept.irrelevant,
            **more,
        )

    def assemble(placed: Sequence[Placed]) -> str:
        text = layout.block(marked(placed))
        return frame.wrap(block(placed, text, count(text), at_first)) if frame else text

    packing = pack(
        items,
        kept=kept,
        budget=budget,
        prices=Pricing(layout, counter, frame, len(items), matched=matched),
        assemble=assemble,
        count=count,
        policy=POLICIES[policy],
        pins=pins,
        whole=whole,
        best_first=best_first,
    )
    return block(
        list(packing.placed.values()),
        packing.text,
        packing.token_count,
        packing.sorted.wanted,
        smallest_budget=packing.smallest_budget,
        hits=_told(hits, packing.placed) if hits else (),
        receipt=lambda: receipt(packing, counter=counter.name, format=layout.name),
    )
