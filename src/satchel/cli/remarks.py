"""What the output leaves unsaid, in a line for the person."""

from collections import Counter as Tally
from typing import NamedTuple

from satchel.api.satchel import Satchel
from satchel.fitting.context import ContextBlock
from satchel.fitting.context_pack import ContextPack
from satchel.fitting.hits import Hits
from satchel.model.receipt import Receipt

__all__ = ["UNMATCHED", "Outcome", "nothing_kept", "on_hits", "on_words_alone", "spent"]


UNMATCHED = "nothing matched the query; these are the newest and most important that pass the filters"


class Outcome(NamedTuple):
    """What became of the candidates of a text."""

    kept: int
    left_out: int
    irrelevant: int
    """How many of those left out are not relevant enough."""
    wanted: int
    """How many there would be with room for all that is relevant."""
    tokens: int
    smallest_budget: int | None
    """Where nothing fitted: the least budget that holds something."""
    asked: bool
    """Whether there was a question."""

    @classmethod
    def of_block(cls, block: ContextBlock, *, asked: bool) -> "Outcome":
        return cls(
            block.facts_included,
            block.facts_omitted,
            block.irrelevant,
            block.facts_wanted,
            block.token_count,
            block.smallest_budget,
            asked and block.matched,
        )

    @classmethod
    def of_pack(cls, pack: ContextPack, *, asked: bool) -> "Outcome":
        return cls(
            len(pack.memories),
            pack.omitted,
            pack.irrelevant,
            pack.wanted,
            pack.token_count,
            pack.smallest_budget,
            asked,
        )


def on_hits(hits: Hits, budget: int | None) -> str | None:
    """Nothing matched, nothing fitted, or something did not fit; None without a budget to speak of."""
    if not hits and not hits.omitted:
        return _nothing_relevant(hits.weak) if hits.weak else "nothing matched"
    if budget is None:
        return None if hits.matched else UNMATCHED
    if not hits:
        needed = f"the smallest needs a budget of {hits.smallest_budget:,}"
        return f"nothing fitted into {budget:,} tokens: {hits.omitted:,} matched, {needed}"
    more = f"; {hits.omitted:,} more did not fit" if hits.omitted else ""
    found = f"{_relevant(len(hits))}, " if hits.matched else f"{UNMATCHED}; "
    return f"{found}{hits.token_count:,} of {budget:,} tokens{more}"


def _relevant(number: int) -> str:
    return "1 relevant memory" if number == 1 else f"{number:,} relevant memories"


def _nothing_relevant(weak: int) -> str:
    matches = "1 weak match" if weak == 1 else f"{weak:,} weak matches"
    return f"nothing relevant: {matches} left out; --min-relevance 0 shows them"


def nothing_kept(outcome: Outcome, budget: int) -> str | None:
    """Why a text is empty; None where it is not."""
    if outcome.kept:
        return None
    if not outcome.left_out:
        return "nothing matched" if outcome.asked else "no memories here"
    if outcome.smallest_budget is None:
        return _nothing_relevant(outcome.irrelevant)
    candidates = _relevant(outcome.wanted) if outcome.asked else f"{outcome.wanted:,} candidates"
    needed = f"the smallest needs a budget of {outcome.smallest_budget:,}"
    return f"nothing fitted into {budget:,} tokens: {candidates}, {needed}"


def spent(outcome: Outcome, budget: int, receipt: Receipt | None = None) -> str:
    """How much of the budget is used, and how many did not fit; with a receipt all that were left out, and why."""
    used = f"{outcome.tokens:,} of {budget:,} tokens"
    if outcome.asked:
        used = f"{_relevant(outcome.kept)}, {used}"
    missed = outcome.wanted - outcome.kept
    if receipt is None or not outcome.left_out:
        return f"{used}; {missed:,} more did not fit; --explain says which" if missed > 0 else used
    reasons = Tally(entry.reason for entry in receipt.left_out).most_common()
    return f"{used}; {outcome.left_out:,} left out: " + ", ".join(f"{count:,} {why}" for why, count in reasons)


def on_words_alone(bag: Satchel, embedder: str | None) -> str | None:
    """That no vectors were used: a question is sent to a server only if its address is given, not recorded."""
    if bag.embedder_trouble:
        return f"searched by words alone: {bag.embedder_trouble}"
    if embedder is None and (own := bag.embedder) and own.startswith("openai:"):
        return f"searched by words alone; by meaning too with --embedder {own}"
    return None
