"""How members stand in a client's JSON: the layout that is there, members put in and taken out of it."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from satchel.cli.clients.jsonc import Member, Object, notes, position, read_object
from satchel.errors import InputError

__all__ = [
    "PLAIN",
    "WHITE",
    "Edit",
    "Layout",
    "Style",
    "appended",
    "layout_at",
    "layout_of",
    "member_of",
    "object_of",
    "quoted",
    "removed",
    "rendered",
    "spliced",
    "style_of",
    "written",
]

WHITE = " \t\r\n"


class Style(NamedTuple):
    newline: str
    unit: str
    colon: str
    comma: str


class Edit(NamedTuple):
    start: int
    end: int
    text: str


class Layout(NamedTuple):
    """How members of an object stand: each on a line of its own, or behind one another."""

    lines: bool
    indent: str

    def gap(self, style: Style) -> str:
        """What stands between the comma of one member and the next."""
        return style.newline + self.indent if self.lines else style.comma[1:]


PLAIN = Style("\n", "  ", ": ", ", ")


def member_of(text: str, inside: Object, key: str) -> Member | None:
    """The one member of a key; an InputError if there are two."""
    found = [member for member in inside.members if member.key == key]
    if len(found) > 1:
        first, second = (position(text, member.start) for member in found[:2])
        raise InputError(f'"{key}" is there twice, at {first} and at {second}; take one of them out')
    return found[0] if found else None


def object_of(text: str, member: Member) -> Object:
    """The object that a member's value is."""
    if text[member.value] != "{":
        where = position(text, member.value)
        raise InputError(f'{where}: "{member.key}" has to be an object in braces; correct or remove it')
    return read_object(text, member.value)


def appended(text: str, inside: Object, members: Sequence[str], style: Style, layout: Layout) -> list[Edit]:
    """Written members put behind the last one and behind what is remarked on its line."""
    lines, indent = layout
    gap = layout.gap(style)
    block = ("," + gap).join(members)
    if not inside.members:
        comments = list(notes(text, inside.start + 1, inside.end - 1))
        if comments:
            return [Edit(comments[-1].end, comments[-1].end, _lead(text, comments[-1].start, gap, style) + block)]
        close = style.newline + indent.removesuffix(style.unit) if lines else ""
        return [Edit(inside.start + 1, inside.end - 1, (gap if lines else "") + block + close)]

    last = inside.members[-1]
    edits = [] if last.comma is not None else [Edit(last.end, last.end, ",")]
    at = last.end if last.comma is None else last.comma + 1
    for comment in notes(text, at, inside.end - 1):
        if any(char in "\r\n" for char in text[at : comment.start]):
            break
        at = comment.end
        gap = _lead(text, comment.start, gap, style)
    return [*edits, Edit(at, at, gap + block + ("" if last.comma is None else ","))]


def removed(text: str, inside: Object, gone: Member, style: Style) -> list[Edit]:
    """A member taken out with its comma; comments around it stay."""
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
            edits.append(Edit(gone.comma, gone.comma + 1, ""))
    elif before is not None and before.comma is not None:
        edits.append(Edit(before.comma, before.comma + 1, ""))
    # Behind a comment to the end of its line, nothing may follow on that line.
    open_line = bool(comments) and text.startswith("//", comments[-1].start) and text[end] not in "\r\n"
    edits.append(Edit(cut, end, style.newline if open_line else ""))
    if len(inside.members) == 1:
        left = spliced(text[: inside.end - 1], edits)[inside.start + 1 :]
        if not left.strip(WHITE):
            return [Edit(inside.start + 1, inside.end - 1, "")]
    return edits


def _lead(text: str, comment: int, gap: str, style: Style) -> str:
    """What stands between a comment and a member behind it."""
    return style.newline if text.startswith("//", comment) and not gap.startswith(style.newline) else gap


def style_of(text: str, root: Object) -> Style:
    """How a file is written, by its first member."""
    newline = "\r\n" if "\r\n" in text else "\r" if "\r" in text and "\n" not in text else "\n"
    if not root.members:
        return PLAIN._replace(newline=newline)
    first = root.members[0]
    tight = text[first.value - 1] == ":"
    unit = _indent(text, first.start).removeprefix(_indent(text, root.start)) if _on_own_line(text, root, 0) else ""
    return Style(newline, unit or PLAIN.unit, ":" if tight else ": ", "," if tight else ", ")


def layout_of(text: str, inside: Object, style: Style, outside: Layout | None = None) -> Layout:
    """As its last member stands; an empty object is laid out as the one it stands in."""
    if not inside.members:
        if outside is None:
            return Layout(lines=True, indent=_indent(text, inside.start) + style.unit)
        return Layout(outside.lines, _indent(text, inside.start) + style.unit)
    return layout_at(text, inside, inside.members[-1])


def layout_at(text: str, inside: Object, member: Member) -> Layout:
    """As one of the members stands."""
    return Layout(_on_own_line(text, inside, inside.members.index(member)), _indent(text, member.start))


def _on_own_line(text: str, inside: Object, place: int) -> bool:
    before = inside.members[place - 1].end if place else inside.start
    return any(char in "\r\n" for char in text[before : inside.members[place].start])


def _indent(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    line = text[start:at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def written(key: str, value: Any, style: Style, layout: Layout) -> str:
    """A member as it would stand in a layout."""
    return f"{quoted(key)}{style.colon}{rendered(value, layout.indent, style, lines=layout.lines)}"


def rendered(value: Any, indent: str, style: Style, *, lines: bool) -> str:
    """A value, its objects over several lines if `lines`."""
    if not isinstance(value, dict) or not lines:
        return json.dumps(value, ensure_ascii=False, separators=(style.comma, style.colon))
    inner = style.newline + indent + style.unit
    members = (
        f"{inner}{quoted(key)}{style.colon}{rendered(item, indent + style.unit, style, lines=True)}"
        for key, item in value.items()
    )
    return "{" + ",".join(members) + style.newline + indent + "}"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def spliced(text: str, edits: Iterable[Edit]) -> str:
    """A text with edits made, which do not overlap."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(edits, key=lambda edit: edit.start):
        parts += (text[at:start], new)
        at = end
    return "".join((*parts, text[at:]))
