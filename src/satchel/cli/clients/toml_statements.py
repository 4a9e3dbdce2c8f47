"""The statements of a TOML text: which key each is about, and where it stands."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError

from satchel.errors import InputError

__all__ = ["Statement", "read_toml", "statements"]

Path = tuple[str, ...]

_TOKEN = re.compile(
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
    """A header or a `key = value`, from the start of its line to behind the end of its last one."""

    path: Path
    header: bool
    start: int
    end: int
    value: int
    value_end: int


def read_toml(text: str) -> dict[str, Any]:
    """What a text holds; an InputError says where it is no TOML."""
    try:
        return tomlkit.parse(text).unwrap()
    except (TOMLKitError, ValueError) as error:
        raise InputError(f"this is not TOML: {_reason(text) or error}") from error


def statements(text: str) -> Iterator[Statement]:
    """The statements in order. The text has to be TOML that `read_toml` takes."""
    table: Path = ()
    for start, equals, code_end, end in _spans(text):
        if equals is None:
            table = _path(text[start:code_end])
            yield Statement(table, True, start, end, code_end, code_end)
        else:
            key = _path(text[start:equals] + "= 0")
            value = text[equals + 1 : code_end]
            yield Statement(table + key, False, start, end, code_end - len(value.lstrip()), code_end)


def _spans(text: str) -> Iterator[tuple[int, int | None, int, int]]:
    """Of each statement: its start, its first equals sign, the end of what it says, the end of its line."""
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
    """What the standard library says of a text, which names the place better."""
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return str(error)
    return None


def _path(statement: str) -> Path:
    """The key of a statement, as its parts."""
    path: list[str] = []
    inner: Any = tomlkit.parse(statement).unwrap()
    while inner:
        if isinstance(inner, list):
            inner = inner[0]
            continue
        ((key, inner),) = inner.items()
        path.append(key)
    return tuple(path)
