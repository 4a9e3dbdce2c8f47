"""Coding agents use Satchel's MCP server as a scripted model tells them to; what the model is shown is checked."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import satchel
from clients.coding_clients import ClaudeCode, Codex, CodingClient, Played
from clients.model_stub import Call, Turn
from mcp_pipe import HELLO, Pipe
from satchel.text.tokens import count_tokens

QUESTION = "How often are signing keys rotated?"
SAVED = "Signing keys are rotated every 90 days by a scheduled job."
SAVED_BY_ANOTHER = "The harbour pilot boards at buoy four."
BUDGET = 800
# What a client adds to the parameters of a tool.
OWN_PARAMETERS = {"wait_for_previous"}
EMPTY = {"string": "", "integer": 0, "number": 0, "array": [], "boolean": False}


def found_id(turn: Turn) -> str:
    """The id in the first line of a search, as the model reads it."""
    found = re.search(r"\b([a-z2-7]{4,8}) \d+% \[", turn.results[-1])
    assert found, turn.results[-1]
    return found[1]


def one_memory(turn: Turn) -> dict[str, Any]:
    """The arguments of `mem_get`, whose parameter may take one id or several."""
    tool = turn.tool("mem_get")
    assert tool
    name = "id" if "id" in tool.schema["properties"] else "ids"
    several = tool.schema["properties"][name].get("type") == "array"
    return {name: [found_id(turn)] if several else found_id(turn), "max_tokens": 300}


def filled_in(turn: Turn, value: Callable[[dict[str, Any]], Any], *, checked: bool) -> dict[str, Any]:
    """A search with every optional parameter filled in, as strict schemas make a model do it.

    `value` makes the argument of the schema of a parameter. If the client checks arguments, those that the schema
    does not allow are left out.
    """
    tool = turn.tool("mem_search")
    assert tool
    arguments = {
        name: value(schema)
        for name, schema in tool.schema["properties"].items()
        if name not in OWN_PARAMETERS and not (checked and not allows(schema, value(schema)))
    }
    return arguments | {"query": QUESTION, "max_tokens": 300}


def allows(schema: dict[str, Any], value: Any) -> bool:
    return value in schema["enum"] if "enum" in schema else value is not None


def empty(schema: dict[str, Any]) -> Any:
    return EMPTY.get(schema.get("type", "string"))


def script(kind: type[CodingClient]) -> dict[str, Call]:
    """The calls of a conversation by name."""
    checked = kind.checks_arguments
    return {
        "save": Call("mem_save", {"text": SAVED, "title": "Key rotation", "kind": "decision", "tags": ["auth"]}),
        "search": Call("mem_search", {"query": QUESTION, "max_tokens": 300}),
        "get": Call("mem_get", one_memory),
        "context": Call("mem_context", {"query": QUESTION, "max_tokens": 400}),
        "search for another's": Call("mem_search", {"query": "Where does the pilot board?", "max_tokens": 300}),
        "wide search": Call("mem_search", {"query": "lighthouse 灯台", "limit": 50, "max_tokens": BUDGET}),
        "wide context": Call("mem_context", {"query": "lighthouse 灯台", "limit": 50, "max_tokens": BUDGET}),
        "own parameter": Call("mem_search", {"query": QUESTION, "max_tokens": 300, "wait_for_previous": True}),
        "unknown": Call("mem_save", {"text": "Staging is rebuilt on Mondays.", "content": "Staging"}),
        "misnamed": Call("mem_save", {"content": "Backups are kept for a month."}),
        "empty": Call("mem_search", lambda turn: filled_in(turn, empty, checked=checked)),
        "null": Call("mem_search", lambda turn: filled_in(turn, lambda schema: None, checked=checked)),
    }


class Conversation(NamedTuple):
    """One run of a client with the whole script, on a store with some notes."""

    client: CodingClient
    played: Played

    def result(self, step: str) -> str:
        """What the model was shown for a step of the script."""
        results = self.played.turn.results
        place = list(script(type(self.client))).index(step)
        assert place < len(results), f"only {len(results)} calls were answered\n{self.played.output}"
        return results[place]

    def parts(self, step: str) -> list[str]:
        return self.client.parts(self.result(step))


@pytest.fixture(scope="session")
def conversation(kind, npm, tmp_path_factory) -> Conversation:
    folder = tmp_path_factory.mktemp(kind.name)
    store = folder / "notes.db"
    with satchel.open(store) as bag:
        bag.add_many(satchel.Draft(text=text) for number in range(30) for text in notes(number))
    other = (Codex if kind is ClaudeCode else ClaudeCode)(npm, folder, store)
    other.install_satchel()
    other.play([Call("mem_save", {"text": SAVED_BY_ANOTHER, "title": "Pilot"})]).finished(1)
    client = kind(npm, folder, store)
    client.install_satchel()
    return Conversation(client, client.play(list(script(kind).values())))


def notes(number: int) -> tuple[str, str]:
    return (
        f'Lighthouse {number}: the keeper "{number}" counts ships, writes them down and reports at noon.',
        f"灯台{number}: 灯台守は毎晩{number}隻の船を数え、日誌に書き、翌朝に港へ報告する。",
    )


def test_all_calls_of_the_model_are_answered(conversation, kind):
    conversation.played.finished(len(script(kind)))


def test_a_memory_is_saved_found_read_and_packed(conversation):
    assert re.search(r"\bsaved\b", conversation.result("save"))
    for step in ("search", "get", "context"):
        assert SAVED in "\n".join(conversation.parts(step)), step


def test_a_memory_that_another_client_saved_is_found(conversation):
    assert SAVED_BY_ANOTHER in "\n".join(conversation.parts("search for another's"))


def test_what_the_model_is_shown_stays_within_max_tokens(conversation, record_property):
    for step in ("wide search", "wide context"):
        shown = "\n".join(conversation.parts(step))
        # Enough was found to fill it.
        assert BUDGET / 2 < count_tokens(shown) <= BUDGET, f"{step}: {count_tokens(shown)} tokens\n{shown}"
    whole = count_tokens(conversation.result("wide search"))
    ours = count_tokens("\n".join(conversation.parts("wide search")))
    cells = (f"{ours} tokens shown", f"{whole} with the client's own words")
    record_property("fact", (conversation.client.name, f"a search with max_tokens={BUDGET}", ", ".join(cells)))


def test_reads_are_shown_as_text_only(conversation):
    for step in ("search", "get", "context"):
        assert len(conversation.parts(step)) == 1, conversation.result(step)
        assert "structuredContent" not in conversation.result(step)


def test_a_parameter_of_the_clients_own_does_not_break_a_call(conversation):
    assert SAVED in "\n".join(conversation.parts("own parameter"))


def test_an_unknown_argument_gives_a_remark_and_the_call_succeeds(conversation):
    shown = conversation.result("unknown")
    assert re.search(r"ignored: .*content", shown), shown
    with satchel.open(conversation.client.store) as bag:
        assert any("rebuilt on Mondays" in hit.memory.text for hit in bag.search("When is staging rebuilt?"))


def test_a_misnamed_argument_gets_a_remark_with_the_right_name(conversation):
    expected = conversation.client.own_refusal or r"did you mean .?text|content was read as text"
    assert re.search(expected, conversation.result("misnamed")), conversation.result("misnamed")


def test_empty_optional_arguments_count_as_not_given(conversation):
    for step in ("empty", "null"):
        assert SAVED in "\n".join(conversation.parts(step)), conversation.result(step)


def test_the_client_leaves_no_process_of_satchel_behind(conversation):
    assert conversation.played.left == []


class Offer(NamedTuple):
    """What the server offers: its tools by name, and the first line of its instructions."""

    tools: dict[str, dict[str, Any]]
    instructions: str


@pytest.fixture(scope="session")
def offer(tmp_path_factory) -> Offer:
    with Pipe(tmp_path_factory.mktemp("server"), greets=False) as server:
        instructions = server.result(server.ask("initialize", HELLO))["instructions"].splitlines()[0]
        server.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        tools = server.result(server.ask("tools/list", {}))["tools"]
    return Offer({tool["name"]: tool for tool in tools}, instructions)


def test_all_tools_reach_the_model_with_their_parameters(kind, npm, tmp_path, offer, record_property):
    client = kind(npm, tmp_path, tmp_path / "notes.db")
    client.install_satchel()
    client.upfront = True
    played = client.play([Call("mem_stats", {})])
    tools = {name: tool for name in offer.tools if (tool := played.turn.tool(name))}
    assert tools.keys() == offer.tools.keys(), played.output
    for name, defined in offer.tools.items():
        schema, shown = defined["inputSchema"], tools[name].schema
        assert defined["description"] in tools[name].description
        assert shown["properties"].keys() - OWN_PARAMETERS == schema["properties"].keys(), name
        assert shown.get("required", []) == schema.get("required", []), name
        for parameter, value in schema["properties"].items():
            for keyword in ("type", "enum", "description", "items"):
                assert shown["properties"][parameter].get(keyword) == value.get(keyword), f"{name}.{parameter}"
    full_name = ".".join(filter(None, (tools["mem_save"].namespace, tools["mem_save"].name)))
    cost = sum(count_tokens(json.dumps([tool.name, tool.description, tool.schema])) for tool in tools.values())
    record_property("fact", (client.name, "name of a tool", f"`{full_name}`"))
    record_property("fact", (client.name, "tokens of all tool definitions", f"{cost:,}"))
    # Not every client passes the instructions on, so this is only recorded.
    passed_on = offer.instructions in played.turn.everything
    record_property("fact", (client.name, "passes on the server's instructions", "yes" if passed_on else "no"))
