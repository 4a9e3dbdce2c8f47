"""The entry with which a client starts a server, and the servers listed in a client's file."""

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any, Literal, NamedTuple, Protocol

from satchel.errors import InputError

__all__ = [
    "Edited",
    "Form",
    "Listed",
    "Region",
    "ServerEntry",
    "What",
    "check_name",
    "satchel_entry",
    "words_of_satchel",
]


# The strictest rule of all clients, so that a name works in each of them.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

What = Literal["added", "updated", "unchanged", "removed", "absent"]


class ServerEntry(NamedTuple):
    """A server's name and the command line that starts it."""

    name: str
    command: str
    args: tuple[str, ...]


class Edited(NamedTuple):
    """The text of a configuration, and what was done with the entry."""

    text: str
    what: What


def check_name(name: str) -> str:
    """Return the name if every client accepts it."""
    if not _NAME.fullmatch(name):
        raise InputError(f"--name {name!r} is not a valid server name; use up to 64 letters, digits, - and _")
    return name


def satchel_entry(name: str, options: Sequence[str] = (), *, subcommand: str = "mcp") -> ServerEntry:
    """Return the entry for `satchel mcp OPTIONS`, with the program that is running now."""
    command, *before = _program()
    entry = ServerEntry(check_name(name), command, (*before, subcommand, *options))
    for text in (entry.command, *entry.args):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{text!r} is not UTF-8, but a configuration file must be; rename it") from error
    return entry


def words_of_satchel(value: Any) -> list[str]:
    """Return the arguments of an entry that runs Satchel; empty for other entries."""
    if not isinstance(value, dict) or not isinstance(value.get("command"), str):
        return []
    args = value.get("args")
    words = [value["command"], *(word for word in args if isinstance(word, str))] if isinstance(args, list) else []
    # Accepts paths of both Windows and POSIX on every system.
    own = [at for at, word in enumerate(words) if PureWindowsPath(word).stem == "satchel"]
    return words[own[0] + 1 :] if own else []


def _program() -> list[str]:
    """Return an absolute path, because a client started from a desktop does not have the shell's PATH."""
    if sys.executable:
        beside = Path(sys.executable).with_name("satchel.exe" if os.name == "nt" else "satchel")
        if os.access(beside, os.X_OK) and beside.is_file():
            return [str(beside)]
    if on_path := shutil.which("satchel"):
        return [str(Path(on_path).absolute())]
    return [sys.executable, "-m", "satchel"] if sys.executable else ["satchel"]


# The servers listed in a client's file, in any format


class Listed(NamedTuple):
    """One server: its name, its text in the file, the parsed value, and why it cannot be moved, if so."""

    name: str
    source: str
    value: Any
    fixed: str | None = None


class Region(NamedTuple):
    """The part of a file that a move changes: with the servers before, with the gateway after."""

    before: str
    after: str


class Form(Protocol):
    """Operations that differ between JSON and TOML. All text but that of the named servers is kept unchanged."""

    def listed(self, text: str, *, key: str) -> list[Listed]:
        """Return the servers of a file, in order."""

    def single_server_file(self, source: str, *, key: str) -> str:
        """Return a file that contains only one server, given as text."""

    def with_gateway(
        self, text: str, names: Sequence[str], entry: ServerEntry, *, key: str, more: Mapping[str, Any]
    ) -> str:
        """Return the text without some servers, and with an entry in the place of the first."""

    def with_servers(self, text: str, sources: Mapping[str, str], name: str, *, key: str) -> str:
        """Return the text with servers in the place of an entry, or at the end if it is missing."""

    def region(self, before: str, after: str, *, key: str) -> Region:
        """Return the part in which two texts differ."""

    def region_restored(
        self, text: str, region: Region, sources: Mapping[str, str], name: str, *, key: str
    ) -> str | None:
        """Return the text with the part as before, if it still is as it was after; otherwise None."""
