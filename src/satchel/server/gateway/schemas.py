"""Output schemas that allow a page in the place of a result too large to be given whole."""

from typing import Any

__all__ = ["PAGE", "allowing_pages"]

Schema = dict[str, Any]

PAGE: Schema = {
    "type": "object",
    "properties": {
        "continuation_token": {"type": "string"},
        "total": {"type": "integer"},
        "returned": {"type": "integer"},
        "unit": {"type": "string"},
        "budget_note": {"type": "string"},
        "text": {"type": "string"},
    },
    "required": ["continuation_token"],
}

_DATA = frozenset({"const", "default", "enum", "examples"})
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_WHOLE = "#/anyOf/0"


def allowing_pages(schema: Schema) -> Schema:
    """What holds for a result or for a page of it; references inside the schema still point where they did."""
    own_base = "$id" in schema
    whole = schema if own_base else _moved(schema)
    dialect = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    return dialect | {"type": "object", "anyOf": [_without_dialect(whole), PAGE]}


def _without_dialect(schema: Schema) -> Schema:
    # Below the root it may stand only in a schema with an identifier of its own.
    return schema if "$id" in schema else {name: value for name, value in schema.items() if name != "$schema"}


def _moved(value: Any) -> Any:
    if isinstance(value, list):
        return [_moved(each) for each in value]
    if not isinstance(value, dict) or "$id" in value:
        return value
    return {name: _moved_member(name, each) for name, each in value.items()}


def _moved_member(name: str, value: Any) -> Any:
    if name in _DATA:
        return value
    if name in _BY_NAME and isinstance(value, dict):
        return {key: _moved(each) for key, each in value.items()}
    if name == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return _WHOLE + value[1:]
    return _moved(value)
