"""The MCP server of a token: its tools, its metrics, and what it does not reveal."""

import pytest

import satchel
from satchel.errors import InputError, SatchelError, StoreBusyError
from satchel.server.http.access import Access, Caller
from satchel.server.http.mcp_endpoint import _counted, tools_for
from satchel.server.http.metrics import Metrics
from satchel.server.mcp.tool import Tool
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.specs.specs import Specs


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def context(bag: satchel.Satchel, tmp_path) -> ToolContext:
    return ToolContext(bag.scoped(org="acme"), Specs(tmp_path))


def tool(name: str, metrics: Metrics, access: Access = "write") -> Tool:
    return _counted(tools_for(Caller("1", access, "acme"))[name], metrics)


def test_a_reader_has_the_tools_that_change_nothing():
    reading = tools_for(Caller("1", "read", "acme"))
    writing = tools_for(Caller("1", "write", "acme"))
    assert {each.effect for each in reading.values()} == {"reads"}
    assert reading.items() < writing.items()
    assert {name for name in writing if name not in reading} == {
        "mem_save", "mem_save_many", "mem_update", "mem_forget", "mem_relate", "mem_session",
    }  # fmt: skip


def test_calls_and_their_tokens_are_counted_by_tool(context: ToolContext, metrics: Metrics):
    for number in range(5):
        tool("mem_save", metrics).call(context, {"text": f"quinces of row {number} are ripe in October"})
    answer = tool("mem_search", metrics).call(context, {"query": "quinces", "max_tokens": 90})
    with pytest.raises(InputError):
        tool("mem_get", metrics).call(context, {"ids": ["00000000"]})
    text = metrics.text()
    assert 'satchel_calls_total{operation="mcp.mem_save",outcome="ok"} 5' in text
    assert 'satchel_calls_total{operation="mcp.mem_get",outcome="error"} 1' in text
    assert 'satchel_tokens_asked_total{operation="mcp.mem_search"} 90' in text
    assert f'satchel_tokens_used_total{{operation="mcp.mem_search"}} {answer.data["token_count"]}' in text
    left = answer.data["omitted"]
    assert left > 0
    assert f'satchel_memories_omitted_total{{operation="mcp.mem_search"}} {left}' in text


def test_where_the_store_is_is_told_to_no_tenant(
    context: ToolContext, metrics: Metrics, monkeypatch: pytest.MonkeyPatch, caplog
):
    def fail(*_: object, **__: object) -> None:
        raise StoreBusyError("/srv/notes.db is held")

    monkeypatch.setattr(satchel.Satchel, "search", fail)
    with pytest.raises(SatchelError) as told:
        tool("mem_search", metrics).call(context, {"query": "quinces"})
    assert "/srv" not in str(told.value)
    assert "/srv/notes.db is held" in caplog.text
