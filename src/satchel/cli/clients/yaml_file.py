"""YAML: a file with one server, which Satchel writes, replaces and removes as a whole."""

import json
from collections.abc import Mapping
from typing import Any

from satchel.cli.clients.entry import Edited, Fields
from satchel.errors import InputError

__all__ = ["entry_value", "has_servers", "is_blank", "whole_file", "with_entry", "without_entry", "without_servers"]

_MARK = "# Written by `satchel mcp install`, which replaces this file, and `uninstall`, which removes it."


def whole_file(entry: Fields, *, key: str) -> str:
    """Return a file that contains only the entry."""
    lines = [_MARK, f"name: {_quoted(entry.name)}", "version: 1.0.0", "schema: v1", f"{key}:"]
    fields = "\n".join(_lines({"name": entry.name, **entry.all}, "    "))
    return "\n".join([*lines, "  - " + fields.removeprefix("    ")]) + "\n"


def _lines(fields: Mapping[str, Any], indent: str) -> list[str]:
    found = []
    for name, value in fields.items():
        nested = value if isinstance(value, dict) else None
        shown = "" if nested else " " + _quoted(value)
        found += [f"{indent}{name}:{shown}", *(_lines(nested, indent + "  ") if nested else [])]
    return found


def _quoted(value: Any) -> str:
    # A string, number or list in JSON is also YAML.
    return json.dumps(value, ensure_ascii=False)


def with_entry(text: str, entry: Fields, *, key: str) -> Edited:
    """Return the file with the entry; raises `InputError` if there is a file that Satchel did not write."""
    _check_own(text)
    new = whole_file(entry, key=key)
    if text.replace("\r\n", "\n") == new:
        return Edited(text, "unchanged")
    return Edited(new, "updated" if text.strip() else "added")


def without_entry(text: str, name: str, *, key: str) -> Edited:
    """Return nothing in the place of a file that Satchel wrote."""
    _check_own(text)
    return Edited("", "removed") if text.strip() else Edited(text, "absent")


def entry_value(text: str, name: str, *, key: str) -> str | None:
    """Return the file as it is, in the place of the entry's value."""
    return text.replace("\r\n", "\n") if text.strip() else None


def has_servers(text: str, *, key: str) -> bool:
    """Return whether there is anything in the file."""
    return bool(text.strip())


def without_servers(text: str, *, key: str) -> str:
    """Return the text: a file that Satchel did not write is not changed."""
    return text


def is_blank(text: str) -> bool:
    """Return whether there is nothing in the text."""
    return not text.strip()


def _check_own(text: str) -> None:
    if text.strip() and not text.startswith(_MARK):
        raise InputError("line 1: Satchel did not write this file; rename it, or give another --name")
