"""The servers in a client's TOML: listed, taken out for another entry, and put back as they were."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from satchel.cli.clients.difference import shared
from satchel.cli.clients.entry import Entry
from satchel.cli.clients.listing import Listed, Stretch
from satchel.cli.clients.toml_form import appended, checked, cut, entry_toml, newline_of, says, with_entry
from satchel.cli.clients.toml_statements import read_toml, statements
from satchel.errors import InputError

__all__ = ["alone", "exchanged", "listed", "put_back", "stretch", "taken_out"]


class _Block(NamedTuple):
    """A server's tables that follow one another, with what is remarked between them."""

    name: str
    start: int
    end: int
    tables: bool


def listed(text: str, *, key: str) -> list[Listed]:
    """The servers of a file, in the order of their first tables."""
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


def alone(source: str, *, key: str) -> str:
    """A file with nothing in it but one server of this text."""
    return source


def taken_out(text: str, names: Sequence[str], entry: Entry, *, key: str, more: Mapping[str, Any]) -> str:
    """Without some servers, and with an entry in the place of the first of them."""
    document = read_toml(text)
    servers = _servers(document, key)
    going = [block for block in _blocks(text, key) if block.name in names]
    if going and entry.name not in servers:
        after = _replaced(text, going, [entry_toml(entry, key=key, more=more).replace("\n", newline_of(text))])
    else:
        after = with_entry(cut(text, _spans(going)), entry, key=key, more=more).text
    left = {name: value for name, value in servers.items() if name not in names}
    fields = read_toml(entry_toml(entry, key=key, more=more))[key][entry.name]
    left[entry.name] = {**left.get(entry.name, {}), **fields}
    return checked(after, {**document, key: left}, key, entry.name)


def put_back(text: str, sources: Mapping[str, str], name: str, *, key: str) -> str:
    """Without the entry of a name, and with servers in its place; at the end if it is not there."""
    going = [block for block in _blocks(text, key) if block.name == name]
    if not sources:
        after = cut(text, _spans(going))
    elif going and going[0].tables:
        after = _replaced(text, going, list(sources.values()))
    else:
        after = appended(cut(text, _spans(going)), _joined(sources.values(), newline_of(text)))
    return checked(after, _with_sources(text, sources, name, key), key, name)


def stretch(before: str, after: str, *, key: str) -> Stretch:
    """The lines from the first to the last that differ."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = shared(old, new)
    tail = shared(old[head:][::-1], new[head:][::-1])
    return Stretch("".join(old[head : len(old) - tail]), "".join(new[head : len(new) - tail]))


def exchanged(text: str, stretch: Stretch, sources: Mapping[str, str], name: str, *, key: str) -> str | None:
    """With the lines as they were before, if they are there as they were after and it says what it should."""
    if not stretch.after or text.count(stretch.after) != 1:
        return None
    before = text.replace(stretch.after, stretch.before)
    return before if says(before, _with_sources(text, sources, name, key)) else None


def _with_sources(text: str, sources: Mapping[str, str], name: str, key: str) -> dict[str, Any]:
    """What a text says without the entry of a name, and with servers."""
    document = read_toml(text)
    servers = {other: value for other, value in _servers(document, key).items() if other != name}
    back = {each: read_toml(source)[key][each] for each, source in sources.items()}
    return {**document, key: {**servers, **back}}


def _servers(document: dict[str, Any], key: str) -> dict[str, Any]:
    servers = document.get(key, {})
    if not isinstance(servers, dict):
        raise InputError(f"{key} has to be a table, and is none; correct or remove it")
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


def _spans(blocks: Iterable[_Block]) -> list[tuple[int, int]]:
    return [(block.start, block.end) for block in blocks]


def _replaced(text: str, going: Sequence[_Block], sources: Sequence[str]) -> str:
    """The text with tables in the place of the first block, and without the others."""
    newline = newline_of(text)
    first = going[0]
    text = cut(text, _spans(going[1:]))
    new = _joined(sources, newline)
    ended = text[: first.end].endswith("\n")
    return text[: first.start] + (new if ended else new.removesuffix(newline)) + text[first.end :]


def _joined(sources: Iterable[str], newline: str) -> str:
    return newline.join(_ended(source, newline) for source in sources)


def _ended(source: str, newline: str) -> str:
    return source if source.endswith("\n") else source + newline
