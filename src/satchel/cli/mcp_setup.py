"""Commands that set up MCP clients: mcp install, mcp uninstall, mcp config, with a gateway in front or without."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

import click
from click.core import ParameterSource

from satchel.cli.clients.client import CLIENTS, GENERIC, Client, surroundings
from satchel.cli.clients.config_file import Change, carry_out, difference, planned
from satchel.cli.clients.detour import GATEWAY, Detour, Led, Returned, holding_path, lead_back, lead_through
from satchel.cli.clients.entry import Edited, ServerEntry, check_name, satchel_entry
from satchel.cli.options import Command, location, store_options
from satchel.cli.output import note, print_text
from satchel.errors import InputError
from satchel.fitting.listing import clean
from satchel.store.locations import is_address, secrets_in, shown_location, user_data_file

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
        _refuse_beside_gateway("project", "tools", "name")
        _put_in_front(client, path, store=_store(db), only=only, local=local, dry_run=dry_run)
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
    _note_backup(change)
    _note_reading(chosen, change, local=local)


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
        _refuse_beside_gateway("name")
        _take_away(client, path, dry_run=dry_run)
        return
    check_name(name)
    change = _made(path, lambda text: chosen.without_entry(text, name), dry_run=dry_run)
    if not change.changes:
        print_text(f"{name} is not there, nothing changed: {path}\n")
    elif not dry_run:
        print_text(f"removed {name} from {chosen.title}: {path}\n")
        _note_backup(change)
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


def _entry(client: Client, name: str, project: str | None, tools: str | None, db: str | None) -> ServerEntry:
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
    if place == str(user_data_file()) and not os.environ.get("XDG_DATA_HOME"):
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
    _print_difference(change, secrets)
    return change


# The gateway in front of a client's servers: mcp install --gateway, and the way back


def _put_in_front(
    name: str, path: Path, *, store: str | None, only: Sequence[str], local: bool, dry_run: bool
) -> None:
    """Lead a client's servers through the gateway, and say which and why not others."""
    detour = _detour(name, path)
    options = ["--db", store] if store is not None else []
    led, change = lead_through(detour, options, only=only, now=None if dry_run else datetime.now())
    if dry_run and change.changes:
        _print_difference(change, [*led.secrets, *(secrets_in(store) if store is not None else ())])
    else:
        print_text(f"{_done(led, detour)}: {path}\n")
    if led.moved:
        note(f"{'would move' if dry_run else 'moved'} to {detour.ours}: {_names(led.moved)}")
    for each, reason in led.staying.items():
        note(f"{_shown(each)} stays where it is: {_shown(reason)}")
    unused = [f"{_shown(each)} ({_names(found.unused)})" for each, found in led.moved.items() if found.unused]
    if unused:
        note(f"kept for the way back, but not used by the gateway: {', '.join(unused)}")
    open_ones = [
        each for each, found in led.moved.items() if "url" in found.server and "headers" not in found.server
    ]
    if open_ones:
        note(f"the gateway cannot log in; if one of these needs it, move the others by --only: {_names(open_ones)}")
    if dry_run or not change.changes:
        return
    if led.replaced:
        note(f"took the place of what was moved before, of which a copy is beside it: {_names(led.replaced)}")
    _note_backup(change)
    note(f"rules that name a server or its tools, such as permissions, have to name {GATEWAY} now")
    if local:
        note(f"{detour.ours} is outside of the project; do not share this change with others")
    _note_reading(detour.client, change, local=local)


def _take_away(name: str, path: Path, *, dry_run: bool) -> None:
    """Lead a client's servers back to where they were."""
    detour = _detour(name, path)
    returned, change, aside = lead_back(detour, now=None if dry_run else datetime.now())
    title = detour.client.title
    if not change.changes:
        print_text(f"{GATEWAY} is not there, nothing changed: {path}\n")
    elif dry_run:
        _print_difference(change, returned.secrets)
    else:
        back = f"put back {_count(returned.back)}" if returned.back else "put nothing back"
        print_text(f"removed {GATEWAY} from {title}, {back}: {path}\n")
        _note_backup(change)
    if aside is not None:
        note(f"what was behind the gateway: {aside}")
    _note_what_differs(returned, detour, aside)
    if change.changes and not dry_run:
        note(f"restart {title} to be rid of it")


def _note_what_differs(returned: Returned, detour: Detour, aside: Path | None) -> None:
    place = aside or detour.ours
    if returned.taken:
        note(
            f"others bear these names by now, and stay; those from behind the gateway are in {place}: "
            f"{_names(returned.taken)}"
        )
    if returned.edited:
        note(
            f"changed in our file meanwhile, and back as before that; the changes are in {place}: "
            f"{_names(returned.edited)}"
        )


def _detour(name: str, path: Path) -> Detour:
    from platformdirs import user_config_path

    client = CLIENTS[name]
    folder = user_config_path("satchel", appauthor=False)
    return Detour(client, path, holding_path(folder, name, client, path, surroundings()))


def _done(led: Led, detour: Detour) -> str:
    title = detour.client.title
    if led.what == "added":
        return f"put {GATEWAY} in front of {_count(led.behind)} of {title}"
    if led.what == "updated":
        more = f"put {_count(led.moved)} more of {title} behind {GATEWAY}"
        return more if led.moved else f"updated {GATEWAY} in {title}"
    if led.behind:
        return f"{GATEWAY} is already there, nothing changed"
    return f"there is no server to put {GATEWAY} in front of, nothing changed"


def _count(names: Iterable[str]) -> str:
    number = len(list(names))
    return "1 server" if number == 1 else f"{number} servers"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_shown, names))


def _shown(name: str) -> str:
    """Without what would lead a terminal astray; a name may be any text."""
    return " ".join(clean(name).split())


# What is printed of a change


def _print_difference(change: Change, secrets: Iterable[str] = ()) -> None:
    """What would change, without the secrets: those that look like some, and those that are known."""
    from satchel.text.redact import redact

    hidden = sorted({secret for secret in secrets if secret}, key=len, reverse=True)

    def masked(text: str) -> str:
        for secret in hidden:
            text = text.replace(secret, "[masked]")
        return redact(text).text

    if change.changes:
        texts = (content.decode("utf-8-sig") for content in (change.before or b"", change.after))
        print_text(difference(*texts, path=str(change.path), mask=masked))


def _note_backup(change: Change) -> None:
    if change.backup is not None:
        note(f"the file as it was: {change.backup}")


def _note_reading(client: Client, change: Change, *, local: bool) -> None:
    """What a client makes of its changed file."""
    if not client.comments and not _is_plain(change.after):
        note(f"the file has comments or trailing commas, which {client.title} may not read")
    if local and client.project_remark:
        note(client.project_remark)
    note(f"restart {client.title} to use it")


def _is_plain(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True
