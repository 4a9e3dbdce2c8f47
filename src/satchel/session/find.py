"""Search inside a stored result with a regular expression, within a time limit and a token budget."""

import re
import time
from reprlib import repr as shortened
from typing import Any

import msgspec

from satchel.errors import InputError
from satchel.fitting.engine import Count, largest, self_counted
from satchel.model.checks import check_limit
from satchel.session.results import Found

__all__ = ["MAX_PATTERN", "find_lines", "shown_lines"]


MAX_PATTERN = 1_000
_MAX_REPEATS = 10_000
_MAX_SECONDS = 60.0
# A longer line is cut to the part around the match.
_LONGEST_SHOWN, _BEFORE = 400, 100

_REPEAT = re.compile(r"(?<!\\)\{([0-9]+)")
# Regex syntax that contains capitals but does not make a pattern case-sensitive: \S, \p{Lu}, (?P<name>…), (?R).
_NO_CAPITALS = re.compile(r"\\[pP]\{[^}]*\}|\\.|\(\?P?[^:=!>)]*[:=!>)]?", re.DOTALL)


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """The matching lines with their line numbers, counted from 1. Long lines are cut to the part around the match.

    `matches` counts all matching lines, including those not returned. `stopped` means that the time limit was
    reached, so there may be more.
    """

    numbers: tuple[int, ...]
    lines: tuple[str, ...]
    matches: int
    stopped: bool


def find_lines(text: str, pattern: str, *, seconds: float = 1.0, most: int = 10_000) -> Lines:
    """Find the lines that match a pattern and return at most `most` of them.

    The search stops after `seconds` and returns what it has found so far. If it has found nothing by then, it
    raises `InputError`.
    """
    most = check_limit(most, name="most")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _MAX_SECONDS:
        raise InputError(f"seconds {shortened(seconds)} is not a number above 0 and up to {_MAX_SECONDS:g}")
    compiled = _compiled(pattern)
    deadline = time.monotonic() + seconds
    numbers: list[int] = []
    lines: list[str] = []
    matches, stopped = 0, False
    try:
        for number, ended in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
            line = ended.removesuffix("\r")
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if (found := compiled.search(line, timeout=left)) is None:
                continue
            matches += 1
            if len(lines) < most:
                numbers.append(number)
                lines.append(_around(line, found.start()))
    except TimeoutError:
        if not matches:
            limit = f"{seconds:g} second{'' if seconds == 1 else 's'}"
            raise InputError(f"pattern {shortened(pattern)} took longer than {limit}; make it simpler") from None
        stopped = True
    return Lines(numbers=tuple(numbers), lines=tuple(lines), matches=matches, stopped=stopped)


def _around(line: str, place: int) -> str:
    if len(line) <= _LONGEST_SHOWN:
        return line
    start = max(0, min(place - _BEFORE, len(line) - _LONGEST_SHOWN))
    stop = start + _LONGEST_SHOWN
    return ("… " if start else "") + line[start:stop] + (" …" if stop < len(line) else "")


def _compiled(pattern: object) -> Any:
    import regex

    if not isinstance(pattern, str) or not pattern:
        raise InputError(f"pattern {shortened(pattern)} is empty or not text; give a regular expression")
    if len(pattern) > MAX_PATTERN:
        raise InputError(f"the pattern has {len(pattern):,} characters; the limit is {MAX_PATTERN:,}")
    repeats = 1
    for found in _REPEAT.finditer(pattern):
        # The regex engine expands counted repeats while compiling, and no timeout interrupts that.
        repeats *= max(1, int(found[1]))
    if repeats > _MAX_REPEATS:
        raise InputError(f"pattern {shortened(pattern)} repeats more than {_MAX_REPEATS:,} times; make it simpler")
    capitals = any(character.isupper() for character in _NO_CAPITALS.sub("", pattern))
    try:
        return regex.compile(pattern, 0 if capitals else regex.IGNORECASE)
    except regex.error as error:
        where = "" if error.pos is None else f" at position {error.pos}"
        raise InputError(f"pattern {shortened(pattern)} is not a regular expression: {error.msg}{where}") from None
    except (RecursionError, OverflowError, ValueError) as error:
        raise InputError(f"pattern {shortened(pattern)} cannot be used: {error}; make it simpler") from None


# Formatting the matches within a token budget


def shown_lines(lines: Lines, *, allocation: int, count: Count) -> Found:
    """Format as many matching lines as fit in `allocation` tokens, with the total number of matches below them."""
    written = [f"{number}: {line}" for number, line in zip(lines.numbers, lines.lines, strict=True)]

    def made(shown: int) -> Found:
        return _found(written[:shown], lines, allocation, count)

    found = made(largest(len(written), lambda shown: made(shown).token_count <= allocation))
    if found.token_count <= allocation:
        return found
    return Found(
        text="",
        token_count=0,
        allocation=allocation,
        matches=lines.matches,
        shown=0,
        complete=not lines.stopped,
    )


def _found(written: list[str], lines: Lines, allocation: int, count: Count) -> Found:
    more = "more than " if lines.stopped else ""
    head = "Nothing matched." if not lines.matches else ""
    tail = f"⚡ {len(written):,} of {more}{lines.matches:,} matching lines shown."
    if len(written) < lines.matches:
        tail += " Narrow the pattern to see others."

    def make(tokens: int) -> str:
        return "\n".join([*([head] if head else [*written, tail]), f"📏 ~{tokens:,} tokens"])

    text, tokens = self_counted(make, count)
    return Found(
        text=text,
        token_count=tokens,
        allocation=allocation,
        matches=lines.matches,
        shown=len(written),
        complete=not lines.stopped,
    )
