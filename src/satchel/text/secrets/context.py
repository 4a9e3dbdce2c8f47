"""A rule that finds a secret by the text around it, and what its values may look like."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from satchel.text.secrets.values import (
    is_code,
    is_label,
    is_mixed_case,
    is_opaque,
    is_placeholder,
    is_reference,
)

__all__ = [
    "NOUN",
    "Context",
    "argument",
    "basic",
    "find_context",
    "generated",
    "given",
    "is_name_like",
    "marked_up",
    "opaque",
    "pair",
]

_BEFORE = 160


class Context(NamedTuple):
    """A pattern whose group is masked. It is tried only if the lower-cased text contains one of the hints.

    Patterns are matched against lower-cased text and start with a literal where possible, because `re` finds
    literals fast. `accepts` may reject a value.
    """

    label: str
    hints: str | tuple[str, ...]
    pattern: str
    accepts: Callable[[str], bool] | None = None
    before: str = ""
    """Must be found in the 160 characters before the match."""
    exact: bool = False
    """Whether the pattern is matched against the text with its capitals."""
    back: int = 0
    """How many characters before the group belong to the secret too."""


NOUN = (
    r"(?:password|passwd|passwort|passphrase|passcode|pwd|secret|token|(?:api|access|private|account|auth)[_-]?key"
    r"|credentials?|\bpw|\bpass)"
)


def given(value: str) -> bool:
    """Return whether a value is there: neither a placeholder nor a variable."""
    return not is_placeholder(value) and not value.startswith("$")


def opaque(value: str) -> bool:
    """Return whether a value is given and looks like a password, not like a word or a path."""
    return is_opaque(value) and given(value) and not is_reference(value)


def generated(value: str) -> bool:
    """Return whether a value is given and mixes letters with digits or capitals."""
    return given(value) and (is_opaque(value) or is_mixed_case(value))


def marked_up(value: str) -> bool:
    """Return whether the content of an element is a value, not a label, a path or code."""
    return given(value) and not is_label(value) and not is_reference(value) and not is_code(value)


def argument(value: str) -> bool:
    """Return whether a word of a command line is a value, not an option or a path."""
    return given(value) and not value.startswith("-") and not is_reference(value)


def pair(value: str) -> bool:
    """Return whether the second word of a pair is a password."""
    return opaque(value.rstrip(".,;")) and not is_code(value)


def basic(value: str) -> bool:
    """Return whether a value is the base64 of `user:password`."""
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in plain and plain.isprintable()


def is_name_like(value: str) -> bool:
    """Return whether a value is the name of a field."""
    return re.fullmatch(rf"[\w.-]*{NOUN}", value.lower()) is not None


def find_context(context: Context, text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    """Yield the spans and labels of what one context finds."""
    for match in _compiled(context.pattern).finditer(text if context.exact else lowered):
        start, end = match.span(1)
        if context.before:
            first = match.start()
            if not _compiled(context.before).search(lowered[max(0, first - _BEFORE) : first]):
                continue
        if context.accepts is None or context.accepts(text[start:end]):
            yield start - context.back, end, context.label


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
