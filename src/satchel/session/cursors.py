"""Handles of what was said, and cursors to where its next page begins."""

import os
import re
from hashlib import blake2b
from typing import NamedTuple

from satchel.errors import InputError

__all__ = ["Place", "check_handle", "cursor_to", "new_handle", "parse_cursor", "seal"]

# Without i, l, o and u: nothing that is read for something else, and few words.
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_HANDLE_LENGTH = 8
_SEAL_LENGTH = 6

_HANDLE = re.compile(rf"[{_LETTERS}]{{{_HANDLE_LENGTH}}}")
_CURSOR = re.compile(
    rf"([{_LETTERS}]{{{_HANDLE_LENGTH}}})\.([{_LETTERS}]{{1,12}})\.([{_LETTERS}]{{{_SEAL_LENGTH}}})"
)


class Place(NamedTuple):
    """What a cursor says."""

    handle: str
    start: int
    seal: str


def new_handle() -> str:
    return _spelled(int.from_bytes(os.urandom(5)), _HANDLE_LENGTH)


def check_handle(handle: object) -> str:
    """A handle as it is stored; a cursor stands for the handle it begins with."""
    if not isinstance(handle, str):
        raise InputError(f"a handle is a string, not {type(handle).__name__}")
    bare = handle.strip().lower()
    if found := _CURSOR.fullmatch(bare):
        return found[1]
    if not _HANDLE.fullmatch(bare):
        raise InputError(f"{handle[:40]!r} is not a handle; those have {_HANDLE_LENGTH} letters and digits")
    return bare


def cursor_to(handle: str, start: int, secret: bytes) -> str:
    return f"{handle}.{_spelled(start)}.{seal(handle, start, secret)}"


def parse_cursor(cursor: object) -> Place:
    """What a cursor says, which its seal has yet to prove."""
    if not isinstance(cursor, str):
        raise InputError(f"a cursor is a string, not {type(cursor).__name__}")
    found = _CURSOR.fullmatch(cursor.strip().lower())
    if found is None:
        raise InputError(f"{cursor[:60]!r} is not a cursor; give it exactly as it was shown")
    start = 0
    for letter in found[2]:
        start = start * len(_LETTERS) + _LETTERS.index(letter)
    return Place(found[1], start, found[3])


def seal(handle: str, start: int, secret: bytes) -> str:
    """What only the session can have written."""
    digest = blake2b(f"{handle}.{start}".encode(), key=secret, digest_size=8).digest()
    return _spelled(int.from_bytes(digest) % len(_LETTERS) ** _SEAL_LENGTH, _SEAL_LENGTH)


def _spelled(number: int, width: int = 1) -> str:
    letters = ""
    while number or len(letters) < width:
        number, rest = divmod(number, len(_LETTERS))
        letters = _LETTERS[rest] + letters
    return letters
