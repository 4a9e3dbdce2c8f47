"""What `Satchel` answers with."""

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cached_property
from typing import overload

import msgspec

from satchel.memory import Hit, Memory
from satchel.pack import Item, choose, fit, fit_proposed
from satchel.render import (
    CONTEXT_TITLE,
    Detail,
    bullet,
    bullet_opening,
    context_heading,
    context_markdown,
    entry,
    entry_json,
    group_of,
    join_entries,
    join_json,
)
from satchel.tokens import DEFAULT_COUNTER, Counter

__all__ = ["ContextBlock", "Frame", "Hits", "Timeline", "by_age", "enough_for", "fitted_context", "fitted_hits"]

SHORT_LINE = 6
FEWEST_CANDIDATES = 50
MOST_CANDIDATES = 2_000


class Hits(Sequence[Hit]):
    """Ranked hits within a budget, with the text they make and what it costs."""

    def __init__(
        self,
        hits: Sequence[Hit],
        *,
        text: str,
        counter: Counter,
        omitted: int,
        smallest_budget: int | None,
    ) -> None:
        self._hits = tuple(hits)
        self._counter = counter
        self.text = text
        self.omitted = omitted
        self.smallest_budget = smallest_budget

    @cached_property
    def token_count(self) -> int:
        """What `text` costs; counted when first asked for, since a vocabulary takes time to load."""
        return self._counter.count(self.text)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        return self._hits[index]

    def __len__(self) -> int:
        return len(self._hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self._hits)

    def __repr__(self) -> str:
        return f"<Hits: {len(self)} kept, {self.omitted} omitted>"


class ContextBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A text for a model's context window, within its budget, and what went into it."""

    text: str
    token_count: int
    facts_included: int
    facts_omitted: int
    """How many were found and left out for want of room."""
    tier_breakdown: dict[str, int]
    """How many of each tier were included."""
    smallest_budget: int | None = None
    """Where nothing fitted though something was found: the least budget that holds a part of it."""
    hits: tuple[Hit, ...] = ()
    """What was included, best first."""


Frame = Callable[[ContextBlock], str]
"""Makes the final text of a block whose own text is what goes into it; the budget is held against that."""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A memory and what came before and after it, oldest first."""

    before: tuple[Memory, ...]
    focus: Memory
    after: tuple[Memory, ...]


def fitted_hits(
    found: Sequence[Hit],
    *,
    names: Sequence[str] | None,
    budget: int | None,
    counter: Counter,
    detail: Detail,
) -> Hits:
    """The hits whose listing fits the budget: text under the given short ids, or JSON without any."""
    if names is None:
        parts = [_hit_json(hit, detail) for hit in found]
    else:
        pairs = zip(found, names, strict=True)
        parts = [entry(hit.memory, short_id=name, detail=detail) for hit, name in pairs]

    def assemble(kept: Sequence[int]) -> str:
        chosen = [parts[index] for index in kept]
        if names is None:
            return join_json("hits", chosen, omitted=len(parts) - len(kept))
        return join_entries(chosen)

    fitted = fit(parts, budget=budget, count=counter.count, assemble=assemble)
    return Hits(
        [found[index] for index in fitted.kept],
        text=fitted.text,
        counter=counter,
        omitted=len(found) - len(fitted.kept),
        smallest_budget=fitted.smallest_budget,
    )


def _hit_json(hit: Hit, detail: Detail) -> str:
    """With the parts of its score and the passage that matched, where they were asked for."""
    passage = hit.passage if hit.parts is not None else None
    return entry_json(hit.memory, detail=detail, score=hit.score, parts=hit.parts, passage=passage)


def enough_for(budget: int | None) -> int:
    """How many candidates could fill a budget with short lines."""
    return MOST_CANDIDATES if budget is None else min(max(budget // SHORT_LINE, FEWEST_CANDIDATES), MOST_CANDIDATES)


def by_age(memories: Sequence[Memory]) -> list[Hit]:
    """Memories that come newest first as hits: the pinned before the others, worth less with each place."""
    ordered = sorted(memories, key=lambda memory: not memory.pinned)
    return [Hit(memory, 1 / (1 + place)) for place, memory in enumerate(ordered)]


def fitted_context(
    found: Sequence[Hit],
    *,
    budget: int | None,
    counter: Counter,
    frame: Frame | None = None,
    pinned_first: bool = False,
) -> ContextBlock:
    """The hits that are worth most for their tokens, as one block within the budget."""
    count = counter.count
    memories = [hit.memory for hit in found]
    items = [
        Item(hit.score, cost, group_of(hit.memory), pinned_first and hit.memory.pinned)
        for hit, cost in zip(found, _line_costs(memories, counter), strict=True)
    ]
    heading, base = count(context_heading(date.max)), count(CONTEXT_TITLE)
    lines: dict[str, str] = {}

    def line(memory: Memory) -> str:
        return lines.get(memory.id) or lines.setdefault(memory.id, bullet(memory))

    def block(kept: Sequence[int], text: str, smallest: int | None = None) -> ContextBlock:
        return ContextBlock(
            text=text,
            token_count=count(text),
            facts_included=len(kept),
            facts_omitted=len(found) - len(kept),
            tier_breakdown=dict(Tally(memories[index].tier for index in kept)),
            smallest_budget=smallest,
            hits=tuple(found[index] for index in kept),
        )

    def assemble(kept: Sequence[int]) -> str:
        text = context_markdown([memories[index] for index in kept], line=line)
        return frame(block(kept, text)) if frame else text

    def propose(room: int, kept: Sequence[int], refused: Sequence[int]) -> list[int]:
        return choose(items, budget=room, group_cost=heading, base_cost=base, taken=kept, refused=refused)

    fitted = fit_proposed(propose, total=len(found), budget=budget, count=count, assemble=assemble)
    return block(fitted.kept, fitted.text, fitted.smallest_budget)


def _line_costs(memories: Sequence[Memory], counter: Counter) -> list[int]:
    """What the lines of each memory cost, about: where the counter is that of its stored cost, without
    counting its text again."""
    if counter.name != DEFAULT_COUNTER:
        return counter.count_many(bullet(memory) for memory in memories)
    openings = [bullet_opening(memory).rstrip() for memory in memories]
    known = {each: counter.count(each) for each in set(openings)}
    return [
        # The indent of a further line costs a token at most; blank lines have none.
        memory.tokens + known[before] + memory.text.count("\n") - memory.text.count("\n\n")
        for memory, before in zip(memories, openings, strict=True)
    ]
