"""The tool definitions cost few tokens and are correct."""

import pytest

from satchel import count_tokens
from satchel.errors import InputError
from satchel.fitting.listing import as_json
from satchel.server.mcp.catalog import MEMORY_TOOLS, TOOLS
from satchel.server.mcp.guide import CORE, GUIDE, INSTRUCTIONS, chosen_names
from satchel.server.mcp.tool import Tool
from tables import each_row

ALL = [
    "mem_save",
    "mem_save_many",
    "mem_search",
    "mem_context",
    "mem_list",
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
    "mem_list",
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


def test_definitions_and_instructions_cost_at_most_2350_tokens_and_those_of_the_core_1000():
    assert cost(MEMORY_TOOLS) <= 2_350
    assert cost({name: TOOLS[name] for name in chosen_names("core")}) <= 1_000


def test_the_tools_for_specs_are_offered_where_there_are_specs_or_by_name():
    assert list(chosen_names("all", specs=False)) == list(MEMORY_TOOLS) == ALL[:-2]
    assert list(chosen_names("all", specs=True)) == ALL
    assert list(chosen_names("sdd_get_context", specs=False)) == ["sdd_get_context"]


@each_row("name", ALL)
def test_every_parameter_has_a_type_and_a_description_of_a_few_words(name: str):
    for parameter, each in TOOLS[name].definition["inputSchema"]["properties"].items():
        assert each["type"] in {"string", "integer", "number", "boolean", "array"}, parameter
        assert 1 <= len(each["description"].split()) <= 8, parameter


def test_one_name_stands_for_one_thing():
    names = {parameter for tool in TOOLS.values() for parameter in tool.parameters}
    assert not names & {"ids", "memory_id", "identifier", "source", "token_budget", "detail"}


def test_tools_that_give_a_context_are_told_apart_in_their_first_five_words():
    begins = [" ".join(TOOLS[name].about.split()[:5]) for name in ("mem_context", "context_pack")]
    assert begins == ["Context for your own task:", "Export whole memories as markdown,"]


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


@each_row("name", sorted(READING))
def test_every_tool_that_reads_takes_a_budget_and_all_but_the_pack_a_cursor(name: str):
    assert "max_tokens" in TOOLS[name].parameters
    assert ("cursor" in TOOLS[name].parameters) == (name != "context_pack")


def test_tools_are_chosen_by_name_and_keep_their_order():
    assert list(chosen_names("all")) == ALL
    assert list(chosen_names(" core ")) == ["mem_save", "mem_search", "mem_context", "mem_get"]
    assert list(chosen_names("mem_stats, mem_save")) == ["mem_save", "mem_stats"]
    for wrong in ("none", "", "mem_save,", "mem_save;mem_get"):
        with pytest.raises(InputError, match=r"there is no tool .*; say all, core or some of: mem_save, "):
            chosen_names(wrong)


def test_the_instructions_explain_the_budget_and_the_way_to_work():
    assert "## Context budget" in INSTRUCTIONS
    for word in ("max_tokens", "token_budget", "📏", "⚡", "detail_level", "mem_search", "mem_get", "cursor"):
        assert word in INSTRUCTIONS
    for name in ALL:
        assert name in GUIDE or name in {"mem_stats", "context_pack", "sdd_get_context", "sdd_context_check"}
