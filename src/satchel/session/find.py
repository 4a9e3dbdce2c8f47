"""Search inside a stored result with a regular expression, within a time limit and a token budget."""

import re
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from reprlib import repr as shortened
from typing import Any, NamedTuple

import msgspec

from satchel.errors import InputError
from satchel.fitting.engine import Count, largest, self_counted
from satchel.model.checks import MAX_LIMIT, check_limit, check_offset
from satchel.model.patterns import lazy_pattern
from satchel.session.results import Found

__all__ = ["LEAST_TOKENS", "MAX_PATTERN", "Matches", "find_matches", "shown_matches"]


MAX_PATTERN = 1_000
LEAST_TOKENS = 3
"""No match is shown in fewer tokens: its line number, a colon and a line end."""
_MAX_REPEATS = 10_000
_MAX_SECONDS = 60.0
# A longer line is not shown whole: each match in it gets a window of the characters around it.
_LONGEST_LINE = 400
_BEFORE, _AFTER, _LONGEST_MATCH = 60, 120, 400

_REPEAT = lazy_pattern(r"(?<!\\)\{([0-9]+)")
# Regex syntax that contains capitals but does not make a pattern case-sensitive: \S, \p{Lu}, (?P<name>…), (?R).
_NO_CAPITALS = lazy_pattern(r"\\[pP]\{[^}]*\}|\\.|\(\?P?[^:=!>)]*[:=!>)]?", re.DOTALL)


Span = tuple[int, int]


class Window(NamedTuple):
    """A part of the text that shows one match, or a short line with all matches in it."""

    line: int
    """Counted from 1."""
    column: int | None
    """Where the match begins in a long line, in characters, counted from 1. None if the line is shown whole."""
    text: str
    matches: int = 1

    def __str__(self) -> str:
        return f"{self.line}{'' if self.column is None else f':{self.column}'}: {self.text}"


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """The matches of a pattern from the one with the number `start` on, as windows of the text.

    `total` counts all matches, including those before `start` and those without a window. `stopped` means that the
    time limit was reached, so there may be more.
    """

    windows: tuple[Window, ...]
    start: int
    total: int
    stopped: bool


def find_matches(
    text: str, pattern: str, *, start: int = 1, seconds: float = 1.0, most: int = MAX_LIMIT
) -> Matches:
    """Find the matches of a pattern, line by line, and return at most `most` windows from match `start` on.

    The search stops after `seconds` and returns what it has found so far. If it has found nothing by then, it
    raises `InputError`. An empty match counts only in a line without other matches, and once.
    """
    start, most = check_offset(start, name="start", least=1), check_limit(most, name="most")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _MAX_SECONDS:
        raise InputError(f"seconds {shortened(seconds)} is not a number above 0 and up to {_MAX_SECONDS:g}")
    compiled = _compiled(pattern)
    deadline = time.monotonic() + seconds
    windows: list[Window] = []
    total, stopped = 0, False
    for number, ended in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        line = ended.removesuffix("\r")
        spans: list[Span] = []
        before = 0
        try:
            for span in _spans(compiled, line, deadline):
                total += 1
                if total < start:
                    before = span[1]
                # One more than is shown, because a window ends before the next match.
                elif len(windows) + len(spans) <= most:
                    spans.append(span)
        except TimeoutError:
            stopped = True
        if spans:
            windows += _windows(number, line, spans, before=before)
        if stopped:
            break
    if stopped and not total:
        limit = f"{seconds:g} second{'' if seconds == 1 else 's'}"
        raise InputError(f"pattern {shortened(pattern)} took longer than {limit}; make it simpler")
    return Matches(windows=tuple(windows[:most]), start=start, total=total, stopped=stopped)


def _spans(compiled: Any, line: str, deadline: float) -> Iterator[Span]:
    """Yield where each match begins and ends; raises `TimeoutError` when the time is over."""
    if (left := deadline - time.monotonic()) <= 0:
        raise TimeoutError
    empty: Span | None = None
    filled = False
    # The timeout of the engine applies to each step, so the time is also checked between steps.
    for found in compiled.finditer(line, timeout=left):
        start, stop = span = found.span()
        if start < stop:
            filled = True
            yield span
        elif empty is None:
            empty = span
        if time.monotonic() > deadline:
            raise TimeoutError
    if empty is not None and not filled:
        yield empty


def _windows(number: int, line: str, spans: Sequence[Span], *, before: int) -> list[Window]:
    """Return the whole line if it is short; otherwise a window for each match. Windows do not overlap.

    `before` is where the match before the first of these ends.
    """
    if len(line) <= _LONGEST_LINE:
        return [Window(number, None, line, len(spans))]
    windows: list[Window] = []
    bound = _bound(before, spans[0][0])
    for (start, stop), (following, _) in pairwise([*spans, (len(line), len(line))]):
        first = max(bound, start - _BEFORE, 0)
        bound = _bound(stop, following) if following < len(line) else min(stop + _AFTER, len(line))
        last = min(bound, start + _LONGEST_MATCH)
        left, right = "… " if first else "", " …" if last < len(line) else ""
        windows.append(Window(number, start + 1, f"{left}{line[first:last]}{right}"))
    return windows


def _bound(stop: int, following: int) -> int:
    """Return where the window of one match ends at the latest, and that of the following match may begin.

    Two thirds of the text between them go to the following match: in JSON, a key stands before its value.
    """
    return stop + min(_AFTER, (following - stop) // 3)


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


def shown_matches(matches: Matches, *, allocation: int, count: Count, remark: str | None = None) -> Found:
    """Format as many matches as fit in `allocation` tokens, with their numbers and the total below them.

    A remark is a line between the two.
    """

    def made(number: int) -> Found:
        return _found(matches.windows[:number], matches, allocation, count, remark)

    most = min(len(matches.windows), allocation // LEAST_TOKENS)
    found = made(largest(most, lambda number: made(number).token_count <= allocation))
    if found.token_count <= allocation:
        return found
    return msgspec.structs.replace(found, text="", token_count=0, shown=0, next_start=None)


def _found(windows: Sequence[Window], matches: Matches, allocation: int, count: Count, remark: str | None) -> Found:
    shown = sum(window.matches for window in windows)
    following = matches.start + shown
    more = following <= matches.total or matches.stopped

    def make(tokens: int) -> str:
        lines = [*map(str, windows), *([remark] if remark else []), _summary(matches, shown)]
        return "\n".join([*lines, f"📏 ~{tokens:,} tokens"])

    text, tokens = self_counted(make, count)
    return Found(
        text=text,
        token_count=tokens,
        allocation=allocation,
        matches=matches.total,
        start=matches.start,
        shown=shown,
        next_start=following if shown and more else None,
        complete=not matches.stopped,
    )


def _summary(matches: Matches, shown: int) -> str:
    if not matches.total:
        return "Nothing matched."
    total = f"{'more than ' if matches.stopped else ''}{matches.total:,}"
    if matches.start > matches.total:
        return f"⚡ There is no match {matches.start:,}; {total} in all."
    last = matches.start + shown - 1
    numbers = f"{matches.start:,}" if shown == 1 else f"{matches.start:,}–{last:,}" if shown else "None"
    said = f"⚡ {numbers} of {total} matches."
    return f"{said} The next: start={last + 1}." if shown and last < matches.total else said
