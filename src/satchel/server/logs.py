"""Log lines of libraries on stderr: one line each, with secrets masked, and not the same one again and again."""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from satchel.server.process import LONGEST_LINE, shortened
from satchel.text.redact import masked_line

__all__ = ["RepeatFilter", "configure_logging"]


def _printable(line: str) -> str:
    """Escape characters that would move a terminal's cursor, colour it or reverse the text."""
    return line if line.isprintable() else "".join(map(_escaped, line))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage() if error is None else f"{record.getMessage()}: {type(error).__name__}: {error}"
        return f"satchel: {shortened(_printable(masked_line(said)))}"


REPEAT_SECONDS = 60.0
MOST_REMEMBERED = 200


class RepeatFilter(logging.Filter):
    """Passes a message once a minute; the next line after that says how many were left out.

    Messages are the same if their text is, or if they carry the same `repeats_as` (`extra=` of the call).
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        key = getattr(record, "repeats_as", None) or f"{record.name}: {record.getMessage()[:LONGEST_LINE]}"
        now = self._clock()
        with self._lock:
            at, left_out = self._seen.get(key, (now - REPEAT_SECONDS, 0))
            passes = now - at >= REPEAT_SECONDS
            self._seen[key] = (now, 0) if passes else (at, left_out + 1)
            if len(self._seen) > MOST_REMEMBERED:
                self._seen.popitem(last=False)
        if passes and left_out:
            record.msg, record.args = f"{record.getMessage()} (left out since: {left_out:,} such lines)", ()
        return passes


def configure_logging() -> None:
    """Write warnings of the SDK and the web server to stderr, one line each; SATCHEL_DEBUG adds tracebacks.

    A message that repeats is written once a minute.
    """
    handler = logging.StreamHandler()
    handler.addFilter(RepeatFilter())
    if not os.environ.get("SATCHEL_DEBUG"):
        handler.setFormatter(_OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
