"""Tool schemas satisfy OpenAI's strict mode, after a client has made every property required."""

from typing import Any

import msgspec
import pytest

from satchel.server.mcp.catalog import TOOLS
from tables import each_row

# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
KEYWORDS = {
    "object": {"type", "description", "properties", "required", "additionalProperties"},
    "array": {"type", "description", "items"},
    "string": {"type", "description", "enum"},
    "integer": {"type", "description"},
    "number": {"type", "description"},
    "boolean": {"type", "description"},
}
"""The keywords that strict mode allows and that our schemas may use, by type; `default` is not among them."""
MOST_PROPERTIES = 5_000
MOST_ENUM_VALUES = 1_000
DEEPEST = 10


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema as clients make it strict: every property is required, and no other is allowed."""
    made = dict(schema)
    if schema["type"] == "object":
        made["properties"] = {name: strict(each) for name, each in schema["properties"].items()}
        made |= {"required": list(made["properties"]), "additionalProperties": False}
    elif schema["type"] == "array":
        made["items"] = strict(schema["items"])
    return made


def faults(schema: dict[str, Any], place: str = "", depth: int = 1) -> list[str]:
    """What of a schema OpenAI's strict mode would refuse."""
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in KEYWORDS:
        return [f"{place}: type {kind!r}"]
    found = [f"{place}: {keyword}" for keyword in schema if keyword not in KEYWORDS[kind]]
    if depth > DEEPEST:
        found.append(f"{place}: too deep")
    if kind == "object":
        if set(schema["required"]) != set(schema["properties"]) or schema["additionalProperties"] is not False:
            found.append(f"{place}: optional or unknown properties")
        for name, each in schema["properties"].items():
            found += faults(each, f"{place}.{name}", depth + 1)
    elif kind == "array":
        found += faults(schema["items"], f"{place}[]", depth + 1)
    return found


@each_row("name", sorted(TOOLS))
def test_a_schema_that_was_made_strict_keeps_the_rules_of_strict_mode(name: str):
    schema = strict(TOOLS[name].definition["inputSchema"])
    assert faults(schema, name) == []
    assert schema["type"] == "object"
    assert len(schema["properties"]) <= MOST_PROPERTIES
    assert sum(len(each.get("enum", ())) for each in schema["properties"].values()) <= MOST_ENUM_VALUES


@pytest.mark.parametrize(
    "wrong",
    [
        {"enum": ["a"]},
        {"type": "integer", "default": 10},
        {"type": ["string", "object"]},
        {"type": "array", "items": {"type": "string", "format": "uri"}},
    ],
)
def test_a_schema_that_breaks_a_rule_is_noticed(wrong: dict[str, Any]):
    assert (
        len(
            faults({"type": "object", "properties": {"a": wrong}, "required": ["a"], "additionalProperties": False})
        )
        == 1
    )


@pytest.mark.slow
def test_the_converter_of_the_openai_agents_sdk_takes_every_schema():
    convert = pytest.importorskip(
        "agents.strict_schema", reason="openai-agents is not installed"
    ).ensure_strict_json_schema
    for name, tool in TOOLS.items():
        schema = tool.definition["inputSchema"]
        made = convert(msgspec.convert(msgspec.to_builtins(schema), dict[str, Any]))
        assert made == strict(schema), name
