"""Options that several commands share, and opening the store they name."""

import functools
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from satchel.api.satchel import Satchel
from satchel.api.satchel import open as open_bag
from satchel.embed.registry import resolve_embedder
from satchel.errors import InputError
from satchel.fitting.listing import DETAILS
from satchel.model.fields import DEFAULT_ORG, KINDS, STATUSES, TIERS
from satchel.model.limits import check_limit
from satchel.model.memory import SCOPE_FIELDS
from satchel.store.locations import shown_location
from satchel.text.tokens.registry import DEFAULT_COUNTER

__all__ = [
    "COUNT",
    "LIMIT",
    "Command",
    "about_this_store",
    "as_of_option",
    "default_location",
    "detail_option",
    "embedder_option",
    "ended_option",
    "explain_option",
    "filter_options",
    "json_option",
    "location",
    "location_to_write",
    "open_store_for",
    "refuse_options_of_group",
    "scope_options",
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
