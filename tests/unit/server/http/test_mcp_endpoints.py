"""The MCP server of a token: its tools, its metrics, pages of long answers, and what it does not reveal."""

import anyio
import pytest

import satchel
from satchel.errors import StoreBusyError
from satchel.server.http.access import Access, Caller
from satchel.server.http.mcp_endpoint import Methods
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import as_problem
from satchel.server.http.work import Done, McpCall, Work, tools_for
from satchel.server.jsonrpc import Message, RequestError


class Tools:
    """The tools of a token of the org acme."""

    def __init__(self, bag: satchel.Satchel, access: Access = "write") -> None:
        self.bag = bag
        self.metrics = Metrics()
        work = Work(bag, most_answer=1_000_000)

        async def run(call: McpCall) -> Done:
            return work.do(call)

        self.methods = Methods(Caller("1", access, "acme"), run, self.metrics)

    def call(self, name: str, **arguments: object) -> Message:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def ask(self, method: str, params: Message) -> Message:
        return anyio.run(self.methods.answer, method, params)


@pytest.fixture
def tools(bag: satchel.Satchel) -> Tools:
    return Tools(bag)


def text(result: Message) -> str:
    return str(result["content"][0]["text"])


def test_a_reader_has_the_tools_that_change_nothing():
    reading = tools_for(Caller("1", "read", "acme"))
    writing = tools_for(Caller("1", "write", "acme"))
    assert {each.effect for each in reading.values()} == {"reads"}
    assert reading.items() < writing.items()
    assert {name for name in writing if name not in reading} == {
        "mem_save", "mem_save_many", "mem_update", "mem_forget", "mem_relate", "mem_session",
    }  # fmt: skip


def test_a_reader_cannot_call_a_tool_that_writes(bag: satchel.Satchel):
    refused = Tools(bag, "read").call("mem_save", text="quinces")
    assert refused["isError"]
    assert text(refused).startswith("there is no tool 'mem_save'")
    assert bag.scoped(org="acme").stats().memories == 0


def test_calls_and_their_tokens_are_counted_by_tool(tools: Tools):
    for number in range(5):
        tools.call("mem_save", text=f"quinces of row {number} are ripe in October")
    answer = tools.call("mem_search", query="quinces", max_tokens=90)
    assert "of 5 relevant memories shown" in text(answer)
    assert tools.call("mem_get", ids=["00000000"])["isError"]
    counted = tools.metrics.text()
    assert 'satchel_calls_total{operation="mcp.mem_save",outcome="ok"} 5' in counted
    assert 'satchel_calls_total{operation="mcp.mem_get",outcome="error"} 1' in counted
    assert 'satchel_tokens_asked_total{operation="mcp.mem_search"} 90' in counted
    used = satchel.count_tokens(text(answer))
    assert f'satchel_tokens_used_total{{operation="mcp.mem_search"}} {used}' in counted
    assert 'satchel_memories_omitted_total{operation="mcp.mem_search"}' in counted


def test_the_rest_of_a_long_answer_is_kept_between_calls(tools: Tools):
    for number in range(40):
        tools.call("mem_save", text=f"{number}: {'quince ' * 900}")
    first = tools.call("mem_list", limit=40, detail_level="full")
    cursor = text(first).rpartition("cursor=")[2].split()[0]
    second = tools.call("mem_list", cursor=cursor)
    assert not second["isError"]
    assert text(second) != text(first)
    assert tools.call("mem_list", cursor="0123456789")["isError"]
    # A cursor belongs to its token.
    assert tools.call("mem_list", cursor=cursor) == second
    assert "not known to mem_list any more" in text(Tools(tools.bag).call("mem_list", cursor=cursor))


def test_where_the_store_is_is_told_to_no_tenant(tools: Tools, monkeypatch: pytest.MonkeyPatch, caplog):
    def fail(*_: object, **__: object) -> None:
        raise StoreBusyError("/srv/notes.db is held")

    monkeypatch.setattr(satchel.Satchel, "search", fail)
    told = tools.call("mem_search", query="quinces")
    assert told["isError"]
    assert "/srv" not in text(told)
    assert "/srv/notes.db is held" in caplog.text


def test_a_call_that_could_not_be_run_is_an_answer_of_a_tool_and_an_error_of_a_method():
    async def refuse(_: McpCall) -> Done:
        return Done(refusal=as_problem(StoreBusyError("/srv/notes.db is held")))

    methods = Methods(Caller("1", "read", "acme"), refuse, Metrics())
    failed = anyio.run(methods.answer, "tools/call", {"name": "mem_search", "arguments": {"query": "quinces"}})
    assert failed["isError"]
    assert text(failed) == "store busy; see the log of the service"
    with pytest.raises(RequestError, match="store busy; see the log"):
        anyio.run(methods.answer, "resources/list", {})
