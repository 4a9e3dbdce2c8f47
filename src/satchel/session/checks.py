"""What callers of a session hand over, checked and brought to one form."""

from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any

from satchel.errors import InputError
from satchel.model.surrogates import repair_surrogates

__all__ = ["as_call_id", "as_mapping", "as_text", "as_tool", "as_truth"]

_LONGEST = 200


def as_tool(name: object) -> str:
    """A tool's name, in one line."""
    if not isinstance(name, str) or not (words := repair_surrogates(name).split()):
        raise InputError(f"a tool has a name, not {shortened(name)}")
    return " ".join(words)[:_LONGEST]


def as_call_id(identifier: object) -> str:
    """The id of a call; empty where there is none."""
    if identifier is None:
        return ""
    if not isinstance(identifier, str) or not 0 < len(identifier) <= _LONGEST:
        raise InputError(f"a call_id is a string of 1 to {_LONGEST} characters, not {shortened(identifier)}")
    return repair_surrogates(identifier)


def as_text(text: object) -> str:
    if not isinstance(text, str):
        raise InputError(f"text must be a string, not {type(text).__name__}")
    return text


def as_truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is either true or false, not {shortened(value)}")
    return value


def as_mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be an object with fields, not {type(value).__name__}")
    return value
