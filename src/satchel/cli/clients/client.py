"""The supported MCP clients, and where each keeps its configuration."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from satchel.cli.clients import json_file
from satchel.cli.clients.entry import Edited, Form, ServerEntry
from satchel.errors import InputError

__all__ = [
    "CLIENTS",
    "GENERIC",
    "Client",
    "Surroundings",
    "claude_code",
    "claude_desktop",
    "codex",
    "cursor",
    "gemini",
    "surroundings",
    "vscode",
]


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
    def applications(self) -> Path:
        """The folder for the data of desktop applications."""
        if self.platform == "win32":
            return self.folder("APPDATA") or self.home / "AppData" / "Roaming"
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.folder("XDG_CONFIG_HOME") or self.home / ".config"


def surroundings() -> Surroundings:
    """Return the surroundings of this process."""
    home = Path("~").expanduser()
    if not home.is_absolute():
        raise InputError("HOME is not a folder; set it, or give the client's file with --file")
    return Surroundings(sys.platform, os.environ, home)


def claude_code(around: Surroundings) -> Path:
    return (around.folder("CLAUDE_CONFIG_DIR") or around.home) / ".claude.json"


def claude_desktop(around: Surroundings) -> Path:
    return (_packaged(around) or around.applications / "Claude") / "claude_desktop_config.json"


def cursor(around: Surroundings) -> Path:
    return around.home / ".cursor" / "mcp.json"


def codex(around: Surroundings) -> Path:
    return (around.folder("CODEX_HOME") or around.home / ".codex") / "config.toml"


def vscode(around: Surroundings) -> Path:
    return around.applications / "Code" / "User" / "mcp.json"


def gemini(around: Surroundings) -> Path:
    return (around.folder("GEMINI_CLI_HOME") or around.home) / ".gemini" / "settings.json"


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


# The supported clients, and the form of their entries


class Client(NamedTuple):
    """An MCP client: its name, its files, and the key that holds its servers."""

    title: str
    own_file: Callable[[Surroundings], Path]
    project_file: str | None = None
    project_remark: str | None = None
    key: str = "mcpServers"
    more: Mapping[str, Any] = {}
    toml: bool = False
    # Whether its files may contain comments and trailing commas.
    comments: bool = True
    # Whether its model sees the structured content of an answer instead of the text, if there are both.
    prefers_structured: bool = False
    # Which variables it resolves: none, ${NAME} or ${NAME:-…}, those of an editor such as ${env:NAME} and
    # ${workspaceFolder}, or those of an environment that it does not pass on completely.
    variables: Literal["none", "environment", "editor", "kept"] = "none"
    # Whether a url without a type may use the old SSE transport.
    url_is_sse: bool = False

    def file(self, around: Surroundings, folder: Path | None = None) -> Path:
        """Return the user's file, or the file in a project folder."""
        if folder is None:
            return self.own_file(around)
        if self.project_file is None:
            raise InputError(f"{self.title} has no project file; leave out --local")
        return folder / self.project_file

    def with_entry(self, text: str, entry: ServerEntry) -> Edited:
        """Return the text of a configuration with the entry added or updated."""
        if self.toml:
            from satchel.cli.clients import toml_file

            return toml_file.with_entry(text, entry, key=self.key)
        return json_file.with_entry(text, entry, key=self.key, more=self.more)

    def without_entry(self, text: str, name: str) -> Edited:
        """Return the text of a configuration without the entry of this name."""
        if self.toml:
            from satchel.cli.clients import toml_file

            return toml_file.without_entry(text, name, key=self.key)
        return json_file.without_entry(text, name, key=self.key)

    @property
    def form(self) -> Form:
        """The module that edits its file format."""
        if self.toml:
            from satchel.cli.clients import toml_file

            return toml_file
        return json_file

    def snippet(self, entry: ServerEntry) -> str:
        """Return the entry, ready to be pasted."""
        if self.toml:
            from satchel.cli.clients import toml_file

            return toml_file.entry_toml(entry, key=self.key)
        return json_file.entry_json(entry, key=self.key, more=self.more)


CLIENTS = {
    "claude-code": Client(
        "Claude Code",
        claude_code,
        project_file=".mcp.json",
        project_remark="Claude Code asks before it starts a project's servers",
        comments=False,
        prefers_structured=True,
        variables="environment",
    ),
    "claude-desktop": Client("Claude Desktop", claude_desktop, comments=False),
    "cursor": Client("Cursor", cursor, project_file=".cursor/mcp.json", variables="editor"),
    "codex": Client(
        "Codex",
        codex,
        project_file=".codex/config.toml",
        project_remark="Codex reads this file in trusted projects only",
        key="mcp_servers",
        toml=True,
        prefers_structured=True,
    ),
    "vscode": Client(
        "VS Code",
        vscode,
        project_file=".vscode/mcp.json",
        key="servers",
        more={"type": "stdio"},
        prefers_structured=True,
        variables="editor",
    ),
    "gemini": Client("Gemini CLI", gemini, project_file=".gemini/settings.json", variables="kept", url_is_sse=True),
}

# The form that most clients have in common.
GENERIC = CLIENTS["cursor"]
