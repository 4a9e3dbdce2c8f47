"""Copy text to the user's clipboard, with the tool that works on this system."""

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from satchel.cli.output import note
from satchel.errors import SatchelError
from satchel.fitting.listing import clean
from satchel.model.checks import repair_surrogates

__all__ = ["copy"]

TIMEOUT = 5.0
TERMINAL = "/dev/tty"
# Gives an escape sequence of 100,000 bytes; some terminals silently drop longer ones.
MOST_BY_TERMINAL = 74_994


class Tool(NamedTuple):
    """A command that reads the text from standard input. It is used only if the variable `needs` is set."""

    command: tuple[str, ...]
    needs: str | None = None
    encoding: str = "utf-8"
    environment: Mapping[str, str] = MappingProxyType({})

    @property
    def name(self) -> str:
        return self.command[0]


TOOLS = (
    # Without a locale, it reads UTF-8 as Mac Roman.
    Tool(("pbcopy",), environment={"LC_ALL": "en_US.UTF-8"}),
    # Without a type, it guesses one from the first bytes; after a wrong guess nothing can be pasted.
    Tool(("wl-copy", "--type", "text/plain"), needs="WAYLAND_DISPLAY"),
    Tool(("xclip", "-selection", "clipboard"), needs="DISPLAY"),
    Tool(("xsel", "--clipboard", "--input"), needs="DISPLAY"),
    Tool(("clip.exe",), encoding="utf-16-le"),
    Tool(("termux-clipboard-set",)),
)


class _NotCopiedError(Exception):
    """A tool does not work here; the message says why."""


def copy(text: str) -> str:
    """Copy a text to the clipboard, and return the name of the tool used. Failed tools are noted on stderr."""
    text = repair_surrogates(text)
    failed = []
    for tool in TOOLS:
        path = shutil.which(tool.name)
        if path is None or (tool.needs and not os.environ.get(tool.needs)):
            continue
        try:
            _run(tool, path, text)
        except _NotCopiedError as reason:
            failed.append(str(reason))
        else:
            return _after(failed, tool.name)
    try:
        _tell_terminal(text)
    except _NotCopiedError as reason:
        wanted = ", ".join(f"{tool.name} ({tool.needs})" if tool.needs else tool.name for tool in TOOLS)
        tried = "; ".join([*failed, str(reason)])
        raise SatchelError(
            f"cannot copy to a clipboard; tried {wanted} and the terminal: {tried}; use -o FILE or a pipe"
        ) from None
    return _after(failed, "the terminal (OSC 52)")


def _after(failed: list[str], way: str) -> str:
    for reason in failed:
        note(f"{reason}; copied by {way} instead")
    return way


def _run(tool: Tool, path: str, text: str) -> None:
    # Some tools keep running to serve the clipboard, with inherited files open: use no pipe, which would block.
    with tempfile.TemporaryFile() as said:
        try:
            done = subprocess.run(
                [path, *tool.command[1:]],
                input=text.encode(tool.encoding),
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=os.environ | tool.environment,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _NotCopiedError(f"{tool.name} did not finish within {TIMEOUT:g} seconds") from None
        except OSError as error:
            raise _NotCopiedError(f"{tool.name} could not be run ({error.strerror})") from error
        if done.returncode:
            said.seek(0)
            lines = clean(said.read().decode("utf-8", "replace")).split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            raise _NotCopiedError(f"{tool.name} failed with {done.returncode}" + (f" ({last})" if last else ""))


def _tell_terminal(text: str) -> None:
    """Copy with OSC 52, which also works over SSH. Terminals do not report whether they support it."""
    if not any(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
        raise _NotCopiedError("there is no terminal")
    if os.environ.get("TERM") == "dumb":
        raise _NotCopiedError("the terminal is dumb (TERM=dumb)")
    content = text.encode()
    if len(content) > MOST_BY_TERMINAL:
        raise _NotCopiedError(f"a terminal accepts at most {MOST_BY_TERMINAL:,} bytes, not {len(content):,}")
    try:
        with open(TERMINAL, "wb") as terminal:
            terminal.write(b"\x1b]52;c;" + base64.b64encode(content) + b"\x07")
    except OSError as error:
        raise _NotCopiedError(f"{TERMINAL} cannot be written to ({error.strerror})") from error
