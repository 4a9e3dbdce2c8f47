"""JSON with comments: parsed with positions, servers added and removed, every other byte unchanged."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from satchel.cli.clients.entry import Edited, Fields, Listed, Region, is_remote, other_kind
from satchel.errors import InputError
from satchel.model.patterns import lazy_pattern

__all__ = [
    "PLAIN",
    "WHITE",
    "Edit",
    "Layout",
    "Member",
    "Object",
    "Style",
    "Token",
    "appended",
    "entry_value",
    "has_servers",
    "is_blank",
    "layout_at",
    "layout_of",
    "listed",
    "member_of",
    "notes",
    "object_of",
    "position",
    "quoted",
    "read_document",
    "read_object",
    "region",
    "region_restored",
    "removed",
    "rendered",
    "single_server_file",
    "spliced",
    "style_of",
    "value_at",
    "whole_file",
    "with_entry",
    "with_gateway",
    "with_servers",
    "without_entry",
    "without_servers",
    "without_space",
    "words_at",
    "written",
]


class Token(NamedTuple):
    kind: str
    start: int
    end: int


class Member(NamedTuple):
    """One `"key": value` pair, from the key's quote to the value's end, with the position of its comma, if any."""

    key: str
    start: int
    value: int
    end: int
    comma: int | None


class Object(NamedTuple):
    """An object, from its opening brace to after the closing one."""

    start: int
    end: int
    members: tuple[Member, ...]


_TOKEN = lazy_pattern(
    r"""
      (?P<space> [ \t\r\n]++ )
    | (?P<string> "[^"\\\x00-\x1f]*+ (?: \\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}) [^"\\\x00-\x1f]*+ )*+ " )
    | (?P<scalar> -?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)? | true | false | null )
    | (?P<mark> [{}\[\]:,] )
    | (?P<comment> // [^\r\n]*+ | /\* (?s:.*?) \*/ )
    """,
    re.VERBOSE,
)

# What may come next, by the current state, and the state it leads to. Trailing commas are allowed.
_AFTER_VALUE = "a comma or a closing bracket"
_EXPECTED: dict[str, dict[str, str]] = {
    "a value": {"string": _AFTER_VALUE, "scalar": _AFTER_VALUE, "{": "a key or }", "[": "a value or ]"},
    "a value or ]": {
        "string": _AFTER_VALUE,
        "scalar": _AFTER_VALUE,
        "{": "a key or }",
        "[": "a value or ]",
        "]": _AFTER_VALUE,
    },
    "a key or }": {"string": "a colon", "}": _AFTER_VALUE},
    "a colon": {":": "a value"},
}
_BROKEN = {
    '"': "the string is not closed or contains an invalid character",
    "'": "strings must be in double quotes",
    "/": "the comment is not closed",
}
_OPENED_BY = {"}": "{", "]": "["}
_NEXT_IN = {"{": "a key or }", "[": "a value or ]"}


def read_document(text: str) -> Object:
    """Parse a text that contains one object; `InputError` names the line and column of a syntax error."""
    reader = _Reader(text, 0)
    root = reader.object()
    rest = reader.next()
    if rest.kind != "end":
        raise reader.complaint("the end of the file", rest)
    return root


def read_object(text: str, at: int) -> Object:
    """Parse the object whose opening brace is at a position."""
    return _Reader(text, at).object()


def words_at(text: str, start: int, end: int) -> str | list[str] | None:
    """Return a string value, or a list of only strings; None for any other value."""
    tokens = [match for match in _TOKEN.finditer(text, start, end) if match.lastgroup not in ("space", "comment")]
    words: list[str] = [json.loads(match[0]) for match in tokens if match.lastgroup == "string"]
    if len(tokens) == len(words) == 1:
        return words[0]
    marks = [match[0] for match in tokens if match.lastgroup != "string"]
    flat = marks[0] == "[" and marks[-1] == "]" and set(marks[1:-1]) <= {","}
    return words if flat else None


def value_at(text: str, start: int, end: int) -> Any:
    """Return the value between two positions; None if it is nested too deeply."""
    words: list[str] = []
    for match in _TOKEN.finditer(text, start, end):
        if match.lastgroup in ("space", "comment"):
            continue
        if match[0] in ("}", "]") and words[-1] == ",":
            words.pop()
        words.append(match[0])
    try:
        return json.loads(" ".join(words))
    except RecursionError:
        return None


def without_space(text: str) -> list[str]:
    """Return all tokens of a text, comments included, independent of its layout."""
    return [match[0] for match in _TOKEN.finditer(text) if match.lastgroup != "space"]


def notes(text: str, start: int, end: int) -> Iterator[Token]:
    """Yield the comments in a range that otherwise has only white space and commas."""
    for match in _TOKEN.finditer(text, start, end):
        if match.lastgroup == "comment":
            yield Token("comment", match.start(), match.end())


def position(text: str, at: int) -> str:
    """Format a position for people: `line 3, column 7`."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def next(self) -> Token:
        while match := _TOKEN.match(self.text, self.at):
            start, self.at = match.span()
            if match.lastgroup == "mark":
                return Token(match[0], start, self.at)
            if match.lastgroup in ("string", "scalar"):
                return Token(match.lastgroup, start, self.at)
        return Token("end" if self.at == len(self.text) else "other", self.at, self.at + 1)

    def expect(self, kind: str, what: str) -> Token:
        token = self.next()
        if token.kind != kind:
            raise self.complaint(what, token)
        return token

    def object(self) -> Object:
        start = self.expect("{", "an object in braces").start
        members: list[Member] = []
        while (token := self.next()).kind != "}":
            if members and members[-1].comma is None:
                raise self.complaint("a comma or }", token)
            if token.kind != "string":
                raise self.complaint("a key in double quotes or }", token)
            self.expect(":", "a colon")
            value, end = self.value()
            ahead = self.at
            comma = self.next()
            if comma.kind != ",":
                self.at = ahead
            key: str = json.loads(self.text[token.start : token.end])
            members.append(Member(key, token.start, value, end, comma.start if comma.kind == "," else None))
        return Object(start, token.end, tuple(members))

    def value(self) -> tuple[int, int]:
        """Return the start and end of the next value. Not recursive, because a file may be nested to any depth."""
        begin = -1
        open_brackets: list[str] = []
        waiting = "a value"
        while True:
            token = self.next()
            begin = token.start if begin < 0 else begin
            if waiting == _AFTER_VALUE:
                if token.kind == ",":
                    waiting = _NEXT_IN[open_brackets[-1]]
                    continue
                if _OPENED_BY.get(token.kind) != open_brackets[-1]:
                    raise self.complaint("a comma or " + ("}" if open_brackets[-1] == "{" else "]"), token)
                open_brackets.pop()
            else:
                after = _EXPECTED[waiting].get(token.kind)
                if after is None:
                    raise self.complaint(waiting, token)
                waiting = after
                if token.kind in ("{", "["):
                    open_brackets.append(token.kind)
                elif token.kind in ("}", "]"):
                    open_brackets.pop()
            if not open_brackets:
                return begin, token.end

    def complaint(self, expected: str, found: Token) -> InputError:
        if found.kind == "end":
            what = "the file ends"
        else:
            char = self.text[found.start]
            what = (_BROKEN.get(char) if found.kind == "other" else None) or f"there is {char!r}"
        return InputError(f"{position(self.text, found.start)}: expected {expected}, but {what}")


# Layout: how members are written, and adding and removing them in the same way


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
    """How the members of an object are laid out: each on its own line, or all on one."""

    lines: bool
    indent: str

    def gap(self, style: Style) -> str:
        """The white space between a comma and the next member."""
        return style.newline + self.indent if self.lines else style.comma[1:]


PLAIN = Style("\n", "  ", ": ", ", ")


def member_of(text: str, inside: Object, key: str) -> Member | None:
    """Return the member with this key, if there is one; raises `InputError` if there are two."""
    found = [member for member in inside.members if member.key == key]
    if len(found) > 1:
        first, second = (position(text, member.start) for member in found[:2])
        raise InputError(f'"{key}" appears twice, at {first} and at {second}; remove one')
    return found[0] if found else None


def object_of(text: str, member: Member) -> Object:
    """Return the object that is a member's value."""
    if text[member.value] != "{":
        where = position(text, member.value)
        raise InputError(f'{where}: "{member.key}" must be an object in braces; correct or remove it')
    return read_object(text, member.value)


def appended(text: str, inside: Object, members: Sequence[str], style: Style, layout: Layout) -> list[Edit]:
    """Return the edits that add members after the last one and after comments on its line."""
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
    """Return the edits that remove a member and its comma; comments around it stay."""
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
    # A line comment runs to the end of its line, so nothing may follow it there.
    open_line = bool(comments) and text.startswith("//", comments[-1].start) and text[end] not in "\r\n"
    edits.append(Edit(cut, end, style.newline if open_line else ""))
    if len(inside.members) == 1:
        left = spliced(text[: inside.end - 1], edits)[inside.start + 1 :]
        if not left.strip(WHITE):
            return [Edit(inside.start + 1, inside.end - 1, "")]
    return edits


def _lead(text: str, comment: int, gap: str, style: Style) -> str:
    """Return the white space between a comment and the member after it."""
    return style.newline if text.startswith("//", comment) and not gap.startswith(style.newline) else gap


def style_of(text: str, root: Object) -> Style:
    """Detect the style of a file from its first member."""
    newline = "\r\n" if "\r\n" in text else "\r" if "\r" in text and "\n" not in text else "\n"
    if not root.members:
        return PLAIN._replace(newline=newline)
    first = root.members[0]
    tight = text[first.value - 1] == ":"
    unit = _indent(text, first.start).removeprefix(_indent(text, root.start)) if _on_own_line(text, root, 0) else ""
    return Style(newline, unit or PLAIN.unit, ":" if tight else ": ", "," if tight else ", ")


def layout_of(text: str, inside: Object, style: Style, outside: Layout | None = None) -> Layout:
    """Return the layout of the last member; an empty object is laid out like its parent."""
    if not inside.members:
        if outside is None:
            return Layout(lines=True, indent=_indent(text, inside.start) + style.unit)
        return Layout(outside.lines, _indent(text, inside.start) + style.unit)
    return layout_at(text, inside, inside.members[-1])


def layout_at(text: str, inside: Object, member: Member) -> Layout:
    """Return the layout of one of the members."""
    return Layout(_on_own_line(text, inside, inside.members.index(member)), _indent(text, member.start))


def _on_own_line(text: str, inside: Object, place: int) -> bool:
    before = inside.members[place - 1].end if place else inside.start
    return any(char in "\r\n" for char in text[before : inside.members[place].start])


def _indent(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    line = text[start:at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def written(key: str, value: Any, style: Style, layout: Layout) -> str:
    """Format a member in a layout."""
    return f"{quoted(key)}{style.colon}{rendered(value, layout.indent, style, lines=layout.lines)}"


def rendered(value: Any, indent: str, style: Style, *, lines: bool) -> str:
    """Format a value, with its objects over several lines if `lines` is true."""
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
    """Apply edits, which must not overlap, to a text."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(edits, key=lambda edit: edit.start):
        parts += (text[at:start], new)
        at = end
    return "".join((*parts, text[at:]))


# The entry: added, updated and removed, with every other byte unchanged


def whole_file(entry: Fields, *, key: str) -> str:
    """Return a file that contains only the entry."""
    return rendered({key: {entry.name: entry.all}}, "", PLAIN, lines=True) + "\n"


def with_entry(text: str, entry: Fields, *, key: str) -> Edited:
    """Return the text with the entry under `key`; an existing entry gets only the values, not the defaults."""
    if not text.strip(WHITE):
        return Edited(whole_file(entry, key=key), "added")
    root = read_document(text)
    style = style_of(text, root)
    root_layout = layout_of(text, root, style)
    servers = member_of(text, root, key)
    if servers is None:
        member = written(key, {entry.name: entry.all}, style, root_layout)
        return Edited(spliced(text, appended(text, root, [member], style, root_layout)), "added")
    inner = object_of(text, servers)
    inner_layout = layout_of(text, inner, style, root_layout)
    found = member_of(text, inner, entry.name)
    if found is None:
        member = written(entry.name, entry.all, style, inner_layout)
        edits = appended(text, inner, [member], style, inner_layout)
        return Edited(spliced(text, edits), "added")
    inside = object_of(text, found)
    edits = _updated(text, inside, entry, style, layout_of(text, inside, style, inner_layout))
    after = _without_obsolete(spliced(text, edits), entry, style, key=key)
    return Edited(after, "updated" if after != text else "unchanged")


def _without_obsolete(text: str, entry: Fields, style: Style, *, key: str) -> str:
    for field in entry.obsolete(entry_value(text, entry.name, key=key) or {}):
        servers = _servers(text, key)
        member = member_of(text, servers, entry.name) if servers else None
        inside = object_of(text, member) if member else None
        gone = member_of(text, inside, field) if inside else None
        text = spliced(text, removed(text, inside, gone, style)) if inside and gone else text
    return text


def without_entry(text: str, name: str, *, key: str) -> Edited:
    """Return the text without the entry; its neighbours, comments and the surrounding object stay."""
    if not text.strip(WHITE):
        return Edited(text, "absent")
    root = read_document(text)
    servers = member_of(text, root, key)
    inner = object_of(text, servers) if servers else None
    found = member_of(text, inner, name) if inner else None
    if inner is None or found is None:
        return Edited(text, "absent")
    return Edited(spliced(text, removed(text, inner, found, style_of(text, root))), "removed")


def entry_value(text: str, name: str, *, key: str) -> Any:
    """Return the parsed entry of this name; None if there is none."""
    inside = _servers(text, key)
    found = member_of(text, inside, name) if inside else None
    return value_at(text, found.value, found.end) if found else None


def has_servers(text: str, *, key: str) -> bool:
    """Return whether there is an object for the servers, even an empty one."""
    return bool(text.strip(WHITE)) and member_of(text, read_document(text), key) is not None


def without_servers(text: str, *, key: str) -> str:
    """Return the text without the object for the servers if that is empty."""
    root = read_document(text) if text.strip(WHITE) else None
    servers = member_of(text, root, key) if root else None
    if root is None or servers is None or without_space(text[servers.value : servers.end]) != ["{", "}"]:
        return text
    return spliced(text, removed(text, root, servers, style_of(text, root)))


def is_blank(text: str) -> bool:
    """Return whether the text has no comments and at most a schema, which opencode adds to a file that it reads."""
    tokens = without_space(text)
    return not tokens or (tokens[0] == "{" and tokens[-1] == "}" and (len(tokens) == 2 or _is_schema(tokens[1:-1])))


def _is_schema(tokens: Sequence[str]) -> bool:
    return tokens[0] == '"$schema"' and len(tokens) in (3, 4) and tokens[3:] in ([], [","])


def _updated(text: str, inside: Object, entry: Fields, style: Style, layout: Layout) -> list[Edit]:
    there = {member.key: value_at(text, member.value, member.end) for member in inside.members}
    if is_remote(there) != is_remote(entry.values):
        raise InputError(f"{position(text, inside.start)}: {other_kind(entry.name, there)}")
    edits: list[Edit] = []
    missing: dict[str, Any] = {}
    for key, wanted in entry.values.items():
        member = member_of(text, inside, key)
        if member is None:
            missing[key] = wanted
        elif there[key] != wanted:
            edits.append(Edit(member.value, member.end, rendered(wanted, layout.indent, style, lines=layout.lines)))
    members = [written(key, value, style, layout) for key, value in missing.items()]
    return edits + (appended(text, inside, members, style, layout) if members else [])


# The servers: listed, replaced by the gateway's entry, and restored


def listed(text: str, *, key: str) -> list[Listed]:
    """Return the servers of a file, in order."""
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
    """Return Gemini CLI's rules about which servers may start, if the file has them."""
    found = member_of(text, root, "mcp")
    rules = None if found is None else value_at(text, found.value, found.end)
    return rules if isinstance(rules, dict) else {}


def _ruled_out(name: str, rules: Mapping[str, Any]) -> str | None:
    excluded, allowed = rules.get("excluded"), rules.get("allowed")
    if isinstance(excluded, list) and name in excluded:
        return "mcp.excluded lists it"
    return "mcp.allowed does not list it" if isinstance(allowed, list) and name not in allowed else None


def single_server_file(source: str, *, key: str) -> str:
    """Return a file that contains only one server, given as text."""
    return f"{{{quoted(key)}: {{{source}}}}}"


def with_gateway(text: str, names: Sequence[str], entry: Fields, *, key: str) -> str:
    """Return the text without some servers, and with an entry in the place of the first."""
    root = read_document(text) if names else None
    servers = member_of(text, root, key) if root else None
    if root is None or servers is None:
        return with_entry(text, entry, key=key).text
    inside, style = object_of(text, servers), style_of(text, root)
    # Only this part is parsed again for each server, because a file may have megabytes.
    part = text[inside.start : inside.end]
    going = list(names)
    is_there = member_of(text, inside, entry.name) is not None
    if not is_there:
        members = read_object(part, 0)
        first = next(member for member in members.members if member.key in going)
        new = written(entry.name, entry.all, style, layout_at(part, members, first))
        part = spliced(part, [Edit(first.start, first.end, new)])
        going.remove(first.key)
    for name in going:
        members = read_object(part, 0)
        gone = member_of(part, members, name)
        part = spliced(part, removed(part, members, gone, style)) if gone else part
    text = spliced(text, [Edit(inside.start, inside.end, part)])
    return with_entry(text, entry, key=key).text if is_there else text


def with_servers(text: str, sources: Mapping[str, str], name: str, *, key: str) -> str:
    """Return the text with servers in the place of an entry, or at the end if it is missing."""
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
        return with_servers(text, sources, name, key=key)
    inside = object_of(text, servers)
    gone = member_of(text, inside, name)
    if gone is None:
        edits = appended(text, inside, list(sources.values()), style, layout_of(text, inside, style, layout))
        return spliced(text, edits) if sources else text
    if not sources:
        return spliced(text, removed(text, inside, gone, style))
    gap = "," + layout_at(text, inside, gone).gap(style)
    return spliced(text, [Edit(gone.start, gone.end, gap.join(sources.values()))])


def region(before: str, after: str, *, key: str) -> Region:
    """Return the object with the servers, before and after."""
    parts = [_part(text, _servers(text, key)) for text in (before, after)]
    return Region(*parts)


def region_restored(text: str, region: Region, sources: Mapping[str, str], name: str, *, key: str) -> str | None:
    """Return the text with the servers as before, if they still mean what they did after; layout may differ."""
    inside = _servers(text, key)
    if inside is None or without_space(_part(text, inside)) != without_space(region.after):
        return None
    return spliced(text, [Edit(inside.start, inside.end, region.before)])


def _servers(text: str, key: str) -> Object | None:
    if not text.strip(WHITE):
        return None
    servers = member_of(text, read_document(text), key)
    return object_of(text, servers) if servers else None


def _part(text: str, inside: Object | None) -> str:
    return text[inside.start : inside.end] if inside else "{}"
