"""What `Satchel` answers with."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import overload

import msgspec

from satchel.items import matched_start
from satchel.memory import Hit, Memory
from satchel.portions import Portion, portioned
from satchel.render import Detail, entry, entry_json, join_entries, join_json
from satchel.tokens import Counter

__all__ = ["Hits", "Timeline", "fitted_hits"]


class Hits(Sequence[Hit]):
    """Ranked hits within a budget, with the text they make and what it costs."""

    def __init__(
        self,
        hits: Sequence[Hit],
        *,
        text: str,
        entries: Sequence[str],
        counter: Counter,
        omitted: int,
        smallest_budget: int | None,
        tokens_omitted: int = 0,
    ) -> None:
        self._hits = tuple(hits)
        self._counter = counter
        self.text = text
        self.entries = tuple(entries)
        """What `text` says of each hit."""
        self.omitted = omitted
        self.tokens_omitted = tokens_omitted
        """What the texts of those would cost."""
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
    sought: Sequence[str] = (),
) -> Hits:
    """The hits whose listing fits the budget: text under the given short ids, or JSON without any.

    A snippet begins with the sentence that has most of what was `sought`.
    """
    if names is None:
        parts = [_hit_json(hit, detail, sought) for hit in found]
    else:
        pairs = zip(found, names, strict=True)
        parts = [
            entry(hit.memory, short_id=name, detail=detail, matched=matched_start(hit, sought))
            for hit, name in pairs
        ]

    def assemble(shown: Sequence[Portion], whole: bool) -> str:
        chosen = [portion.text for portion in shown]
        if names is None:
            return join_json("hits", chosen, omitted=len(parts) - len(chosen))
        return join_entries(chosen)

    portions = [Portion(part, name=hit.memory.id) for part, hit in zip(parts, found, strict=True)]
    fitted = portioned(portions, budget=budget, count=counter.count, assemble=assemble)
    kept = {portion.name for portion in fitted.shown}
    return Hits(
        [hit for hit in found if hit.memory.id in kept],
        text=fitted.text,
        entries=[portion.text for portion in fitted.shown],
        counter=counter,
        omitted=len(found) - len(kept),
        tokens_omitted=sum(hit.memory.tokens for hit in found if hit.memory.id not in kept),
        smallest_budget=fitted.smallest_budget,
    )


def _hit_json(hit: Hit, detail: Detail, sought: Sequence[str]) -> str:
    """With the parts of its score and the passage that matched, where they were asked for."""
    passage = hit.passage if hit.parts is not None else None
    matched = matched_start(hit, sought)
    return entry_json(hit.memory, detail=detail, score=hit.score, parts=hit.parts, passage=passage, matched=matched)
