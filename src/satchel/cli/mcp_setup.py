"""Commands that set up MCP clients, with or without the gateway: mcp install, mcp uninstall, mcp config."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from satchel.cli.clients.client import CLIENTS, GENERIC, Client, surroundings
from satchel.cli.clients.config_file import Change, carry_out, difference, planned, text_of
from satchel.cli.clients.entry import Edited, RemoteEntry, ServerEntry, check_name, remote_entry, satchel_entry
from satchel.cli.clients.gateway_move import (
    GATEWAY,
    GatewayMove,
    Moved,
    Restored,
    gateway_file_path,
    move_behind_gateway,
    restore_servers,
)
from satchel.cli.clients.receipt import Receipts
from satchel.cli.output import note, print_text
from satchel.cli.store_options import Command, location, store_options
from satchel.errors import InputError
from satchel.fitting.listing import clean
from satchel.store.locations import default_location, is_address, secrets_in, shown_location, user_data_file

__all__ = ["config_command", "install_command", "uninstall_command"]


_CLIENT_NAMES = f"CLIENT is one of {', '.join(CLIENTS)}."


def client_argument(command: Command) -> Command:
    return click.argument("client", type=click.Choice(list(CLIENTS)), metavar="CLIENT")(command)


def entry_options(command: Command) -> Command:
    """Add --project, --tools and --db, with which the client will start the server, and --url for a remote one."""
    for option in (
        click.option(
            "--required", is_flag=True, help="Let the client not start without the server, if it can (Codex)."
        ),
        click.option(
            "--header",
            "headers",
            metavar="'NAME: VALUE'",
            multiple=True,
            help="With --url: a header, with ${VARIABLE} for an environment variable; repeatable.",
        ),
        click.option("--url", metavar="URL", help="Use the server at this URL instead of starting one."),
        click.option("--tools", metavar="all|core|NAMES", help="Tools that the server offers."),
        click.option("--project", metavar="NAME", help="Project of the server."),
    ):
        command = option(command)
    return store_options(command)


def name_option(command: Command) -> Command:
    return click.option(
        "--name", metavar="NAME", default="satchel", show_default=True, help="Name of the server in the client."
    )(command)


def file_options(command: Command) -> Command:
    """Add --local, --file and --dry-run: which file to edit, and whether to only show the change."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show what would change, without changing it."),
        click.option(
            "--file", type=click.Path(path_type=Path), help="Configuration file, if it is not at the usual place."
        ),
        click.option("--local", is_flag=True, help="Use the project's file in this folder, not the user's."),
    ):
        command = option(command)
    return command


@click.command("install", epilog=_CLIENT_NAMES)
@client_argument
@entry_options
@name_option
@file_options
@click.option("--gateway", is_flag=True, help="Put the client's other servers behind the gateway.")
@click.option("--only", metavar="NAME", multiple=True, help="With --gateway: only this server; repeatable.")
def install_command(
    client: str,
    project: str | None,
    tools: str | None,
    db: str | None,
    url: str | None,
    headers: tuple[str, ...],
    required: bool,
    name: str,
    local: bool,
    file: Path | None,
    dry_run: bool,
    gateway: bool,
    only: tuple[str, ...],
) -> None:
    """Add Satchel to an MCP client's configuration. The rest of the file is kept, and a backup is made.

    With --url, the client uses a server that runs elsewhere, such as `satchel serve`. With --gateway, the client's
    servers run behind `satchel gateway`, which keeps their results within a budget.
    """
    chosen = CLIENTS[client]
    path = _file(chosen, check_name(name), local=local, file=file)
    if gateway:
        _refuse_beside("--gateway", "project", "tools", "name", "url", "headers")
        store = _store(db)
        _install_gateway(client, path, store=store, only=only, required=required, local=local, dry_run=dry_run)
        _note_password(db)
        return
    if only:
        raise InputError("--only needs --gateway; give that too")
    entry = _entry(chosen, name, project, tools, db, url, headers, local=local)
    secrets = secrets_in(location(db)) if url is None else ()
    fields = chosen.fields(entry, required=required)
    change = _apply(
        path,
        lambda text: chosen.with_entry(text, fields),
        dry_run=dry_run,
        then=_record(_receipts(chosen, path), name),
        secrets=secrets,
    )
    if url is None and not local:
        _note_password(db)
    if dry_run and change.changes:
        return
    done = {
        "added": f"added {name} to {chosen.title}: {path}",
        "updated": f"updated {name} in {chosen.title}: {path}",
        "unchanged": f"{name} is already set up, nothing changed: {path}",
    }
    print_text(done[change.what] + "\n")
    if not change.changes:
        return
    if change.folders and not local and not chosen.file_per_server:
        note(f"the folder {path.parent} is new; is {chosen.title} installed?")
    elif change.before is None:
        note("the file is new")
    _note_backup(change)
    _note_entry(chosen, entry, local=local)
    _note_reading(chosen, change, local=local)


@click.command("uninstall", epilog=_CLIENT_NAMES)
@client_argument
@name_option
@file_options
@click.option("--gateway", is_flag=True, help="Remove the gateway, and restore the servers behind it.")
def uninstall_command(client: str, name: str, local: bool, file: Path | None, dry_run: bool, gateway: bool) -> None:
    """Remove Satchel from an MCP client's configuration, with all that its install made. Memories are kept."""
    chosen = CLIENTS[client]
    path = _file(chosen, check_name(name), local=local, file=file)
    if gateway:
        _refuse_beside("--gateway", "name")
        _remove_gateway(client, path, dry_run=dry_run)
        return
    receipts = _receipts(chosen, path)
    removed: list[Path] = []

    def then(change: Change) -> None:
        removed[:] = receipts.uninstalled(change, name)

    change = _apply(
        path,
        lambda text: chosen.without_entry(text, name),
        dry_run=dry_run,
        adjust=lambda change: receipts.undone(change, name),
        then=then,
    )
    if not change.changes:
        print_text(f"{name} is not set up, nothing changed: {path}\n")
        _note_removed(change, removed)
    elif not dry_run:
        print_text(f"removed {name} from {chosen.title}: {path}\n")
        _note_removed(change, removed)
        note(f"restart {chosen.title} to apply this")


@click.command("config", epilog=_CLIENT_NAMES)
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="[CLIENT]", required=False)
@entry_options
@name_option
def config_command(
    client: str | None,
    project: str | None,
    tools: str | None,
    db: str | None,
    url: str | None,
    headers: tuple[str, ...],
    required: bool,
    name: str,
) -> None:
    """Print the configuration entry for a client, to paste. Without CLIENT, in the most common form."""
    chosen = CLIENTS[client] if client else GENERIC
    entry = _entry(chosen, name, project, tools, db, url, headers, local=False)
    print_text(chosen.snippet(chosen.fields(entry, required=required)))
    if url is None:
        _note_password(db)


def _entry(
    client: Client,
    name: str,
    project: str | None,
    tools: str | None,
    db: str | None,
    url: str | None,
    headers: Sequence[str],
    *,
    local: bool,
) -> ServerEntry | RemoteEntry:
    if url is not None:
        _refuse_beside("--url", "project", "tools", "db")
        return remote_entry(name, url, headers)
    if headers:
        raise InputError("--header needs --url; give that too")
    if project is not None and not project.strip():
        raise InputError("--project is blank; give a name, or leave it out")
    if tools is not None:
        from satchel.server.mcp.guide import chosen_names

        chosen_names(tools)
    options: list[str] = []
    store = _store_of_project(db) if local else _store(db)
    most = client.longest_result
    for option, value in (("--db", store), ("--project", project), ("--tools", tools), ("--most-tokens", most)):
        options += [option, str(value)] if value is not None else []
    return satchel_entry(name, options, portable=local)


def _store(db: str | None) -> str | None:
    """Return the --db that the client must pass, or None if the server finds the same store by default."""
    place = _checked_store(location(db))
    if is_address(place):
        return place
    # A client started from a desktop does not have the shell's environment variables.
    if place == str(user_data_file()) and not os.environ.get("XDG_DATA_HOME"):
        return None
    return str(Path(place).absolute())


def _store_of_project(db: str | None) -> str | None:
    """Return the --db for a file that a team shares: what the user gave, but no path of this machine."""
    place = _checked_store(location(db))
    if place == default_location():
        return None
    if is_address(place):
        if secrets_in(place):
            raise InputError(
                "--db contains a password, which a project's file should not; leave it out of the URL and use "
                "~/.pgpass (PGPASSFILE) or a service file (?service=NAME)"
            )
        return place
    folder = Path.cwd()
    path = Path(os.path.normpath(folder / place))
    if not path.is_relative_to(folder):
        raise InputError(
            f"--db {place} is outside this project, whose file others use on other machines; leave out --db or "
            "--local, or give a file in this folder"
        )
    return path.relative_to(folder).as_posix()


def _checked_store(place: str) -> str:
    if place == ":memory:":
        raise InputError("a client cannot use a :memory: store; give a file or a PostgreSQL URL with --db")
    if is_address(place):
        # Check the URL here, because a client does not show the errors of a server it starts.
        shown_location(place)
    return place


def _file(client: Client, name: str, *, local: bool, file: Path | None) -> Path:
    if file is not None:
        if local:
            raise InputError("--file and --local cannot be combined; give one of them")
        return file.absolute()
    return client.file(surroundings(), Path.cwd() if local else None, name=name)


def _refuse_beside(option: str, *names: str) -> None:
    """Reject options that do not apply with another option."""
    what = {"--gateway": "the gateway", "--url": "a server at a URL"}[option]
    for name in names:
        if not _is_default(name):
            given = name.removesuffix("s") if name == "headers" else name
            raise InputError(f"--{given} does not apply to {what}; leave out either it or {option}")


def _is_default(name: str) -> bool:
    """Whether an option was not given on the command line."""
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.COMMANDLINE


def _note_password(db: str | None) -> None:
    if secrets_in(location(db)):
        note(
            "the configuration contains the database password; to avoid that, leave it out of the URL and use "
            "~/.pgpass (PGPASSFILE) or a service file (?service=NAME)"
        )


def _apply(
    path: Path,
    edit: Callable[[str], Edited],
    *,
    dry_run: bool,
    then: Callable[[Change], object],
    adjust: Callable[[Change], Change] = lambda change: change,
    secrets: Iterable[str] = (),
) -> Change:
    if not dry_run:
        return carry_out(path, edit, now=datetime.now(), adjust=adjust, then=then)
    change = planned(path, edit, adjust=adjust)
    _print_difference(change, secrets)
    return change


def _own_folder() -> Path:
    from platformdirs import user_config_path

    return user_config_path("satchel", appauthor=False)


def _receipts(client: Client, path: Path) -> Receipts:
    return Receipts(_own_folder(), client, path)


def _record(receipts: Receipts, name: str) -> Callable[[Change], None]:
    """Return a step that records an install. It is not worth failing for: uninstall removes the entry anyway."""

    def record(change: Change) -> None:
        if change.changes:
            try:
                receipts.installed(change, name)
            except OSError as error:
                note(f"{receipts.path} cannot be written ({error.strerror}), so uninstall will leave the backup")

    return record


# mcp install --gateway, and mcp uninstall --gateway


def _install_gateway(
    name: str,
    path: Path,
    *,
    store: str | None,
    only: Sequence[str],
    required: bool,
    local: bool,
    dry_run: bool,
) -> None:
    """Move a client's servers behind the gateway, and report which were moved and why others were not."""
    move = _gateway_move(name, path)._replace(required=required)
    options = ["--db", store] if store is not None else []
    if (most := move.client.longest_result) is not None:
        options += ["--per-call", str(most)]
    result, change = move_behind_gateway(move, options, only=only, now=None if dry_run else datetime.now())
    if dry_run and change.changes:
        _print_difference(change, [*result.secrets, *(secrets_in(store) if store is not None else ())])
    else:
        print_text(f"{_done(result, move)}: {path}\n")
    if result.moved:
        note(f"{'would move' if dry_run else 'moved'} to {move.ours}: {_names(result.moved)}")
    for each, reason in result.staying.items():
        note(f"{_shown(each)} is not moved: {_shown(reason)}")
    unused = [f"{_shown(each)} ({_names(found.unused)})" for each, found in result.moved.items() if found.unused]
    if unused:
        note(f"settings that the gateway does not use, kept for uninstall: {', '.join(unused)}")
    open_ones = [
        each for each, found in result.moved.items() if "url" in found.server and "headers" not in found.server
    ]
    if open_ones:
        note(f"the gateway cannot log in; if one of these needs it, use --only for the others: {_names(open_ones)}")
    if dry_run or not change.changes:
        return
    if result.replaced:
        note(f"replaced servers that were moved before; a backup is next to the file: {_names(result.replaced)}")
    _note_backup(change)
    note(f"permissions and other rules that name a server or its tools must now name {GATEWAY}")
    if local:
        note(f"{move.ours} is outside the project, so do not commit this change")
    _note_reading(move.client, change, local=local)


def _remove_gateway(name: str, path: Path, *, dry_run: bool) -> None:
    """Remove the gateway and restore a client's servers."""
    move = _gateway_move(name, path)
    restored, change, removed, backup = restore_servers(move, now=None if dry_run else datetime.now())
    title = move.client.title
    if not change.changes:
        print_text(f"{GATEWAY} is not set up, nothing changed: {path}\n")
    elif dry_run:
        _print_difference(change, restored.secrets)
    else:
        back = f"restored {_count(restored.back)}" if restored.back else "restored nothing"
        print_text(f"removed {GATEWAY} from {title}, {back}: {path}\n")
        _note_removed(change, removed)
    if backup is not None:
        note(f"backup of the servers behind the gateway: {backup}")
    _note_what_differs(restored, move, backup)
    if change.changes and not dry_run:
        note(f"restart {title} to apply this")


def _note_what_differs(restored: Restored, move: GatewayMove, backup: Path | None) -> None:
    place = backup or move.ours
    if restored.taken:
        note(
            f"these names are used by other servers now, which are kept; the ones from the gateway are in {place}: "
            f"{_names(restored.taken)}"
        )
    if restored.edited:
        note(
            f"edited in Satchel's file and restored without the edits, which are in {place}: "
            f"{_names(restored.edited)}"
        )


def _gateway_move(name: str, path: Path) -> GatewayMove:
    client = CLIENTS[name]
    if client.file_per_server:
        raise InputError(
            f"the servers of {client.title} cannot be moved; list them in a file of your own, and add "
            "`satchel gateway --config FILE` as a server"
        )
    ours = gateway_file_path(_own_folder(), name, client, path, surroundings())
    return GatewayMove(client, path, ours, _receipts(client, path))


def _done(result: Moved, move: GatewayMove) -> str:
    title = move.client.title
    if result.what == "added":
        return f"put {_count(result.behind)} of {title} behind {GATEWAY}"
    if result.what == "updated":
        more = f"put {_count(result.moved)} more of {title} behind {GATEWAY}"
        return more if result.moved else f"updated {GATEWAY} in {title}"
    if result.behind:
        return f"{GATEWAY} is already set up, nothing changed"
    return f"there is no server to put behind {GATEWAY}, nothing changed"


def _count(names: Iterable[str]) -> str:
    number = len(list(names))
    return "1 server" if number == 1 else f"{number} servers"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_shown, names))


def _shown(name: str) -> str:
    """Return a name on one line, without terminal control characters; a name may be any text."""
    return " ".join(clean(name).split())


# Printing a change


def _print_difference(change: Change, secrets: Iterable[str] = ()) -> None:
    """Print the diff of a change, with known secrets and text that looks like secrets masked."""
    from satchel.text.redact import redact

    hidden = sorted({secret for secret in secrets if secret}, key=len, reverse=True)

    def masked(text: str) -> str:
        for secret in hidden:
            text = text.replace(secret, "[masked]")
        return redact(text).text

    if change.changes:
        texts = (text_of(content) for content in (change.before, change.after))
        print_text(difference(*texts, path=str(change.path), mask=masked))


def _note_backup(change: Change) -> None:
    if change.backup is not None:
        note(f"backup: {change.backup}")


def _note_removed(change: Change, removed: Sequence[Path]) -> None:
    if change.changes and change.after is None:
        note("the file was made by the install, so it is removed")
    _note_backup(change)
    if removed:
        note(f"removed what the install made: {', '.join(map(str, removed))}")


def _note_entry(client: Client, entry: ServerEntry | RemoteEntry, *, local: bool) -> None:
    """Note what must be there for the entry to work."""
    if isinstance(entry, RemoteEntry):
        if entry.variables:
            note(f"{client.title} must find {' and '.join(entry.variables)} in its environment")
            if client.variable_remark:
                note(client.variable_remark)
        if entry.url.startswith("http:") and entry.headers and not _is_loopback(entry.url):
            note("the URL is http, so its headers are sent unencrypted; use https")
    elif local:
        if shutil.which("satchel") is None:
            note("the file names the command `satchel`, which is not on the PATH here")
        if "--db" not in entry.args and os.environ.get("SATCHEL_DB"):
            note("SATCHEL_DB is not written to a project's file, so the server uses the default store of each user")
    if client.remark:
        note(client.remark)


def _is_loopback(url: str) -> bool:
    from satchel.server.listening import Address

    return Address((urlsplit(url).hostname or "", 0)).is_loopback


def _note_reading(client: Client, change: Change, *, local: bool) -> None:
    """Note what the user must do or know before the client reads its changed file."""
    if not client.comments and not _is_plain(change.after or b""):
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
