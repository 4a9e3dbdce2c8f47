"""Find the lines that report errors, in megabytes of text within milliseconds."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import Rank, Row, Source, excerpt, plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ERROR_WIDTH", "error_lines", "error_rows", "is_error", "tool_errors"]

LOOKED_AT = 12
FIRST = 3
LAST = 1
ERROR_WIDTH = 170

# Words searched in the whole text, each with a rare pair of letters that `_signs` finds first.
_WORDS = (("error", "rr"), ("exce", "xc"), ("fail", "fa"), ("fata", "fa"), ("panic", "pa"))
_LONGEST_ENDING = len("ption:")
_CHUNK = 128_000
_END = 3_000
_REACH = 160
_NEAR = 50

_HARMLESS = lazy_pattern(
    r"\b(?:0|no|without|zero|any)\s+(?:\w+\s+)?(?:errors?|failures?|failed|exceptions?)\b"
    r"|\b(?:errors?|failures?|failed|exceptions?)\"?\s*[=:]\s*(?:0\b(?!\.)|null\b|none\b|false\b|\[\s*\]|\{\s*\}|\"\")"
    r"|\b(?:exit|return)\s*(?:code|status|ed with)?[=: ]+0\b",
    re.IGNORECASE,
)
_STRONG = lazy_pattern(
    r"^E   |^(?:npm ERR!|\s*✗|\s*✖)|\b(?:ERROR|FATAL|CRITICAL|PANIC|SEVERE|FAILED|FAIL)\b"
    r"|(?i:\b(?:error|fatal|panic|critical|exception|abort(?:ed)?)\b\"?(?:\s*\[\w+\])?\s*[:=!(\]])"
    r"|(?:Error|Exception)\b(?:\s*[:(]|$)"
    r"|(?i:\bexit(?:ed)?(?: with)?\s*(?:code|status)?\s*[=:]?\s*-?[1-9]\d*\b)"
    r"|(?i:segmentation fault|core dumped|panicked at|no such file|permission denied|command not found)"
)
# Not inside a path or a longer name, such as `errors.py` or `on_error`.
_ERROR = lazy_pattern(
    r"(?i:(?<![\w./])(?:errors?|exceptions?|fail(?:ed|ure|ures|s)?|fatal|panic(?:ked)?|critical|abort(?:ed|ing)?|denied"
    r"|refused|cannot|no such)(?![\w/]|\.\w))|[a-z]Error\b|[a-z]Exception\b"
)
_COMPLAINT = lazy_pattern(
    r"(?:[\w./-]{1,40}: )?(?i:error|fatal|panic|exception|critical)\b\s*[:!\[(]"
    r"|E   |npm ERR!|(?:[\w$]+\.)*\w*(?:Error|Exception): "
    r"|[\w./-]{1,40}: .{1,300}(?i:denied|no such file|cannot|not permitted|invalid|is a directory|not found)"
    r"|(?i:exit(?:ed with)?(?: code| status)?[:= ]+-?[1-9]\d*\b)"
)
# Words searched at both ends of the text.
_HINTS = (
    "error", "exception", "fail", "fatal", "panic", "critical", "severe", "abort", "denied", "refused", "cannot",
    "no such", "exit", "err!", "segmentation", "core dumped", "not found", "invalid", "permitted", "is a directory",
    "✗", "✖", "\ne   ",
)  # fmt: skip
_SEAM = lazy_pattern(r"[\s\",;&]+")
_TRACEBACK = "Traceback (most recent call last)"


class _Found(NamedTuple):
    start: int
    line: str
    strong: bool


def error_lines(source: Source) -> list[str]:
    """Return lines that report an error, a failure or a bad exit code, clear ones first; of many, the ends."""
    places = _positions(source)
    first = _some(source.text, places, _is_error, FIRST)
    last: list[_Found] = []
    if sum(one.strong for one in first) == FIRST:
        # The search stopped early.
        last = _some(source.text, reversed(places), _is_error, LAST)
    found = {one.start: one for one in (*_last_of_tracebacks(source.text), *first, *last)}
    told = sorted(found.values(), key=lambda one: (not one.strong, one.start))
    strong = [one for one in told if one.strong]
    shown = told if len(strong) <= FIRST + LAST else [*strong[:FIRST], *strong[-LAST:]]
    return list(dict.fromkeys(one.line for one in shown))


def tool_errors(source: Source) -> list[str]:
    """Return lines in which the tool itself reports an error, not file contents that mention errors."""
    found = _some(source.text, _positions(source), _is_tool_error, FIRST)
    return list(dict.fromkeys(one.line for one in found))


def is_error(line: str) -> bool:
    """Whether a line reports an error; `0 errors` and the like do not."""
    if not (_ERROR.search(line) or _STRONG.search(line)):
        return False
    left = _HARMLESS.sub(" ", line)
    return left == line or bool(_ERROR.search(left) or _STRONG.search(left))


def error_rows(lines: Sequence[str]) -> list[Row]:
    """Return a row for each of the first few lines; those between the first and the last rank below paths."""
    shown = [text for line in lines[: FIRST + LAST] if (text := excerpt(line, ERROR_WIDTH))]
    ends = (0, len(shown) - 1)
    return [
        Row(Rank.ERROR if place in ends else Rank.NUMBER, [text], "! ", 0.4 if place else 1.0, shows=1)
        for place, text in enumerate(shown)
    ]


def _some(text: str, places: Iterable[int], wanted: Callable[[str, str], bool], enough: int) -> list[_Found]:
    """Return the lines around these positions for which `wanted` is true, until `enough` clear errors are found."""
    found: dict[int, _Found] = {}
    for place in places:
        start, end = _line_around(text, place)
        if start in found:
            continue
        near = plain(text[max(start, place - _NEAR) : min(end, place + _NEAR)])
        if wanted(text[start:end], near):
            strong = _STRONG.search(near) is not None
            found[start] = _Found(start, _whole_words(text, start, end), strong)
            enough -= strong
            if not enough:
                break
    return list(found.values())


def _is_tool_error(line: str, near: str) -> bool:
    return _COMPLAINT.match(line) is not None


def _is_error(line: str, near: str) -> bool:
    return is_error(near)


def _positions(source: Source) -> list[int]:
    """Return the positions of the words in the text, in order: the first and last occurrences of each word."""
    import numpy as np

    codes = source.codes
    signs = _signs(codes)
    letters = codes[signs] | 0x20
    some: list[NDArray[np.intp]] = []
    for word, pair in _WORDS:
        found = signs[letters == ord(pair[0])] - word.index(pair)
        # `_at_the_ends` finds words at the very end.
        found = found[(found >= 0) & (found < len(codes) - len(word) - _LONGEST_ENDING)]
        for offset, letter in enumerate(word.replace(pair, "  ")):
            if letter != " ":
                found = found[codes[found + offset] | 0x20 == ord(letter)]
        # Words in capitals or with a colon are always checked, even if there are many harmless mentions.
        loud = codes[found] < ord("a")
        for offset in range(_LONGEST_ENDING):
            loud |= codes[found + len(word) + offset] == ord(":")
        some += [_at_both_ends(found, LOOKED_AT // 2), _at_both_ends(found[loud], LOOKED_AT)]
    places = {int(place) for place in np.concatenate(some)}
    return sorted(places | _at_the_ends(source.text))


def _at_the_ends(text: str) -> set[int]:
    """Return positions of further words at both ends of the text, where tools report the outcome."""
    places: set[int] = set()
    for begin in {0, max(0, len(text) - _END)}:
        end = text[begin : begin + _END].lower()
        for hint in _HINTS:
            places.update(begin + place for place in islice(_occurrences(end, hint), LOOKED_AT // 2))
    # Lower-casing can turn one letter into two and so shift positions.
    return {min(place, len(text) - 1) for place in places}


def _occurrences(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def _signs(codes: "NDArray[np.uint8]") -> "NDArray[np.intp]":
    """Return the positions of `rr`, `xc`, `fa` and `pa`, in any case; few other words contain these.

    The text is read in chunks that fit in the CPU cache, which is much faster.
    """
    import numpy as np

    found = [np.zeros(0, dtype=np.intp)]
    for start in range(0, len(codes) - 1, _CHUNK):
        lowered = codes[start : start + _CHUNK + 1] | 0x20
        first, second = lowered[:-1], lowered[1:]
        a = second == ord("a")
        here = (first == ord("r")) & (second == ord("r"))
        here |= (first == ord("x")) & (second == ord("c"))
        here |= (first == ord("f")) & a
        here |= (first == ord("p")) & a
        found.append(np.flatnonzero(here) + start)
    return np.concatenate(found)


def _at_both_ends(places: "NDArray[np.intp]", most: int) -> "NDArray[np.intp]":
    import numpy as np

    if len(places) <= most:
        return places
    return np.concatenate([places[: most // 2], places[-(most // 2) :]])


def _line_around(text: str, position: int) -> tuple[int, int]:
    """Return the line around a position, or the part near it if the line is very long."""
    # One of the words begins with a line end.
    position += text[position] == "\n" and position + 1 < len(text)
    start = text.rfind("\n", max(0, position - _REACH), position) + 1
    if not start and position > _REACH:
        start = position - _REACH // 2
    end = text.find("\n", position, position + 2 * _REACH)
    return start, end if end >= 0 else min(len(text), position + _REACH)


def _whole_words(text: str, start: int, end: int) -> str:
    """Return a part of the text without words cut in half: half a secret would not be recognised and masked."""
    if start > 0 and text[start - 1] != "\n" and (seam := _SEAM.search(text, start, end)):
        start = seam.end()
    if end < len(text) and text[end] != "\n":
        end = max((seam.start() for seam in _SEAM.finditer(text, start, end)), default=end)
    return plain(text[start:end]).strip("\n")


def _last_of_tracebacks(text: str) -> Iterator[_Found]:
    """Return the last lines of the first and the last traceback, which name the exception."""
    start = text.find(_TRACEBACK)
    for begin in {start, text.rfind(_TRACEBACK)} if start >= 0 else ():
        place = text.find("\n", begin) + 1
        while 0 < place < len(text) and text[place] in " \t\r\n":
            place = text.find("\n", place) + 1
        if place > 0:
            end = text.find("\n", place, place + 2 * _REACH)
            line = text[place : end if end >= 0 else place + 2 * _REACH].strip("\r")
            if line:
                yield _Found(place, line, True)
