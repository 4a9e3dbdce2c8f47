"""What callers hand over, checked and brought to one form."""

import os
import reprlib
from collections.abc import Sequence

from satchel.errors import InputError

__all__ = ["as_path", "as_query", "check_known"]


def as_path(location: object) -> str:
    """A path that any system call takes, or an error that says why not."""
    try:
        path = os.fsdecode(location)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"a path is needed, not {type(location).__name__}") from None
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InputError(f"the path {path!r} is not UTF-8; rename it") from None
    if "\0" in path or not path:
        raise InputError(f"{path!r} is not a path")
    return path


def as_query(query: object) -> str:
    if not isinstance(query, str):
        raise InputError(f"query must be a string, not {type(query).__name__}")
    return query


def check_known(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"unknown {name} {reprlib.repr(value)}; known: {', '.join(known)}")
