"""Counting tokens: exact vocabularies, a bounded estimate for Claude, and two rules of thumb."""

from satchel.tokens.counter import Counter
from satchel.tokens.registry import DEFAULT_COUNTER, counter, known_counters
from satchel.tokens.shorthand import count_tokens, estimate_tokens
from satchel.tokens.surrogates import repair_surrogates, repaired_value

__all__ = [
    "DEFAULT_COUNTER",
    "Counter",
    "count_tokens",
    "counter",
    "estimate_tokens",
    "known_counters",
    "repair_surrogates",
    "repaired_value",
]
