"""The clients that can be set up, and the form in which each wants the entry."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from satchel.cli.clients import json_form, json_servers, places
from satchel.cli.clients.entry import Edited, Entry
from satchel.cli.clients.listing import Form
from satchel.cli.clients.places import Surroundings
from satchel.errors import InputError

__all__ = ["CLIENTS", "GENERIC", "Client"]


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

    def with_entry(self, text: str, entry: Entry) -> Edited:
        """A configuration's text with the entry in it."""
        if self.toml:
            from satchel.cli.clients import toml_form

            return toml_form.with_entry(text, entry, key=self.key)
        return json_form.with_entry(text, entry, key=self.key, more=self.more)

    def without_entry(self, text: str, name: str) -> Edited:
        """A configuration's text without the entry of a name."""
        if self.toml:
            from satchel.cli.clients import toml_form

            return toml_form.without_entry(text, name, key=self.key)
        return json_form.without_entry(text, name, key=self.key)

    @property
    def form(self) -> Form:
        """How its file lists servers."""
        if self.toml:
            from satchel.cli.clients import toml_servers

            return toml_servers
        return json_servers

    def snippet(self, entry: Entry) -> str:
        """The entry, ready to be pasted."""
        if self.toml:
            from satchel.cli.clients import toml_form

            return toml_form.entry_toml(entry, key=self.key)
        return json_form.entry_json(entry, key=self.key, more=self.more)


CLIENTS = {
    "claude-code": Client(
        "Claude Code",
        places.claude_code,
        project_file=".mcp.json",
        project_remark="Claude Code asks before it starts a project's servers",
        comments=False,
        prefers_structured=True,
        variables="environment",
    ),
    "claude-desktop": Client("Claude Desktop", places.claude_desktop, comments=False),
    "cursor": Client("Cursor", places.cursor, project_file=".cursor/mcp.json", variables="editor"),
    "codex": Client(
        "Codex",
        places.codex,
        project_file=".codex/config.toml",
        project_remark="Codex reads this file in trusted projects only",
        key="mcp_servers",
        toml=True,
        prefers_structured=True,
    ),
    "vscode": Client(
        "VS Code",
        places.vscode,
        project_file=".vscode/mcp.json",
        key="servers",
        more={"type": "stdio"},
        prefers_structured=True,
        variables="editor",
    ),
    "gemini": Client(
        "Gemini CLI", places.gemini, project_file=".gemini/settings.json", variables="kept", url_is_sse=True
    ),
}

# The form most clients have in common.
GENERIC = CLIENTS["cursor"]
