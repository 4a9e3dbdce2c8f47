"""Results of `Satchel` methods: search hits within a budget, and timelines."""

from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from typing import overload

import msgspec
from msgspec.structs import replace

from satchel.fitting.listing import (
    Detail,
    Portion,
    entry,
    entry_json,
    fit_portions,
    join_entries,
    join_json,
    matched_start,
)
from satchel.model.memory import Hit, Memory
from satchel.text.tokens import Counter

__all__ = ["Hits", "Timeline", "fitted_hits"]


class Hits(Sequence[Hit]):
    """Ranked search hits within a budget, best first, and the text that lists them."""

    def __init__(
        self,
        hits: Sequence[Hit],
        *,
        text: str,
        entries: Sequence[str],
        short_ids: Sequence[str] = (),
        counter: Counter,
        omitted: int,
        smallest_budget: int | None,
        tokens_omitted: int = 0,
        matched: bool = True,
        weak: int = 0,
    ) -> None:
        self._hits = tuple(hits)
        self._counter = counter
        self.text = text
        self.entries = tuple(entries)
        """The part of `text` for each hit."""
        self.short_ids = tuple(short_ids)
        """The short id of each hit in `text`; empty if it is JSON, which has full ids."""
        self.omitted = omitted
        self.tokens_omitted = tokens_omitted
        """What the texts of those would cost."""
        self.smallest_budget = smallest_budget
        self.matched = matched
        """False where nothing matched: then these are the newest and most important that pass the filters."""
        self.weak = weak
        """How many of the matches looked at were less relevant than `min_relevance`, and are not here."""

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
    matched: bool = True,
    weak: int = 0,
) -> Hits:
    """Fit a listing of hits into a budget: as text with the given short ids, or as JSON if `names` is None.

    A snippet begins with the sentence that has most of the `sought` words.
    """
    shorts = {hit.memory.id: name for hit, name in zip(found, names or [""] * len(found), strict=True)}
    listed = [_marked(hit, shorts) for hit in found]

    def said(hit: Hit) -> str:
        relevance = hit.relevance if matched else None
        if names is None:
            return _hit_json(hit, detail, sought, relevance)
        newer = shorts[hit.overtaken_by] if hit.overtaken_by else None
        start = matched_start(hit, sought)
        return entry(
            hit.memory,
            short_id=shorts[hit.memory.id],
            detail=detail,
            matched=start,
            overtaken_by=newer,
            relevance=relevance,
            alike=len(hit.duplicates),
        )

    unmarked = {hit.memory.id: said(replace(hit, overtaken_by=None)) for hit in listed if hit.overtaken_by}
    newer_than = {hit.memory.id: hit.overtaken_by for hit in listed if hit.overtaken_by}

    def shown_as(shown: Sequence[Portion]) -> list[str]:
        """Without the marks that name what is not shown."""
        there = {portion.name for portion in shown}
        absent = {name for name, newer in newer_than.items() if newer not in there}
        return [unmarked[portion.name] if portion.name in absent else portion.text for portion in shown]

    def assemble(shown: Sequence[Portion], whole: bool) -> str:
        if names is None:
            return join_json("hits", shown_as(shown), omitted=len(found) - len(shown), weak=weak)
        return join_entries(shown_as(shown))

    portions = [Portion(said(hit), name=hit.memory.id) for hit in listed]
    fitted = fit_portions(portions, budget=budget, count=counter.count, assemble=assemble)
    kept = {portion.name for portion in fitted.shown}
    return Hits(
        [_marked(hit, kept) for hit in listed if hit.memory.id in kept],
        text=fitted.text,
        entries=shown_as(fitted.shown),
        short_ids=[shorts[portion.name] for portion in fitted.shown] if names is not None else (),
        counter=counter,
        omitted=len(found) - len(kept),
        tokens_omitted=sum(hit.memory.tokens for hit in found if hit.memory.id not in kept),
        smallest_budget=fitted.smallest_budget,
        matched=matched,
        weak=weak,
    )


def _marked(hit: Hit, shown: Container[str]) -> Hit:
    """A hit that does not name what is not shown."""
    return hit if hit.overtaken_by is None or hit.overtaken_by in shown else replace(hit, overtaken_by=None)


def _hit_json(hit: Hit, detail: Detail, sought: Sequence[str], relevance: float | None) -> str:
    """With the parts of its score and the passage that matched, where they were asked for."""
    passage = hit.passage if hit.parts is not None else None
    matched = matched_start(hit, sought)
    return entry_json(
        hit.memory,
        detail=detail,
        score=hit.score,
        relevance=relevance,
        parts=hit.parts,
        passage=passage,
        matched=matched,
        overtaken_by=hit.overtaken_by,
        duplicates=hit.duplicates,
    )
