"""The lines at the end of an answer that say what it cost, inside the budget themselves."""

from collections.abc import Callable

import msgspec

from satchel.render import self_counted

__all__ = ["Footing", "footed"]


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


def footed(body: str, footing: Footing, count: Callable[[str], int]) -> tuple[str, int]:
    """The text with its footers, and its number of tokens, which is the one they state."""
    above = f"{body}\n" if body else ""

    def make(tokens: int) -> str:
        return above + "\n".join([*_cut_lines(footing, tokens), f"📏 ~{tokens:,} tokens"])

    return self_counted(make, count)


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
