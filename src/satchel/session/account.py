"""Token accounting of a session: used and remaining tokens, the next allocation, warnings, calibration."""

import math
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from itertools import combinations
from reprlib import repr as shortened
from typing import Any, NamedTuple

import msgspec

from satchel.errors import InputError
from satchel.model.result import Result
from satchel.session.budget import Budget, checked_tokens
from satchel.store.contract import SessionRow

__all__ = ["FLOOR", "Account", "Calibration", "SessionState", "account_of", "reported_tokens"]


_KEPT = 32
_LEAST_SLOPE, _MOST_SLOPE = 0.5, 3.0
# A pair of prompts gives a usable slope only if their sizes differ by this much. Below that, changes of the
# overhead outweigh the difference.
_LEAST_SPREAD = 500
_LEAST_RATIO = 1.1

_ANTHROPIC_CACHE = ("cache_creation_input_tokens", "cache_read_input_tokens")
_WHOLE_PROMPT = ("prompt_tokens", "promptTokenCount", "prompt_token_count", "input_tokens")


class SessionState(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The budget of a session: its total, the tokens used by category, and what is left."""

    session: str
    project: str | None
    total_budget: int
    used: dict[str, int]
    """Tokens by category: system, history, tool_results, user, response_reserve."""
    remaining: int
    assumed: bool
    """Whether the total is only a default, because the model's context window is not known."""
    per_tool_budget: int
    """How many tokens the next tool result may have."""
    warning: str | None
    """A line for the model if tokens run low."""
    turn: int
    results: int
    """How many tool results were stored."""
    delivered: int
    """The tokens of all results that were ever given out."""
    evicted: int
    """How many entries were shortened or evicted."""
    created_at: datetime
    updated_at: datetime

    def _summary(self) -> str:
        return f"{self.session!r}: {self.remaining:,} of {self.total_budget:,} tokens left, turn {self.turn:,}"


class Calibration(Result, msgspec.Struct, frozen=True):
    """How the counted tokens of a session relate to those that its provider reports.

    The provider's number is estimated as `slope` times the counted tokens plus `overhead`, which covers what is
    not counted here, such as tool definitions. Both are fitted to the last 32 observations `(counted, reported)`.
    Without observations, counts are used unchanged.
    """

    slope: float = 1.0
    overhead: int = 0
    seen: tuple[tuple[int, int], ...] = ()

    def _summary(self) -> str:
        return f"slope {self.slope:.3f}, overhead {self.overhead:,}, {len(self.seen)} observations"

    def with_observation(self, counted: int, reported: int) -> "Calibration":
        """Return the calibration after one more prompt: `counted` tokens here, `reported` by the provider.

        The slope is the Theil–Sen estimate (the median over all pairs of prompts), which ignores a few outliers.
        Until two prompts differ enough in size, the slope stays the same and the overhead takes the difference.
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
        """Convert counted tokens to the model's tokens, rounded up, without the overhead."""
        return math.ceil(round(tokens * self.slope, 6))

    def within(self, tokens: int) -> int:
        """Return how many counted tokens fit in a number of the model's tokens, rounded down.

        The result is never larger than `tokens`, even if the counter overcounts. So a budget holds both by the
        counter, which a caller can check, and by the model.
        """
        return math.floor(round(max(0, tokens) / max(1.0, self.slope), 6))


def reported_tokens(usage: Any) -> int:
    """Return the prompt tokens in a provider's `usage`, cached tokens included.

    `usage` is a mapping or an object of a provider's SDK. Anthropic reports cached tokens beside `input_tokens`;
    OpenAI (chat and responses) and Gemini include them in one number.
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


# The account: ledger sums against the budget


FLOOR = 400
"""The smallest allocation of a result, unless `per_call` is smaller: room for a note and some content."""

_budget_decoder = msgspec.json.Decoder(Budget)
_calibration_decoder = msgspec.json.Decoder(Calibration)


class Account(NamedTuple):
    """A session's ledger sums together with its budget and calibration.

    The sums in `row` are in tokens of the session's counter. `used` and `remaining` are in tokens of the model,
    after calibration. An account is immutable: `after` and `in_next_turn` return new ones.
    """

    row: SessionRow
    budget: Budget
    calibration: Calibration

    @property
    def used(self) -> dict[str, int]:
        """Tokens by category, as the model counts them; `system` includes the calibrated overhead."""
        real = self.calibration.corrected
        return {
            "system": real(self.row.system) + self.calibration.overhead,
            "history": real(self.row.history),
            "tool_results": real(self.row.tool_results),
            "user": real(self.row.user_message),
            "response_reserve": self.budget.response,
        }

    @property
    def remaining(self) -> int:
        """Tokens left of the total, after the tokens reserved for the response."""
        return max(0, self.budget.total - sum(self.used.values()))

    @property
    def room(self) -> int:
        """Counted tokens that tool results may still use in this turn."""
        left = self.budget.tool_results - self.calibration.corrected(self.row.turn_results)
        if self.row.holds == "digests":
            # The caller keeps these results in its context, so the next turn must have room for them too.
            left = min(left, self.remaining)
        return self.calibration.within(max(0, left))

    @property
    def allocation(self) -> int:
        """Counted tokens for the next result: at most `per_call`, and at most half of what this turn has left."""
        return min(self._share, max(FLOOR, self.room // 2))

    def granted(self, asked: int | None) -> int:
        """Counted tokens granted to a result for which the caller asks for `asked` tokens."""
        return self.allocation if asked is None else min(asked, max(min(FLOOR, self._share), self.room))

    @property
    def _share(self) -> int:
        return self.calibration.within(self.budget.per_call)

    def in_next_turn(self) -> "Account":
        """Return the account at the start of the next turn, with no results in it yet."""
        return self._replace(row=msgspec.structs.replace(self.row, turn_results=0))

    def after(self, tokens: int) -> "Account":
        """Return the account after a result of this many tokens was entered."""
        row = msgspec.structs.replace(
            self.row,
            tool_results=self.row.tool_results + tokens,
            turn_results=self.row.turn_results + tokens,
        )
        return self._replace(row=row)

    @property
    def level(self) -> int:
        """Warning level: 0 for enough tokens, 1 for low, 2 for critical; always 0 if the total is only assumed."""
        if self.budget.assumed:
            return 0
        return (self.remaining < self.budget.warn_below) + (self.remaining < self.budget.critical_below)

    @property
    def warning(self) -> str | None:
        """The warning for the model at this level, or None."""
        return (
            None,
            f"[Budget Alert: {self.left} tokens remaining. Consider summarizing or completing soon.]",
            f"[Budget Critical: {self.left} tokens remaining. Summarize and complete now.]",
        )[self.level]

    @property
    def left(self) -> str:
        """The remaining tokens in words, as notes and warnings state them."""
        return f"~{self.remaining // 1000}k" if self.remaining >= 1000 else f"~{self.remaining}"

    @property
    def due_warning(self) -> str | None:
        """The warning, if the model was not warned at this level yet."""
        return self.warning if self.level > self.row.warned else None

    def suggested(self, cost: int) -> int:
        """Return how many items of `cost` tokens fit in the next result, at least 1."""
        return max(1, self.allocation // max(1, cost))

    def state(self) -> SessionState:
        """The account as a value that does not change."""
        return SessionState(
            session=self.row.name,
            project=self.row.scope.project,
            total_budget=self.budget.total,
            used=self.used,
            remaining=self.remaining,
            assumed=self.budget.assumed,
            per_tool_budget=self.allocation,
            warning=self.warning,
            turn=self.row.turn,
            results=self.row.results,
            delivered=self.row.delivered,
            evicted=self.row.evicted,
            created_at=self.row.created_at,
            updated_at=self.row.updated_at,
        )


def account_of(row: SessionRow) -> Account:
    """Return the account of a session from its row in the store."""
    return Account(row, _budget(row.budget), _calibration(row.calibration))


# Decoded several times per call, but seldom changed: cached.
@lru_cache(maxsize=64)
def _budget(text: str) -> Budget:
    return _budget_decoder.decode(text)


@lru_cache(maxsize=64)
def _calibration(text: str) -> Calibration:
    return _calibration_decoder.decode(text)
