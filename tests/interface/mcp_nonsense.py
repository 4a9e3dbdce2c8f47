"""Invalid lines from a client, and the answer that each must get."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from satchel.server.mcp.catalog import TOOLS

__all__ = ["Line", "nonsense"]

DEEP = "[" * 5000 + "]" * 5000
RTL = "\u202eזיכרון ذاكرة\u2066 \u200f"
ODD_STRINGS: list[Callable[[], str]] = [
    lambda: "",
    lambda: " \t\r\n",
    lambda: "\x00",
    lambda: "a\x00b\x1b[8m\x7f",
    lambda: "\ud800 lone \udfff",
    lambda: RTL,
    lambda: "🎒" * 300,
    lambda: "../../etc/passwd",
    lambda: "'; DROP TABLE memory; --",
    lambda: 'NEAR("* AND (',
    lambda: "x" * 20_000,
    lambda: "[" * 2000,
    lambda: '["a", 5]',
    lambda: "٣٤",
    lambda: "1e5",
    lambda: "nan",
    lambda: "-1",
    lambda: "%s%n{0}",
]
ODD_NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308, -0.0]
NEITHER = [float("nan"), float("inf"), float("-inf")]
CONTAINERS: list[Any] = [{}, [[]], [None], [1, 2], {"a": 1}, {"": None}, [{"text": "x"}], [True] * 500]
WRONG: dict[str, list[Any]] = {
    "string": [True, 5, -1.5, *NEITHER, *CONTAINERS],
    "integer": [True, 1.5, -3, *NEITHER, *CONTAINERS, "many", "1.5", "0x10"],
    "number": [True, -0.1, 1.1, 10**400, *NEITHER, *CONTAINERS, "much"],
    "boolean": [1, "true", 1.5, *CONTAINERS],
    "array": [True, 5, 1.5, {"a": 1}, [5], [None], ["a", []], "[5]", '["a"', [True] * 500],
    "enum": [True, 5, 1.5, *NEITHER, *CONTAINERS, "nonsense", "fullest", "deci sion", RTL],
}
# What each tool can do its work with, so that one argument alone is wrong.
BASE: dict[str, dict[str, Any]] = {
    "mem_save": {"text": "a note"},
    "mem_save_many": {"memories": [{"text": "a note"}]},
    "mem_list": {"max_tokens": 200},
    "mem_search": {"query": "a note", "max_tokens": 200},
    "mem_context": {"max_tokens": 200},
    "mem_timeline": {"id": "ID", "max_tokens": 200},
    "mem_get": {"id": ["ID"], "max_tokens": 200},
    "mem_update": {"id": "ID", "title": "changed"},
    "mem_forget": {"id": ["ID"]},
    "mem_relate": {"id": "ID", "target": "OTHER"},
    "mem_session": {"action": "start", "session": "s"},
    "mem_stats": {"max_tokens": 200},
    "context_pack": {"max_tokens": 200},
    "sdd_get_context": {"max_tokens": 200},
    "sdd_context_check": {"change_description": "a change", "max_tokens": 200},
}


class Line(NamedTuple):
    """A line, and what must answer it."""

    sent: bytes
    about: str
    identifier: str | int | None
    """Under which id; None where none could be read."""
    answers: int = 1
    wrong: bool = True
    """Whether it must be refused; else an answer will do too."""
    names: str = ""
    """What a refusal must mention."""


def nonsense(chance: random.Random, count: int, ids: list[str]) -> Iterator[Line]:
    """So many lines, nearly all of them calls of tools."""
    makers = [*[_wrong_argument] * 60, *[_odd_argument] * 20, *[_unknown_argument] * 6, _missing, _unknown_tool]
    makers += [_odd_id, _strange_id, _notification, _batch, _malformed, _not_utf8, _duplicate_keys, _nested]
    makers += [_odd_params, _another_method]
    for number in range(1000, 1000 + count):
        yield chance.choice(makers)(chance, number, ids)


def _call(number: object, tool: object, arguments: object) -> bytes:
    return _message(id=number, method="tools/call", params={"name": tool, "arguments": arguments})


def _message(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | fields).encode()


def _arguments(chance: random.Random, tool: str, ids: list[str]) -> dict[str, Any]:
    given = json.dumps(BASE[tool])
    return json.loads(given.replace("ID", chance.choice(ids)).replace("OTHER", chance.choice(ids)))


def _picked(chance: random.Random) -> tuple[str, str, str]:
    """A tool, one of its parameters, and of which sort that is."""
    tool = chance.choice(list(TOOLS))
    name = chance.choice(list(TOOLS[tool].parameters))
    schema = TOOLS[tool].parameters[name].schema
    return tool, name, "enum" if "enum" in schema else schema["type"]


def _wrong_argument(chance: random.Random, number: int, ids: list[str]) -> Line:
    tool, name, sort = _picked(chance)
    value = chance.choice(WRONG[sort])
    sent = _call(number, tool, _arguments(chance, tool, ids) | {name: value})
    named = "token" if name == "max_tokens" else name
    return Line(sent, f"{tool} {name}={value!r:.60}", number, names=named)


def _odd_argument(chance: random.Random, number: int, ids: list[str]) -> Line:
    tool, name, _ = _picked(chance)
    value: Any = chance.choice([None, *ODD_NUMBERS, *ODD_STRINGS, *ODD_STRINGS])
    value = value() if callable(value) else value
    if chance.random() < 0.2:
        many = chance.random() < 0.05 and len(str(value)) < 50
        value = [value] * (12_000 if many else chance.choice((1, 3)))
    sent = _call(number, tool, _arguments(chance, tool, ids) | {name: value})
    return Line(sent, f"{tool} {name}={value!r:.60}", number, wrong=False)


def _unknown_argument(chance: random.Random, number: int, ids: list[str]) -> Line:
    tool, name, _ = _picked(chance)
    other = chance.choice([name + "s_", name.upper(), "", "x" * 5000, "\x00", "\ud800", RTL, "__class__", "self"])
    sent = _call(number, tool, _arguments(chance, tool, ids) | {other: chance.choice([1, "a", [], {}])})
    return Line(sent, f"{tool} {other!r:.60}", number, wrong=False)


def _missing(chance: random.Random, number: int, ids: list[str]) -> Line:
    tool = chance.choice([tool for tool in TOOLS.values() if tool.required])
    left_out = chance.choice(tool.required)
    given = _arguments(chance, tool.name, ids) | {left_out: None}
    if chance.random() < 0.5:
        del given[left_out]
    return Line(_call(number, tool.name, given), f"{tool.name} without {left_out}", number, names=left_out)


def _unknown_tool(chance: random.Random, number: int, ids: list[str]) -> Line:
    tool: Any = chance.choice(["", "mem_sav", "MEM_SAVE", "x" * 9000, "\x00", "\ud800", RTL, None, 5, True, [], {}])
    return Line(_call(number, tool, {}), f"tool {tool!r:.60}", number, names="tool")


def _odd_id(chance: random.Random, number: int, ids: list[str]) -> Line:
    """One that can be used, but seldom is."""
    identifier = chance.choice([f"s{number}", f"{number} \x00 {RTL}", -number, 10**30 + number])
    return Line(_call(identifier, "mem_stats", {"max_tokens": 50}), f"id {identifier!r}", identifier, wrong=False)


def _strange_id(chance: random.Random, number: int, ids: list[str]) -> Line:
    identifier = chance.choice([None, True, False, 1.5, float("nan"), [number], {"a": number}])
    return Line(_call(identifier, "mem_stats", {}), f"id {identifier!r}", None, names="id")


def _notification(chance: random.Random, number: int, ids: list[str]) -> Line:
    """Where a request belongs, or of what is not there: not to be answered."""
    sent = chance.choice(
        [
            _message(method="tools/call", params={"name": "mem_save", "arguments": {"text": "never asked for"}}),
            _message(method="notifications/cancelled", params={"requestId": number + 10**6}),
            _message(method="notifications/progress", params={"progressToken": 1, "progress": 2}),
            _message(method="notifications/nonsense", params={"a": [number]}),
        ]
    )
    return Line(sent, "a notification", None, answers=0)


def _batch(chance: random.Random, number: int, ids: list[str]) -> Line:
    several = [json.loads(_call(number, "mem_stats", {})), 5, None]
    sent = json.dumps(chance.choice([several, [], several[0:1], "text", 5, None, True])).encode()
    return Line(sent, f"{sent!r:.60} for an object", None, names="object")


def _malformed(chance: random.Random, number: int, ids: list[str]) -> Line:
    whole = _call(number, "mem_save", {"text": "never whole"})
    sent = chance.choice(
        [
            whole[: chance.randrange(1, len(whole))],
            whole + b"}",
            whole.replace(b'"', b"'"),
            whole.replace(b":", b"="),
            b"Content-Length: 120\r",
            b"\x00\x01\x02",
            whole.replace(b"1", b"9" * 5000, 1).replace(b'"2.0"', b"2" * 5000),
            b'{"a":' * 5000 + b"1" + b"}" * 5000,
            _call(number, "mem_save", {"text": "DEEP"}).replace(b'"DEEP"', DEEP.encode()),
        ]
    )
    return Line(sent, f"malformed {sent!r:.60}", None, names="not JSON")


def _not_utf8(chance: random.Random, number: int, ids: list[str]) -> Line:
    bad = chance.choice([b"\xff", b"caf\xe9", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80"])
    tool = chance.choice(["mem_save", "mem_update"])
    sent = _call(number, tool, _arguments(chance, tool, ids) | {"text": "BAD"}).replace(b"BAD", bad)
    return Line(sent, f"bytes {bad!r}", number, names="UTF-8")


def _duplicate_keys(chance: random.Random, number: int, ids: list[str]) -> Line:
    sent = _call(number, "mem_search", {"query": "a note"}).replace(
        b'"query"', b'"query": 5, "query": [1], "max_tokens": "no", "max_tokens": 100, "query"'
    )
    return Line(sent, "a name twice", number, names="is given twice")


def _nested(chance: random.Random, number: int, ids: list[str]) -> Line:
    """Deep, but not too deep to be read."""
    tool, name, _ = _picked(chance)
    depth = chance.choice([150, 190, 210, 400])
    value: Any = "\ud800" if chance.random() < 0.3 else 1
    for _ in range(depth):
        value = {"a": value} if chance.random() < 0.5 else [value]
    sent = _call(number, tool, _arguments(chance, tool, ids) | {name: value})
    return Line(sent, f"{tool} {name} {depth} deep", number)


def _odd_params(chance: random.Random, number: int, ids: list[str]) -> Line:
    params: Any = chance.choice(
        [None, 5, [], "text", {}, {"name": "mem_stats", "arguments": []}, {"name": "mem_stats", "arguments": "{}"}]
    )
    return Line(_message(id=number, method="tools/call", params=params), f"params {params!r}", number)


def _another_method(chance: random.Random, number: int, ids: list[str]) -> Line:
    method, params = chance.choice(
        [
            ("", {}),
            ("nonsense", {"a": 1}),
            ("tools/list", {"cursor": 5}),
            ("prompts/get", {"name": "nonsense"}),
            ("prompts/get", {"name": "\ud800\x00"}),
            ("prompts/get", {}),
            ("resources/read", {"uri": "satchel://memory/nonsense"}),
            ("resources/read", {"uri": "satchel://memory/%00%ff"}),
            ("resources/read", {"uri": "satchel://memory/\x00"}),
            ("resources/read", {"uri": "satchel://nonsense/" + "x" * 5000}),
            ("resources/read", {"uri": "file:///etc/passwd"}),
            ("resources/read", {"uri": "satchel://[half"}),
            ("resources/read", {"uri": "no address at all"}),
            ("resources/read", {"uri": 5}),
            ("completion/complete", {"ref": 5}),
            (5, {}),
            (None, {}),
        ]
    )
    return Line(_message(id=number, method=method, params=params), f"{method} {params!r:.60}", number)
