"""TOML: statements with positions, servers added and removed, every other byte unchanged."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError

from satchel.cli.clients.config_file import shared
from satchel.cli.clients.entry import Edited, Fields, Listed, Region, is_remote, other_kind
from satchel.errors import InputError
from satchel.model.patterns import lazy_pattern

__all__ = [
    "Statement",
    "appended",
    "checked",
    "entry_value",
    "has_servers",
    "is_blank",
    "listed",
    "newline_of",
    "read_toml",
    "region",
    "region_restored",
    "says",
    "single_server_file",
    "statements",
    "whole_file",
    "with_entry",
    "with_gateway",
    "with_servers",
    "without_entry",
    "without_runs",
    "without_servers",
]


Path = tuple[str, ...]

_TOKEN = lazy_pattern(
    r'''
      (?P<string> """ (?s: \\. | [^\\] )*? """ "{0,2} | \'\'\' (?s:.*?) \'\'\' '{0,2}
                | " (?: \\. | [^"\\\n] )*+ " | ' [^'\n]*+ ' )
    | (?P<comment> \# [^\n]*+ )
    | (?P<newline> \n )
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<equals> = )
    | (?P<other> [^\[\]{}="'\#\n]++ )
    ''',
    re.VERBOSE,
)


class Statement(NamedTuple):
    """A header or a `key = value`, from the start of its first line to after the end of its last."""

    path: Path
    header: bool
    start: int
    end: int
    value: int
    value_end: int


def read_toml(text: str) -> dict[str, Any]:
    """Parse a text; `InputError` says where it is not TOML."""
    try:
        return tomlkit.parse(text).unwrap()
    except (TOMLKitError, ValueError) as error:
        raise InputError(f"this is not TOML: {_reason(text) or error}") from error


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements in order. `read_toml` must accept the text."""
    table: Path = ()
    for start, equals, code_end, end in _statement_spans(text):
        if equals is None:
            table = _path(text[start:code_end])
            yield Statement(table, True, start, end, code_end, code_end)
        else:
            key = _path(text[start:equals] + "= 0")
            value = text[equals + 1 : code_end]
            yield Statement(table + key, False, start, end, code_end - len(value.lstrip()), code_end)


def _statement_spans(text: str) -> Iterator[tuple[int, int | None, int, int]]:
    """Yield for each statement: its start, its first equals sign, the end of its content, the end of its line."""
    line = depth = code_end = 0
    equals: int | None = None
    started = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "newline":
            if depth:
                continue
            if started:
                yield line, equals, code_end, match.end()
            line, equals, started = match.end(), None, False
            continue
        if kind == "comment" or (kind == "other" and not match[0].strip()):
            continue
        depth += (kind == "open") - (kind == "close")
        if kind == "equals" and equals is None and not depth:
            equals = match.start()
        started = True
        code_end = match.start() + len(match[0].rstrip())
    if started:
        yield line, equals, code_end, len(text)


def _reason(text: str) -> str | None:
    """Return the error of the standard library, which names the position better."""
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return str(error)
    return None


def _path(statement: str) -> Path:
    """Return the key of a statement, split into parts."""
    path: list[str] = []
    inner: Any = tomlkit.parse(statement).unwrap()
    while inner:
        if isinstance(inner, list):
            inner = inner[0]
            continue
        ((key, inner),) = inner.items()
        path.append(key)
    return tuple(path)


# The entry: added, updated and removed, with every other byte unchanged


_NO_MORE: Mapping[str, Any] = MappingProxyType({})


def whole_file(entry: Fields, *, key: str) -> str:
    """Return the table of the entry, as in a file."""
    lines = [f"[{key}.{entry.name}]", *(f"{name} = {_rendered(value)}" for name, value in entry.all.items())]
    return "\n".join(lines) + "\n"


def with_entry(text: str, entry: Fields, *, key: str) -> Edited:
    """Return the text with the entry under `key`; an existing entry gets only the values, not the defaults."""
    before = read_toml(text)
    found = _entry(before, key, entry.name)
    if found is None:
        after = appended(text, whole_file(entry, key=key).replace("\n", newline_of(text)))
        fields = entry.all
    else:
        if is_remote(found) != is_remote(entry.values):
            raise InputError(other_kind(entry.name, found))
        wanted = {name: value for name, value in entry.values.items() if found.get(name) != value}
        obsolete = entry.obsolete(found)
        if not wanted and not obsolete:
            return Edited(text, "unchanged")
        after = _without_fields(_updated(text, (key, entry.name), wanted), (key, entry.name), obsolete)
        fields = {name: value for name, value in {**found, **entry.values}.items() if name not in obsolete}
    expected = {**before, key: {**before.get(key, {}), entry.name: fields}}
    return Edited(checked(after, expected, key, entry.name), "added" if found is None else "updated")


def without_entry(text: str, name: str, *, key: str) -> Edited:
    """Return the text without the entry's tables; comments above and below them stay."""
    before = read_toml(text)
    if _entry(before, key, name) is None:
        return Edited(text, "absent")
    after = without_runs(text, _runs(statements(text), (key, name)))
    expected = {**before, key: {other: value for other, value in before[key].items() if other != name}}
    return Edited(checked(after, expected, key, name), "removed")


def entry_value(text: str, name: str, *, key: str) -> Any:
    """Return the parsed entry of this name; None if there is none."""
    return _entry(read_toml(text), key, name)


def has_servers(text: str, *, key: str) -> bool:
    """Return whether there are tables of servers; unlike in JSON, there is nothing else to keep."""
    return key in read_toml(text)


def without_servers(text: str, *, key: str) -> str:
    """Return the text: without tables of servers there is nothing to remove."""
    return text


def is_blank(text: str) -> bool:
    """Return whether there is nothing in the text."""
    return not text.strip()


def _entry(document: dict[str, Any], key: str, name: str) -> dict[str, Any] | None:
    servers = document.get(key, {})
    if not isinstance(servers, dict):
        raise InputError(f"{key} must be a table; correct or remove it")
    found = servers.get(name)
    if found is not None and not isinstance(found, dict):
        raise InputError(f"{key}.{name} must be a table; correct or remove it")
    return found


def checked(text: str, expected: dict[str, Any], key: str, name: str) -> str:
    """Return the text if it means what it should: TOML has more ways to write an entry than this can edit."""
    if not says(text, {key: {}, **expected}, {key: {}}):
        raise InputError(
            f"{key} is written with braces or dots, which cannot be edited; "
            f"write its servers as tables like [{key}.{name}] and try again"
        )
    return text


def says(text: str, expected: dict[str, Any], default: Mapping[str, Any] = _NO_MORE) -> bool:
    """Whether a text is TOML with exactly this content, apart from `default`."""
    try:
        return _canonical({**default, **read_toml(text)}) == _canonical(expected)
    except InputError:
        return False


def _canonical(document: dict[str, Any]) -> str:
    # Compared as text, because NaN does not equal itself.
    return json.dumps(document, sort_keys=True, default=str)


def appended(text: str, table: str) -> str:
    """Return the text with tables added at the end."""
    newline = newline_of(text)
    if not text:
        return table
    if text.endswith("\n"):
        return text + newline + table
    # Without a line end before, none after: removing the tables then gives the original text.
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


def _without_fields(text: str, path: tuple[str, str], fields: Sequence[str]) -> str:
    own = (each for each in statements(text) if each.path[:2] == path and each.path[2:3])
    for each in reversed([each for each in own if each.path[2] in fields]):
        text = text[: each.start] + text[each.end :]
    return text


def _runs(every: Iterable[Statement], path: tuple[str, str]) -> list[tuple[int, int]]:
    """Return the ranges of an entry: each of its tables, from the header to the last value."""
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


def without_runs(text: str, runs: Sequence[tuple[int, int]]) -> str:
    """Remove ranges from a text. Comments around them stay, and two adjacent blank lines become one."""
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
    """Return the length of the last line if it is blank, otherwise 0."""
    for line in ("\r\n", "\n"):
        if text == line or text.endswith("\n" + line):
            return len(line)
    return 0


def _rendered(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_rendered(each)}" for name, each in value.items()) + " }"
    written: str = tomlkit.item(value).as_string()
    return written


def _key(name: str) -> str:
    written: str = tomlkit.key(name).as_string()
    return written


def newline_of(text: str) -> str:
    """Return the line end used in a text."""
    return "\r\n" if "\r\n" in text else "\n"


# The servers: listed, replaced by the gateway's entry, and restored


class _Block(NamedTuple):
    """Consecutive tables of one server, with the comments between them."""

    name: str
    start: int
    end: int
    tables: bool


def listed(text: str, *, key: str) -> list[Listed]:
    """Return the servers of a file, in the order of their first tables."""
    servers = _servers(read_toml(text), key)
    newline = newline_of(text)
    found = []
    blocks = _blocks(text, key)
    for name in dict.fromkeys([*(block.name for block in blocks), *servers]):
        own = [block for block in blocks if block.name == name]
        source = newline.join(_ended(text[block.start : block.end], newline) for block in own)
        whole = bool(own) and all(block.tables for block in own) and says(source, {key: {name: servers[name]}})
        reason = None if whole else f"it is not written as a table [{key}.{name}]"
        found.append(Listed(name, source, servers[name], reason))
    return found


def single_server_file(source: str, *, key: str) -> str:
    """Return a file that contains only one server, given as text."""
    return source


def with_gateway(text: str, names: Sequence[str], entry: Fields, *, key: str) -> str:
    """Return the text without some servers, and with an entry in the place of the first."""
    document = read_toml(text)
    servers = _servers(document, key)
    going = [block for block in _blocks(text, key) if block.name in names]
    if going and entry.name not in servers:
        after = _replaced(text, going, [whole_file(entry, key=key).replace("\n", newline_of(text))])
    else:
        after = with_entry(without_runs(text, _block_spans(going)), entry, key=key).text
    left = {name: value for name, value in servers.items() if name not in names}
    left[entry.name] = {**left[entry.name], **entry.values} if entry.name in left else entry.all
    return checked(after, {**document, key: left}, key, entry.name)


def with_servers(text: str, sources: Mapping[str, str], name: str, *, key: str) -> str:
    """Return the text with servers in the place of an entry, or at the end if it is missing."""
    going = [block for block in _blocks(text, key) if block.name == name]
    if not sources:
        after = without_runs(text, _block_spans(going))
    elif going and going[0].tables:
        after = _replaced(text, going, list(sources.values()))
    else:
        after = appended(without_runs(text, _block_spans(going)), _joined(sources.values(), newline_of(text)))
    return checked(after, _with_sources(text, sources, name, key), key, name)


def region(before: str, after: str, *, key: str) -> Region:
    """Return the lines from the first to the last that differ."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = shared(old, new)
    tail = shared(old[head:][::-1], new[head:][::-1])
    return Region("".join(old[head : len(old) - tail]), "".join(new[head : len(new) - tail]))


def region_restored(text: str, region: Region, sources: Mapping[str, str], name: str, *, key: str) -> str | None:
    """Return the text with the lines as before, if they still are as they were after and the result is correct."""
    if not region.after or text.count(region.after) != 1:
        return None
    before = text.replace(region.after, region.before)
    return before if says(before, _with_sources(text, sources, name, key)) else None


def _with_sources(text: str, sources: Mapping[str, str], name: str, key: str) -> dict[str, Any]:
    """Return the content of a text without an entry and with servers."""
    document = read_toml(text)
    servers = {other: value for other, value in _servers(document, key).items() if other != name}
    back = {each: read_toml(source)[key][each] for each, source in sources.items()}
    return {**document, key: {**servers, **back}}


def _servers(document: dict[str, Any], key: str) -> dict[str, Any]:
    servers = document.get(key, {})
    if not isinstance(servers, dict):
        raise InputError(f"{key} must be a table; correct or remove it")
    return servers


def _blocks(text: str, key: str) -> list[_Block]:
    blocks: list[_Block] = []
    inside: str | None = None
    for each in statements(text):
        name = each.path[1] if len(each.path) > 1 and each.path[0] == key else None
        if name is not None and name == inside:
            blocks[-1] = blocks[-1]._replace(end=each.end)
        elif name is not None:
            blocks.append(_Block(name, each.start, each.end, each.header))
        inside = name
    return blocks


def _block_spans(blocks: Iterable[_Block]) -> list[tuple[int, int]]:
    return [(block.start, block.end) for block in blocks]


def _replaced(text: str, going: Sequence[_Block], sources: Sequence[str]) -> str:
    """Return the text with tables in the place of the first block, and without the others."""
    newline = newline_of(text)
    first = going[0]
    text = without_runs(text, _block_spans(going[1:]))
    new = _joined(sources, newline)
    ended = text[: first.end].endswith("\n")
    return text[: first.start] + (new if ended else new.removesuffix(newline)) + text[first.end :]


def _joined(sources: Iterable[str], newline: str) -> str:
    return newline.join(_ended(source, newline) for source in sources)


def _ended(source: str, newline: str) -> str:
    return source if source.endswith("\n") else source + newline
