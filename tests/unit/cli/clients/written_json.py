"""Random JSON as people and programs write it, and an independent parser for it."""

import json
import random
import re
from typing import Any

from hypothesis import strategies as st

__all__ = ["documents", "parsed", "servers_of", "written"]

KEY = "mcpServers"

_STRING = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(_STRING + r"|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING = re.compile(_STRING + r"|,(?=\s*[}\]])")

# Words that would mislead a reader that looks for marks without reading strings.
words = st.sampled_from(["a", "b", "satchel", KEY, "//", "/*", "*/", "}", "]", ",", ":", '"', "\\", "é", "𝄞", "\n"])
texts = st.lists(words, max_size=3).map("".join)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)
entries = st.fixed_dictionaries({"command": texts, "args": st.lists(texts, max_size=2)}, optional={"env": values})
server_maps = st.dictionaries(texts.filter(lambda key: key != "satchel"), entries, max_size=3)


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A document, most with servers in it, and a text that says it."""
    document = draw(st.dictionaries(texts.filter(lambda key: key != KEY), values, max_size=3))
    if draw(st.integers(0, 3)):
        position = draw(st.integers(0, len(document)))
        items = list(document.items())
        document = dict([*items[:position], (KEY, draw(server_maps)), *items[position:]])
    return document, draw(written(document))


@st.composite
def written(draw: st.DrawFn, document: dict[str, Any]) -> str:
    """As a program lays it out, or as nobody would."""
    if draw(st.booleans()):
        indent = draw(st.sampled_from([None, 2, 4, "\t", 0]))
        separators = (
            draw(st.sampled_from([(",", ": "), (",", ":")]))
            if indent is not None
            else draw(st.sampled_from([(", ", ": "), (",", ":")]))
        )
        text = json.dumps(document, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
        return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))) + draw(st.sampled_from(["", "\n"]))
    chance = draw(st.randoms(use_true_random=False))
    return _gap(chance) + _loosely(document, chance) + _gap(chance)


def _loosely(value: Any, chance: random.Random) -> str:
    if not isinstance(value, dict | list) or (not value and chance.random() < 0.7):
        return json.dumps(value, ensure_ascii=chance.random() < 0.5)
    if isinstance(value, dict):
        items = [
            json.dumps(key) + _gap(chance) + ":" + _gap(chance) + _loosely(item, chance)
            for key, item in value.items()
        ]
    else:
        items = [_loosely(item, chance) for item in value]
    marks = "{}" if isinstance(value, dict) else "[]"
    inner = ",".join(_gap(chance) + item + _gap(chance) for item in items)
    trailing = "," + _gap(chance) if items and chance.random() < 0.3 else ""
    return marks[0] + (inner + trailing if items else "/* none */") + marks[1]


def _gap(chance: random.Random) -> str:
    pieces = ["", "", "", " ", "\n", "\r\n", "\t", "\n    ", "/* c, } */", '// c ] "\n', "// c\r\n  ", "/*\n*/"]
    return "".join(chance.choices(pieces, k=chance.choice([0, 1, 1, 2])))


def parsed(text: str) -> Any:
    """What a text with comments and trailing commas says."""
    plain = _COMMENT.sub(lambda match: match[1] or " ", text)
    return json.loads(_TRAILING.sub(lambda match: match[1] or "", plain))


def servers_of(document: dict[str, Any]) -> dict[str, Any]:
    return document.get(KEY, {})
