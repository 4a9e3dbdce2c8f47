"""Ids of memories: time-ordered UUIDs (version 7), and the shorter forms that people and models type.

A memory can be named by its full id, by a prefix of at least 8 hexadecimal digits, or by its short id: 4 to 8
characters of base32 (a-z2-7, RFC 4648), made from the random end of the UUID. Unique prefixes of time-ordered ids
are long, because ids of one day start with the same digits; their ends differ after a few characters.
"""

import itertools
import os
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from satchel.errors import InputError
from satchel.model.patterns import lazy_pattern

__all__ = [
    "MIN_PREFIX",
    "MIN_SHORT",
    "TAIL",
    "IdRange",
    "NamedIds",
    "check_id",
    "new_id",
    "parse_id",
    "short_id",
    "short_length",
    "whole_short_id",
]

MIN_PREFIX = 8
MIN_SHORT = 4
# 40 bits: ten hexadecimal digits, eight characters of base32.
TAIL = 10
_MAX_SHORT = 8
_BITS = 5
# Up to this many memories in a store, a short id has at least this many characters. The chance that a short id
# printed today is ambiguous once the store has grown to the limit is below 0.1 %.
_LENGTHS = ((1_000, 4), (30_000, 5))
_LONGEST_LEAST = 6

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_SHORT = lazy_pattern(r"[a-z2-7]{4,8}\Z")
_HEX = lazy_pattern(r"[0-9a-f]{8,32}\Z")
_CANONICAL = lazy_pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
_GROUPS = (8, 12, 16, 20)

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Make a new UUIDv7. Within one process, later ids always sort after earlier ones."""
    global _last
    with _lock:
        # 48 bits of milliseconds and 12 bits of their fraction (RFC 9562, method 3).
        now = time.time_ns() * 4096 // 1_000_000
        _last = now if now > _last else _last + 1
        stamp = _last
    tail = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0x2 << 62 | tail
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def check_id(text: str) -> str:
    """Return the canonical form of a full id, or raise an `InputError`."""
    candidate = text.strip().lower() if isinstance(text, str) else ""
    if not _CANONICAL.match(candidate):
        raise InputError(f"{text!r} is not an id: a UUID such as {new_id()} is needed")
    return candidate


class IdRange(NamedTuple):
    """A range of strings; both ends are included."""

    first: str
    last: str


class NamedIds(NamedTuple):
    """The ids that a text can stand for. Eight characters can be both a prefix and a short id."""

    prefix: IdRange | None
    """The full ids that start with the text."""
    tail: IdRange | None
    """The tails (last `TAIL` digits of an id) whose base32 form starts with the text."""


def parse_id(text: object) -> NamedIds:
    """Parse a full id, a prefix (hyphens are optional) or a short id, in upper or lower case."""
    if not isinstance(text, str):
        raise InputError(f"an id is a string, not {type(text).__name__}")
    typed = text.strip().lower()
    digits = typed.replace("-", "")
    named = NamedIds(
        prefix=_prefix_range(digits) if _HEX.match(digits) else None,
        tail=_tail_range(typed) if _SHORT.match(typed) else None,
    )
    if named == (None, None):
        raise InputError(
            f"{text[:60]!r} is not an id: give a short id ({MIN_SHORT} to {_MAX_SHORT} of a-z and 2-7), or at "
            f"least the first {MIN_PREFIX} hexadecimal digits of a full id"
        )
    return named


def short_length(memories: int) -> int:
    """Return the minimum length of short ids in a store of this many memories.

    It leaves room to grow: the shortest unique id would often be ambiguous a few memories later.
    """
    return next((length for most, length in _LENGTHS if memories <= most), _LONGEST_LEAST)


def short_id(identifier: str, others: Iterable[str | None], *, least: int = MIN_SHORT) -> str:
    """Return the short id that distinguishes an id from others, of which the nearest tails are enough.

    If another id has the same tail, it is the full id.
    """
    tail = int(identifier[-TAIL:], 16)
    # The smaller the XOR, the more leading bits, and so characters of base32, the two have in common.
    differing = min((tail ^ int(other, 16) for other in others if other is not None), default=1 << 4 * TAIL)
    if not differing:
        return identifier
    shared = (4 * TAIL - differing.bit_length()) // _BITS
    return "".join(
        _ALPHABET[tail >> 4 * TAIL - _BITS * place & 31] for place in range(1, max(least, shared + 1) + 1)
    )


def whole_short_id(identifier: str) -> str:
    """Return the short id with all of its eight characters, which is unique without looking into the store."""
    return short_id(identifier, (), least=_MAX_SHORT)


def _prefix_range(digits: str) -> IdRange:
    cuts = [0, *(cut for cut in _GROUPS if cut < len(digits)), len(digits)]
    start = "-".join(digits[begin:end] for begin, end in itertools.pairwise(cuts))
    # "g" sorts after every digit and hyphen.
    return IdRange(start, start if len(digits) == 32 else start + "g")


def _tail_range(short: str) -> IdRange:
    value = 0
    for letter in short:
        value = value << _BITS | _ALPHABET.index(letter)
    open_bits = _BITS * (_MAX_SHORT - len(short))
    first = value << open_bits
    return IdRange(f"{first:0{TAIL}x}", f"{first | (1 << open_bits) - 1:0{TAIL}x}")
