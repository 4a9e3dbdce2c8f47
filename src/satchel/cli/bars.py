"""Bars of tokens by category, in characters that tell the categories apart without colour."""

from collections.abc import Mapping

__all__ = ["bar", "legend"]

_MARKS = {"system": "▒", "history": "▓", "tool_results": "█", "user": "▞", "response_reserve": "·"}


def bar(used: Mapping[str, int], total: int, *, width: int = 50) -> str:
    """One bar whose length is the total; what goes beyond it is marked at its end."""
    drawn = ""
    so_far = 0
    for name, tokens in used.items():
        so_far += tokens
        # A category that has anything is seen, and rounding never makes the bar longer.
        wanted = round(width * so_far / max(1, total)) - len(drawn)
        drawn += _MARKS[name] * max(wanted, 1 if tokens else 0)
    over = "!" if so_far > total else ""
    return f"[{drawn[:width].ljust(width)}]{over}"


def legend(titles: Mapping[str, str]) -> str:
    return "  ".join(f"{_MARKS[name]} {title}" for name, title in titles.items())
