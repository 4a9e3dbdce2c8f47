"""Tables of cases: one test runs all rows, and names every row that fails.

A thousand test ids cost more than the checks behind them. `each_row` takes the same arguments as
`pytest.mark.parametrize`, so changing one word turns a table into a loop or back.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

__all__ = ["each_row"]


def each_row(
    names: str | Sequence[str], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the test for every row of a table, as one test that reports all rows that fail.

    `names` are the arguments that a row provides; with a single name, a row is its value. Other arguments are
    fixtures, created once for all rows: a test that needs new fixtures for each row must be parametrized instead.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [row if len(arguments) > 1 else (row,) for row in rows]
    if not table:
        raise ValueError(f"the table of {', '.join(arguments)} has no rows, so it would test nothing")

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def all_rows(*self: Any, **fixtures: Any) -> None:
            failures: dict[str, BaseException] = {}
            for number, row in enumerate(table):
                try:
                    test(*self, **dict(zip(arguments, row, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 (all are raised together)
                    name = f"row {number}: {', '.join(f'{value!r:.80}' for value in row)}"
                    failure.add_note(name)
                    failures[name] = failure
            if failures:
                listed = "\n".join(failures)
                raise BaseExceptionGroup(
                    f"{len(failures)} of {len(table)} rows failed\n{listed}\n", list(failures.values())
                )

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        all_rows.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return all_rows

    return decorate
