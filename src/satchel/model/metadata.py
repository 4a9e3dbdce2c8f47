"""Metadata of a memory: a JSON object that the caller defines. It can be filtered by equality of its values.

Metadata is stored in a canonical form: keys are sorted, and whole numbers have no fraction. So 1 and 1.0 are equal,
while 1, true and "1" are three different values. In this form a key with its value is one line of text. Both stores
search for that line, so equality is the same in both.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from satchel.errors import InputError
from satchel.model.checks import repair_surrogates

__all__ = ["MAX_METADATA_BYTES", "check_metadata", "metadata_lines", "texts_in"]

MAX_METADATA_BYTES = 10_000
MAX_DEPTH = 50

_LARGEST_EXACT = 2**53
_SMALLEST_INT, _LARGEST_INT = -(2**63), 2**64 - 1

_encode = msgspec.json.Encoder().encode


def check_metadata(value: object) -> dict[str, Any]:
    """Return metadata in its stored form, or raise an `InputError` that says what is wrong with it.

    It is an object with string keys. Its values are strings, finite numbers, booleans, None, and lists and objects
    of these.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"metadata must be an object such as {{'pr': 12}}, not {type(value).__name__}")
    clean: dict[str, Any] = _checked(value, "metadata", 0)
    if (size := len(_encode(clean))) > MAX_METADATA_BYTES:
        raise InputError(f"metadata has {size:,} bytes as JSON; the most is {MAX_METADATA_BYTES:,}")
    return clean


def metadata_lines(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return each key with its value as canonical JSON, such as `"pr":12`. No line contains a line break."""
    return tuple(f"{_encode(key).decode()}:{_encode(value).decode()}" for key, value in metadata.items())


def texts_in(value: Any) -> Iterator[str]:
    """Return every string among the values of metadata, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)


def _checked(value: object, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InputError(f"metadata is nested more than {MAX_DEPTH} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, int | float):
        return _number(value, path)
    if isinstance(value, list | tuple):
        return [_checked(each, path, depth + 1) for each in value]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{path} has the key {key!r}; keys must be strings")
        named = {repair_surrogates(key): each for key, each in value.items()}
        return {key: _checked(named[key], f"{path}[{key[:40]!r}]", depth + 1) for key in sorted(named)}
    raise InputError(f"{path} is of type {type(value).__name__}, which JSON does not have; convert it first")


def _number(value: int | float, path: str) -> int | float:
    if not math.isfinite(value):
        raise InputError(f"{path} is {value}, which JSON does not have")
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT:
        return int(value)
    if isinstance(value, int) and not _SMALLEST_INT <= value <= _LARGEST_INT:
        raise InputError(f"{path} is a number of more than 64 bits; give it as a string")
    return value
