"""Packages from npm, installed once per set of versions into the virtual environment."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

__all__ = ["node", "npm_packages"]

OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ENOTCACHED")
LONGEST_INSTALL = 1800
# Ranges of versions inside the packages are resolved as of this day: a release of today may not be in the registry
# yet with all that it needs. Move it forward when a pinned version is newer.
AS_OF = "2026-11-17"


def node() -> str:
    """Return the path of node; skips the test where node or npm is not installed."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    return found


def npm_packages(name: str, manifest: Mapping[str, Any]) -> Path:
    """Return the `node_modules` with the packages of a package.json; skips the test where npm cannot get them.

    Scripts of the packages do not run. A change of the manifest makes a new installation.
    """
    node()
    content = json.dumps({"private": True, **manifest}, sort_keys=True)
    folder = Path(sys.prefix) / "npm" / f"{name}-{hashlib.sha256((content + AS_OF).encode()).hexdigest()[:12]}"
    if not folder.exists():
        # Installed elsewhere and renamed: another test process may do the same, and what is there is complete.
        apart = folder.with_name(f"{folder.name}.{os.getpid()}")
        apart.mkdir(parents=True, exist_ok=True)
        try:
            (apart / "package.json").write_text(content)
            _install(apart)
            with contextlib.suppress(OSError):
                apart.rename(folder)
        finally:
            shutil.rmtree(apart, ignore_errors=True)
    return folder / "node_modules"


def _install(folder: Path) -> None:
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    command.append(f"--before={AS_OF}")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONGEST_INSTALL)
    if done.returncode and any(code in done.stderr for code in OFFLINE):
        pytest.skip("the registry of npm cannot be reached")
    assert done.returncode == 0, done.stderr
