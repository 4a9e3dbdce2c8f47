"""Results of `Satchel` methods: search hits within a budget, and timelines."""

from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import msgspec
from msgspec.structs import replace

from satchel.fitting.listing import (
    Detail,
    Portion,
    as_json,
    entry,
    entry_json,
    fit_portions,
    join_entries,
    join_json,
    matched_start,
)
from satchel.model.memory import Hit, Memory
from satchel.model.result import FittedResult, Result
from satchel.text.tokens import Counter

__all__ = ["Hits", "SearchResult", "Timeline", "fitted_hits"]


class SearchResult(FittedResult, frozen=True, kw_only=True):
    """What a search found: `text` for a model, within the budget, and the same memories as `hits` for a program."""

    hits: tuple[Hit, ...]
    """Best first."""


class Hits(Result, Sequence[Hit]):
    """Ranked search hits within a budget, best first, and the text that lists them.

    It is a sequence of `Hit`. `text` goes to a model; `omitted` hits did not fit into the budget, and `irrelevant`
    candidates were below `min_relevance`.
    """

    def __init__(
        self,
        hits: Sequence[Hit],
        *,
        text: str,
        entries: Sequence[str],
        short_ids: Sequence[str] = (),
        counter: Counter,
        token_budget: int | None,
        omitted: int,
        smallest_budget: int | None,
        tokens_omitted: int = 0,
        matched: bool = True,
        irrelevant: int = 0,
    ) -> None:
        self._hits = tuple(hits)
        self._counter = counter
        self.text = text
        self.entries = tuple(entries)
        """The part of `text` for each hit."""
        self.short_ids = tuple(short_ids)
        """The short id of each hit in `text`; empty if it is JSON, which has full ids."""
        self.token_budget = token_budget
        self.omitted = omitted
        """How many more were found and did not fit into the budget."""
        self.tokens_omitted = tokens_omitted
        """What the texts of those would cost."""
        self.smallest_budget = smallest_budget
        """If nothing fitted though something was found: the smallest budget that holds a hit."""
        self.matched = matched
        """False if nothing matched: then these are the newest and most important that pass the filters."""
        self.irrelevant = irrelevant
        """How many of the candidates that were looked at are below `min_relevance`, and not here."""

    @cached_property
    def token_count(self) -> int:
        """What `text` costs; counted when first asked for, since a vocabulary takes time to load."""
        return self._counter.count(self.text)

    @property
    def included(self) -> int:
        """How many hits there are: `len(hits)`."""
        return len(self._hits)

    @property
    def complete(self) -> bool:
        """Whether nothing was omitted."""
        return not self.omitted

    def result(self) -> SearchResult:
        """Return the hits as the value that `to_dict`, `json`, `--json` and the HTTP service encode."""
        return SearchResult(
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
            hits=self._hits,
        )

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

    def _plain(self) -> SearchResult:
        return self.result()

    def _summary(self) -> str:
        # Without the tokens: counting them may have to load a vocabulary.
        best = f", best {self._hits[0]._summary()}" if self._hits else ""
        hits = "1 hit" if len(self) == 1 else f"{len(self)} hits"
        return f"{hits}, {self.omitted:,} omitted, {self.irrelevant:,} irrelevant{best}"


class Timeline(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A memory and what came before and after it, oldest first."""

    before: tuple[Memory, ...]
    focus: Memory
    after: tuple[Memory, ...]

    def _summary(self) -> str:
        return f"{len(self.before)} before, {len(self.after)} after {self.focus._summary()}"


def fitted_hits(
    found: Sequence[Hit],
    *,
    names: Sequence[str] | None,
    budget: int | None,
    counter: Counter,
    detail: Detail,
    sought: Sequence[str] = (),
    matched: bool = True,
    irrelevant: int = 0,
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

    def assemble(shown: Sequence[Portion], whole: bool, smallest_budget: int | None = None) -> str:
        if names is not None:
            return join_entries(shown_as(shown))
        there = {portion.name for portion in shown}
        missing = [hit.memory.tokens for hit in found if hit.memory.id not in there]
        return join_json(
            "hits",
            shown_as(shown),
            included=len(shown),
            omitted=len(missing),
            tokens_omitted=sum(missing),
            irrelevant=irrelevant,
            complete=not missing,
            matched=matched,
            **({} if smallest_budget is None else {"smallest_budget": smallest_budget}),
        )

    portions = [Portion(said(hit), name=hit.memory.id) for hit in listed]
    fitted = fit_portions(portions, budget=budget, count=counter.count, assemble=assemble)
    kept = {portion.name for portion in fitted.shown}
    text = fitted.text
    if names is None and budget is not None and fitted.smallest_budget is not None:
        # Nothing fitted. JSON says what would, if there is room for that.
        told = assemble((), False, fitted.smallest_budget)
        text = told if counter.count(told) <= budget else text
    return Hits(
        [_marked(hit, kept) for hit in listed if hit.memory.id in kept],
        text=text,
        entries=shown_as(fitted.shown),
        short_ids=[shorts[portion.name] for portion in fitted.shown] if names is not None else (),
        counter=counter,
        token_budget=budget,
        omitted=len(found) - len(kept),
        tokens_omitted=sum(hit.memory.tokens for hit in found if hit.memory.id not in kept),
        smallest_budget=fitted.smallest_budget,
        matched=matched,
        irrelevant=irrelevant,
    )


def _marked(hit: Hit, shown: Container[str]) -> Hit:
    """A hit that does not name what is not shown."""
    return hit if hit.overtaken_by is None or hit.overtaken_by in shown else replace(hit, overtaken_by=None)


def _hit_json(hit: Hit, detail: Detail, sought: Sequence[str], relevance: float | None) -> str:
    """A hit on one line, without fields that are unset; the parts of its score only if they were asked for."""
    memory = entry_json(hit.memory, detail=detail, matched=matched_start(hit, sought))
    told: dict[str, Any] = {"score": round(hit.score, 6)}
    if relevance is not None:
        told["relevance"] = round(relevance, 3)
    if hit.parts is not None:
        told["parts"] = hit.parts
        told |= {"passages": hit.passages} if hit.passages else {}
    if hit.overtaken_by is not None:
        told["overtaken_by"] = hit.overtaken_by
    if hit.duplicates:
        told["duplicates"] = hit.duplicates
    return f'{{"memory":{memory},{as_json(told)[1:]}'
