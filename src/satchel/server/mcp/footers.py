"""The lines at the end of an answer that say what it cost, inside the budget themselves."""

from collections.abc import Callable

import msgspec

from satchel.fitting.selfcount import self_counted

__all__ = ["RELEVANT", "Footing", "footed"]

# What is counted where a question was asked.
RELEVANT = "relevant memories"


class Footing(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of an answer beside its text."""

    budget: int
    shown: int
    total: int
    whole: bool
    """Whether nothing was left out for lack of room."""
    noun: str = "memories"
    cursor: str | None = None
    """What gives the rest."""
    asked: bool = False
    """Whether the budget is the caller's own, and not the server's limit."""


def footed(body: str, footing: Footing, count: Callable[[str], int]) -> tuple[str, int]:
    """The text with its footers, and its number of tokens, which is the one they state."""
    above = f"{body}\n" if body else ""

    def make(tokens: int) -> str:
        return above + "\n".join([*_cut_lines(footing, tokens), f"📏 {_cost(footing, tokens)}"])

    return self_counted(make, count)


def _cost(footing: Footing, tokens: int) -> str:
    """The tokens; where all that is relevant is there, also how much that is."""
    if footing.noun != RELEVANT or not footing.whole or not footing.shown:
        return f"~{tokens:,} tokens"
    noun = RELEVANT if footing.shown != 1 else "relevant memory"
    budget = f" of {footing.budget:,}" if footing.asked else ""
    return f"{footing.shown:,} {noun}, ~{tokens:,}{budget} tokens"


def _cut_lines(footing: Footing, tokens: int) -> list[str]:
    if footing.whole:
        return []
    lines = [
        f"⚡ Budget: ~{tokens:,}/{footing.budget:,} tokens used. "
        f"{footing.shown:,} of {footing.total:,} {footing.noun} shown. "
        "Increase max_tokens or use detail_level=summary for more."
    ]
    if footing.cursor is not None:
        lines.insert(0, f"➡ The rest: cursor={footing.cursor}")
    return lines
