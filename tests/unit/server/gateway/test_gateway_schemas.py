"""Output schemas that also allow a page of a result."""

import jsonschema
import pytest

from satchel.server.gateway.router import allowing_pages

PAGE = {"continuation_token": "abc", "total": 10, "returned": 2, "unit": "records", "budget_note": "more"}


def valid(schema, value):
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def test_a_result_and_a_page_are_valid_and_nothing_else_is():
    schema = allowing_pages({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert schema["type"] == "object"
    assert valid(schema, {"n": 1})
    assert valid(schema, PAGE)
    assert not valid(schema, {"n": "1"})
    assert not valid(schema, {"total": 3})


@pytest.mark.parametrize("key", ["$defs", "definitions"])
def test_references_to_definitions_still_hold(key):
    schema = allowing_pages(
        {
            "type": "object",
            "properties": {"items": {"type": "array", "items": {"$ref": f"#/{key}/Item"}}},
            "required": ["items"],
            key: {"Item": {"type": "string"}},
        }
    )
    assert valid(schema, {"items": ["a"]})
    assert not valid(schema, {"items": [1]})


def test_a_schema_that_refers_to_itself_still_does():
    schema = allowing_pages(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "child": {"$ref": "#"},
                "same": {"$ref": "#/properties/name"},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    )
    assert valid(schema, {"name": "a", "child": {"name": "b", "child": {"name": "c"}}, "same": "d"})
    assert not valid(schema, {"name": "a", "child": {"name": "b", "child": {}}})
    assert not valid(schema, {"name": "a", "same": 1})


def test_a_schema_with_an_identifier_of_its_own_keeps_its_references():
    schema = allowing_pages(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://example.org/thing",
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/N"}},
            "required": ["n"],
            "$defs": {"N": {"type": "integer"}},
        }
    )
    assert valid(schema, {"n": 1})
    assert not valid(schema, {"n": "1"})


def test_what_only_looks_like_a_reference_is_left_alone():
    properties = {
        "$ref": {"type": "string"},
        "default": {"$ref": "#/$defs/N"},
        "kind": {"const": {"$ref": "#/$defs/N"}},
    }
    schema = allowing_pages({"type": "object", "properties": properties, "$defs": {"N": {"type": "integer"}}})
    moved = schema["anyOf"][0]["properties"]
    assert moved["$ref"] == {"type": "string"}
    assert moved["default"] == {"$ref": "#/anyOf/0/$defs/N"}
    assert moved["kind"] == {"const": {"$ref": "#/$defs/N"}}


def test_the_schema_that_was_given_is_not_changed():
    given = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    allowing_pages(given)
    assert given == {"type": "object", "properties": {"child": {"$ref": "#"}}}
