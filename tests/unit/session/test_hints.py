"""Budget hints in tool definitions and in the notes of results."""

import copy
from types import MappingProxyType
from typing import Any

import pytest

from satchel.errors import InputError
from satchel.session.hints import with_hint


def mcp(name: str = "search_content", **properties: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": "Does something.",
        "inputSchema": {"type": "object", "properties": properties},
    }


def limit_of(schema: dict[str, Any], name: str = "limit") -> dict[str, Any]:
    return schema["inputSchema"]["properties"][name]  # type: ignore[no-any-return]


INTEGER = {"type": "integer", "description": "How many."}


def test_the_description_says_what_fits() -> None:
    hinted = with_hint(mcp(limit=INTEGER), allowance=8_000)
    assert hinted["description"] == "Does something. Budget allows ~200 matches."
    assert limit_of(hinted) == {
        "type": "integer",
        "description": "How many. (budget allows up to 200)",
        "default": 200,
    }


def test_the_definition_that_was_given_stays_as_it_was() -> None:
    schema = mcp(limit=INTEGER)
    before = copy.deepcopy(schema)
    with_hint(schema, allowance=8_000)
    assert schema == before


def test_every_providers_shape_gets_the_hint() -> None:
    parameters = {"type": "object", "properties": {"limit": INTEGER}}
    shapes: list[dict[str, Any]] = [
        {"name": "grep", "description": "x", "input_schema": parameters},
        {"type": "function", "name": "grep", "description": "x", "parameters": parameters},
        {"type": "function", "function": {"name": "grep", "description": "x", "parameters": parameters}},
    ]
    for shape in shapes:
        hinted = with_hint(shape, allowance=4_000)
        tool = hinted.get("function", hinted)
        assert tool["description"] == "x Budget allows ~100 matches."
        place = "input_schema" if "input_schema" in tool else "parameters"
        assert tool[place]["properties"]["limit"]["default"] == 100


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"name": "x"},
        {"name": "x", "description": "y"},
        {"type": "web_search"},
        {"type": "function", "description": 5},
    ],
)
def test_an_unknown_shape_comes_back_as_it_is(schema: dict[str, Any]) -> None:
    hinted = with_hint(schema, allowance=8_000)
    assert hinted == schema
    assert hinted is not schema


@pytest.mark.parametrize(
    "properties",
    [
        5,
        {"limit": 5},
        {"limit": {"type": "string"}},
        {"limit": {"type": "integer", "enum": [1, 2]}},
        {"offset": INTEGER},
    ],
)
def test_parameters_that_limit_nothing_are_left_alone(properties: Any) -> None:
    schema = {"name": "other", "inputSchema": {"properties": properties}}
    hinted = with_hint(schema, allowance=3_000)
    assert hinted["inputSchema"] == schema["inputSchema"]
    assert hinted["description"] == "Budget allows ~10 KB."


def test_a_second_hint_replaces_the_first() -> None:
    schema = mcp(limit={**INTEGER, "default": 100}, max_files=INTEGER)
    first = with_hint(schema, allowance=400)
    assert limit_of(first)["default"] == 10
    assert limit_of(first)["description"] == "How many. (budget allows up to 10, in place of 100)"
    for allowance in (40, 400, 2_000, 4_000, 8_000):
        assert with_hint(first, allowance=allowance) == with_hint(schema, allowance=allowance)


def test_a_default_that_fits_stays() -> None:
    hinted = limit_of(with_hint(mcp(limit={"type": "integer", "default": 20}), allowance=8_000))
    assert hinted == {"type": "integer", "default": 20, "description": "(budget allows up to 200)"}


def test_bounds_of_the_parameter_are_kept() -> None:
    at_most = limit_of(with_hint(mcp(limit={"type": "integer", "maximum": 50}), allowance=8_000))
    at_least = limit_of(with_hint(mcp(limit={"type": "integer", "minimum": 5}), allowance=40))
    optional = {"anyOf": [{"type": "integer", "exclusiveMaximum": 31}, {"type": "null"}], "default": None}
    assert at_most["default"] == 50
    assert at_least["default"] == 5
    assert limit_of(with_hint(mcp(limit=optional), allowance=8_000))["default"] == 30


def test_with_nothing_left_the_default_is_one_and_never_no_limit() -> None:
    hinted = with_hint(mcp(limit={**INTEGER, "minimum": 0}), allowance=0)
    assert limit_of(hinted)["default"] == 1
    assert hinted["description"].endswith("Budget allows less than 1 match.")


def test_a_required_parameter_is_told_but_gets_no_default() -> None:
    schema = mcp(limit=INTEGER)
    schema["inputSchema"]["required"] = ["limit"]
    hinted = with_hint(schema, allowance=8_000)
    assert limit_of(hinted) == {"type": "integer", "description": "How many. (budget allows up to 200)"}
    assert with_hint(hinted, allowance=8_000) == hinted


@pytest.mark.parametrize(
    ("tool", "parameter", "sentence"),
    [
        ("project_files", "max_files", "Budget allows ~160 files."),
        ("anything", "maxMatches", "Budget allows ~100 matches."),
        ("read_file", "limit", "Budget allows ~330 lines."),
        ("run_sql", "limit", "Budget allows ~66 rows."),
        ("web_search", "max_results", "Budget allows ~40 results."),
        ("Grep", "head_limit", "Budget allows ~100 matches."),
        ("anything", "top_k", "Budget allows ~40 results."),
    ],
)
def test_the_noun_is_the_parameters_or_the_tools(tool: str, parameter: str, sentence: str) -> None:
    hinted = with_hint(mcp(tool, **{parameter: INTEGER}), allowance=4_000)
    assert hinted["description"] == f"Does something. {sentence}"


def test_a_known_cost_is_used_instead_of_the_tables() -> None:
    assert sentence_of("grep", allowance=1_000, item_tokens=12.5) == "Budget allows ~80 matches."
    assert limit_of(with_hint(mcp(limit=INTEGER), allowance=1_000, item_tokens=100))["default"] == 10


def sentence_of(tool: str, **options: Any) -> str:
    return str(with_hint(mcp(tool), **options)["description"]).removeprefix("Does something. ")


def test_numbers_are_round_and_one_is_singular() -> None:
    assert sentence_of("search_content", allowance=4_999) == "Budget allows ~120 matches."
    assert sentence_of("unheard_of", allowance=900_000) == "Budget allows ~3,000 KB."
    assert sentence_of("grep", allowance=40) == "Budget allows ~1 match."
    assert sentence_of("grep", allowance=-5) == "Budget allows less than 1 match."


def test_read_only_mappings_are_copied() -> None:
    schema = MappingProxyType({"name": "grep", "inputSchema": MappingProxyType({"type": "object"})})
    assert with_hint(schema, allowance=4_000)["inputSchema"] == {"type": "object"}


@pytest.mark.parametrize("cost", [0, -1, float("nan"), float("inf"), True, "5"])
def test_a_cost_that_cannot_be_is_refused(cost: Any) -> None:
    with pytest.raises(InputError, match="item_tokens"):
        with_hint(mcp("grep"), allowance=100, item_tokens=cost)
