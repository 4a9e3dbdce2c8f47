"""One virtual environment for each system that Satchel's own does not have, made on demand and kept."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "NotInstalledError", "interpreter", "requirements_hash"]

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).parent
MARK = "requirements.hash"


class NotInstalledError(Exception):
    """The environment of a system cannot be made; the message says why, in one line."""


def interpreter(system: str, folder: Path) -> Path:
    """Return the interpreter for a system: this one if the system has no requirements, otherwise that of its
    environment. The environment is made if it is not there, or if the requirements have changed."""
    requirements = REQUIREMENTS / f"{system}.txt"
    if not requirements.exists():
        return Path(sys.executable)
    environment = folder.absolute() / system
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    mark = environment / MARK
    wanted = requirements_hash(requirements)
    if mark.exists() and python.exists() and mark.read_text(encoding="ascii") == wanted:
        return python
    print(f"  {system}: making its environment in {environment}", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "venv", "--clear", str(environment)])
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _run([*pip, "-r", str(requirements)])
    mark.write_text(wanted, encoding="ascii")
    return python


def requirements_hash(path: Path) -> str:
    """Return a digest of what is required, apart from comments and order, and of the version of Python."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    version = ".".join(map(str, sys.version_info[:2]))
    content = "\n".join([version, *sorted(filter(None, lines))])
    return hashlib.sha256(content.encode()).hexdigest()


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise NotInstalledError(f"{error.filename}: {error.strerror}") from error
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("ERROR")] or said
        raise NotInstalledError(errors[-1].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}")
