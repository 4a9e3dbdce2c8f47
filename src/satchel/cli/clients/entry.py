"""The entry by which a client starts a server, and the servers that its file lists."""

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
    "ServerEntry",
    "Stretch",
    "What",
    "check_name",
    "satchel_entry",
    "words_of_satchel",
]


# The narrowest of what clients take, so that a name is good for all of them.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

What = Literal["added", "updated", "unchanged", "removed", "absent"]


class ServerEntry(NamedTuple):
    """A server's name and the command line that starts it."""

    name: str
    command: str
    args: tuple[str, ...]


class Edited(NamedTuple):
    """A configuration's text, and what was done about the entry in it."""

    text: str
    what: What


def check_name(name: str) -> str:
    """The name, if every client takes it."""
    if not _NAME.fullmatch(name):
        raise InputError(f"--name {name!r} is no server's name; give up to 64 letters, digits, - and _")
    return name


def satchel_entry(name: str, options: Sequence[str] = (), *, subcommand: str = "mcp") -> ServerEntry:
    """The entry for `satchel mcp OPTIONS`, by the program that is running now."""
    command, *before = _program()
    entry = ServerEntry(check_name(name), command, (*before, subcommand, *options))
    for text in (entry.command, *entry.args):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{text!r} is not UTF-8, and a configuration file has to be; rename it") from error
    return entry


def words_of_satchel(value: Any) -> list[str]:
    """What follows the program's name in an entry that runs Satchel; nothing in any other."""
    if not isinstance(value, dict) or not isinstance(value.get("command"), str):
        return []
    args = value.get("args")
    words = [value["command"], *(word for word in args if isinstance(word, str))] if isinstance(args, list) else []
    # A path of either system, whichever this is.
    own = [at for at, word in enumerate(words) if PureWindowsPath(word).stem == "satchel"]
    return words[own[0] + 1 :] if own else []


def _program() -> list[str]:
    """Absolute, since a client that a desktop starts does not know the PATH of a shell."""
    if sys.executable:
        beside = Path(sys.executable).with_name("satchel.exe" if os.name == "nt" else "satchel")
        if os.access(beside, os.X_OK) and beside.is_file():
            return [str(beside)]
    if on_path := shutil.which("satchel"):
        return [str(Path(on_path).absolute())]
    return [sys.executable, "-m", "satchel"] if sys.executable else ["satchel"]


# The servers that a client's file lists, whichever form the file has.


class Listed(NamedTuple):
    """One server: its name, its text as it stands in the file, what that says, and why it cannot be moved."""

    name: str
    source: str
    value: Any
    fixed: str | None = None


class Stretch(NamedTuple):
    """The part of a file that a move concerns, with the servers in it and with the gateway instead."""

    before: str
    after: str


class Form(Protocol):
    """What JSON and TOML each do in their own way; every text but that of the servers named stays as it is."""

    def listed(self, text: str, *, key: str) -> list[Listed]:
        """The servers of a file, in their order."""

    def alone(self, source: str, *, key: str) -> str:
        """A file with nothing in it but one server of this text."""

    def taken_out(
        self, text: str, names: Sequence[str], entry: ServerEntry, *, key: str, more: Mapping[str, Any]
    ) -> str:
        """Without some servers, and with an entry in the place of the first of them."""

    def put_back(self, text: str, sources: Mapping[str, str], name: str, *, key: str) -> str:
        """Without the entry of a name, and with servers in its place; at the end if it is not there."""

    def stretch(self, before: str, after: str, *, key: str) -> Stretch:
        """Where two texts differ."""

    def exchanged(
        self, text: str, stretch: Stretch, sources: Mapping[str, str], name: str, *, key: str
    ) -> str | None:
        """With a stretch as it was before, if it is still what it was after."""
