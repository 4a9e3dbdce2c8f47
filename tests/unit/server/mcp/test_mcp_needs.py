""" "Nothing fitted" names the smallest budget that gives something; "Nothing matched" is a different answer."""

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from tool_contexts import ask, empty_context, varied_context

from read_back import footers
from satchel.server.mcp.tool_context import ToolContext

QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("mem_search", {"query": "key rotation"}),
    ("mem_search", {"query": "nightly backup", "detail_level": "full", "limit": 25}),
    ("mem_search", {"query": "記憶の予算", "detail_level": "summary"}),
    ("mem_context", {"query": "key rotation"}),
    ("mem_context", {"query": "token budget", "format": "raw", "detail_level": "standard"}),
    ("mem_context", {"query": "login form", "format": "markdown", "project": "atlas", "detail_level": "summary"}),
    ("mem_context", {}),
    ("mem_context", {"project": "航海", "detail_level": "full"}),
    ("mem_timeline", {"id": 100}),
    ("mem_timeline", {"id": 33, "detail_level": "summary"}),
    ("mem_get", {"id": [57, 58]}),
    ("mem_get", {"id": [3]}),
    ("mem_stats", {}),
    ("context_pack", {}),
    ("context_pack", {"query": "payment retries", "kind": "error"}),
    ("sdd_get_context", {}),
    ("sdd_get_context", {"detail_level": "standard"}),
    ("sdd_get_context", {"detail_level": "full", "stage": "design"}),
    ("sdd_context_check", {"change_description": "deploy day"}),
    ("sdd_context_check", {"change_description": "cache eviction", "detail_level": "summary"}),
]
LONG = "A memory that is told at length, and then at greater length still, until nobody listens any longer. " * 120


@pytest.fixture(scope="module")
def varied(tmp_path_factory) -> Iterator[tuple[ToolContext, list[str]]]:
    with varied_context(tmp_path_factory.mktemp("project")) as made:
        yield made


def shown_within(context: ToolContext, tool: str, budget: int, arguments: dict[str, Any]) -> int:
    answer = ask(context, tool, max_tokens=budget, **arguments)
    assert context.count(answer.text) <= budget
    shown: int = answer.data["included"]
    assert (shown == 0) == ("smallest_budget" in answer.data)
    return shown


def needed(context: ToolContext, tool: str, budget: int, arguments: dict[str, Any]) -> int:
    answer = ask(context, tool, max_tokens=budget, **arguments)
    need: int = answer.data["smallest_budget"]
    assert answer.data["omitted"] > 0
    if "Nothing fitted" in answer.text:
        assert f"Nothing fitted (needs at least {need:,} tokens)." in answer.text
    else:
        assert budget < 20
        assert re.fullmatch(r"(📏 ~\d+ tokens)?", answer.text)
    return need


@pytest.mark.parametrize(("tool", "asked"), QUESTIONS)
def test_what_is_needed_is_enough_and_one_token_less_is_not(varied, tool: str, asked: dict[str, Any]):
    context, ids = varied
    arguments = dict(asked)
    if isinstance(asked.get("id"), int):
        arguments["id"] = ids[asked["id"]]
    if isinstance(asked.get("id"), list):
        arguments["id"] = [ids[place] for place in asked["id"]]
    need = needed(context, tool, 1, arguments)
    assert shown_within(context, tool, need, arguments) > 0
    assert shown_within(context, tool, need - 1, arguments) == 0
    random = Random(need)
    for budget in (need - 1, *random.sample(range(1, need), 3)):
        assert needed(context, tool, budget, arguments) == need


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("mem_search", {"query": "memory", "detail_level": "full"}),
        ("context_pack", {}),
    ],
)
def test_a_need_of_thousands_has_room_for_its_own_number(tmp_path, tool: str, arguments: dict[str, Any]):
    with empty_context(tmp_path) as context:
        for number in range(3):
            ask(context, "mem_save", text=f"{number} {LONG} {number * 7}")
        need = needed(context, tool, 60, arguments)
        assert need > 1_000
        assert shown_within(context, tool, need, arguments) == 1
        assert shown_within(context, tool, need - 1, arguments) == 0


def test_what_is_shown_first_is_a_heading_and_not_a_piece_of_one(varied):
    context, ids = varied
    arguments = {"id": ids[100]}
    need = needed(context, "mem_timeline", 10, arguments)
    text = ask(context, "mem_timeline", max_tokens=need, **arguments).text
    heading = ask(context, "mem_timeline", **arguments, before=0, after=0).text.split("\n")[0]
    assert text.startswith(f"{heading}\n    ")


@pytest.mark.parametrize(
    ("tool", "arguments", "remark"),
    [
        ("mem_search", {"query": "anything"}, "Nothing matched."),
        ("mem_context", {"query": "anything"}, "Nothing matched."),
        ("mem_context", {}, "Nothing is remembered here yet."),
        ("context_pack", {}, "Nothing matched."),
        ("sdd_get_context", {}, "No spec artifacts here."),
        ("sdd_context_check", {"change_description": "anything"}, "Nothing here is related to this change."),
    ],
)
def test_where_there_is_nothing_no_budget_helps_and_none_is_named(tmp_path, tool, arguments, remark):
    with empty_context(tmp_path) as context:
        for budget in (None, 30, 5, 1):
            answer = ask(context, tool, max_tokens=budget, **arguments)
            assert "smallest_budget" not in answer.data
            assert (answer.data["included"], answer.data["omitted"]) == (0, 0)
            assert answer.text == "" or footers(answer.text).budget is None
            assert budget is None or context.count(answer.text) <= budget
            assert answer.text.startswith(remark) == (budget not in (5, 1))
