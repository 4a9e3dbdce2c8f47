"""The servers behind a gateway, read from a client's MCP configuration."""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from reprlib import repr as shortened
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from satchel.errors import InputError
from satchel.model.checks import expanded
from satchel.model.extras import is_installed, missing_extra
from satchel.server.jsonrpc import json_type

__all__ = [
    "CommandServer",
    "Server",
    "ToolFilter",
    "UnusableServer",
    "WebServer",
    "can_start",
    "check_servers",
    "command_server",
    "read_servers",
    "why_not_started",
]

GATEWAY_VARIABLE = "SATCHEL_GATEWAY"
"""Set for every server the gateway starts, so that a nested gateway can detect it."""

_KEYS = ("mcpServers", "servers")
_ONLY = ("includeTools", "enabled_tools")
_WITHOUT = ("excludeTools", "disabled_tools")
_WEB_TYPES = ("http", "streamable-http", "streamableHttp", "streamable_http")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_OTHER_VARIABLE = re.compile(r"\$\{(?:input|config|command):[^}]*\}")


class ToolFilter(NamedTuple):
    """Which tools of a server are offered: all or only `only`, minus those in `without`."""

    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()

    def offers(self, tool: str) -> bool:
        return (self.only is None or tool in self.only) and tool not in self.without


class CommandServer(NamedTuple):
    """A server that the gateway starts as a process and talks to over its standard input and output."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})
    cwd: str | None = None
    tools: ToolFilter = ToolFilter()


class WebServer(NamedTuple):
    """A remote server, reached over streamable HTTP."""

    name: str
    url: str
    headers: Mapping[str, str] = MappingProxyType({})
    tools: ToolFilter = ToolFilter()


class UnusableServer(NamedTuple):
    """A server that cannot be used, with the reason. The other servers still work."""

    name: str
    why: str
    tools: ToolFilter = ToolFilter()


Server = CommandServer | WebServer | UnusableServer


def read_servers(path: Path, environment: Mapping[str, str] = os.environ) -> list[Server]:
    """Return the servers of a configuration in its order, without disabled ones."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}, column {error.colno}: {error.msg}; the file must be plain JSON"
        ) from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply; check that it is an MCP configuration") from None
    try:
        return list(_servers(document, environment))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def command_server(words: Sequence[str], name: str | None = None) -> CommandServer:
    """Return the server that a command line starts, by default named after the program."""
    named = PurePath(words[0]).stem if name is None else name
    if not words[0].strip():
        raise InputError("the command after -- is blank; give the program of the server")
    if not named.strip():
        raise InputError("--name is blank; give a name, or leave it out")
    return CommandServer(name=named, command=words[0], args=tuple(words[1:]))


def check_servers(servers: Sequence[Server], environment: Mapping[str, str] = os.environ) -> None:
    """Reject nested gateways, which could form a loop, and servers with the same name."""
    if GATEWAY_VARIABLE in environment:
        raise InputError("this gateway was started by another gateway; configure the servers themselves instead")
    seen: set[str] = set()
    for server in servers:
        if isinstance(server, CommandServer) and _is_gateway([server.command, *server.args]):
            raise InputError(
                f"the server {server.name} is a gateway itself; configure the servers behind it instead"
            )
        if server.name in seen:
            raise InputError(
                f"two servers are called {shortened(server.name)}; rename one, or use --name for the command"
            )
        seen.add(server.name)


def can_start(server: Server) -> bool:
    """Whether the command of a server can be found. A remote server is assumed to exist until it is contacted, if
    what is needed for that is installed."""
    if isinstance(server, WebServer):
        return is_installed("serve")
    if isinstance(server, UnusableServer):
        return False
    path = server.env.get("PATH", os.environ.get("PATH"))
    if PurePath(server.command).name != server.command:
        return shutil.which(Path(server.cwd or ".", server.command)) is not None
    return shutil.which(server.command, path=path) is not None


def why_not_started(server: Server) -> str:
    """Return why a server cannot be started: its command is not found, or its configuration is invalid."""
    if isinstance(server, UnusableServer):
        return f"the server {server.name} cannot be started: {server.why}"
    if isinstance(server, WebServer):
        return f"the server {server.name} cannot be started: {missing_extra('serve', 'a server with a URL')}"
    return f"the server {server.name} cannot be started: there is no command {shortened(server.command)}"


def _is_gateway(words: Sequence[str]) -> bool:
    own = [place for place, word in enumerate(words) if PurePath(word).stem == "satchel"]
    return bool(own) and "gateway" in words[own[0] + 1 :]


def _servers(document: Any, environment: Mapping[str, str]) -> Iterator[Server]:
    if not isinstance(document, dict):
        raise InputError(f'a configuration is an object with "mcpServers", not {json_type(document)}')
    key = next((key for key in _KEYS if key in document), None)
    if key is None:
        raise InputError('there is no "mcpServers" (or "servers", as in VS Code)')
    entries = document[key]
    if not isinstance(entries, dict):
        raise InputError(f"{key} must be an object, not {json_type(entries)}")
    for name, entry in entries.items():
        if not name.strip():
            raise InputError(f"a server in {key} has a blank name")
        if not isinstance(entry, dict):
            yield UnusableServer(name=name, why=f"{key}.{name} must be an object, not {json_type(entry)}")
        elif entry.get("disabled") is not True:
            try:
                yield _server(name, _ServerFields(f"{key}.{name}", entry, environment))
            except InputError as error:
                yield UnusableServer(name=name, why=str(error))


def _server(name: str, entry: "_ServerFields") -> Server:
    kind = entry.text("type")
    url = entry.text("url") or entry.text("httpUrl")
    command = entry.text("command")
    if kind == "sse":
        raise InputError(f"{entry.place}: the SSE transport is not supported; use the server's streamable HTTP URL")
    if kind is not None and kind != "stdio" and kind not in _WEB_TYPES:
        raise InputError(f"{entry.place}.type {shortened(kind)} is unknown; known: stdio, http")
    if command and url:
        raise InputError(f"{entry.place} has a command and a url; leave one of them out")
    if command and kind in (None, "stdio"):
        env, cwd = entry.texts("env"), entry.text("cwd")
        if wrong := next((key for key in env if not key or "=" in key or "\0" in key), None):
            raise InputError(f"{entry.place}.env: {shortened(wrong)} is not a valid variable name")
        if cwd is not None and not expanded(cwd).is_dir():
            raise InputError(f"{entry.place}.cwd {shortened(cwd)} is not a folder")
        return CommandServer(
            name=name,
            tools=entry.tools(),
            command=command,
            args=entry.words("args"),
            env=env,
            cwd=None if cwd is None else str(expanded(cwd)),
        )
    if url and kind != "stdio":
        _check_url(url, entry.place)
        headers = entry.texts("headers")
        if wrong := next((key for key, value in headers.items() if not (key + value).isascii()), None):
            raise InputError(f"{entry.place}.headers.{wrong} is not ASCII; headers must be")
        return WebServer(name=name, tools=entry.tools(), url=url, headers=headers)
    needed = "a url" if kind in _WEB_TYPES else "a command" if kind else "a command or a url"
    raise InputError(f"{entry.place} needs {needed}")


def _check_url(url: str, place: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise InputError(f"{place}.url {shortened(url)} is not an HTTP URL; write it as https://example.org/mcp")


class _ServerFields:
    """The fields of one server entry, checked when they are read."""

    def __init__(self, place: str, fields: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.place = place
        self._fields = fields
        self._environment = environment

    def text(self, field: str) -> str | None:
        value = self._fields.get(field)
        return None if value is None else self._expanded(value, f"{self.place}.{field}")

    def words(self, field: str) -> tuple[str, ...]:
        value = self._fields.get(field)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise InputError(f"{self.place}.{field} must be a list of strings, not {json_type(value)}")
        return tuple(self._expanded(each, f"{self.place}.{field}[{at}]") for at, each in enumerate(value))

    def texts(self, field: str) -> dict[str, str]:
        value = self._fields.get(field)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise InputError(f"{self.place}.{field} must be an object of strings, not {json_type(value)}")
        return {name: self._expanded(each, f"{self.place}.{field}.{name}") for name, each in value.items()}

    def tools(self) -> ToolFilter:
        """Return the tool filter as in Gemini CLI and Codex; tools that a user disabled stay disabled."""
        only = next((key for key in _ONLY if self._fields.get(key) is not None), None)
        without = (name for key in _WITHOUT for name in self.words(key))
        return ToolFilter(only=None if only is None else self.words(only), without=tuple(without))

    def _expanded(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise InputError(f"{place} must be a string, not {json_type(value)}")
        if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
            raise InputError(f"{place} contains a null byte or a lone surrogate")
        if other := _OTHER_VARIABLE.search(value):
            raise InputError(
                f"{place} contains {other[0]}, which only an editor can resolve; use an ${{ENV_VARIABLE}} instead"
            )

        def found(match: re.Match[str]) -> str:
            name, default = match.groups()
            held = self._environment.get(name) or default
            if held is None and (held := self._environment.get(name)) is None:
                raise InputError(
                    f"{place} uses the variable {name}, which is not set; set it, or write ${{{name}:-default}}"
                )
            return held

        return _VARIABLE.sub(found, value)
