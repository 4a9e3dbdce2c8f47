"""What a provider reports, held against what was counted: the counter's slope, and the overhead beside it.

A prompt's real size is close to `slope * counted + overhead`: the slope is how the model's own tokens differ from
the counter's, the overhead is what every request carries uncounted (tool schemas, the chat's frame).
"""

import math
from collections.abc import Mapping
from itertools import combinations
from reprlib import repr as shortened
from typing import Any

import msgspec

from satchel.errors import InputError
from satchel.session.plan import checked_tokens

__all__ = ["Calibration", "reported_tokens"]

_KEPT = 32
_LEAST_SLOPE, _MOST_SLOPE = 0.5, 3.0
# Two prompts tell a slope only if they differ by this much: below it, the overhead's own changes are larger.
_LEAST_SPREAD = 500
_LEAST_RATIO = 1.1

_ANTHROPIC_CACHE = ("cache_creation_input_tokens", "cache_read_input_tokens")
_WHOLE_PROMPT = ("prompt_tokens", "promptTokenCount", "prompt_token_count", "input_tokens")


class Calibration(msgspec.Struct, frozen=True):
    """How counted tokens relate to reported ones, from the last 32 observations `(counted, reported)`."""

    slope: float = 1.0
    overhead: int = 0
    seen: tuple[tuple[int, int], ...] = ()

    def with_observation(self, counted: int, reported: int) -> "Calibration":
        """The calibration after one more prompt, of which `counted` tokens were counted and `reported` billed.

        The slope is the median of the slopes between pairs of prompts (Theil and Sen), so that a few odd ones do
        not move it; without two prompts that differ enough it stays, and the overhead takes the difference.
        """
        from statistics import median  # slow to import, and few sessions report

        seen = (*self.seen, (_tokens("counted", counted), _tokens("reported", reported)))[-_KEPT:]
        slopes = [
            (later[1] - earlier[1]) / (later[0] - earlier[0])
            for earlier, later in combinations(sorted(seen), 2)
            if later[0] - earlier[0] >= _LEAST_SPREAD and later[0] >= _LEAST_RATIO * earlier[0]
        ]
        slope = min(_MOST_SLOPE, max(_LEAST_SLOPE, median(slopes))) if slopes else self.slope
        overhead = median(reported - slope * counted for counted, reported in seen)
        return Calibration(slope=slope, overhead=max(0, round(overhead)), seen=seen)

    def corrected(self, tokens: int) -> int:
        """So many counted tokens as the model counts them, rounded up; the overhead is apart."""
        return math.ceil(round(tokens * self.slope, 6))

    def within(self, tokens: int) -> int:
        """How many counted tokens fit in so many real ones, rounded down.

        Where the counter counts too much this is still no more than `tokens`: a budget holds against the counter
        and against the model, so that a text never exceeds it by the numbers that a caller can check.
        """
        return math.floor(round(max(0, tokens) / max(1.0, self.slope), 6))


def reported_tokens(usage: Any) -> int:
    """The tokens of the prompt as the provider's `usage` has them, cached ones included.

    Anthropic counts cached tokens apart from `input_tokens`; OpenAI (chat and responses) and Gemini count them in.
    A mapping or an object of a provider's SDK.
    """
    numbers = _mapping(usage)
    found = next((name for name in _WHOLE_PROMPT if numbers.get(name) is not None), None)
    if found is None:
        raise InputError(
            f"usage has none of {', '.join(_WHOLE_PROMPT)}, only {shortened(sorted(map(str, numbers)))}; "
            f"give the usage of a response as the provider sent it"
        )
    names = (found, *_ANTHROPIC_CACHE) if found == "input_tokens" else (found,)
    return sum(_tokens(f"usage's {name}", numbers[name]) for name in names if numbers.get(name) is not None)


def _mapping(usage: Any) -> Mapping[str, Any]:
    if isinstance(usage, Mapping):
        return usage
    dump = getattr(usage, "model_dump", None)
    if callable(dump):
        dumped = dump()
        if isinstance(dumped, Mapping):
            return dumped
    if isinstance(usage, msgspec.Struct):
        return msgspec.structs.asdict(usage)
    try:
        return dict(vars(usage))
    except TypeError:
        raise InputError(f"usage {shortened(usage)} is neither a mapping nor an object with fields") from None


def _tokens(name: str, value: object) -> int:
    number = None if isinstance(value, str) else checked_tokens(f"{name} ", value)
    if number is None:
        raise InputError(f"{name} {shortened(value)} is not a number of tokens")
    return number
