"""The supported MCP clients, and where each keeps its configuration."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

from satchel.cli.clients import json_file, yaml_file
from satchel.cli.clients.entry import VARIABLE, Edited, Fields, Form, GatewayForm, RemoteEntry, ServerEntry
from satchel.errors import InputError

__all__ = ["CLIENTS", "GENERIC", "Client", "Surroundings", "surroundings"]


class Surroundings(NamedTuple):
    """What file locations depend on: the platform as in `sys.platform`, the environment, the home folder."""

    platform: str
    environment: Mapping[str, str]
    home: Path

    def folder(self, variable: str) -> Path | None:
        """Return the folder named by a variable, if it is set and not empty."""
        value = self.environment.get(variable)
        return Path(value) if value else None

    @property
    def dot_config(self) -> Path:
        """The folder that programs from the Unix world use on every platform."""
        return self.folder("XDG_CONFIG_HOME") or self.home / ".config"

    @property
    def applications(self) -> Path:
        """The folder for the data of desktop applications."""
        if self.platform == "win32":
            return self.folder("APPDATA") or self.home / "AppData" / "Roaming"
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.dot_config


def surroundings() -> Surroundings:
    """Return the surroundings of this process."""
    home = Path("~").expanduser()
    if not home.is_absolute():
        raise InputError("HOME is not a folder; set it, or give the client's file with --file")
    return Surroundings(sys.platform, os.environ, home)


# The user's file of each client that needs more than a fixed place


def _claude_desktop(around: Surroundings) -> Path:
    return (_packaged(around) or around.applications / "Claude") / "claude_desktop_config.json"


def _cline(around: Surroundings) -> Path:
    """Return the file that the command line and the editor extensions share; older extensions have their own."""
    if named := around.folder("CLINE_MCP_SETTINGS_PATH"):
        return named
    data = around.folder("CLINE_DATA_DIR") or (around.folder("CLINE_DIR") or around.home / ".cline") / "data"
    shared = data / "settings" / "cline_mcp_settings.json"
    extension = around.applications / "Code/User/globalStorage/saoudrizwan.claude-dev/settings" / shared.name
    return extension if extension.exists() and not shared.exists() else shared


def _zed(around: Surroundings) -> Path:
    folder = around.applications / "Zed" if around.platform == "win32" else around.dot_config / "zed"
    return folder / "settings.json"


def _packaged(around: Surroundings) -> Path | None:
    """Return the folder to which Windows redirects a Claude Desktop that was installed as a package."""
    if around.platform != "win32":
        return None
    local = around.folder("LOCALAPPDATA") or around.home / "AppData" / "Local"
    found = sorted(
        package / "LocalCache" / "Roaming" / "Claude" for package in (local / "Packages").glob("Claude_*")
    )
    found = [folder for folder in found if (folder / "claude_desktop_config.json").exists()] or found
    if len(found) > 1:
        raise InputError(f"{len(found)} packages of Claude Desktop are in {local}; choose a file with --file")
    return found[0] if found else None


# How headers are written: a value may refer to an environment variable as ${NAME}

Headers = Mapping[str, str]


def _headers_with(reference: str, *, under: str | None = None) -> Callable[[Headers], dict[str, Any]]:
    """Return a function that writes headers, with `reference` (such as `{env:%s}`) for each variable."""

    def fields(headers: Headers) -> dict[str, Any]:
        written = {name: VARIABLE.sub(lambda found: reference % found[1], value) for name, value in headers.items()}
        return {under: {"headers": written}} if under else {"headers": written}

    return fields


def _codex_headers(headers: Headers) -> dict[str, Any]:
    """Return fields of Codex, which takes a bearer token or a whole value from a variable."""
    fields: dict[str, Any] = {}
    for name, value in headers.items():
        bearer = VARIABLE.fullmatch(value.removeprefix("Bearer "))
        if bearer and value.startswith("Bearer ") and name.lower() == "authorization":
            fields["bearer_token_env_var"] = bearer[1]
        elif whole := VARIABLE.fullmatch(value):
            fields.setdefault("env_http_headers", {})[name] = whole[1]
        elif VARIABLE.search(value):
            raise InputError(
                f"Codex takes the whole value of the header {name} from a variable, not a part of it; "
                f"put all of it in the variable and give --header '{name}: ${{NAME}}'"
            )
        else:
            fields.setdefault("http_headers", {})[name] = value
    return fields


def _zed_headers(headers: Headers) -> dict[str, Any]:
    """Return the headers as they are: Zed sends them verbatim."""
    for name, value in headers.items():
        if VARIABLE.search(value):
            raise InputError(
                f"Zed cannot take the header {name} from the environment; leave out --header if the server has "
                "OAuth, or put the server in a file for `satchel gateway --config FILE` and add that as a command"
            )
    return {"headers": dict(headers)}


# The supported clients, and the form of their entries

_NONE: Mapping[str, Any] = MappingProxyType({})
# A cold start takes seconds on a busy machine, an answer less than one.
_START, _CALL = 30, 60


class Client(NamedTuple):
    """An MCP client: its name, its files, and how it writes a server."""

    title: str
    own_file: Callable[[Surroundings], Path]
    project_file: str | None = None
    project_remark: str | None = None
    # Another name that its file may have, in the same folder.
    other_name: str | None = None
    # "yaml" is a file for each server, which Satchel writes as a whole.
    format: Literal["json", "toml", "yaml"] = "json"
    # The key that holds the servers.
    key: str = "mcpServers"
    # Whether its files may contain comments and trailing commas.
    comments: bool = True
    # Further fields of a server with a command, and of a remote one; None if the file cannot have remote servers.
    local: Mapping[str, Any] = _NONE
    remote: Mapping[str, Any] | None = _NONE
    # Whether the program and its arguments are one list.
    command_list: bool = False
    url_key: str = "url"
    headers: Callable[[Headers], dict[str, Any]] = _headers_with("${env:%s}")
    # Written to a new entry only, so that a user's own value is kept.
    timeouts: Mapping[str, int] = _NONE
    # The field that makes the client refuse to start without the server.
    required_key: str | None = None
    # How many tokens of a result it shows. It cuts longer ones, so Satchel is started with this limit.
    longest_result: int | None = None
    # What to know about every entry, and about one whose headers refer to variables.
    remark: str | None = None
    variable_remark: str | None = None
    # Which variables it resolves: none, ${NAME} or ${NAME:-…}, those of an editor such as ${env:NAME} and
    # ${workspaceFolder}, those of an environment that it does not pass on completely, or {env:NAME} and {file:…}.
    variables: Literal["none", "environment", "editor", "kept", "braces"] = "none"
    # Whether a url without a type may use the old SSE transport.
    url_is_sse: bool = False

    def file(self, around: Surroundings, folder: Path | None = None, *, name: str = "satchel") -> Path:
        """Return the user's file, or the file in a project folder, for a server of this name."""
        if folder is not None and self.project_file is None:
            raise InputError(f"{self.title} has no project file; leave out --local")
        path = self.own_file(around) if folder is None else folder / cast(str, self.project_file)
        if self.file_per_server:
            return path.with_stem(name)
        if self.other_name and not path.exists() and path.with_name(self.other_name).exists():
            return path.with_name(self.other_name)
        return path

    @property
    def file_per_server(self) -> bool:
        """Whether each server has a file of its own, which Satchel writes as a whole."""
        return self.format == "yaml"

    @property
    def form(self) -> Form:
        """The module that edits its file format."""
        return yaml_file if self.format == "yaml" else self.gateway_form

    @property
    def gateway_form(self) -> GatewayForm:
        """The module that moves servers in its file format, which must not be a file for each server."""
        if self.format == "toml":
            from satchel.cli.clients import toml_file

            return toml_file
        return json_file

    def fields(self, entry: ServerEntry | RemoteEntry, *, required: bool = False) -> Fields:
        """Return an entry in the form of this client; raises `InputError` if it has no such form."""
        needed = {}
        if required:
            if self.required_key is None:
                raise InputError(f"{self.title} cannot require a server; leave out --required")
            needed = {self.required_key: True}
        if isinstance(entry, ServerEntry):
            words = [entry.command, *entry.args]
            command = {"command": words} if self.command_list else {"command": words[0], "args": words[1:]}
            return Fields(entry.name, {**command, **needed}, {**self.local, **self.timeouts})
        if self.remote is None:
            raise InputError(
                f"{self.title} reads no remote servers from its file; add the URL in its settings, under Connectors"
            )
        headers = self.headers(entry.headers) if entry.headers else {}
        return Fields(entry.name, {**self.remote, self.url_key: entry.url, **headers, **needed}, self.timeouts)

    def with_entry(self, text: str, entry: Fields) -> Edited:
        """Return the text of a configuration with the entry added or updated."""
        return self.form.with_entry(text, entry, key=self.key)

    def without_entry(self, text: str, name: str) -> Edited:
        """Return the text of a configuration without the entry of this name."""
        return self.form.without_entry(text, name, key=self.key)

    def snippet(self, entry: Fields) -> str:
        """Return the entry, ready to be pasted."""
        return self.form.whole_file(entry, key=self.key)


CLIENTS = {
    "claude-code": Client(
        "Claude Code",
        lambda around: (around.folder("CLAUDE_CONFIG_DIR") or around.home) / ".claude.json",
        project_file=".mcp.json",
        project_remark="Claude Code asks before it starts a project's servers",
        comments=False,
        remote={"type": "http"},
        headers=_headers_with("${%s}"),
        timeouts={"timeout": _CALL * 1000},
        variables="environment",
    ),
    "claude-desktop": Client("Claude Desktop", _claude_desktop, comments=False, remote=None),
    "cursor": Client(
        "Cursor",
        lambda around: around.home / ".cursor" / "mcp.json",
        project_file=".cursor/mcp.json",
        variables="editor",
    ),
    "codex": Client(
        "Codex",
        lambda around: (around.folder("CODEX_HOME") or around.home / ".codex") / "config.toml",
        project_file=".codex/config.toml",
        project_remark="Codex reads this file in trusted projects only",
        format="toml",
        key="mcp_servers",
        headers=_codex_headers,
        timeouts={"startup_timeout_sec": _START, "tool_timeout_sec": _CALL},
        required_key="required",
    ),
    "vscode": Client(
        "VS Code",
        lambda around: around.applications / "Code" / "User" / "mcp.json",
        project_file=".vscode/mcp.json",
        key="servers",
        local={"type": "stdio"},
        remote={"type": "http"},
        variables="editor",
    ),
    "gemini": Client(
        "Gemini CLI",
        lambda around: (around.folder("GEMINI_CLI_HOME") or around.home) / ".gemini" / "settings.json",
        project_file=".gemini/settings.json",
        url_key="httpUrl",
        headers=_headers_with("${%s}"),
        timeouts={"timeout": _CALL * 1000},
        remark="Gemini CLI starts servers in trusted folders only",
        variables="kept",
        url_is_sse=True,
    ),
    "opencode": Client(
        "opencode",
        lambda around: around.dot_config / "opencode" / "opencode.json",
        project_file="opencode.json",
        other_name="opencode.jsonc",
        key="mcp",
        local={"type": "local"},
        remote={"type": "remote"},
        command_list=True,
        headers=_headers_with("{env:%s}"),
        # For the start, too, for which the default is five seconds.
        timeouts={"timeout": _START * 1000},
        variables="braces",
    ),
    "cline": Client(
        "Cline",
        _cline,
        remote={"type": "streamableHttp"},
        # It keeps 8,000 characters of a result, and cuts out the middle of longer ones.
        longest_result=1_500,
        timeouts={"timeout": _CALL},
        variable_remark="Cline resolves variables in editors; on its command line, use a server with OAuth instead",
        url_is_sse=True,
    ),
    "continue": Client(
        "Continue",
        lambda around: around.home / ".continue" / "mcpServers" / "satchel.yaml",
        project_file=".continue/mcpServers/satchel.yaml",
        format="yaml",
        remote={"type": "streamable-http"},
        headers=_headers_with("${{ secrets.%s }}", under="requestOptions"),
        timeouts={"connectionTimeout": _START * 1000},
        remark="Continue reads this file in editors; on its command line, name it with `cn --mcp FILE`",
    ),
    "windsurf": Client(
        "Windsurf",
        lambda around: around.home / ".codeium" / "windsurf" / "mcp_config.json",
        url_key="serverUrl",
        variables="editor",
    ),
    "zed": Client("Zed", _zed, project_file=".zed/settings.json", key="context_servers", headers=_zed_headers),
}

# The form that most clients have in common.
GENERIC = CLIENTS["cursor"]
