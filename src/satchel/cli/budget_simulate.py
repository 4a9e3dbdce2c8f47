"""The command that replays a transcript through rules of eviction: budget simulate."""

from pathlib import Path
from typing import Any

import click
import msgspec

from satchel.cli.budgeting import counter_option
from satchel.cli.options import LIMIT, json_option
from satchel.cli.output import aligned, note, print_json, print_text
from satchel.cli.reading import read_file, stdin
from satchel.cli.simulation.assumptions import assumptions, remarks
from satchel.cli.simulation.policies import KeepAll, KeepLast, OldestUntilItFits, Policy, Watermarks
from satchel.cli.simulation.prices import Prices
from satchel.cli.simulation.replay import Outcome, replay
from satchel.cli.simulation.synthetic import synthetic_trace
from satchel.cli.simulation.trace import Trace, trace_of
from satchel.cli.transcripts.assembly import Transcript
from satchel.cli.transcripts.reading import parse_transcript
from satchel.errors import InputError
from satchel.model.surrogates import repair_surrogates
from satchel.session.plan import Budget, checked_tokens
from satchel.text.tokens.registry import DEFAULT_COUNTER
from satchel.text.tokens.registry import counter as find_counter

__all__ = ["simulate_command"]

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
            raise InputError(f"{label} 0 leaves no room for anything; give a number of tokens")
        return tokens


class _Lows(click.ParamType[tuple[float, ...]]):
    name = "part,…"

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
                raise InputError(f"--low {word.strip()!r} is not a part of the limit; give numbers from 0 to 1")
            lows.append(low)
        return tuple(dict.fromkeys(lows))


@click.command("simulate")
@click.argument("transcript", required=False, type=click.Path(path_type=Path))
@click.option("--synthetic", type=LIMIT, metavar="TURNS", help="A made-up session of this many turns instead.")
@click.option("--limit", type=_Tokens(), default=Budget().total, show_default=True, help="At most in a prompt.")
@click.option(
    "--low",
    type=_Lows(),
    default=",".join(map(str, LOWS)),
    show_default=True,
    help="Watermarks: evict down to this part of the limit.",
)
@click.option("--last", type=LIMIT, default=20, show_default=True, help="Keep this many turns.")
@click.option("--read-price", type=float, default=0.1, show_default=True, help="Of a token read from the cache.")
@click.option("--write-price", type=float, default=1.25, show_default=True, help="Of a token written to it.")
@click.option("--output-price", type=float, default=5.0, show_default=True, help="Of a token of an answer.")
@click.option("--cache-minutes", type=float, metavar="N", help="When the cache expires; 0 is no cache. Never else.")
@click.option("--window", type=_Tokens(), default=WINDOW, show_default=True, help="What the model could take.")
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
    """Replay TRANSCRIPT through policies of eviction: tokens, peak and cost with a prompt cache.

    TRANSCRIPT is a session of Claude Code (JSON lines), or messages of OpenAI or Anthropic; - is standard input.
    Prices are in units of a plain input token.
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
        note(f"keeping all peaks at {outcomes[0].peak:,} tokens, within the limit; a smaller --limit shows more")


def _recorded(source: Path | None, synthetic: int | None) -> Transcript | None:
    if (source is None) == (synthetic is None):
        raise InputError("give a TRANSCRIPT to replay, or --synthetic TURNS; one of the two")
    if source is None:
        return None
    if str(source) == "-":
        return parse_transcript(stdin().read(), name="standard input")
    return parse_transcript(read_file(source.expanduser()), name=repair_surrogates(str(source)))


def _heading(trace: Trace, limit: int) -> str:
    turns = "1 turn" if len(trace.steps) == 1 else f"{len(trace.steps):,} turns"
    return f"{turns}, a limit of {limit:,} tokens; cost in tokens at the price of plain input. Assumed:\n"


def _table(outcomes: list[Outcome], window: int) -> str:
    rows: list[tuple[str, ...]] = [HEADINGS]
    for outcome in outcomes:
        times = _times(outcome, outcomes[0])
        numbers = (outcome.sent, outcome.peak, outcome.read, outcome.written, outcome.evictions, outcome.evicted)
        cells = [*(f"{number:,}" for number in numbers), f"{outcome.cost:,.0f}"]
        rows.append((outcome.policy, *cells, NONE if times is None else f"{times:.2f}", _remark(outcome, window)))
    return aligned(rows, right=NUMBERS)


def _remark(outcome: Outcome, window: int) -> str:
    if outcome.peak > window:
        return f"does not fit a window of {window:,}"
    if outcome.over_limit:
        return f"over the limit on {outcome.over_limit:,} turn" + ("s" if outcome.over_limit > 1 else "")
    return ""


def _facts(outcome: Outcome, keeping_all: Outcome, window: int) -> dict[str, Any]:
    times = _times(outcome, keeping_all)
    return msgspec.structs.asdict(outcome) | {"times_keep_all": times, "fits_window": outcome.peak <= window}


def _times(outcome: Outcome, keeping_all: Outcome) -> float | None:
    return outcome.cost / keeping_all.cost if keeping_all.cost else None
