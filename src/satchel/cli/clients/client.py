"""The clients that can be set up, and where each keeps its configuration."""

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
    """What decides on a place: the system's name as in `sys.platform`, the environment, the user's folder."""

    platform: str
    environment: Mapping[str, str]
    home: Path

    def folder(self, variable: str) -> Path | None:
        """The folder that a variable names, if it is set and not empty."""
        value = self.environment.get(variable)
        return Path(value) if value else None

    @property
    def applications(self) -> Path:
        """Where desktop applications keep what is theirs."""
        if self.platform == "win32":
            return self.folder("APPDATA") or self.home / "AppData" / "Roaming"
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.folder("XDG_CONFIG_HOME") or self.home / ".config"


def surroundings() -> Surroundings:
    """Those of this process."""
    home = Path("~").expanduser()
    if not home.is_absolute():
        raise InputError("HOME names no folder; set it, or name the client's file by --file")
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
    """Windows redirects what Claude Desktop, installed as a package, takes for the user's folder."""
    if around.platform != "win32":
        return None
    local = around.folder("LOCALAPPDATA") or around.home / "AppData" / "Local"
    found = sorted(
        package / "LocalCache" / "Roaming" / "Claude" for package in (local / "Packages").glob("Claude_*")
    )
    found = [folder for folder in found if (folder / "claude_desktop_config.json").exists()] or found
    if len(found) > 1:
        raise InputError(f"there are {len(found)} packages of Claude Desktop in {local}; name the file by --file")
    return found[0] if found else None


# The clients that can be set up, and the form in which each wants the entry.


class Client(NamedTuple):
    """A program that talks to MCP servers: its name, its files, the key its servers stand under."""

    title: str
    own_file: Callable[[Surroundings], Path]
    project_file: str | None = None
    project_remark: str | None = None
    key: str = "mcpServers"
    more: Mapping[str, Any] = {}
    toml: bool = False
    # Whether its files may hold comments and trailing commas.
    comments: bool = True
    # Whether its model sees the structured content of an answer, and not the text, where there is both.
    prefers_structured: bool = False
    # Which variables it fills in: none, ${NAME} or ${NAME:-…}, an editor's like ${env:NAME} and ${workspaceFolder},
    # or those of an environment that it does not hand on whole.
    variables: Literal["none", "environment", "editor", "kept"] = "none"
    # Whether a url without a type may be one of the old protocol.
    url_is_sse: bool = False

    def file(self, around: Surroundings, folder: Path | None = None) -> Path:
        """The user's file, or with a project's folder the one in there."""
        if folder is None:
            return self.own_file(around)
        if self.project_file is None:
            raise InputError(f"{self.title} has no file for a project; leave out --local")
        return folder / self.project_file

    def with_entry(self, text: str, entry: ServerEntry) -> Edited:
        """A configuration's text with the entry in it."""
        if self.toml:
            from satchel.cli.clients import toml_file

            return toml_file.with_entry(text, entry, key=self.key)
        return json_file.with_entry(text, entry, key=self.key, more=self.more)

    def without_entry(self, text: str, name: str) -> Edited:
        """A configuration's text without the entry of a name."""
        if self.toml:
            from satchel.cli.clients import toml_file

            return toml_file.without_entry(text, name, key=self.key)
        return json_file.without_entry(text, name, key=self.key)

    @property
    def form(self) -> Form:
        """How its file lists servers."""
        if self.toml:
            from satchel.cli.clients import toml_file

            return toml_file
        return json_file

    def snippet(self, entry: ServerEntry) -> str:
        """The entry, ready to be pasted."""
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

# The form most clients have in common.
GENERIC = CLIENTS["cursor"]
