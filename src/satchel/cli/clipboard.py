"""The clipboard of the machine one sits at, by the tool that reaches it from here."""

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
# A sequence of 100,000 bytes; of longer ones some terminals drop the text without a word.
MOST_BY_TERMINAL = 74_994


class Tool(NamedTuple):
    """A command that takes the text on its standard input, where a variable says that it can work."""

    command: tuple[str, ...]
    needs: str | None = None
    encoding: str = "utf-8"
    environment: Mapping[str, str] = MappingProxyType({})

    @property
    def name(self) -> str:
        return self.command[0]


TOOLS = (
    # Without a locale it takes UTF-8 for Mac Roman.
    Tool(("pbcopy",), environment={"LC_ALL": "en_US.UTF-8"}),
    # Without a type it guesses one from the first bytes, and a wrong guess pastes nothing at all.
    Tool(("wl-copy", "--type", "text/plain"), needs="WAYLAND_DISPLAY"),
    Tool(("xclip", "-selection", "clipboard"), needs="DISPLAY"),
    Tool(("xsel", "--clipboard", "--input"), needs="DISPLAY"),
    Tool(("clip.exe",), encoding="utf-16-le"),
    Tool(("termux-clipboard-set",)),
)


class _NotCopiedError(Exception):
    """This way does not work here; the message says why."""


def copy(text: str) -> str:
    """Put a text on the clipboard, and say by what; a tool that failed before that is noted on stderr."""
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
            f"no clipboard to copy to: looked for {wanted} and a terminal: {tried}; use -o FILE or a pipe"
        ) from None
    return _after(failed, "the terminal (OSC 52)")


def _after(failed: list[str], way: str) -> str:
    for reason in failed:
        note(f"{reason}; copied by {way} instead")
    return way


def _run(tool: Tool, path: str, text: str) -> None:
    # Some of them stay behind to serve the clipboard and keep what they inherit open: no pipe to wait on.
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
    """By OSC 52, which a terminal far away understands too; whether it heeds it cannot be seen."""
    if not any(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
        raise _NotCopiedError("there is no terminal")
    if os.environ.get("TERM") == "dumb":
        raise _NotCopiedError("the terminal is a dumb one")
    content = text.encode()
    if len(content) > MOST_BY_TERMINAL:
        raise _NotCopiedError(f"the terminal takes {MOST_BY_TERMINAL:,} bytes at most, not {len(content):,}")
    try:
        with open(TERMINAL, "wb") as terminal:
            terminal.write(b"\x1b]52;c;" + base64.b64encode(content) + b"\x07")
    except OSError as error:
        raise _NotCopiedError(f"{TERMINAL} cannot be written to ({error.strerror})") from error
