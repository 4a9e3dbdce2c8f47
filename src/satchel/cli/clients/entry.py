"""The entry with which a client starts or reaches a server, and the servers listed in a client's file."""

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from reprlib import repr as shortened
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

from satchel.errors import InputError
from satchel.model.patterns import lazy_pattern

__all__ = [
    "VARIABLE",
    "Edited",
    "Fields",
    "Form",
    "GatewayForm",
    "Listed",
    "Region",
    "RemoteEntry",
    "ServerEntry",
    "What",
    "check_name",
    "is_remote",
    "other_kind",
    "remote_entry",
    "satchel_entry",
    "words_of_satchel",
]


# The strictest rule of all clients, so that a name works in each of them.
_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,64}")

VARIABLE = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_URL = lazy_pattern(r"[!-~]+")
_HEADER_NAME = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = lazy_pattern(r"[!-~](?:[ -~]*[!-~])?")
_SECRET_NAME = lazy_pattern(r"auth|cookie|key|password|secret|token", re.IGNORECASE)
_HEADER_KEYS = ("headers", "bearer_token_env_var", "env_http_headers", "http_headers")
_URL_KEYS = ("url", "httpUrl", "serverUrl")

What = Literal["added", "updated", "unchanged", "removed", "absent"]


class ServerEntry(NamedTuple):
    """A server's name and the command line that starts it."""

    name: str
    command: str
    args: tuple[str, ...]


class RemoteEntry(NamedTuple):
    """A server's name, its URL, and its headers, in which `${NAME}` stands for an environment variable."""

    name: str
    url: str
    headers: Mapping[str, str]

    @property
    def variables(self) -> list[str]:
        """The environment variables that the headers refer to, each once."""
        return list(dict.fromkeys(VARIABLE.findall(" ".join(self.headers.values()))))


class Fields(NamedTuple):
    """An entry in the form of a client: fields that are always set, and defaults that only a new entry gets."""

    name: str
    values: Mapping[str, Any]
    defaults: Mapping[str, Any] = MappingProxyType({})

    def obsolete(self, found: Mapping[str, Any]) -> list[str]:
        """Return the fields with headers that an existing entry of a remote server should have no more."""
        return [key for key in _HEADER_KEYS if key in found and key not in self.values and is_remote(self.values)]

    @property
    def all(self) -> dict[str, Any]:
        """The fields of a new entry, the type first."""
        every = {**self.values, **self.defaults}
        return {key: every[key] for key in sorted(every, key=lambda key: key != "type")}


class Edited(NamedTuple):
    """The text of a configuration, and what was done with the entry."""

    text: str
    what: What


def check_name(name: str) -> str:
    """Return the name if every client accepts it."""
    if not _NAME.fullmatch(name):
        raise InputError(f"--name {name!r} is not a valid server name; use up to 64 letters, digits, - and _")
    return name


def satchel_entry(
    name: str, options: Sequence[str] = (), *, subcommand: str = "mcp", portable: bool = False
) -> ServerEntry:
    """Return the entry for `satchel mcp OPTIONS`, with the program that is running now.

    With `portable`, the program is the `satchel` on the PATH of whoever uses the file.
    """
    command, *before = ["satchel"] if portable else _program()
    entry = ServerEntry(check_name(name), command, (*before, subcommand, *options))
    for text in (entry.command, *entry.args):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{text!r} is not UTF-8, but a configuration file must be; rename it") from error
    return entry


def remote_entry(name: str, url: str, headers: Sequence[str] = ()) -> RemoteEntry:
    """Return the entry for a server at a URL, with headers as in `NAME: VALUE`; raises `InputError` for secrets."""
    return RemoteEntry(check_name(name), _checked_url(url), _checked_headers(headers))


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not _URL.fullmatch(url):
        raise InputError(f"--url {shortened(url)} is not an http:// or https:// URL")
    if parts.username or parts.password or _looks_secret(url):
        raise InputError("--url contains a secret, which would be written to a file; send it with --header instead")
    return url


def _checked_headers(headers: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for header in headers:
        name, colon, value = (part.strip() for part in header.partition(":"))
        if not colon or not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            # Without the value, which may be a secret.
            raise InputError(f"--header {shortened(name)} is not of the form 'NAME: VALUE', in printable ASCII")
        if name.lower() in map(str.lower, found):
            raise InputError(f"--header {name} is given twice; leave one out")
        has_variable = VARIABLE.search(value) is not None
        if not has_variable and (_SECRET_NAME.search(name) or _looks_secret(header)):
            wanted = "Bearer ${NAME}" if name.lower() == "authorization" else "${NAME}"
            raise InputError(
                f"--header {name} has a value that would be written to a file; put that in an environment variable "
                f"and give, in single quotes, --header '{name}: {wanted}'"
            )
        if set("${}") & set(VARIABLE.sub("", value)):
            raise InputError(f"--header {name} has $ or braces that are not a variable; write one as ${{NAME}}")
        found[name] = value
    return found


def _looks_secret(text: str) -> bool:
    from satchel.text.redact import redact

    return redact(text).text != text


def is_remote(value: Mapping[str, Any]) -> bool:
    """Return whether an entry of a client's file is for a server at a URL."""
    return any(key in value for key in _URL_KEYS) or value.get("type", "stdio") not in ("stdio", "local")


def other_kind(name: str, value: Mapping[str, Any]) -> str:
    """Return the reason why an entry is not updated: it is for a server of the other kind."""
    kinds = ("a remote server, not one with a command", "a server with a command, not a remote one")
    return f'"{name}" is {kinds[not is_remote(value)]}; uninstall it first, or give another --name'


def words_of_satchel(value: Any) -> list[str]:
    """Return the arguments of an entry that runs Satchel; empty for other entries."""
    if not isinstance(value, dict):
        return []
    command, args = value.get("command"), value.get("args", [])
    every = [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [])]
    words = [word for word in every if isinstance(word, str)]
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
    """Operations that differ between file formats. All text but that of the named server is kept unchanged."""

    def with_entry(self, text: str, entry: Fields, *, key: str) -> Edited:
        """Return the text with the entry added, or with its values set."""

    def without_entry(self, text: str, name: str, *, key: str) -> Edited:
        """Return the text without the entry of this name."""

    def whole_file(self, entry: Fields, *, key: str) -> str:
        """Return a file that contains only the entry."""

    def entry_value(self, text: str, name: str, *, key: str) -> Any:
        """Return the parsed entry of this name; None if there is none."""

    def has_servers(self, text: str, *, key: str) -> bool:
        """Return whether there is an object for the servers, even an empty one."""

    def without_servers(self, text: str, *, key: str) -> str:
        """Return the text without the object for the servers if that is empty."""

    def is_blank(self, text: str) -> bool:
        """Return whether the text has nothing that someone could miss."""


class GatewayForm(Form, Protocol):
    """Operations for the gateway, which takes the place of the servers in a file."""

    def listed(self, text: str, *, key: str) -> list[Listed]:
        """Return the servers of a file, in order."""

    def single_server_file(self, source: str, *, key: str) -> str:
        """Return a file that contains only one server, given as text."""

    def with_gateway(self, text: str, names: Sequence[str], entry: Fields, *, key: str) -> str:
        """Return the text without some servers, and with an entry in the place of the first."""

    def with_servers(self, text: str, sources: Mapping[str, str], name: str, *, key: str) -> str:
        """Return the text with servers in the place of an entry, or at the end if it is missing."""

    def region(self, before: str, after: str, *, key: str) -> Region:
        """Return the part in which two texts differ."""

    def region_restored(
        self, text: str, region: Region, sources: Mapping[str, str], name: str, *, key: str
    ) -> str | None:
        """Return the text with the part as before, if it still is as it was after; otherwise None."""
