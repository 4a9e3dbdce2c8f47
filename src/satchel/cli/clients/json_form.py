"""The entry in a client's JSON: put in, changed and taken out, with every other byte as it was."""

from collections.abc import Mapping
from typing import Any

from satchel.cli.clients.entry import Edited, Entry
from satchel.cli.clients.json_layout import (
    PLAIN,
    WHITE,
    Edit,
    Layout,
    Style,
    appended,
    layout_of,
    member_of,
    object_of,
    removed,
    rendered,
    spliced,
    style_of,
    written,
)
from satchel.cli.clients.jsonc import Object, position, read_document, words_at
from satchel.errors import InputError

__all__ = ["entry_json", "fields", "with_entry", "without_entry"]

_REMOTE = ("url", "httpUrl", "serverUrl")


def entry_json(entry: Entry, *, key: str, more: Mapping[str, Any]) -> str:
    """A whole file with nothing in it but the entry."""
    return rendered({key: {entry.name: fields(entry, more)}}, "", PLAIN, lines=True) + "\n"


def with_entry(text: str, entry: Entry, *, key: str, more: Mapping[str, Any]) -> Edited:
    """The text with the entry under `key`; of one that is there, only the command and its arguments are set."""
    if not text.strip(WHITE):
        return Edited(entry_json(entry, key=key, more=more), "added")
    root = read_document(text)
    style = style_of(text, root)
    root_layout = layout_of(text, root, style)
    servers = member_of(text, root, key)
    if servers is None:
        edits = appended(
            text, root, [written(key, {entry.name: fields(entry, more)}, style, root_layout)], style, root_layout
        )
        return Edited(spliced(text, edits), "added")
    inner = object_of(text, servers)
    inner_layout = layout_of(text, inner, style, root_layout)
    found = member_of(text, inner, entry.name)
    if found is None:
        member = written(entry.name, fields(entry, more), style, inner_layout)
        edits = appended(text, inner, [member], style, inner_layout)
        return Edited(spliced(text, edits), "added")
    inside = object_of(text, found)
    edits = _updated(text, inside, entry, style, layout_of(text, inside, style, inner_layout))
    return Edited(spliced(text, edits), "updated" if edits else "unchanged")


def without_entry(text: str, name: str, *, key: str) -> Edited:
    """The text without the entry; its neighbours, their comments and the object it was in stay."""
    if not text.strip(WHITE):
        return Edited(text, "absent")
    root = read_document(text)
    servers = member_of(text, root, key)
    inner = object_of(text, servers) if servers else None
    found = member_of(text, inner, name) if inner else None
    if inner is None or found is None:
        return Edited(text, "absent")
    return Edited(spliced(text, removed(text, inner, found, style_of(text, root))), "removed")


def fields(entry: Entry, more: Mapping[str, Any]) -> dict[str, Any]:
    """What stands under the entry's name."""
    return {**more, "command": entry.command, "args": list(entry.args)}


def _updated(text: str, inside: Object, entry: Entry, style: Style, layout: Layout) -> list[Edit]:
    kind = member_of(text, inside, "type")
    if any(member_of(text, inside, key) for key in _REMOTE) or (
        kind and words_at(text, kind.value, kind.end) != "stdio"
    ):
        raise InputError(
            f'{position(text, inside.start)}: "{entry.name}" is a server of another sort, not one to start; '
            "uninstall it first, or give another --name"
        )
    edits: list[Edit] = []
    missing: dict[str, Any] = {}
    for key, wanted in fields(entry, {}).items():
        member = member_of(text, inside, key)
        if member is None:
            missing[key] = wanted
        elif words_at(text, member.value, member.end) != wanted:
            edits.append(Edit(member.value, member.end, rendered(wanted, "", style, lines=False)))
    members = [written(key, value, style, layout) for key, value in missing.items()]
    return edits + (appended(text, inside, members, style, layout) if members else [])
