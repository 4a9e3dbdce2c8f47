"""Options of commands whose text fits a budget: how many tokens, counted how, spent on what."""

import functools
from collections.abc import Callable
from typing import Any

import click

from satchel.cli.options import LIMIT, Command
from satchel.errors import BudgetError
from satchel.fitting.choice import POLICIES
from satchel.fitting.packing import PINS
from satchel.model.limits import check_budget, check_weight
from satchel.recall.finder import MIN_RELEVANCE

__all__ = ["budget_option", "counter_option", "packing_options", "receipt_option", "relevance_option"]


class _Budget(click.ParamType[int | None]):
    name = "tokens"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        return check_budget(value)


class _Share(click.ParamType[float]):
    name = "0…1"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number: object = float(value) if isinstance(value, str) else value
        except ValueError:
            number = value
        return check_weight(number, name="min_relevance")


relevance_option = click.option(
    "--min-relevance",
    type=_Share(),
    default=MIN_RELEVANCE,
    show_default=True,
    help="Only what is at least so relevant to QUERY, from 0 to 1; 0 fills the budget.",
)
receipt_option = click.option(
    "--explain", is_flag=True, help="Also what became of every candidate, as a table on standard error."
)
counter_option = click.option("--counter", metavar="NAME", help="Count with this counter or model name.")


def budget_option(default: int | None = None) -> Callable[[Command], Command]:
    return click.option(
        "--tokens",
        "--token-budget",
        "token_budget",
        type=_Budget(),
        default=default,
        show_default=default is not None,
        help="At most this many tokens in the text.",
    )


def packing_options(command: Command) -> Command:
    """--policy, --pins and --limit, handed over as one dictionary `packing`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        packing = {name: options.pop(name) for name in ("policy", "pins", "limit")}
        try:
            return command(*args, packing=packing, **options)
        except BudgetError as error:
            raise BudgetError(str(error).replace("pins=best_effort", "--pins best_effort")) from error

    for option in (
        click.option("--limit", type=LIMIT, help="Choose among this many; as many as could fit if none is given."),
        click.option(
            "--pins",
            type=click.Choice(PINS),
            default="strict",
            show_default=True,
            help="What is pinned has to fit, or as much of it as does.",
        ),
        click.option(
            "--policy",
            type=click.Choice(POLICIES),
            default="best",
            show_default=True,
            help="What is worth most for its tokens; or by rank alone; or by tier, then by rank.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped
