"""The entry in a client's TOML: put in, changed and taken out, with every other byte as it was."""

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tomlkit

from satchel.cli.clients.entry import Edited, Entry
from satchel.cli.clients.toml_statements import Statement, read_toml, statements
from satchel.errors import InputError

__all__ = ["appended", "checked", "cut", "entry_toml", "newline_of", "says", "with_entry", "without_entry"]

_NO_MORE: Mapping[str, Any] = MappingProxyType({})


def entry_toml(entry: Entry, *, key: str, more: Mapping[str, Any] = _NO_MORE) -> str:
    """The entry's table, as it stands in a file."""
    lines = [
        f"[{key}.{entry.name}]",
        *(f"{name} = {_rendered(value)}" for name, value in _fields(entry, more).items()),
    ]
    return "\n".join(lines) + "\n"


def with_entry(text: str, entry: Entry, *, key: str, more: Mapping[str, Any] = _NO_MORE) -> Edited:
    """The text with the entry under `key`; of one that is there, only the command line and `more` are set."""
    before = read_toml(text)
    found = _entry(before, key, entry.name)
    if found is None:
        after = appended(text, entry_toml(entry, key=key, more=more).replace("\n", newline_of(text)))
    else:
        if "url" in found:
            raise InputError(
                f'"{entry.name}" is a server of another sort, not one to start; '
                "uninstall it first, or give another --name"
            )
        wanted = {name: value for name, value in _fields(entry, more).items() if found.get(name) != value}
        if not wanted:
            return Edited(text, "unchanged")
        after = _updated(text, (key, entry.name), wanted)
    expected = {**before, key: {**before.get(key, {}), entry.name: {**(found or {}), **_fields(entry, more)}}}
    return Edited(checked(after, expected, key, entry.name), "added" if found is None else "updated")


def without_entry(text: str, name: str, *, key: str) -> Edited:
    """The text without the entry's tables; comments above and below them stay."""
    before = read_toml(text)
    if _entry(before, key, name) is None:
        return Edited(text, "absent")
    after = cut(text, _runs(statements(text), (key, name)))
    expected = {**before, key: {other: value for other, value in before[key].items() if other != name}}
    return Edited(checked(after, expected, key, name), "removed")


def _fields(entry: Entry, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"command": entry.command, "args": list(entry.args), **more}


def _entry(document: dict[str, Any], key: str, name: str) -> dict[str, Any] | None:
    servers = document.get(key, {})
    if not isinstance(servers, dict):
        raise InputError(f"{key} has to be a table, and is none; correct or remove it")
    found = servers.get(name)
    if found is not None and not isinstance(found, dict):
        raise InputError(f"{key}.{name} has to be a table, and is none; correct or remove it")
    return found


def checked(text: str, expected: dict[str, Any], key: str, name: str) -> str:
    """The text, if it says what it should: TOML has more ways to write an entry than can be edited."""
    if not says(text, {key: {}, **expected}, {key: {}}):
        raise InputError(
            f"{key} is written with braces or dots where it cannot be edited; "
            f"write its servers as tables like [{key}.{name}] and try again"
        )
    return text


def says(text: str, expected: dict[str, Any], default: Mapping[str, Any] = _NO_MORE) -> bool:
    """Whether a text is TOML and holds this and nothing else, `default` aside."""
    try:
        return _canonical({**default, **read_toml(text)}) == _canonical(expected)
    except InputError:
        return False


def _canonical(document: dict[str, Any]) -> str:
    # As text, because a NaN is equal to nothing, itself included.
    return json.dumps(document, sort_keys=True, default=str)


def appended(text: str, table: str) -> str:
    """The text with tables behind it."""
    newline = newline_of(text)
    if not text:
        return table
    if text.endswith("\n"):
        return text + newline + table
    # No line end before, none after: taken out again, the text is what it was.
    return text + newline + newline + table.removesuffix("\n").removesuffix("\r")


def _updated(text: str, path: tuple[str, str], wanted: dict[str, Any]) -> str:
    own = [each for each in statements(text) if each.path[:2] == path]
    newline = newline_of(text)
    table = next((each for each in own if each.header and each.path == path), None)
    pairs = {each.path[2]: each for each in own if len(each.path) == 3 and not each.header}
    edits = [
        (pairs[name].value, pairs[name].value_end, _rendered(value))
        for name, value in wanted.items()
        if name in pairs
    ]
    lines = [f"{name} = {_rendered(value)}" for name, value in wanted.items() if name not in pairs]
    if lines and table is not None:
        block = newline.join(lines)
        ended = text[table.end - 1] == "\n"
        edits.append((table.end, table.end, block + newline if ended else newline + block))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _runs(every: Iterable[Statement], path: tuple[str, str]) -> list[tuple[int, int]]:
    """The stretches an entry takes up: each of its tables, from the header to the last value."""
    runs: list[tuple[int, int]] = []
    inside = False
    for each in every:
        if each.path[:2] != path:
            inside = False
        elif inside and not each.header:
            runs[-1] = (runs[-1][0], each.end)
        else:
            runs.append((each.start, each.end))
            inside = True
    return runs


def cut(text: str, runs: Sequence[tuple[int, int]]) -> str:
    """The text without some stretches. Comments around them stay, and of two blank lines that meet one goes."""
    for start, end in reversed(runs):
        head, tail = text[:start], text[end:]
        if not tail:
            head = head[: len(head) - _blank_line(head)]
            if not text.endswith("\n"):
                head = head.removesuffix("\n").removesuffix("\r")
        elif not head or _blank_line(head):
            tail = tail.removeprefix("\r").removeprefix("\n")
        text = head + tail
    return text


def _blank_line(text: str) -> int:
    """How long the last line of a text is if it is blank; 0 if it is not."""
    for line in ("\r\n", "\n"):
        if text == line or text.endswith("\n" + line):
            return len(line)
    return 0


def _rendered(value: Any) -> str:
    written: str = tomlkit.item(value).as_string()
    return written


def newline_of(text: str) -> str:
    """How the lines of a text end."""
    return "\r\n" if "\r\n" in text else "\n"
