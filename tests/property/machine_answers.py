"""Answers of several stores in a comparable form, and their differences."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from satchel.errors import SatchelError
from satchel.model.memory import Memory
from satchel.store.contract import Record

__all__ = ["differences", "outcome", "pattern", "plain"]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        found = call()
    except SatchelError as error:
        return error
    return list(found) if isinstance(found, Iterator) else found


def plain(value: Any, *, unused: bool) -> Any:
    """Uses are not told while they wait to be written."""
    if isinstance(value, list):
        return [plain(each, unused=unused) for each in value]
    if unused and isinstance(value, Record):
        return plain(value.memory, unused=True), value.history
    if unused and isinstance(value, Memory):
        return msgspec.structs.replace(value, access_count=0, accessed_at=None)
    return value


def differences(found: Any, expected: Any, name: str) -> list[str]:
    """What differs, each with its place: whole memories would hide it."""
    if found == expected:
        return []
    if isinstance(found, msgspec.Struct) and type(found) is type(expected):
        pairs = [(getattr(found, each), getattr(expected, each), f".{each}") for each in found.__struct_fields__]
    elif isinstance(found, list | tuple) and type(found) is type(expected) and len(found) == len(expected):
        pairs = [(one, other, f"[{place}]") for place, (one, other) in enumerate(zip(found, expected, strict=True))]
    else:
        return [f"{name}: {found!r} instead of {expected!r}"]
    return [line for one, other, place in pairs for line in differences(one, other, name + place)]


def pattern(values: Sequence[object]) -> list[int | None]:
    """Which of them are equal."""
    places = {value: place for place, value in reversed(list(enumerate(values)))}
    return [None if value is None else places[value] for value in values]
