"""Commands for session budgets: budget, budget show, results, expand, forget and simulate."""

import functools
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from satchel.cli.options import LIMIT, json_option, plot_option, read_file, stdin
from satchel.cli.output import (
    aligned,
    bar,
    is_terminal,
    legend,
    note,
    print_json,
    print_rows,
    print_text,
    write_bytes,
)
from satchel.cli.simulation import (
    KeepAll,
    KeepLast,
    OldestUntilItFits,
    Policy,
    Prices,
    SimulatedCost,
    Trace,
    Watermarks,
    assumptions,
    remarks,
    replay,
    synthetic_trace,
    trace_of,
)
from satchel.cli.store_options import (
    counter_option,
    open_store_for,
    refuse_options_of_group,
    scope_options,
    store_options,
)
from satchel.cli.transcripts import Transcript, parse_transcript
from satchel.errors import InputError
from satchel.fitting.listing import clean
from satchel.model.checks import expanded, repair_surrogates
from satchel.session.account import SessionState
from satchel.session.budget import Budget, checked_tokens
from satchel.text.tokens import DEFAULT_COUNTER
from satchel.text.tokens import counter as find_counter

__all__ = ["budget_command", "simulate_command"]

_TITLES = {
    "system": "system",
    "history": "history",
    "tool_results": "tool results",
    "user": "user message",
    "response_reserve": "response reserve",
}

# Without --session: these commands take the session as an argument.
place_options = functools.partial(scope_options, fields=("org", "project", "user", "agent"))


@click.group("budget", invoke_without_command=True)
@click.option("--limit", type=LIMIT, default=20, show_default=True, help="Show at most this many sessions.")
@place_options
@store_options
@json_option
@click.pass_context
def budget_command(
    ctx: click.Context, limit: int, scope: dict[str, str | None], db: str | None, as_json: bool
) -> None:
    """Show sessions and how much of their token budget is used."""
    if ctx.invoked_subcommand is not None:
        refuse_options_of_group(ctx)
        return
    with open_store_for(db, scope) as bag:
        states = bag.sessions(limit=limit)
        if as_json:
            print_json({"sessions": [state.to_dict() for state in states]})
            return
    if not states:
        note("no sessions; `satchel gateway` and `bag.session(name)` start one")
        return
    for state in states:
        used = sum(state.used.values())
        print_text(f"{clean(state.session)}  {_when(state.updated_at)}\n")
        left = ", which is assumed" if state.assumed else f", {state.remaining:,} left"
        print_text(f"  {bar(state.used, state.total_budget)}  {used:,} of {state.total_budget:,}")
        print_text(f"{left}; {_count(state.results, 'result')}\n")
        if state.warning:
            print_text(f"  {state.warning}\n")
    print_text(f"\n{legend(_TITLES)}\n")


@click.command("show")
@click.argument("name", metavar="SESSION")
@plot_option
@place_options
@store_options
@json_option
def show_command(name: str, plot: Path | None, scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Show the budget of SESSION by category. --plot draws its tokens by turn."""
    with open_store_for(db, scope) as bag:
        session = bag.find_session(name)
        state, turns = session.state(), session.turns()
        limits = session.budget.tiers()
    if as_json:
        print_json(state.to_dict() | {"limits": limits, "turns": [turn.to_dict() for turn in turns]})
    else:
        left = "; the context window is not known" if state.assumed else ""
        print_text(f"{clean(state.session)}: {state.remaining:,} of {state.total_budget:,} tokens left{left}\n")
        print_text(f"{'':16}  {'used':>9}  {'limit':>9}\n")
        for each, tokens in state.used.items():
            line = f"{_TITLES[each]:16}  {tokens:>9,}  {limits[each]:>9,}  "
            print_text(f"{line}{bar({each: tokens}, limits[each], width=30)}\n")
        print_text(
            f"turn {state.turn:,}; {_count(state.results, 'result')}, {state.delivered:,} tokens in all, "
            f"{_count(state.evicted, 'entry', 'entries')} shortened or evicted; "
            f"the next result may have {state.per_tool_budget:,}\n"
        )
        if state.warning:
            print_text(f"{state.warning}\n")
    if plot is not None:
        _draw(plot, state, turns, reserve=limits["response_reserve"])


@click.command("results")
@click.argument("name", metavar="SESSION")
@click.option("--limit", type=LIMIT, default=20, show_default=True, help="Show at most this many, newest first.")
@place_options
@store_options
@json_option
def results_command(name: str, limit: int, scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """List the tool results of SESSION. Newest first, with their handles."""
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
    """Print the stored original of HANDLE in SESSION, byte for byte.

    On a terminal it is printed without control and hidden characters.
    """
    with open_store_for(db, scope) as bag:
        whole = bag.find_session(name).expand(handle)
    if is_terminal(sys.stdout):
        print_text(whole.decode("utf-8", "replace") if isinstance(whole, bytes) else repair_surrogates(whole))
    else:
        write_bytes([whole if isinstance(whole, bytes) else whole.encode("utf-8", "surrogatepass")])


@click.command("forget")
@click.argument("name", metavar="SESSION")
@place_options
@store_options
def forget_command(name: str, scope: dict[str, str | None], db: str | None) -> None:
    """Remove SESSION and all its stored results. Memories are kept."""
    with open_store_for(db, scope) as bag:
        bag.forget_session(name)
    print_text(f"removed the session {clean(name)}\n")


def _draw(target: Path, state: SessionState, turns: list[Any], *, reserve: int) -> None:
    from satchel.api.transfer import write_atomically
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
    drawn = ledger_plot(points, title=state.session, limit=state.total_budget)
    write_atomically(expanded(target), [drawn.encode()])
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


# budget simulate

HEADINGS = ("policy", "sent", "peak", "read", "written", "evictions", "units", "cost", "× keep all", "")
NUMBERS = range(1, 9)
LOWS = (0.7, 0.5, 0.3)
WINDOW = 200_000
NONE = "–"


class _Tokens(click.ParamType[int]):
    name = "tokens"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        label = f"--{param.name}" if param is not None else "tokens"
        tokens = checked_tokens(f"{label} ", value)
        if not tokens:
            raise InputError(f"{label} 0 leaves room for nothing; give 1 or more")
        return tokens


class _Lows(click.ParamType[tuple[float, ...]]):
    name = "share,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if not isinstance(value, str):
            return tuple(value)
        lows = []
        for word in value.split(","):
            try:
                low = float(word)
            except ValueError:
                low = -1.0
            if not 0 <= low <= 1:
                raise InputError(f"--low {word.strip()!r} is not a share of the limit; give numbers from 0 to 1")
            lows.append(low)
        return tuple(dict.fromkeys(lows))


@click.command("simulate")
@click.argument("transcript", required=False, type=click.Path(path_type=Path))
@click.option(
    "--synthetic", type=LIMIT, metavar="TURNS", help="Simulate a synthetic session of this many turns instead."
)
@click.option("--limit", type=_Tokens(), default=Budget().total, show_default=True, help="Token limit of a prompt.")
@click.option(
    "--low",
    type=_Lows(),
    default=",".join(map(str, LOWS)),
    show_default=True,
    help="Low watermarks: evict down to this share of the limit.",
)
@click.option(
    "--last", type=LIMIT, default=20, show_default=True, help="Turns kept by the policy that keeps the last ones."
)
@click.option(
    "--read-price", type=float, default=0.1, show_default=True, help="Price of a token read from the cache."
)
@click.option(
    "--write-price", type=float, default=1.25, show_default=True, help="Price of a token written to the cache."
)
@click.option("--output-price", type=float, default=5.0, show_default=True, help="Price of an output token.")
@click.option("--cache-minutes", type=float, metavar="N", help="Cache lifetime; 0 is no cache. Default: no expiry.")
@click.option("--window", type=_Tokens(), default=WINDOW, show_default=True, help="Context window of the model.")
@counter_option
@json_option
def simulate_command(
    transcript: Path | None,
    synthetic: int | None,
    limit: int,
    low: tuple[float, ...],
    last: int,
    read_price: float,
    write_price: float,
    output_price: float,
    cache_minutes: float | None,
    window: int,
    counter: str | None,
    as_json: bool,
) -> None:
    """Compare eviction policies on TRANSCRIPT. Shows tokens, peak and cost with a prompt cache.

    TRANSCRIPT is a Claude Code session (JSON lines) or messages for OpenAI or Anthropic; - is standard input.
    Prices are relative to an uncached input token.
    """
    prices = Prices(read=read_price, write=write_price, output=output_price, cache_minutes=cache_minutes)
    counting = find_counter(counter or DEFAULT_COUNTER)
    recorded = _recorded(transcript, synthetic)
    trace = trace_of(recorded, counting) if recorded is not None else synthetic_trace(synthetic or 0)
    policies: list[Policy] = [KeepAll(), OldestUntilItFits(limit), KeepLast(last)]
    policies += [Watermarks(limit, each) for each in low]
    outcomes = [replay(trace, policy, prices) for policy in policies]
    taken = assumptions(trace, recorded, prices, counter=counting.name)
    skipped = list(remarks(recorded)) if recorded is not None else []
    if as_json:
        print_json(
            {
                "turns": len(trace.steps),
                "limit": limit,
                "window": window,
                "counter": counting.name if recorded is not None else None,
                "prices": prices,
                "policies": [_facts(outcome, outcomes[0], window) for outcome in outcomes],
                "assumptions": taken,
                "skipped": skipped,
            }
        )
        return
    print_text(_table(outcomes, window))
    print_text("\n" + _heading(trace, limit) + "".join(f"  - {line}\n" for line in taken))
    for remark in skipped:
        note(remark)
    if outcomes[0].peak <= limit:
        note(f"the whole session peaks at {outcomes[0].peak:,} tokens, within the limit; try a smaller --limit")


def _recorded(source: Path | None, synthetic: int | None) -> Transcript | None:
    if (source is None) == (synthetic is None):
        raise InputError("give either a TRANSCRIPT or --synthetic TURNS")
    if source is None:
        return None
    if str(source) == "-":
        return parse_transcript(stdin().read(), name="standard input")
    return parse_transcript(read_file(expanded(source)), name=repair_surrogates(str(source)))


def _heading(trace: Trace, limit: int) -> str:
    turns = "1 turn" if len(trace.steps) == 1 else f"{len(trace.steps):,} turns"
    return f"{turns}, a limit of {limit:,} tokens; cost in uncached input tokens. Assumptions:\n"


def _table(outcomes: list[SimulatedCost], window: int) -> str:
    rows: list[tuple[str, ...]] = [HEADINGS]
    for outcome in outcomes:
        times = _times(outcome, outcomes[0])
        numbers = (outcome.sent, outcome.peak, outcome.read, outcome.written, outcome.evictions, outcome.evicted)
        cells = [*(f"{number:,}" for number in numbers), f"{outcome.cost:,.0f}"]
        rows.append((outcome.policy, *cells, NONE if times is None else f"{times:.2f}", _remark(outcome, window)))
    return aligned(rows, right=NUMBERS)


def _remark(outcome: SimulatedCost, window: int) -> str:
    if outcome.peak > window:
        return f"exceeds a window of {window:,}"
    if outcome.over_limit:
        return f"over the limit on {outcome.over_limit:,} turn" + ("s" if outcome.over_limit > 1 else "")
    return ""


def _facts(outcome: SimulatedCost, keeping_all: SimulatedCost, window: int) -> dict[str, Any]:
    times = _times(outcome, keeping_all)
    return msgspec.structs.asdict(outcome) | {"times_keep_all": times, "fits_window": outcome.peak <= window}


def _times(outcome: SimulatedCost, keeping_all: SimulatedCost) -> float | None:
    return outcome.cost / keeping_all.cost if keeping_all.cost else None


for _command in (show_command, results_command, expand_command, forget_command, simulate_command):
    budget_command.add_command(_command)
