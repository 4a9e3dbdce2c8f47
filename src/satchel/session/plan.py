"""How a context window is shared out: a total, its tiers, and the marks at which something happens."""

from reprlib import repr as shortened
from typing import Any

import msgspec

from satchel.errors import BudgetError
from satchel.model.limits import check_budget
from satchel.session.windows import context_window

__all__ = ["TIERS", "Budget", "checked_share", "checked_tokens"]

TIERS = ("system", "history", "tool_results", "user", "response")

_DEFAULT_TOTAL = 100_000
_SHARES = {"system": 8_000, "history": 12_000, "tool_results": 40_000, "user": 10_000, "response": 30_000}
_PER_CALL = 8_000
_WARN_BELOW = 20_000
_CRITICAL_BELOW = 10_000

# Filled in when the budget is made, so that whoever reads a field always finds a number.
_IN_PROPORTION: Any = None


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens a session may use, in all and by tier.

    A tier that is not given gets its share of the total: 8 % system, 12 % history, 40 % tool results, 10 % user
    and 30 % response. Where the tiers that are given leave less than that, the others share what is left, in the
    same proportions. `per_call`, the most that one tool result gets, is 8 % of the total and never more than the
    tool results' tier. Warnings come below 20,000 and 10,000 tokens left, in small budgets below a fifth and a
    tenth of the total. A tier over its limit is brought down to `low` times that limit.
    """

    total: int = _DEFAULT_TOTAL
    system: int = _IN_PROPORTION
    history: int = _IN_PROPORTION
    tool_results: int = _IN_PROPORTION
    user: int = _IN_PROPORTION
    response: int = _IN_PROPORTION
    per_call: int = _IN_PROPORTION
    warn_below: int = _IN_PROPORTION
    critical_below: int = _IN_PROPORTION
    low: float = 0.7

    def __post_init__(self) -> None:
        total = _DEFAULT_TOTAL if (given := _tokens("total", self.total)) is None else given
        if total < 1:
            raise BudgetError("total is 0; a session needs at least 1 token")
        tiers = _tiers(total, {name: _tokens(name, getattr(self, name)) for name in TIERS})
        per_call = _per_call(total, tiers["tool_results"], _tokens("per_call", self.per_call))
        warn_below, critical_below = _thresholds(
            total, _tokens("warn_below", self.warn_below), _tokens("critical_below", self.critical_below)
        )
        whole = {
            "total": total,
            **tiers,
            "per_call": per_call,
            "warn_below": warn_below,
            "critical_below": critical_below,
            "low": checked_share("low ", self.low),
        }
        for name, value in whole.items():
            msgspec.structs.force_setattr(self, name, value)

    @classmethod
    def for_model(cls, name: str) -> "Budget":
        """Half the context window of the model, which leaves room for what is not counted here."""
        return cls(total=context_window(name) // 2)

    def tiers(self) -> dict[str, int]:
        """The limit of each category of a ledger, by its name there."""
        return {
            "system": self.system,
            "history": self.history,
            "tool_results": self.tool_results,
            "user": self.user,
            "response_reserve": self.response,
        }


def checked_tokens(place: str, value: object) -> int | None:
    """A number of tokens, checked; an error says what is wrong with it after `place`."""
    try:
        return check_budget(value)
    except BudgetError as error:
        raise BudgetError(place + str(error).removeprefix("token budget ")) from None


def checked_share(place: str, value: object) -> float:
    """A number between 0 and 1, checked, both ends left out."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise BudgetError(f"{place}{shortened(value)} is not a number between 0 and 1, such as 0.7")
    return float(value)


def _tokens(name: str, value: object) -> int | None:
    return checked_tokens(f"{name} ", value)


def _tiers(total: int, given: dict[str, int | None]) -> dict[str, int]:
    fixed = {name: value for name, value in given.items() if value is not None}
    taken = sum(fixed.values())
    if taken > total:
        raise BudgetError(
            f"the tiers {', '.join(fixed)} take {taken:,} tokens together, more than the total of {total:,}; "
            f"raise the total or lower a tier"
        )
    shares = {name: share for name, share in _SHARES.items() if name not in fixed}
    wanted = sum(shares.values())
    # Each takes its share of the total, or all of them together what the given ones leave.
    room, whole = min((total, _DEFAULT_TOTAL), (total - taken, wanted or 1), key=lambda pair: pair[0] / pair[1])
    return {name: fixed[name] if name in fixed else shares[name] * room // whole for name in TIERS}


def _per_call(total: int, tool_results: int, given: int | None) -> int:
    if given is None:
        return min(tool_results, _PER_CALL * total // _DEFAULT_TOTAL)
    if given > tool_results:
        raise BudgetError(
            f"per_call {given:,} is more than the {tool_results:,} tokens of tool_results; "
            f"lower per_call or raise tool_results"
        )
    return given


def _thresholds(total: int, warn: int | None, critical: int | None) -> tuple[int, int]:
    warn_below = max(min(_WARN_BELOW, total // 5), critical or 0) if warn is None else warn
    critical_below = min(_CRITICAL_BELOW, total // 10, warn_below) if critical is None else critical
    if critical_below > warn_below:
        raise BudgetError(
            f"critical_below {critical_below:,} is above warn_below {warn_below:,}; it is the later alert"
        )
    if warn_below > total:
        raise BudgetError(f"warn_below {warn_below:,} is above the total of {total:,}; every turn would be warned")
    return warn_below, critical_below
