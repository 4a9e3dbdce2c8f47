"""The server process: lines on stderr, standard streams, and exit. Imports next to nothing."""

import os
import sys
import threading

__all__ = ["INTERRUPTED_SECONDS", "claim_stdio", "exit_within", "short_line", "shortened"]

INTERRUPTED_SECONDS = 1.0
LONGEST_LINE = 600


def short_line(message: str) -> str:
    """Return a message on one line of bounded length, with secrets masked."""
    from satchel.text.redact import masked_line

    return shortened(masked_line(message))


def shortened(line: str) -> str:
    """Return a line, cut to the length that a line may have."""
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE].rstrip() + " …"


def claim_stdio() -> tuple[int, int]:
    """Reserve standard input and output for the protocol, and return their descriptors.

    Other code that reads standard input finds it empty, and what it prints goes to stderr.
    """
    writing = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    # Without standard input there is nothing to read; some other file may have its number.
    reading = os.dup(nothing if sys.stdin is None else 0)
    os.dup2(nothing, 0)
    os.dup2(nothing if sys.stderr is None else sys.stderr.fileno(), 1)
    os.close(nothing)
    return reading, writing


def exit_within(seconds: float, code: int) -> None:
    """Exit the process after this many seconds even if threads are blocked on a lock, a read or a write.

    No acknowledged write is lost, because it is stored by then.
    """
    last = threading.Timer(seconds, os._exit, (code,))
    last.daemon = True
    last.start()
