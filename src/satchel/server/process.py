"""The process of a server: its log on stderr, its standard streams, and its end."""

import logging
import os
import sys
import threading

from satchel.text.redact import masked_line

__all__ = ["INTERRUPTED_SECONDS", "leave_within", "log_in_lines", "short_line", "taken_streams"]

INTERRUPTED_SECONDS = 1.0
LONGEST_LINE = 600


def short_line(message: str) -> str:
    """A message in one line of bounded length, with secrets masked."""
    return _shortened(masked_line(message))


def _shortened(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE].rstrip() + " …"


def _printable(line: str) -> str:
    """The line with characters escaped that would move a terminal's cursor, colour it or reverse the text."""
    return line if line.isprintable() else "".join(map(_spelled, line))


def _spelled(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage() if error is None else f"{record.getMessage()}: {type(error).__name__}: {error}"
        return f"satchel: {_shortened(_printable(masked_line(said)))}"


def log_in_lines() -> None:
    """Send warnings of the SDK and the web server to stderr, one line each; SATCHEL_DEBUG adds tracebacks."""
    handler = logging.StreamHandler()
    if not os.environ.get("SATCHEL_DEBUG"):
        handler.setFormatter(_OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def taken_streams() -> tuple[int, int]:
    """Take standard input and output for the protocol alone, and return their descriptors.

    Whatever else reads standard input finds it empty, and what it prints goes to stderr.
    """
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing if sys.stderr is None else sys.stderr.fileno(), 1)
    os.close(nothing)
    return reading, writing


def leave_within(seconds: float, code: int) -> None:
    """End the process after so many seconds even if threads still wait for a lock, a line or a reader.

    Nothing is lost: what was acknowledged is stored by now.
    """
    last = threading.Timer(seconds, os._exit, (code,))
    last.daemon = True
    last.start()
