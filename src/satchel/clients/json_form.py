"""The entry in a client's JSON: put in, changed and taken out, with every other byte as it was."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from satchel.clients.entry import Edited, Entry
from satchel.clients.jsonc import Member, Object, notes, position, read_document, read_object, words_at
from satchel.errors import InputError

__all__ = ["entry_json", "with_entry", "without_entry"]

_WHITE = " \t\r\n"
_REMOTE = ("url", "httpUrl", "serverUrl")


class _Style(NamedTuple):
    newline: str
    unit: str
    colon: str
    comma: str


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


class _Layout(NamedTuple):
    """How members of an object stand: each on a line of its own, or behind one another."""

    lines: bool
    indent: str


_PLAIN = _Style("\n", "  ", ": ", ", ")


def entry_json(entry: Entry, *, key: str, more: Mapping[str, str]) -> str:
    """A whole file with nothing in it but the entry."""
    return _rendered({key: {entry.name: _fields(entry, more)}}, "", _PLAIN, lines=True) + "\n"


def with_entry(text: str, entry: Entry, *, key: str, more: Mapping[str, str]) -> Edited:
    """The text with the entry under `key`; of one that is there, only the command and its arguments are set."""
    if not text.strip(_WHITE):
        return Edited(entry_json(entry, key=key, more=more), "added")
    root = read_document(text)
    style = _style(text, root)
    root_layout = _layout(text, root, style, _Layout(lines=True, indent=_indent(text, root.start)))
    servers = _member(text, root, key)
    if servers is None:
        edits = _appended(text, root, {key: {entry.name: _fields(entry, more)}}, style, root_layout)
        return Edited(_spliced(text, edits), "added")
    inner = _object(text, servers)
    inner_layout = _layout(text, inner, style, root_layout)
    found = _member(text, inner, entry.name)
    if found is None:
        edits = _appended(text, inner, {entry.name: _fields(entry, more)}, style, inner_layout)
        return Edited(_spliced(text, edits), "added")
    fields = _object(text, found)
    edits = _updated(text, fields, entry, style, _layout(text, fields, style, inner_layout))
    return Edited(_spliced(text, edits), "updated" if edits else "unchanged")


def without_entry(text: str, name: str, *, key: str) -> Edited:
    """The text without the entry; its neighbours, their comments and the object it was in stay."""
    if not text.strip(_WHITE):
        return Edited(text, "absent")
    root = read_document(text)
    servers = _member(text, root, key)
    inner = _object(text, servers) if servers else None
    found = _member(text, inner, name) if inner else None
    if inner is None or found is None:
        return Edited(text, "absent")
    return Edited(_spliced(text, _removed(text, inner, found, _style(text, root))), "removed")


def _fields(entry: Entry, more: Mapping[str, str]) -> dict[str, Any]:
    return {**more, "command": entry.command, "args": list(entry.args)}


def _member(text: str, inside: Object, key: str) -> Member | None:
    found = [member for member in inside.members if member.key == key]
    if len(found) > 1:
        first, second = (position(text, member.start) for member in found[:2])
        raise InputError(f'"{key}" is there twice, at {first} and at {second}; take one of them out')
    return found[0] if found else None


def _object(text: str, member: Member) -> Object:
    if text[member.value] != "{":
        where = position(text, member.value)
        raise InputError(f'{where}: "{member.key}" has to be an object in braces; correct or remove it')
    return read_object(text, member.value)


def _updated(text: str, fields: Object, entry: Entry, style: _Style, layout: _Layout) -> list[_Edit]:
    kind = _member(text, fields, "type")
    if any(_member(text, fields, key) for key in _REMOTE) or (
        kind and words_at(text, kind.value, kind.end) != "stdio"
    ):
        raise InputError(
            f'{position(text, fields.start)}: "{entry.name}" is a server of another sort, not one to start; '
            "uninstall it first, or give another --name"
        )
    edits: list[_Edit] = []
    missing: dict[str, Any] = {}
    for key, wanted in _fields(entry, {}).items():
        member = _member(text, fields, key)
        if member is None:
            missing[key] = wanted
        elif words_at(text, member.value, member.end) != wanted:
            edits.append(_Edit(member.value, member.end, _rendered(wanted, "", style, lines=False)))
    return edits + (_appended(text, fields, missing, style, layout) if missing else [])


def _appended(text: str, inside: Object, members: Mapping[str, Any], style: _Style, layout: _Layout) -> list[_Edit]:
    """Members put behind the last one and behind what is remarked on its line."""
    lines, indent = layout
    new = [
        f"{_quoted(key)}{style.colon}{_rendered(value, indent, style, lines=lines)}"
        for key, value in members.items()
    ]
    gap = style.newline + indent if lines else style.comma[1:]
    block = ("," + gap).join(new)
    if not inside.members:
        comments = list(notes(text, inside.start + 1, inside.end - 1))
        if comments:
            return [_Edit(comments[-1].end, comments[-1].end, _lead(text, comments[-1].start, gap, style) + block)]
        close = style.newline + indent.removesuffix(style.unit) if lines else ""
        return [_Edit(inside.start + 1, inside.end - 1, (gap if lines else "") + block + close)]

    last = inside.members[-1]
    edits = [] if last.comma is not None else [_Edit(last.end, last.end, ",")]
    at = last.end if last.comma is None else last.comma + 1
    for comment in notes(text, at, inside.end - 1):
        if any(char in "\r\n" for char in text[at : comment.start]):
            break
        at = comment.end
        gap = _lead(text, comment.start, gap, style)
    return [*edits, _Edit(at, at, gap + block + ("" if last.comma is None else ","))]


def _removed(text: str, inside: Object, gone: Member, style: _Style) -> list[_Edit]:
    place = inside.members.index(gone)
    before = inside.members[place - 1] if place else None
    start = inside.start + 1 if before is None or before.comma is None else before.comma + 1
    comments = list(notes(text, start, gone.start))
    cut = comments[-1].end if comments else start
    end = gone.end
    edits = []
    if gone.comma is not None:
        if gone.comma == end:
            end += 1
        else:
            edits.append(_Edit(gone.comma, gone.comma + 1, ""))
    elif before is not None and before.comma is not None:
        edits.append(_Edit(before.comma, before.comma + 1, ""))
    # Behind a comment to the end of its line, nothing may follow on that line.
    open_line = bool(comments) and text.startswith("//", comments[-1].start) and text[end] not in "\r\n"
    edits.append(_Edit(cut, end, style.newline if open_line else ""))
    if len(inside.members) == 1:
        left = _spliced(text[: inside.end - 1], edits)[inside.start + 1 :]
        if not left.strip(_WHITE):
            return [_Edit(inside.start + 1, inside.end - 1, "")]
    return edits


def _lead(text: str, comment: int, gap: str, style: _Style) -> str:
    """What stands between a comment and a member behind it."""
    return style.newline if text.startswith("//", comment) and not gap.startswith(style.newline) else gap


def _style(text: str, root: Object) -> _Style:
    newline = "\r\n" if "\r\n" in text else "\r" if "\r" in text and "\n" not in text else "\n"
    if not root.members:
        return _PLAIN._replace(newline=newline)
    first = root.members[0]
    tight = text[first.value - 1] == ":"
    unit = _indent(text, first.start).removeprefix(_indent(text, root.start)) if _on_own_line(text, root, 0) else ""
    return _Style(newline, unit or _PLAIN.unit, ":" if tight else ": ", "," if tight else ", ")


def _layout(text: str, inside: Object, style: _Style, outside: _Layout) -> _Layout:
    """As its last member stands; an empty object is laid out as the one it stands in."""
    if not inside.members:
        return _Layout(outside.lines, _indent(text, inside.start) + style.unit)
    last = len(inside.members) - 1
    return _Layout(_on_own_line(text, inside, last), _indent(text, inside.members[last].start))


def _on_own_line(text: str, inside: Object, place: int) -> bool:
    before = inside.members[place - 1].end if place else inside.start
    return any(char in "\r\n" for char in text[before : inside.members[place].start])


def _indent(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    line = text[start:at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _rendered(value: Any, indent: str, style: _Style, *, lines: bool) -> str:
    if not isinstance(value, dict) or not lines:
        return json.dumps(value, ensure_ascii=False, separators=(style.comma, style.colon))
    inner = style.newline + indent + style.unit
    members = (
        f"{inner}{_quoted(key)}{style.colon}{_rendered(item, indent + style.unit, style, lines=True)}"
        for key, item in value.items()
    )
    return "{" + ",".join(members) + style.newline + indent + "}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _spliced(text: str, edits: Iterable[_Edit]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(edits, key=lambda edit: edit.start):
        parts += (text[at:start], new)
        at = end
    return "".join((*parts, text[at:]))
