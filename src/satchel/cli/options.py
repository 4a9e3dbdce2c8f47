"""Options that several commands share, and opening the store they name."""

import functools
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import click
from click.core import ParameterSource

from satchel.api.satchel import Satchel
from satchel.api.satchel import open as open_bag
from satchel.cli.output import counting_bar, note
from satchel.embed.embedder import resolve_embedder
from satchel.errors import BudgetError, EmbedderError, InputError
from satchel.fitting.listing import DETAILS
from satchel.fitting.packing import PINS
from satchel.fitting.policies import POLICIES
from satchel.model.checks import check_budget, check_limit, check_weight
from satchel.model.memory import DEFAULT_ORG, KINDS, SCOPE_FIELDS, STATUSES, TIERS
from satchel.recall.finder import MIN_RELEVANCE
from satchel.store.locations import shown_location
from satchel.text.tokens import DEFAULT_COUNTER

__all__ = [
    "COUNT",
    "LIMIT",
    "Command",
    "about_this_store",
    "as_of_option",
    "budget_option",
    "counter_option",
    "decode",
    "default_location",
    "detail_option",
    "embed_waiting",
    "embedder_option",
    "ended_option",
    "explain_option",
    "filter_options",
    "json_option",
    "location",
    "location_to_write",
    "open_store_for",
    "packing_options",
    "plot_option",
    "read_file",
    "read_stdin",
    "receipt_option",
    "refuse_options_of_group",
    "relevance_option",
    "scope_options",
    "stdin",
    "store_options",
]


Command = Callable[..., Any]

EMBEDDER_VARIABLE = "SATCHEL_EMBEDDER"


class _Limit(click.ParamType[int]):
    name = "number"

    def __init__(self, *, least: int) -> None:
        self.least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        label = param.name if param is not None and param.name else "limit"
        return check_limit(value, name=label, least=self.least)


LIMIT = _Limit(least=1)
COUNT = _Limit(least=0)

as_of_option = click.option("--as-of", metavar="TIME", help="As it was at that time, as ISO 8601.")
ended_option = click.option("--ended", is_flag=True, help="Also what is forgotten or not valid yet.")
explain_option = click.option("--explain", is_flag=True, help="Also why: the parts of each score, as a table.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def detail_option(default: str) -> Callable[[Command], Command]:
    return click.option(
        "--detail",
        type=click.Choice(DETAILS),
        default=default,
        show_default=True,
        help="Titles, snippets of 300 characters, or whole texts.",
    )


def store_options(command: Command) -> Command:
    """--db, after the command's name too."""
    return click.option("--db", metavar="STORE", help="The store to use: a file, or postgresql://….")(command)


def embedder_option(command: Command, *, text: str = "Who makes vectors; `satchel --help` names them.") -> Command:
    """--embedder, after the name of a command that embeds; without it SATCHEL_EMBEDDER, or None."""

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        return command(*args, embedder=_embedder_spec(options.pop("embedder")), **options)

    return click.option("--embedder", metavar="SPEC", help=text)(wrapped)


def scope_options(
    command: Command, *, text: str = "Only in this {field}.", fields: Sequence[str] = SCOPE_FIELDS
) -> Command:
    """--project and the other fields of a scope, handed over as one dictionary `scope`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        scope = {name: options.pop(name) for name in fields}
        for name, value in scope.items():
            if value is not None and not value.strip():
                left_out = f"{DEFAULT_ORG!r}" if name == "org" else "any"
                raise InputError(f"--{name} is blank; name it, or leave it out for {left_out}")
        return command(*args, scope=scope, **options)

    for name in reversed(fields):
        wrapped = click.option(f"--{name}", metavar="NAME", help=text.format(field=name))(wrapped)
    return wrapped


def filter_options(command: Command) -> Command:
    """--kind, --tier, --tag, --status, --since and --until, handed over as one dictionary `chosen`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        chosen = {
            "kind": options.pop("kind") or None,
            "tier": options.pop("tier") or None,
            "tags": options.pop("tag") or None,
            "status": options.pop("status") or None,
            "since": options.pop("since"),
            "until": options.pop("until"),
        }
        return command(*args, chosen=chosen, **options)

    for name, text in (
        ("until", "Of this time or earlier, to the end of what is named."),
        ("since", 'Of this time or later: 2026-03-01, 2026-03, "last month", "2 weeks ago".'),
    ):
        wrapped = click.option(f"--{name}", metavar="DATE", help=text)(wrapped)
    for name, choices, text in (
        ("status", STATUSES, "Of this status; active ones if none is given."),
        ("tier", TIERS, "Of this tier."),
        ("kind", KINDS, "Of this kind."),
    ):
        option = click.option(f"--{name}", type=click.Choice(choices), multiple=True, help=text)
        wrapped = option(wrapped)
    return click.option("--tag", multiple=True, metavar="TAG", help="With this tag.")(wrapped)


def location(db: str | None) -> str:
    """The store's place: --db, then SATCHEL_DB, then the user's data folder."""
    given = _given("db", db)
    if given is not None and not given.strip():
        raise InputError("--db is empty; name a file or a server, or leave it out")
    return given or os.environ.get("SATCHEL_DB") or str(default_location())


def _embedder_spec(embedder: str | None) -> str | None:
    given = _given("embedder", embedder)
    if given is not None:
        return given
    named = os.environ.get(EMBEDDER_VARIABLE, "").strip()
    if named:
        try:
            resolve_embedder(named)
        except InputError as error:
            raise InputError(f"{EMBEDDER_VARIABLE}: {error}") from error
    return named or None


def _given(name: str, value: str | None) -> str | None:
    """What stands after the command's name, or else before it."""
    before: str | None = click.get_current_context().find_root().obj[name]
    return before if value is None else value


def location_to_write(db: str | None) -> str:
    """The same; the folder of the default one is made if need be."""
    place = location(db)
    if place == str(default_location()):
        default_location().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def default_location() -> Path:
    from platformdirs import user_data_path

    return user_data_path("satchel", appauthor=False) / "satchel.db"


def open_store_for(
    db: str | None,
    scope: dict[str, str | None] | None = None,
    *,
    create: bool = False,
    counter: str | None = None,
    embedder: str | None = None,
) -> Satchel:
    """The store a command works on, inside the scope its options name."""
    place = location_to_write(db) if create else location(db)
    counting = counter or DEFAULT_COUNTER
    try:
        bag = open_bag(place, create=create, counter=counting, embedder=embedder)
    except InputError as error:
        raise InputError(about_this_store(str(error), db)) from error
    return bag.scoped(**(scope or {}))


def refuse_options_of_group(ctx: click.Context) -> None:
    """Options of a group are not those of its commands, and would be lost."""
    for param in ctx.command.params:
        if param.name and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
            raise InputError(f"{param.opts[0]} stands before {ctx.invoked_subcommand}; put it behind")


def about_this_store(advice: str, db: str | None) -> str:
    """The commands that a text advises, made to work on the store of --db; without a password that it has."""
    given = _given("db", db)
    if given is None or "`satchel " not in advice:
        return advice
    return advice.replace("`satchel ", f"`satchel --db {shlex.quote(shown_location(given))} ")


# Options of commands whose text fits a budget: how many tokens, counted how, spent on what


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


def _checked_plot(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and str(value) == "-":
        raise InputError("--plot needs a file, since standard output has the text; such as --plot context.svg")
    if value is not None and value.suffix.lower() not in ("", ".svg"):
        raise InputError(f"--plot draws an SVG, not a {value.suffix} file; name it {value.with_suffix('.svg')}")
    if value is not None:
        from satchel.api.transfer import check_target

        # Before anything counts as used.
        check_target(value.expanduser())
    return value


plot_option = click.option(
    "--plot",
    metavar="FILE.svg",
    type=click.Path(path_type=Path),
    callback=_checked_plot,
    help="Also draw where the tokens went, into this file.",
)


# Vectors that a command makes before it ends, since nothing goes on after it


def embed_waiting(bag: Satchel, db: str | None) -> None:
    """Embed what a write has left waiting, with a bar; what cannot be embedded now is said and waits on.

    Ctrl-C ends the command and says how many memories wait, and how to go on.
    """
    try:
        total = bag.waiting
        if total:
            with counting_bar("embedding", total) as show:
                bag.catch_up(progress=lambda done: show(done, max(done, total)))
    except EmbedderError as error:
        note(str(error))
    except KeyboardInterrupt:
        advice = (
            f"stopped; all is stored, and {bag.waiting:,} wait for their vectors, found by their words "
            "meanwhile: `satchel reembed` makes them"
        )
        raise click.Abort(about_this_store(advice, db)) from None


# Reading what the user names


def read_stdin() -> str:
    """Standard input as text, or an error that says it is not UTF-8."""
    return decode(stdin().read(), "standard input")


def stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise InputError("standard input is closed; there is nothing to read")
    return sys.stdin.buffer


def read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


def decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: byte {error.start} cannot be read") from None
