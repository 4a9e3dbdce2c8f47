"""Checks of the numbers callers give: token budgets, result limits, weights between 0 and 1."""

import operator
import re
from reprlib import repr as shortened

from satchel.errors import BudgetError, InputError

__all__ = ["MAX_BUDGET", "MAX_LIMIT", "check_budget", "check_limit", "check_weight"]

MAX_BUDGET = 100_000_000
MAX_LIMIT = 10_000

_WHOLE = re.compile(r"[+-]?[0-9]{1,30}\Z")


def check_budget(value: object) -> int | None:
    """A token budget as an int; None stays None and means that there is no cap."""
    if value is None:
        return None
    number = _whole(value)
    if number is None:
        raise BudgetError(f"token budget {value!r} is not a whole number of tokens")
    if number < 0:
        raise BudgetError(f"token budget {number} is negative; give 0 or more")
    if number > MAX_BUDGET:
        raise BudgetError(f"token budget {number} is out of range; the most is {MAX_BUDGET:,}")
    return number


def check_limit(value: object, *, name: str = "limit", least: int = 1) -> int:
    """A number of results, from `least` to 10,000."""
    number = _whole(value)
    if number is None:
        raise InputError(f"{name} {value!r} is not a whole number")
    if not least <= number <= MAX_LIMIT:
        raise InputError(f"{name} {number} is out of range; give {least} to {MAX_LIMIT:,}")
    return number


def check_weight(value: object, *, name: str) -> float:
    """A number from 0 to 1, such as an importance."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"{name} {shortened(value)} is not a number from 0 to 1")
    if not 0 <= value <= 1:
        raise InputError(f"{name} {shortened(value)} is out of range; give a number from 0 to 1")
    return float(value)


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if _WHOLE.match(value.strip()) else None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
