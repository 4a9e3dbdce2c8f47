"""Check arguments: budgets, limits, weights, paths. Repair text that UTF-8 cannot encode."""

import operator
import os
import reprlib
from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from satchel.errors import BudgetError, InputError
from satchel.model.patterns import lazy_pattern

__all__ = [
    "MAX_BUDGET",
    "MAX_LIMIT",
    "MAX_OFFSET",
    "as_path",
    "as_query",
    "check_budget",
    "check_known",
    "check_limit",
    "check_offset",
    "check_weight",
    "expanded",
    "repair_surrogates",
    "repaired_value",
]


def repair_surrogates(text: str) -> str:
    """Return the text with surrogate pairs joined into their character and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def repaired_value(value: Any) -> Any:
    """Return a value read from JSON with surrogates repaired in all its strings and keys."""
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, list):
        return [repaired_value(each) for each in value]
    if isinstance(value, dict):
        return {repair_surrogates(name): repaired_value(each) for name, each in value.items()}
    return value


MAX_BUDGET = 100_000_000
MAX_LIMIT = 10_000
MAX_OFFSET = 1_000_000_000

_WHOLE = lazy_pattern(r"[+-]?[0-9]{1,30}\Z")


def check_budget(value: object) -> int | None:
    """Return a token budget as an int, or raise a `BudgetError`. None stays None and means no cap."""
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
    """Return a number of results as an int, if it is from `least` to 10,000; else raise an `InputError`."""
    number = _whole(value)
    if number is None:
        raise InputError(f"{name} {value!r} is not a whole number")
    if not least <= number <= MAX_LIMIT:
        raise InputError(f"{name} {number} is out of range; give {least} to {MAX_LIMIT:,}")
    return number


def check_offset(value: object, *, name: str = "offset", least: int = 0) -> int:
    """Return how many results to skip, or the first one, as an int from `least`; else raise an `InputError`."""
    number = _whole(value)
    if number is None or number < least:
        raise InputError(f"{name} {shortened(value)} is not a whole number from {least}")
    if number > MAX_OFFSET:
        raise InputError(f"{name} {number} is out of range; the most is {MAX_OFFSET:,}")
    return number


def check_weight(value: object, *, name: str) -> float:
    """Return a number from 0 to 1, such as an importance, as a float; else raise an `InputError`."""
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


# Paths, queries and choices.


def as_path(location: object) -> str:
    """Return a path as a string that every system call accepts, or raise an `InputError`."""
    try:
        path = os.fsdecode(location)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"a path is needed, not {type(location).__name__}") from None
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InputError(f"the path {path!r} is not UTF-8; rename it") from None
    if "\0" in path or not path:
        raise InputError(f"{path!r} is not a path")
    return path


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with `~` and `~user` resolved. A name that only begins with `~`, such as `~.db`, stays."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 (Path.expanduser fails for a user that does not exist)


def as_query(query: object) -> str:
    if not isinstance(query, str):
        raise InputError(f"query must be a string, not {type(query).__name__}")
    return query


def check_known(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"unknown {name} {reprlib.repr(value)}; known: {', '.join(known)}")
