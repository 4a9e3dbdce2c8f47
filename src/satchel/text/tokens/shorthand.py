"""Counting in one call."""

from satchel.text.tokens import registry
from satchel.text.tokens.counter import Counter
from satchel.text.tokens.heuristic import HEURISTICS

__all__ = ["count_tokens", "estimate_tokens"]


def count_tokens(text: str, counter: str | Counter = registry.DEFAULT_COUNTER) -> int:
    """The number of tokens that a budget is held against."""
    return registry.counter(counter).count(text)


def estimate_tokens(text: str) -> int:
    """A quick guess in constant time: a quarter of the characters, rounded up."""
    return HEURISTICS["chars/4"].count(text)
