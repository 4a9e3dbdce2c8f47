"""Arguments are parsed leniently where models are careless, and rejected in one clear line where they are wrong."""

from collections.abc import Iterator
from reprlib import repr as shortened
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_contexts import ask, empty_context

from satchel.errors import BudgetError, InputError, SatchelError
from satchel.server.mcp.catalog import TOOLS
from satchel.server.mcp.tool_context import ToolContext
from tables import each_row

READING = sorted(name for name, tool in TOOLS.items() if tool.effect == "reads")
NEEDED: dict[str, Any] = {
    "query": "rotation",
    "memories": [{"text": "Keys rotate."}],
    "id": "01a1e41f",
    "change_description": "rotation",
    "text": "Keys rotate.",
    "target": "01a1e41f",
    "action": "start",
}
"""Something for each argument that some tool needs."""


@pytest.fixture(scope="module")
def context(tmp_path_factory) -> Iterator[ToolContext]:
    with empty_context(tmp_path_factory.mktemp("project")) as context:
        for number in range(12):
            context.bag.add(f"Keys rotate every {number} hours.", tags=["auth", f"t{number}"])
        yield context


def read(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the arguments add to what the tool gets without them, by their Python names."""
    with_them, without = _seen(tool, needed_by(tool) | arguments), _seen(tool, needed_by(tool))
    return {name: value for name, value in with_them.items() if name not in without or value != without[name]}


def _seen(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []
    TOOLS[tool]._replace(work=lambda context, given: seen.append(given)).call(None, arguments)
    return seen[0]


def needed_by(tool: str) -> dict[str, Any]:
    return {name: NEEDED[name] for name in TOOLS[tool].required}


def refusal(tool: str, arguments: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        read(tool, arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert 10 < len(message) < 300
    return message


@each_row("tool", READING)
def test_token_budget_is_another_name_of_max_tokens(tool: str):
    assert read(tool, {"token_budget": 70}) == read(tool, {"max_tokens": 70}) == {"token_budget": 70}


def test_token_budget_binds_as_max_tokens_does(context: ToolContext):
    one, other = (
        ask(context, "mem_search", query="rotate", **{name: 99}) for name in ("token_budget", "max_tokens")
    )
    assert one == other
    assert 50 < context.count(one.text) <= 99


def test_both_names_of_the_budget_are_taken_where_they_agree_and_refused_where_not():
    assert read("mem_get", {"max_tokens": 70, "token_budget": 70.0}) == {"token_budget": 70}
    assert read("mem_get", {"max_tokens": "70", "token_budget": 70}) == {"token_budget": 70}
    assert read("mem_get", {"max_tokens": 70, "token_budget": None}) == {"token_budget": 70}
    assert "two names of one thing" in refusal("mem_get", {"max_tokens": 70, "token_budget": 71})


@pytest.mark.parametrize(("given", "meant"), [(70, 70), (70.0, 70), ("70", 70), (" 70 ", 70)])
def test_a_whole_number_is_taken_in_any_form(given: object, meant: int):
    assert read("mem_stats", {"max_tokens": given}) == {"token_budget": meant}


@each_row("given", [-1, 1.5, "many", True, [1], {}, float("inf"), float("nan"), 10**30, "9" * 5_000])
def test_a_budget_that_is_none_is_refused_by_its_value(given: object):
    message = refusal("mem_stats", {"max_tokens": given})
    assert "token" in message
    with pytest.raises(BudgetError):
        read("mem_stats", {"token_budget": given})


@each_row("given", [-1, 10_001, 2.5, "few", True, [3], 10**30])
def test_a_limit_out_of_range_is_refused_by_its_value(given: object):
    assert refusal("mem_search", {"limit": given}).startswith("limit ")


def test_limits_are_taken_in_any_form_and_before_and_after_may_be_none_at_all():
    assert read("mem_search", {"limit": "3"}) == {"limit": 3}
    assert read("mem_timeline", {"before": 0, "after": 2.0}) == {"before": 0, "after": 2}


@each_row("tool", sorted(TOOLS))
def test_null_is_as_good_as_left_out(tool: str):
    assert read(tool, dict.fromkeys(set(TOOLS[tool].parameters) - set(TOOLS[tool].required))) == {}
    assert read(tool, {"no_such_thing": None}) == {}


@each_row(("tool", "name"), [(name, each) for name, tool in TOOLS.items() for each in tool.required])
def test_what_is_needed_is_asked_for_by_name(tool: str, name: str):
    arguments = {each: value for each, value in needed_by(tool).items() if each != name}
    with pytest.raises(InputError, match=f"^{tool} needs {name}$"):
        TOOLS[tool].call(None, arguments)
    with pytest.raises(InputError, match=f"^{tool} needs {name}$"):
        TOOLS[tool].call(None, arguments | {name: None})


@pytest.mark.parametrize("given", [["auth", "t3"], '["auth", "t3"]', ' ["auth","t3"]'], ids=shortened)
def test_a_list_may_arrive_as_its_json(context: ToolContext, given: object):
    assert read("mem_save", {"tags": given}) == {"tags": ["auth", "t3"]}
    assert ask(context, "mem_search", query="rotate", tags=given).data["included"] == 1


def test_one_name_needs_no_list():
    assert read("mem_save", {"tags": "auth"}) == {"tags": ["auth"]}


@each_row(
    "given",
    [7, {"a": 1}, [1], ["a", None], [["a"]], "[1]", "[broken", "[" * 5_000, ["x" * 20_000], ["x"] * 20_000],
)
def test_a_list_of_something_else_is_refused(given: object):
    assert refusal("mem_save", {"tags": given}).startswith("tags ")


@pytest.mark.parametrize("given", [7, True, ["a"], {"a": "b"}, "x" * 20_000, {}], ids=shortened)
def test_a_line_that_is_none_is_refused(given: object):
    assert refusal("mem_search", {"query": given}).startswith("query ")


def test_a_text_may_be_long_but_not_endless():
    assert read("mem_save", {"text": "x" * 1_000_000})["text"] == "x" * 1_000_000
    assert refusal("mem_save", {"text": "x" * 4_000_001}) == "text has 4,000,001 characters; the most is 4,000,000"


@pytest.mark.parametrize(
    ("tool", "name", "given"),
    [
        ("mem_search", "detail_level", "everything"),
        ("mem_context", "format", "xml"),
        ("mem_save", "kind", "idea"),
        ("mem_save", "tier", ["working"]),
        ("mem_relate", "kind", 3),
        ("mem_session", "action", "pause"),
    ],
)
def test_a_choice_that_is_not_offered_is_refused_with_those_that_are(tool: str, name: str, given: object):
    offered = TOOLS[tool].parameters[name].schema["enum"]
    message = refusal(tool, {name: given})
    assert message.startswith(f"unknown {name} ")
    assert message.endswith(f"known: {', '.join(offered)}")


@pytest.mark.parametrize("given", ["yes", 1, "true", [1]], ids=shortened)
def test_a_flag_is_true_or_false(given: object):
    assert refusal("mem_forget", {"purge": given}).startswith("purge must be true or false, not ")


@pytest.mark.parametrize("given", [-0.1, 1.1, "high", True, float("nan"), [0.5], 10**400], ids=shortened)
def test_an_importance_lies_between_nothing_and_one(given: object):
    assert refusal("mem_save", {"importance": given}).startswith("importance ")


def test_a_cursor_says_all_that_would_be_needed_else():
    assert _seen("mem_search", {"cursor": "c0ffee"})["cursor"] == "c0ffee"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(READING), st.data())
def test_whatever_a_tool_that_reads_is_given_it_answers_or_says_what_is_wrong(context, tool, data):
    names = st.sampled_from([*TOOLS[tool].parameters, "token_budget", "zzz"])
    arguments = data.draw(st.dictionaries(names, values, max_size=4))
    try:
        answer = TOOLS[tool].call(context, needed_by(tool) | arguments)
    except SatchelError:
        return
    assert answer.most is not None
    assert context.count(answer.text) <= answer.most
