"""Lines that were found in a result, as many as there is room for."""

from collections.abc import Callable

from satchel.fitting.selfcount import self_counted
from satchel.session.patterns import Lines
from satchel.session.shown import Found

__all__ = ["shown_lines"]


def shown_lines(lines: Lines, *, allocation: int, count: Callable[[str], int]) -> Found:
    """The first lines with their numbers, cut where they are long; below, how many there are in all."""
    written = [f"{number}: {line}" for number, line in zip(lines.numbers, lines.lines, strict=True)]
    low, high = 0, len(written)
    while low < high:
        middle = (low + high + 1) // 2
        if _found(written[:middle], lines, allocation, count).token_count <= allocation:
            low = middle
        else:
            high = middle - 1
    found = _found(written[:low], lines, allocation, count)
    if found.token_count <= allocation:
        return found
    return Found(
        text="",
        token_count=0,
        allocation=allocation,
        matches=lines.matches,
        shown=0,
        complete=not lines.stopped,
    )


def _found(written: list[str], lines: Lines, allocation: int, count: Callable[[str], int]) -> Found:
    more = "more than " if lines.stopped else ""
    head = "Nothing matched." if not lines.matches else ""
    tail = f"⚡ {len(written):,} of {more}{lines.matches:,} matching lines shown."
    if len(written) < lines.matches:
        tail += " Narrow the pattern to see others."

    def make(tokens: int) -> str:
        return "\n".join([*([head] if head else [*written, tail]), f"📏 ~{tokens:,} tokens"])

    text, tokens = self_counted(make, count)
    return Found(
        text=text,
        token_count=tokens,
        allocation=allocation,
        matches=lines.matches,
        shown=len(written),
        complete=not lines.stopped,
    )
