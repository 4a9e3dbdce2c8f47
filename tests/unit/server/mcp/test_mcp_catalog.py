"""The tool definitions cost few tokens and are correct."""

import pytest

from satchel import count_tokens
from satchel.errors import InputError
from satchel.fitting.listing import as_json
from satchel.server.mcp.catalog import CORE, GUIDE, INSTRUCTIONS, TOOLS, chosen_tools
from satchel.server.mcp.tool import Tool
from tables import each_row

ALL = [
    "mem_save",
    "mem_search",
    "mem_context",
    "mem_timeline",
    "mem_get",
    "mem_update",
    "mem_forget",
    "mem_relate",
    "mem_session",
    "mem_stats",
    "context_pack",
    "sdd_get_context",
    "sdd_context_check",
]
READING = {
    "mem_search",
    "mem_context",
    "mem_timeline",
    "mem_get",
    "mem_stats",
    "context_pack",
    "sdd_get_context",
    "sdd_context_check",
}


def cost(tools: dict[str, Tool]) -> int:
    listed = as_json([tool.definition for tool in tools.values()])
    return count_tokens(listed, "o200k_base") + count_tokens(INSTRUCTIONS, "o200k_base")


def test_all_the_tools_are_there():
    assert list(TOOLS) == ALL
    assert set(CORE) == {"mem_save", "mem_search", "mem_context", "mem_get"}


def test_definitions_and_instructions_cost_at_most_1700_tokens_and_those_of_the_core_800():
    assert cost(TOOLS) <= 1_700
    assert cost(chosen_tools("core")) <= 800


@each_row("name", ALL)
def test_a_tool_is_annotated_with_what_it_does(name: str):
    hints = TOOLS[name].definition["annotations"]
    assert hints.get("readOnlyHint", False) == (name in READING)
    if name not in READING:
        assert hints["destructiveHint"] == (name == "mem_forget")
        assert hints.get("idempotentHint", False) == (name in {"mem_update", "mem_forget", "mem_relate"})


@each_row("name", ALL)
def test_a_schema_names_what_is_needed_and_only_what_is_taken(name: str):
    schema = TOOLS[name].definition["inputSchema"]
    assert schema["type"] == "object"
    assert set(schema.get("required", ())) <= set(schema["properties"]) == set(TOOLS[name].parameters)
    for each in schema["properties"].values():
        assert each.get("type") in {"string", "integer", "number", "boolean", "array"} or each["enum"]


@each_row("name", sorted(READING))
def test_every_tool_that_reads_takes_a_budget_and_all_but_the_pack_a_cursor(name: str):
    assert "max_tokens" in TOOLS[name].parameters
    assert ("cursor" in TOOLS[name].parameters) == (name != "context_pack")


def test_tools_are_chosen_by_name_and_keep_their_order():
    assert list(chosen_tools("all")) == ALL
    assert list(chosen_tools(" core ")) == ["mem_save", "mem_search", "mem_context", "mem_get"]
    assert list(chosen_tools("mem_stats, mem_save")) == ["mem_save", "mem_stats"]
    for wrong in ("none", "", "mem_save,", "mem_save;mem_get"):
        with pytest.raises(InputError, match=r"there is no tool .*; say all, core or some of: mem_save, "):
            chosen_tools(wrong)


def test_the_instructions_explain_the_budget_and_the_way_to_work():
    assert "## Context budget" in INSTRUCTIONS
    for word in ("max_tokens", "token_budget", "📏", "⚡", "detail_level", "mem_search", "mem_get", "cursor"):
        assert word in INSTRUCTIONS
    for name in ALL:
        assert name in GUIDE or name in {"mem_stats", "context_pack", "sdd_get_context", "sdd_context_check"}
