"""The process of a server: how it complains, and how it ends."""

import logging
import os
import sys
import threading

from satchel.text.redact import masked_line

__all__ = ["INTERRUPTED_SECONDS", "leave_within", "log_in_lines", "short_line", "taken_streams"]

INTERRUPTED_SECONDS = 1.0
LONGEST_LINE = 600


def short_line(message: str) -> str:
    """A complaint of one line, of which no more is said than a reader needs."""
    return _cut(masked_line(message))


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE].rstrip() + " …"


def _printable(line: str) -> str:
    """What would move a terminal's cursor, colour it or turn the line around is spelled out."""
    return line if line.isprintable() else "".join(map(_spelled, line))


def _spelled(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage() if error is None else f"{record.getMessage()}: {type(error).__name__}: {error}"
        return f"satchel: {_cut(_printable(masked_line(said)))}"


def log_in_lines() -> None:
    """What the SDK and the web server warn of goes to stderr; tracebacks only where they are asked for."""
    handler = logging.StreamHandler()
    if not os.environ.get("SATCHEL_DEBUG"):
        handler.setFormatter(_OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def taken_streams() -> tuple[int, int]:
    """Standard input and output for the protocol alone: whatever else reads or prints here does not touch it."""
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing if sys.stderr is None else sys.stderr.fileno(), 1)
    os.close(nothing)
    return reading, writing


def leave_within(seconds: float, code: int) -> None:
    """Threads may wait for longer, for a lock, a line or a reader; what was acknowledged is stored by now."""
    last = threading.Timer(seconds, os._exit, (code,))
    last.daemon = True
    last.start()
