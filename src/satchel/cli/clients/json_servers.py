"""The servers in a client's JSON: listed, taken out for another entry, and put back as they were."""

from collections.abc import Mapping, Sequence
from typing import Any

from satchel.cli.clients.entry import Entry
from satchel.cli.clients.json_form import fields, with_entry
from satchel.cli.clients.json_layout import (
    WHITE,
    Edit,
    appended,
    layout_at,
    layout_of,
    member_of,
    object_of,
    quoted,
    removed,
    spliced,
    style_of,
    written,
)
from satchel.cli.clients.jsonc import Object, read_document, read_object, value_at, without_space
from satchel.cli.clients.listing import Listed, Stretch

__all__ = ["alone", "exchanged", "listed", "put_back", "stretch", "taken_out"]


def listed(text: str, *, key: str) -> list[Listed]:
    """The servers of a file, in their order."""
    root = read_document(text) if text.strip(WHITE) else None
    servers = None if root is None else member_of(text, root, key)
    if root is None or servers is None:
        return []
    inside, rules = object_of(text, servers), _rules(text, root)
    for member in inside.members:
        member_of(text, inside, member.key)
    return [
        Listed(
            member.key,
            text[member.start : member.end],
            value_at(text, member.value, member.end),
            _ruled_out(member.key, rules),
        )
        for member in inside.members
    ]


def _rules(text: str, root: Object) -> Mapping[str, Any]:
    """Which servers Gemini CLI may start, where a file says so."""
    found = member_of(text, root, "mcp")
    rules = None if found is None else value_at(text, found.value, found.end)
    return rules if isinstance(rules, dict) else {}


def _ruled_out(name: str, rules: Mapping[str, Any]) -> str | None:
    excluded, allowed = rules.get("excluded"), rules.get("allowed")
    if isinstance(excluded, list) and name in excluded:
        return "mcp.excluded names it"
    return "mcp.allowed does not name it" if isinstance(allowed, list) and name not in allowed else None


def alone(source: str, *, key: str) -> str:
    """A file with nothing in it but one server of this text."""
    return f"{{{quoted(key)}: {{{source}}}}}"


def taken_out(text: str, names: Sequence[str], entry: Entry, *, key: str, more: Mapping[str, Any]) -> str:
    """Without some servers, and with an entry in the place of the first of them."""
    root = read_document(text) if names else None
    servers = member_of(text, root, key) if root else None
    if root is None or servers is None:
        return with_entry(text, entry, key=key, more=more).text
    inside, style = object_of(text, servers), style_of(text, root)
    # Only this part is read again for each server: the rest of a file may be megabytes.
    part = text[inside.start : inside.end]
    going = list(names)
    is_there = member_of(text, inside, entry.name) is not None
    if not is_there:
        members = read_object(part, 0)
        first = next(member for member in members.members if member.key in going)
        new = written(entry.name, fields(entry, more), style, layout_at(part, members, first))
        part = spliced(part, [Edit(first.start, first.end, new)])
        going.remove(first.key)
    for name in going:
        members = read_object(part, 0)
        gone = member_of(part, members, name)
        part = spliced(part, removed(part, members, gone, style)) if gone else part
    text = spliced(text, [Edit(inside.start, inside.end, part)])
    return with_entry(text, entry, key=key, more=more).text if is_there else text


def put_back(text: str, sources: Mapping[str, str], name: str, *, key: str) -> str:
    """Without the entry of a name, and with servers in its place; at the end if it is not there."""
    if not text.strip(WHITE):
        text = "{}\n"
    root = read_document(text)
    style = style_of(text, root)
    layout = layout_of(text, root, style)
    servers = member_of(text, root, key)
    if servers is None:
        if not sources:
            return text
        text = spliced(
            text, appended(text, root, [written(key, {}, style, layout._replace(lines=False))], style, layout)
        )
        return put_back(text, sources, name, key=key)
    inside = object_of(text, servers)
    gone = member_of(text, inside, name)
    if gone is None:
        edits = appended(text, inside, list(sources.values()), style, layout_of(text, inside, style, layout))
        return spliced(text, edits) if sources else text
    if not sources:
        return spliced(text, removed(text, inside, gone, style))
    gap = "," + layout_at(text, inside, gone).gap(style)
    return spliced(text, [Edit(gone.start, gone.end, gap.join(sources.values()))])


def stretch(before: str, after: str, *, key: str) -> Stretch:
    """The object with the servers, before and after."""
    parts = [_part(text, _servers(text, key)) for text in (before, after)]
    return Stretch(*parts)


def exchanged(text: str, stretch: Stretch, sources: Mapping[str, str], name: str, *, key: str) -> str | None:
    """With the servers as they were before, if they say what they did after: a client may lay its file out anew."""
    inside = _servers(text, key)
    if inside is None or without_space(_part(text, inside)) != without_space(stretch.after):
        return None
    return spliced(text, [Edit(inside.start, inside.end, stretch.before)])


def _servers(text: str, key: str) -> Object | None:
    if not text.strip(WHITE):
        return None
    servers = member_of(text, read_document(text), key)
    return object_of(text, servers) if servers else None


def _part(text: str, inside: Object | None) -> str:
    return text[inside.start : inside.end] if inside else "{}"
