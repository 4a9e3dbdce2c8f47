"""Where each client keeps its configuration, by system and environment."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from satchel.errors import InputError

__all__ = ["Surroundings", "claude_code", "claude_desktop", "codex", "cursor", "gemini", "surroundings", "vscode"]


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
