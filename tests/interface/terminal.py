"""Run the command on a pseudo-terminal."""

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from conftest import clean_environment

__all__ = ["ESCAPE", "Shown", "on_a_terminal", "plain"]

ESCAPE = "\x1b["
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Shown(NamedTuple):
    screen: str
    piped: str
    returncode: int


def on_a_terminal(
    *arguments: str | Path, folder: Path, stdout_is_a_pipe: bool = False, typed: str = "", **environment: str
) -> Shown:
    """Run `satchel ARGS…` with a terminal for its input, its errors and, unless piped, its output."""
    colour = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    settings = clean_environment(folder) | colour | environment
    for name in {"NO_COLOR", "FORCE_COLOR", "CI"} - environment.keys():
        settings.pop(name, None)
    master, slave = pty.openpty()
    with subprocess.Popen(
        [str(Path(sys.executable).with_name("satchel")), *map(str, arguments)],
        stdin=slave,
        stdout=subprocess.PIPE if stdout_is_a_pipe else slave,
        stderr=slave,
        cwd=folder,
        env=settings,
    ) as process:
        os.close(slave)
        os.write(master, typed.encode())
        screen = b""
        # The end of a terminal whose last writer has gone reads as an error.
        with contextlib.suppress(OSError):
            while part := os.read(master, 65536):
                screen += part
        os.close(master)
        piped = process.stdout.read() if process.stdout else b""
        returncode = process.wait(timeout=60)
    return Shown(screen.decode().replace("\r\n", "\n"), piped.decode(), returncode)


def plain(screen: str) -> str:
    return _SEQUENCE.sub("", screen)
