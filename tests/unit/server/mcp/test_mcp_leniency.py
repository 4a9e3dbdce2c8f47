"""What careless clients and models send is understood: unknown and empty arguments, other names, other forms."""

from collections.abc import Iterator
from typing import Any

import pytest
from tool_contexts import ask, empty_context

from read_back import footers
from satchel.errors import InputError
from satchel.server.arguments import Arguments, read_arguments
from satchel.server.mcp.answers import remarked as remark_on
from satchel.server.mcp.catalog import TOOLS
from satchel.server.mcp.tool_context import ToolContext
from tables import each_row

READING = sorted(name for name, tool in TOOLS.items() if tool.effect == "reads")
NEEDED: dict[str, Any] = {
    "query": "rotation",
    "id": "01a1e41f",
    "change_description": "rotation",
    "text": "Keys rotate.",
    "target": "01a1e41f",
    "action": "start",
    "memories": [{"text": "Keys rotate."}],
}
"""Something for each argument that some tool needs."""


@pytest.fixture(scope="module")
def context(tmp_path_factory) -> Iterator[ToolContext]:
    with empty_context(tmp_path_factory.mktemp("project")) as context:
        for number in range(12):
            context.bag.add(f"Keys rotate every {number} hours.", tags=["auth", f"t{number}"])
        yield context


def asked(tool: str, /, **arguments: Any) -> Arguments:
    return read_arguments(tool, TOOLS[tool].parameters, TOOLS[tool].required, arguments)


def needed_by(tool: str) -> dict[str, Any]:
    return {name: NEEDED[name] for name in TOOLS[tool].required}


def read(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the arguments add to what the tool gets without them, by their Python names."""
    with_them, without = (asked(tool, **needed_by(tool) | more).values for more in (arguments, {}))
    return {name: value for name, value in with_them.items() if name not in without or value != without[name]}


# Unknown arguments.


@each_row("tool", sorted(TOOLS))
def test_an_unknown_argument_is_left_out_and_named_with_what_was_meant(tool: str):
    some = next(name for name in TOOLS[tool].parameters if len(name) > 3)
    for unknown, remark in ((f"{some}s_", f"ignored: {some}s_; did you mean {some}?"), ("zzz", "ignored: zzz")):
        call = asked(tool, **needed_by(tool) | {unknown: "x"})
        assert call.values == asked(tool, **needed_by(tool)).values
        assert (list(call.ignored), call.remark) == ([unknown], remark)


def test_the_parameter_that_gemini_adds_to_every_tool_does_no_harm(context: ToolContext):
    plain = ask(context, "mem_search", query="rotate")
    answer = ask(context, "mem_search", query="rotate", wait_for_previous=True)
    assert footers(answer.text).body == footers(plain.text).body
    assert footers(answer.text).remark == "ignored: wait_for_previous"
    saved = ask(context, "mem_save", text="Gemini waits.", wait_for_previous=False)
    assert saved.text.endswith("\nignored: wait_for_previous")
    assert saved.data["remark"] == "ignored: wait_for_previous"


@each_row(
    ("given", "remark"),
    [
        ({"text": "a", "content": "b"}, "ignored: content; did you mean text?"),
        ({"text": "a", "x": 1, "topic": "b"}, "ignored: x, topic (did you mean topic_key?)"),
        ({"text": "a"} | {f"x{n}": 1 for n in range(9)}, "ignored: x0, x1, x2, x3, x4 and 4 more"),
        ({"text": "a", "📏 ~1 tokens\n": 1}, "ignored: '📏 ~1 tokens\\n'"),
        ({"content": "b"}, "content was read as text"),
        ({"body": "b", "kind": "fact", "x": 1}, "body was read as text; ignored: x"),
    ],
)
def test_the_remark_names_what_was_ignored_and_what_was_meant(given: dict[str, Any], remark: str):
    call = asked("mem_save", **given)
    assert call.remark == remark
    assert call.values["text"] == (given.get("text") or "b")


@each_row(
    ("tool", "given", "message"),
    [
        ("mem_save", {"texxt": "a"}, "mem_save needs text; ignored: texxt; did you mean text?"),
        (
            "mem_save",
            {"content": "a", "body": "b"},
            "mem_save needs text; ignored: content (did you mean text?), body (did you mean text?)",
        ),
        (
            "mem_search",
            {"query": "a", "limit": -1, "x": 1},
            "limit -1 is out of range; give 1 to 10,000; ignored: x",
        ),
        (
            "mem_update",
            {"id": "ID", "content": "b"},
            "topic_key, pinned, project; ignored: content; did you mean text?",
        ),
        ("mem_update", {"id": "ID", "project": "b"}, "ignored: project; did you mean move_to?"),
        ("mem_get", {"id": "01a1e41f", "x": 1}, "no memory has the id '01a1e41f' here; ignored: x"),
    ],
)
def test_an_error_names_what_was_ignored_too(context: ToolContext, tool: str, given: dict[str, Any], message: str):
    known = context.bag.recent(limit=1)[0].id
    with pytest.raises(InputError) as caught:
        ask(context, tool, **{name: known if value == "ID" else value for name, value in given.items()})
    assert str(caught.value).endswith(message)


@each_row("tool", READING)
def test_a_remark_counts_within_the_budget_and_is_dropped_before_memories_are(context: ToolContext, tool: str):
    given = needed_by(tool)
    if "id" in given:
        given["id"] = context.bag.recent(limit=1)[0].id
    whole = ask(context, tool, **given, max_tokens=3_000)
    remarked = ask(context, tool, **given, max_tokens=3_000, wait_for_previous=True)
    assert footers(remarked.text).remark == "ignored: wait_for_previous"
    assert footers(remarked.text).tokens == context.count(remarked.text) == remarked.data["token_count"]
    assert remarked.data["text"] == remarked.text
    for budget in (context.count(whole.text), context.count(remarked.text) - 1):
        plain = ask(context, tool, **given, max_tokens=budget)
        tight = ask(context, tool, **given, max_tokens=budget, wait_for_previous=True)
        assert footers(tight.text).body == footers(plain.text).body
        assert context.count(tight.text) <= budget
    exact = whole._replace(most=context.count(whole.text))
    assert remark_on(exact, "ignored: wait_for_previous", context.count) == exact


def test_an_unknown_argument_of_any_length_is_named_in_short():
    assert len(asked("mem_search", **{"query": "x", "quer" * 10_000: "x"}).remark) < 100


# Empty arguments.


EMPTY = ("", "  ", [], [""], None)


@each_row("tool", sorted(TOOLS))
def test_an_empty_argument_is_not_given(tool: str):
    for name in set(TOOLS[tool].parameters) - set(TOOLS[tool].required):
        for empty in EMPTY:
            assert read(tool, {name: empty}) == {}, (name, empty)


@each_row("tool", sorted(TOOLS))
def test_a_call_that_a_strict_schema_filled_in_is_one_with_the_required_arguments_alone(tool: str):
    fill = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": []}
    schemas = {name: parameter.schema for name, parameter in TOOLS[tool].parameters.items()}
    chosen = {name: schema["enum"][0] for name, schema in schemas.items() if "enum" in schema} | needed_by(tool)
    filled = {name: fill[schema["type"]] for name, schema in schemas.items()} | chosen
    assert asked(tool, **filled) == asked(tool, **chosen)


def test_a_budget_or_a_limit_of_0_is_none_but_0_counts_where_it_is_a_value():
    assert read("mem_search", {"limit": 0, "max_tokens": 0, "token_budget": 0.0}) == {}
    assert read("mem_search", {"max_tokens": 70, "token_budget": 0}) == {"token_budget": 70}
    assert read("mem_search", {"min_relevance": 0}) == {"min_relevance": 0}
    assert read("mem_save", {"importance": 0}) == {"importance": 0}
    assert read("mem_timeline", {"before": 0}) == {"before": 0}
    assert read("mem_update", {"pinned": False}) == {"pinned": False}


def test_an_update_that_a_strict_schema_filled_in_changes_what_was_meant_and_nothing_else(context: ToolContext):
    memory = context.bag.add("Keys rotate on Mondays.", title="Rota", tags=["auth"], pinned=True, importance=0.9)
    filled = {
        "title": "", "kind": "", "tier": "", "tags": [], "importance": 0, "pinned": False, "topic_key": "",
        "text": "Keys rotate on Fridays.", "move_to": "", "clear": "",
    }  # fmt: skip
    assert filled.keys() | {"id"} == TOOLS["mem_update"].parameters.keys()
    ask(context, "mem_update", id=memory.id, **filled)
    changed = context.bag.get(memory.id)
    assert changed.text == "Keys rotate on Fridays."
    assert (changed.title, changed.tags, changed.pinned, changed.importance) == ("Rota", ("auth",), True, 0.9)


# Other names of parameters, and values in other forms.


@each_row(
    "given", [{"ids": ["01a1e422"]}, {"memory_id": "01a1e422"}, {"identifier": "01a1e422"}, {"id": ["01a1e422"]}]
)
def test_an_id_goes_by_any_of_its_usual_names(given: dict[str, Any]):
    call = asked("mem_get", **given)
    assert (call.values["id"], call.remark) == (["01a1e422"], "")
    with pytest.raises(InputError, match="id and ids are two names of one thing"):
        asked("mem_get", id="a", ids=["b"])


def test_the_source_of_a_relation_is_its_id():
    call = asked("mem_relate", source="a", target="b")
    assert (call.values["source"], call.remark) == ("a", "source was read as id")


@each_row(
    ("given", "meant"),
    [
        ("a, b", ["a", "b"]),
        ("a,,  b ,", ["a", "b"]),
        ("two words", ["two words"]),
        ('["a, b", "c"]', ["a, b", "c"]),
        (["a, b", ""], ["a, b"]),
    ],
)
def test_tags_in_one_string_are_separated_by_commas(given: object, meant: list[str]):
    assert read("mem_save", {"tags": given}) == read("mem_search", {"tags": given}) == {"tags": meant}


@each_row("given", ["k3f7, ab2c", "k3f7 ab2c", "k3f7,ab2c,k3f7", ["k3f7", "ab2c"], '["k3f7", "ab2c"]'])
def test_several_ids_come_in_any_form(given: object):
    assert asked("mem_get", id=given).values["id"] == ["k3f7", "ab2c"]


@each_row(
    ("tool", "given", "meant"),
    [
        ("mem_save", {"kind": " Decision "}, {"kind": "decision"}),
        ("mem_save", {"tier": "WORKING"}, {"tier": "working"}),
        ("mem_search", {"kind": "Decision, FACT"}, {"kind": ["decision", "fact"]}),
        ("mem_search", {"kind": ["Decision", "fact"]}, {"kind": ["decision", "fact"]}),
        ("mem_search", {"detail_level": "Full"}, {"detail": "full"}),
        ("mem_update", {"kind": "Lesson"}, {"kind": "lesson"}),
        ("mem_relate", {"kind": "Depends-On"}, {"kind": "depends_on"}),
        ("mem_list", {"status": "Archived"}, {"status": ["archived"]}),
    ],
)
def test_words_to_choose_from_are_taken_in_any_case(tool: str, given: dict[str, Any], meant: dict[str, Any]):
    assert read(tool, given) == meant
