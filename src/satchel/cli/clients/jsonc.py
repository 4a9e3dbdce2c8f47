"""Reading JSON with comments and trailing commas, where each member stands in the text."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from satchel.errors import InputError

__all__ = [
    "Member",
    "Object",
    "Token",
    "notes",
    "position",
    "read_document",
    "read_object",
    "value_at",
    "without_space",
    "words_at",
]


class Token(NamedTuple):
    kind: str
    start: int
    end: int


class Member(NamedTuple):
    """One `"key": value`, from the key's quote to the value's end, and the comma after it if there is one."""

    key: str
    start: int
    value: int
    end: int
    comma: int | None


class Object(NamedTuple):
    """From the opening brace to behind the closing one."""

    start: int
    end: int
    members: tuple[Member, ...]


_TOKEN = re.compile(
    r"""
      (?P<space> [ \t\r\n]++ )
    | (?P<string> "[^"\\\x00-\x1f]*+ (?: \\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}) [^"\\\x00-\x1f]*+ )*+ " )
    | (?P<scalar> -?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)? | true | false | null )
    | (?P<mark> [{}\[\]:,] )
    | (?P<comment> // [^\r\n]*+ | /\* (?s:.*?) \*/ )
    """,
    re.VERBOSE,
)

# What may come next, by what was read, and what the reader then waits for. Commas may trail.
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
    '"': "the string there has no end or a bad character in it",
    "'": "strings stand in double quotes",
    "/": "the comment there has no end",
}
_OPENED_BY = {"}": "{", "]": "["}
_NEXT_IN = {"{": "a key or }", "[": "a value or ]"}


def read_document(text: str) -> Object:
    """The one object a text holds; an InputError says at which line and column it is none."""
    reader = _Reader(text, 0)
    root = reader.object()
    rest = reader.next()
    if rest.kind != "end":
        raise reader.complaint("the end of the file", rest)
    return root


def read_object(text: str, at: int) -> Object:
    """The object whose opening brace stands at a place."""
    return _Reader(text, at).object()


def words_at(text: str, start: int, end: int) -> str | list[str] | None:
    """The string a value is, or the strings of a list of nothing else; None for any other value."""
    tokens = [match for match in _TOKEN.finditer(text, start, end) if match.lastgroup not in ("space", "comment")]
    words: list[str] = [json.loads(match[0]) for match in tokens if match.lastgroup == "string"]
    if len(tokens) == len(words) == 1:
        return words[0]
    marks = [match[0] for match in tokens if match.lastgroup != "string"]
    flat = marks[0] == "[" and marks[-1] == "]" and set(marks[1:-1]) <= {","}
    return words if flat else None


def value_at(text: str, start: int, end: int) -> Any:
    """The value that stands in a stretch; None for one that is nested too deeply to be told."""
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
    """All that a text says, comments included, whichever way it is laid out."""
    return [match[0] for match in _TOKEN.finditer(text) if match.lastgroup != "space"]


def notes(text: str, start: int, end: int) -> Iterator[Token]:
    """The comments in a stretch that holds nothing else but white space and commas."""
    for match in _TOKEN.finditer(text, start, end):
        if match.lastgroup == "comment":
            yield Token("comment", match.start(), match.end())


def position(text: str, at: int) -> str:
    """A place as a person looks for it: `line 3, column 7`."""
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
        """Where the next value begins and ends. Without recursion: a file may nest as deep as it likes."""
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
