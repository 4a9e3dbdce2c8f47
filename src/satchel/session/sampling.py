"""How many tokens a long text has, without counting all of it."""

from collections.abc import Callable

__all__ = ["about_tokens"]

_EXACT_BELOW = 200_000
_SAMPLES = 16
_SAMPLE = 4_096


def about_tokens(text: str, count: Callable[[str], int]) -> int:
    """Exact up to 200,000 characters; above, by samples from all over the text."""
    if len(text) <= _EXACT_BELOW:
        return count(text)
    last = len(text) - _SAMPLE
    starts = [last * number // (_SAMPLES - 1) for number in range(_SAMPLES)]
    counted = sum(count(text[start : start + _SAMPLE]) for start in starts)
    return round(counted / (_SAMPLES * _SAMPLE) * len(text))
