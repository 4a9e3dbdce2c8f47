"""Commands about the budget of sessions: budget, budget show, results, expand, forget, simulate."""

import functools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from satchel.cli.bars import bar, legend
from satchel.cli.budget_simulate import simulate_command
from satchel.cli.options import (
    LIMIT,
    json_option,
    open_store_for,
    refuse_options_of_group,
    scope_options,
    store_options,
)
from satchel.cli.output import note, print_json, print_rows, print_text, write_bytes
from satchel.cli.picture import plot_option
from satchel.fitting.listing import clean

__all__ = ["budget_command"]

_TITLES = {
    "system": "system",
    "history": "history",
    "tool_results": "tool results",
    "user": "user message",
    "response_reserve": "response reserve",
}

# The session is named by itself.
place_options = functools.partial(scope_options, fields=("org", "project", "user", "agent"))


@click.group("budget", invoke_without_command=True)
@click.option("--limit", type=LIMIT, default=20, show_default=True, help="At most this many sessions.")
@place_options
@store_options
@json_option
@click.pass_context
def budget_command(
    ctx: click.Context, limit: int, scope: dict[str, str | None], db: str | None, as_json: bool
) -> None:
    """Show the sessions and what fills their context windows."""
    if ctx.invoked_subcommand is not None:
        refuse_options_of_group(ctx)
        return
    with open_store_for(db, scope) as bag:
        states = bag.sessions(limit=limit)
        if as_json:
            print_json({"sessions": states})
            return
    if not states:
        note("no sessions here; `satchel gateway` and `bag.session(name)` begin one")
        return
    for state in states:
        used = sum(state["used"].values())
        print_text(f"{clean(state['session'])}  {_when(state['updated_at'])}\n")
        print_text(f"  {bar(state['used'], state['total_budget'])}  {used:,} of {state['total_budget']:,}")
        print_text(f", {state['remaining']:,} left; {_count(state['results'], 'result')}\n")
        if state["warning"]:
            print_text(f"  {state['warning']}\n")
    print_text(f"\n{legend(_TITLES)}\n")


@click.command("show")
@click.argument("name", metavar="SESSION")
@plot_option
@place_options
@store_options
@json_option
def show_command(name: str, plot: Path | None, scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Show the budget of SESSION by category; --plot draws its tokens over the turns."""
    with open_store_for(db, scope) as bag:
        books = bag.find_session(name)
        state, turns = books.state(), books.turns()
        limits = books.budget.tiers()
    if as_json:
        print_json(state | {"limits": limits, "turns": [turn._asdict() for turn in turns]})
    else:
        print_text(f"{clean(state['session'])}: {state['remaining']:,} of {state['total_budget']:,} tokens left\n")
        print_text(f"{'':16}  {'used':>9}  {'limit':>9}\n")
        for each, tokens in state["used"].items():
            line = f"{_TITLES[each]:16}  {tokens:>9,}  {limits[each]:>9,}  "
            print_text(f"{line}{bar({each: tokens}, limits[each], width=30)}\n")
        print_text(
            f"turn {state['turn']:,}; {_count(state['results'], 'result')}, {state['delivered']:,} tokens in all, "
            f"{_count(state['evicted'], 'entry', 'entries')} shortened or evicted; "
            f"the next result may have {state['per_tool_budget']:,}\n"
        )
        if state["warning"]:
            print_text(f"{state['warning']}\n")
    if plot is not None:
        _draw(plot, state, turns, reserve=limits["response_reserve"])


@click.command("results")
@click.argument("name", metavar="SESSION")
@click.option("--limit", type=LIMIT, default=20, show_default=True, help="At most this many, newest first.")
@place_options
@store_options
@json_option
def results_command(name: str, limit: int, scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """List the tool results of SESSION with their handles, newest first."""
    with open_store_for(db, scope) as bag:
        results = bag.find_session(name).results(limit=limit)
    if as_json:
        print_json({"results": [_as_object(result) for result in results]})
        return
    if not results:
        note("no results yet")
        return
    rows = [("handle", "turn", "tool", "shape", "shown", "of ~tokens", "in context", "digest")]
    for result in results:
        first = result.digest.partition("\n")[0]
        rows.append(
            (
                result.handle,
                f"{result.turn}",
                result.tool[:30],
                "error" if result.error else result.shape,
                f"{result.tokens:,}",
                f"{result.total_tokens:,}",
                result.level,
                first if len(first) <= 60 else first[:59] + "…",
            )
        )
    print_rows(rows)


@click.command("expand")
@click.argument("name", metavar="SESSION")
@click.argument("handle")
@place_options
@store_options
def expand_command(name: str, handle: str, scope: dict[str, str | None], db: str | None) -> None:
    """Print what stands behind HANDLE in SESSION, byte for byte."""
    with open_store_for(db, scope) as bag:
        whole = bag.find_session(name).expand(handle)
    write_bytes([whole if isinstance(whole, bytes) else whole.encode("utf-8", "surrogatepass")])


@click.command("forget")
@click.argument("name", metavar="SESSION")
@place_options
@store_options
def forget_command(name: str, scope: dict[str, str | None], db: str | None) -> None:
    """Remove SESSION and all results that it kept; memories stay."""
    with open_store_for(db, scope) as bag:
        bag.forget_session(name)
    print_text(f"removed the session {clean(name)}\n")


def _draw(target: Path, state: dict[str, Any], turns: list[Any], *, reserve: int) -> None:
    from satchel.api.transfer.files import write_atomically
    from satchel.cli.plots.ledger_plot import Point, ledger_plot

    points, before = [], 0
    for turn in turns:
        used = {
            "system": turn.system,
            "history": turn.history,
            "tool_results": turn.tool_results,
            "user": turn.user_message,
            "response_reserve": reserve,
        }
        points.append(Point(turn.number, used, turn.evicted - before))
        before = turn.evicted
    drawn = ledger_plot(points, title=state["session"], limit=state["total_budget"])
    write_atomically(target.expanduser(), [drawn.encode()])
    note(f"drew {target}")


def _as_object(result: Any) -> dict[str, Any]:
    shown = ("handle", "turn", "at", "tool", "call_id", "shape", "error", "size", "tokens", "total_tokens", "level")
    return {name: getattr(result, name) for name in shown} | {"digest": result.digest}


def _when(moment: datetime) -> str:
    minutes = int((datetime.now(UTC) - moment).total_seconds() // 60)
    for size, name in ((1440, "day"), (60, "hour"), (1, "minute")):
        if minutes >= size:
            return f"{_count(minutes // size, name)} ago"
    return "just now"


def _count(number: int, one: str, several: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


for _command in (show_command, results_command, expand_command, forget_command, simulate_command):
    budget_command.add_command(_command)
