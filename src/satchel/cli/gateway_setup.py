"""The gateway in front of a client's servers: mcp install --gateway, and the way back."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from satchel.cli.client_change import note_backup, note_reading, print_difference
from satchel.cli.clients.client import CLIENTS
from satchel.cli.clients.detour import GATEWAY, Detour, Led, Returned, lead_back, lead_through
from satchel.cli.clients.holding import holding_path
from satchel.cli.clients.places import surroundings
from satchel.cli.output import note, print_text
from satchel.fitting.listing import clean
from satchel.store.locations import secrets_in

__all__ = ["put_in_front", "take_away"]


def put_in_front(
    name: str, path: Path, *, store: str | None, only: Sequence[str], local: bool, dry_run: bool
) -> None:
    """Lead a client's servers through the gateway, and say which and why not others."""
    detour = _detour(name, path)
    options = ["--db", store] if store is not None else []
    led, change = lead_through(detour, options, only=only, now=None if dry_run else datetime.now())
    if dry_run and change.changes:
        print_difference(change, [*led.secrets, *(secrets_in(store) if store is not None else ())])
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
    note_backup(change)
    note(f"rules that name a server or its tools, such as permissions, have to name {GATEWAY} now")
    if local:
        note(f"{detour.ours} is outside of the project; do not share this change with others")
    note_reading(detour.client, change, local=local)


def take_away(name: str, path: Path, *, dry_run: bool) -> None:
    """Lead a client's servers back to where they were."""
    detour = _detour(name, path)
    returned, change, aside = lead_back(detour, now=None if dry_run else datetime.now())
    title = detour.client.title
    if not change.changes:
        print_text(f"{GATEWAY} is not there, nothing changed: {path}\n")
    elif dry_run:
        print_difference(change, returned.secrets)
    else:
        back = f"put back {_count(returned.back)}" if returned.back else "put nothing back"
        print_text(f"removed {GATEWAY} from {title}, {back}: {path}\n")
        note_backup(change)
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
