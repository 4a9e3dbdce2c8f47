"""What the output leaves unsaid, in a line for the person."""

from collections import Counter as Tally
from typing import NamedTuple

from satchel.bag import Satchel
from satchel.pack import Receipt
from satchel.results import Hits

__all__ = ["UNMATCHED", "Outcome", "nothing_kept", "on_hits", "on_words_alone", "spent"]


UNMATCHED = "nothing matched the query; these are the newest and most important that pass the filters"


class Outcome(NamedTuple):
    """What became of the candidates of a text."""

    kept: int
    left_out: int
    tokens: int
    smallest_budget: int | None
    """Where nothing fitted: the least budget that holds something."""


def on_hits(hits: Hits, budget: int | None) -> str | None:
    """Nothing matched, nothing fitted, or something did not fit; None without a budget to speak of."""
    if not hits and not hits.omitted:
        return "nothing matched"
    if budget is None:
        return None if hits.matched else UNMATCHED
    if not hits:
        needed = f"the smallest needs a budget of {hits.smallest_budget:,}"
        return f"nothing fitted into {budget:,} tokens: {hits.omitted:,} matched, {needed}"
    more = f"; {hits.omitted:,} more did not fit" if hits.omitted else ""
    return ("" if hits.matched else f"{UNMATCHED}; ") + f"{hits.token_count:,} of {budget:,} tokens{more}"


def nothing_kept(outcome: Outcome, budget: int, *, asked: bool) -> str | None:
    """Why a text is empty; None where it is not."""
    if outcome.kept:
        return None
    if not outcome.left_out:
        return "nothing matched" if asked else "no memories here"
    candidates = "1 candidate" if outcome.left_out == 1 else f"{outcome.left_out:,} candidates"
    if outcome.smallest_budget is None:
        return f"nothing is worth its tokens: {candidates} left out; --explain says why"
    needed = f"the smallest needs a budget of {outcome.smallest_budget:,}"
    return f"nothing fitted into {budget:,} tokens: {candidates}, {needed}"


def spent(outcome: Outcome, budget: int, receipt: Receipt | None = None) -> str:
    """How much of the budget is used, and how many were left out; with a receipt also for which reasons."""
    used = f"{outcome.tokens:,} of {budget:,} tokens"
    if not outcome.left_out:
        return used
    if receipt is None:
        return f"{used}; {outcome.left_out:,} left out; --explain says why"
    reasons = Tally(entry.reason for entry in receipt.left_out).most_common()
    return f"{used}; {outcome.left_out:,} left out: " + ", ".join(f"{count:,} {why}" for why, count in reasons)


def on_words_alone(bag: Satchel, embedder: str | None) -> str | None:
    """That no vectors were used: a question is sent to a server only if its address is given, not recorded."""
    if bag.embedder_trouble:
        return f"searched by words alone: {bag.embedder_trouble}"
    if embedder is None and (own := bag.embedder) and own.startswith("openai:"):
        return f"searched by words alone; by meaning too with --embedder {own}"
    return None
