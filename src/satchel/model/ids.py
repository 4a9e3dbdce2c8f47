"""Time-ordered ids: UUID version 7, and the prefixes people type instead of them."""

import itertools
import os
import re
import threading
import time

from satchel.errors import InputError

__all__ = ["MIN_PREFIX", "check_id", "new_id", "normalise_prefix", "unique_prefix"]

MIN_PREFIX = 8

_HEX = re.compile(r"[0-9a-f]{8,32}\Z")
_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
_GROUPS = (8, 12, 16, 20)

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A new UUIDv7; within one process later ids always sort after earlier ones."""
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
    """The canonical form of a full id, or an `InputError`."""
    candidate = text.strip().lower()
    if not _CANONICAL.match(candidate):
        raise InputError(f"{text!r} is not an id: a UUID such as {new_id()} is needed")
    return candidate


def normalise_prefix(text: str) -> str:
    """An id or a prefix of one, hyphens optional, in the form in which ids are stored."""
    if not isinstance(text, str):
        raise InputError(f"an id is a string, not {type(text).__name__}")
    digits = text.strip().lower().replace("-", "")
    if not _HEX.match(digits):
        raise InputError(f"{text[:60]!r} is not an id: give at least its first {MIN_PREFIX} hexadecimal digits")
    return _hyphenate(digits)


def unique_prefix(identifier: str, before: str | None, after: str | None) -> str:
    """The shortest prefix that tells an id from its neighbours in id order."""
    shared = max(_shared(identifier, before), _shared(identifier, after))
    return identifier[: max(MIN_PREFIX, shared + 1)].rstrip("-")


def _shared(one: str, other: str | None) -> int:
    pairs = zip(one, other or "", strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _hyphenate(digits: str) -> str:
    cuts = [0, *(cut for cut in _GROUPS if cut < len(digits)), len(digits)]
    return "-".join(digits[start:end] for start, end in itertools.pairwise(cuts))
