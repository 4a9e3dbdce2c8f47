"""Commands that set up MCP clients: mcp install, mcp uninstall, mcp config."""

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import click
from click.core import ParameterSource

from satchel.cli.client_change import note_backup, note_reading, print_difference
from satchel.cli.clients.client import CLIENTS, GENERIC, Client
from satchel.cli.clients.configuration import Change, carry_out, planned
from satchel.cli.clients.entry import Edited, Entry, check_name, satchel_entry
from satchel.cli.clients.places import surroundings
from satchel.cli.options import Command, default_location, location, store_options
from satchel.cli.output import note, print_text
from satchel.errors import InputError
from satchel.store.locations import is_address, secrets_in, shown_location

__all__ = ["config_command", "install_command", "uninstall_command"]


def entry_options(command: Command) -> Command:
    """What the entry says: --project, --tools and --db, which the server is started with."""
    for option in (
        click.option("--tools", metavar="all|core|NAMES", help="Which tools the server offers."),
        click.option("--project", metavar="NAME", help="The project the server works in."),
    ):
        command = option(command)
    return store_options(command)


def name_option(command: Command) -> Command:
    return click.option(
        "--name", metavar="NAME", default="satchel", show_default=True, help="What the client calls the server."
    )(command)


def file_options(command: Command) -> Command:
    """Which file is meant, and whether it is only looked at."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        click.option("--file", type=click.Path(path_type=Path), help="The client's file, if it is kept elsewhere."),
        click.option("--local", is_flag=True, help="The file of the project in this folder, not the user's."),
    ):
        command = option(command)
    return command


@click.command("install")
@click.argument("client", type=click.Choice(list(CLIENTS)))
@entry_options
@name_option
@file_options
@click.option("--gateway", is_flag=True, help="Put the gateway in front of the client's other servers.")
@click.option("--only", metavar="NAME", multiple=True, help="With --gateway: only in front of this server.")
def install_command(
    client: str,
    project: str | None,
    tools: str | None,
    db: str | None,
    name: str,
    local: bool,
    file: Path | None,
    dry_run: bool,
    gateway: bool,
    only: tuple[str, ...],
) -> None:
    """Add Satchel to a client's own configuration. The rest of the file stays, and a copy of it is kept.

    With --gateway, `satchel gateway` goes in front of the servers there, and keeps their answers within a budget.
    """
    chosen = CLIENTS[client]
    path = _file(chosen, local=local, file=file)
    if gateway:
        from satchel.cli.gateway_setup import put_in_front

        _refuse_beside_gateway("project", "tools", "name")
        put_in_front(client, path, store=_store(db), only=only, local=local, dry_run=dry_run)
        _note_password(db)
        return
    if only:
        raise InputError("--only names servers to put behind a gateway; give --gateway too")
    entry = _entry(chosen, name, project, tools, db)
    folder_was_there = path.parent.is_dir()
    secrets = secrets_in(location(db))
    change = _made(path, lambda text: chosen.with_entry(text, entry), dry_run=dry_run, secrets=secrets)
    _note_password(db)
    if dry_run and change.changes:
        return
    done = {
        "added": f"added {name} to {chosen.title}: {path}",
        "updated": f"updated {name} in {chosen.title}: {path}",
        "unchanged": f"{name} is already there, nothing changed: {path}",
    }
    print_text(done[change.what] + "\n")
    if not change.changes:
        return
    if not folder_was_there:
        note(f"{path.parent} was not there before; is {chosen.title} installed?")
    elif change.before is None:
        note("the file is new")
    note_backup(change)
    note_reading(chosen, change, local=local)


@click.command("uninstall")
@click.argument("client", type=click.Choice(list(CLIENTS)))
@name_option
@file_options
@click.option("--gateway", is_flag=True, help="Take the gateway away, and put the servers behind it back.")
def uninstall_command(client: str, name: str, local: bool, file: Path | None, dry_run: bool, gateway: bool) -> None:
    """Take Satchel out of a client's configuration. Nothing else is removed; memories stay where they are."""
    chosen = CLIENTS[client]
    path = _file(chosen, local=local, file=file)
    if gateway:
        from satchel.cli.gateway_setup import take_away

        _refuse_beside_gateway("name")
        take_away(client, path, dry_run=dry_run)
        return
    check_name(name)
    change = _made(path, lambda text: chosen.without_entry(text, name), dry_run=dry_run)
    if not change.changes:
        print_text(f"{name} is not there, nothing changed: {path}\n")
    elif not dry_run:
        print_text(f"removed {name} from {chosen.title}: {path}\n")
        note_backup(change)
        note(f"restart {chosen.title} to be rid of it")


@click.command("config")
@click.argument("client", type=click.Choice(list(CLIENTS)), required=False)
@entry_options
@name_option
def config_command(client: str | None, project: str | None, tools: str | None, db: str | None, name: str) -> None:
    """Print what a client's configuration needs, to be pasted. Without a client, in the form most of them take."""
    chosen = CLIENTS[client] if client else GENERIC
    print_text(chosen.snippet(_entry(chosen, name, project, tools, db)))
    _note_password(db)


def _entry(client: Client, name: str, project: str | None, tools: str | None, db: str | None) -> Entry:
    if project is not None and not project.strip():
        raise InputError("--project is blank; name it, or leave it out for any")
    if tools is not None:
        from satchel.server.mcp.catalog import chosen_tools

        chosen_tools(tools)
    options: list[str] = []
    for option, value in (("--db", _store(db)), ("--project", project), ("--tools", tools)):
        options += [option, value] if value is not None else []
    # What such a client would show is the same text in JSON, which costs more.
    options += ["--text-only"] if client.prefers_structured else []
    return satchel_entry(name, options)


def _store(db: str | None) -> str | None:
    """The store as the client has to name it; None where the server finds the same by itself."""
    place = location(db)
    if place == ":memory:":
        raise InputError("a client's server needs a store in a file or on a server; name one by --db")
    if is_address(place):
        # Refused here, and not by a client that starts a server and shows nothing of what it says.
        shown_location(place)
        return place
    # A client that a desktop starts does not know the variables of a shell.
    if place == str(default_location()) and not os.environ.get("XDG_DATA_HOME"):
        return None
    return str(Path(place).absolute())


def _file(client: Client, *, local: bool, file: Path | None) -> Path:
    if file is not None:
        if local:
            raise InputError("--file and --local name two files; give one of them")
        return file.absolute()
    return client.file(surroundings(), Path.cwd() if local else None)


def _refuse_beside_gateway(*names: str) -> None:
    """Options of the memory server, which mean nothing to the gateway."""
    ctx = click.get_current_context()
    for name in names:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(f"--{name} is for the memory server, not for the gateway; leave it or --gateway out")


def _note_password(db: str | None) -> None:
    if secrets_in(location(db)):
        note(
            "the password of the database stands in it; to keep it out of files, name the store without it and put "
            "it into ~/.pgpass (PGPASSFILE) or a service file (?service=NAME)"
        )


def _made(path: Path, edit: Callable[[str], Edited], *, dry_run: bool, secrets: Iterable[str] = ()) -> Change:
    if not dry_run:
        return carry_out(path, edit, now=datetime.now())
    change = planned(path, edit)
    print_difference(change, secrets)
    return change
