"""Options that name a store and a scope in it, and opening it.

A server reads these before it answers its client, so this module loads nothing that only an open store needs.
"""

import functools
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from satchel.errors import InputError
from satchel.model.scope_fields import DEFAULT_ORG, SCOPE_FIELDS, SCOPE_HELP
from satchel.store.locations import (
    DEFAULT_FILE,
    default_location,
    default_replica,
    is_address,
    shown_location,
    user_data_file,
)

if TYPE_CHECKING:
    from satchel.api.satchel import Satchel

__all__ = [
    "Command",
    "StoreOpener",
    "about_this_store",
    "cache_folder",
    "counter_option",
    "embedder_option",
    "location",
    "location_to_write",
    "named_scope",
    "open_store_for",
    "read_db_option",
    "refuse_options_of_group",
    "replica",
    "scope_options",
    "store_opener",
    "store_options",
]

Command = Callable[..., Any]

EMBEDDER_VARIABLE = "SATCHEL_EMBEDDER"
LONGEST_PLAIN_NAME = 100

read_db_option = click.option(
    "--read-db",
    metavar="STORE",
    help="A streaming replica of the server, which answers reads whenever it is up to date. "
    "Default: $SATCHEL_READ_DB for the store of $SATCHEL_DB.",
)
counter_option = click.option("--counter", metavar="NAME", help="Count with this counter or model name.")


def scope_options(command: Command, *, text: str = SCOPE_HELP, fields: Sequence[str] = SCOPE_FIELDS) -> Command:
    """--project and the other fields of a scope, handed over as one dictionary `scope`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        return command(*args, scope=named_scope({name: options.pop(name) for name in fields}), **options)

    for name in reversed(fields):
        wrapped = click.option(f"--{name}", metavar="NAME", help=text.format(field=name))(wrapped)
    return wrapped


def named_scope(scope: dict[str, str | None]) -> dict[str, str | None]:
    for name, value in scope.items():
        if value is not None and not value.strip():
            left_out = f"{DEFAULT_ORG!r}" if name == "org" else "any"
            raise InputError(f"--{name} is blank; name it, or leave it out for {left_out}")
    return scope


def store_options(command: Command) -> Command:
    """--db, after the command's name too."""
    return click.option("--db", metavar="STORE", help="The store to use: a file, or postgresql://….")(command)


def embedder_option(command: Command, *, text: str = "Embedder to use; `satchel --help` lists them.") -> Command:
    """--embedder, after the name of a command that embeds; without it SATCHEL_EMBEDDER, or None."""

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        return command(*args, embedder=_embedder_spec(options.pop("embedder")), **options)

    return click.option("--embedder", metavar="SPEC", help=text)(wrapped)


def location(db: str | None) -> str:
    """The location of the store: --db, then $SATCHEL_DB, then the user data directory."""
    given = _given("db", db)
    if given is not None and not given.strip():
        raise InputError("--db is empty; name a file or a server, or leave it out")
    return given or default_location()


def replica(db: str | None, read_db: str | None) -> str | None:
    """The replica for reads: --read-db, then $SATCHEL_READ_DB if the store is that of $SATCHEL_DB."""
    if read_db is not None and not read_db.strip():
        raise InputError("--read-db is empty; name a server, or leave it out")
    return read_db or (default_replica() if _given("db", db) is None else None)


def cache_folder() -> Path:
    """The folder for what only saves time, in the user's cache directory."""
    from platformdirs import user_cache_path

    return user_cache_path("satchel", appauthor=False)


def _embedder_spec(embedder: str | None) -> str | None:
    given = _given("embedder", embedder)
    if given is not None:
        return given
    named = os.environ.get(EMBEDDER_VARIABLE, "").strip()
    if named:
        from satchel.embed.embedder import resolve_embedder

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
    """The same; if it is the default file, its folder is made."""
    place = location(db)
    # By its name first, because finding the folder takes an import.
    if Path(place).name == DEFAULT_FILE and place == str(user_data_file()):
        user_data_file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


class StoreOpener(NamedTuple):
    """How a command opens its store. It is made while click reads the options, and used in any thread."""

    location: str
    db: str | None
    """The store that was named, for advice."""
    scope: Mapping[str, str | None]
    create: bool
    counter: str | None
    embedder: str | None
    read_db: str | None = None
    """The replica that answers reads."""

    def __call__(self) -> "Satchel":
        """Open the store, inside the scope that the options name."""
        from satchel.api.satchel import open as open_bag
        from satchel.text.tokens import DEFAULT_COUNTER

        counting = self.counter or DEFAULT_COUNTER
        try:
            bag = open_bag(
                self.location, create=self.create, counter=counting, embedder=self.embedder, read_db=self.read_db
            )
        except InputError as error:
            raise InputError(_about(str(error), self.db)) from error
        if self.location == ":memory:":
            from satchel.cli.output import note

            note("the store :memory: is gone when this command ends; name a file to keep it")
        return bag.scoped(**self.scope)

    def seems_ready(self) -> bool:
        """Whether the store can be expected to open: a file of this version, and no option that could be wrong.

        Takes less than a millisecond. If it is False, opening the store tells what is wrong, if anything is.
        """
        plain = all(
            name is None or (name.isascii() and name.isalnum() and len(name) < 64) for name in self.scope.values()
        )
        if self.counter or self.embedder or not plain or self.location == ":memory:" or is_address(self.location):
            return False
        from satchel.store.sqlite.header import is_current_store

        return is_current_store(Path(self.location).expanduser())


def _is_plain(name: str | None) -> bool:
    """Whether a name can be that of a project or user without a closer look."""
    return name is None or (name.isascii() and name.isprintable() and len(name) < LONGEST_PLAIN_NAME)


def store_opener(
    db: str | None,
    scope: Mapping[str, str | None] | None = None,
    *,
    create: bool = False,
    counter: str | None = None,
    embedder: str | None = None,
    read_db: str | None = None,
) -> StoreOpener:
    """How to open the store a command works on."""
    place = location_to_write(db) if create else location(db)
    return StoreOpener(place, _given("db", db), scope or {}, create, counter, embedder, read_db)


def open_store_for(
    db: str | None,
    scope: Mapping[str, str | None] | None = None,
    *,
    create: bool = False,
    counter: str | None = None,
    embedder: str | None = None,
) -> "Satchel":
    """The store a command works on, inside the scope its options name."""
    return store_opener(db, scope, create=create, counter=counter, embedder=embedder)()


def refuse_options_of_group(ctx: click.Context) -> None:
    """Options of a group are not those of its commands, and would be lost."""
    for param in ctx.command.params:
        if param.name and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
            raise InputError(f"{param.opts[0]} stands before {ctx.invoked_subcommand}; put it behind")


def about_this_store(advice: str, db: str | None) -> str:
    """The commands that a text advises, made to work on the store of --db; without a password that it has."""
    return _about(advice, _given("db", db))


def _about(advice: str, given: str | None) -> str:
    if given is None or "`satchel " not in advice:
        return advice
    return advice.replace("`satchel ", f"`satchel --db {shlex.quote(shown_location(given))} ")
