"""Every tool, prompt and resource with the official client, a real process and real pipes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp
import mcp_types as types
import pytest
from mcp_client import Connection, connected

import satchel
from read_back import footers
from satchel import count_tokens
from satchel.model.ids import short_id
from satchel.server.mcp.catalog import MEMORY_TOOLS, TOOLS

SPEC = "# Design\n\n## Keys\n\nKeys rotate every hour.\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made: Path = tmp_path_factory.mktemp("project")
    (made / "docs").mkdir()
    (made / "docs" / "design.md").write_text(SPEC)
    with satchel.open(made / "notes.db") as bag:
        bag.add("Keys rotate every hour.", title="Rotation", project="atlas")
        bag.add("Keys rotate once a year.", title="Slow rotation", project="boreal")
        for colour in ("red", "green"):
            bag.add(f"A {colour} lantern hangs here.", project="quiet")
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Connection]:
    with connected(folder, "--structured") as connection:
        yield connection
        assert connection.errors == ""


@pytest.fixture(scope="module")
def fenced(folder: Path) -> Iterator[Connection]:
    """Inside one project, with few tools and short pages."""
    with connected(folder, "--project", "atlas", "--most-tokens", "300") as connection:
        yield connection
        assert connection.errors == ""


def test_tools_are_listed_with_their_annotations_as_they_are_defined(server: Connection):
    listed = server.ask("list_tools").tools
    assert [tool.name for tool in listed] == list(TOOLS)
    for tool in listed:
        hints = TOOLS[tool.name].definition["annotations"]
        assert tool.annotations.model_dump(by_alias=True, exclude_none=True) == hints
        assert tool.input_schema == TOOLS[tool.name].definition["inputSchema"]
        assert tool.description == TOOLS[tool.name].about


def test_what_every_conversation_begins_with_costs_at_most_2900_tokens(server: Connection):
    listed = server.ask("list_tools").model_dump_json(by_alias=True, exclude_none=True)
    assert count_tokens(listed) + count_tokens(server.client.instructions) <= 2_900
    assert "## Context budget" in server.client.instructions


def test_each_tool_does_its_work_in_the_course_of_a_session(server: Connection):
    started = server.call("mem_session", action="start", session="s1", project="atlas", summary="Mend the clock.")
    assert started.text == "started session s1; what is saved from now on belongs to it"
    bug = server.call("mem_save", text="The clock stops at noon.", kind="error", title="Noon").data["id"]
    fix = server.call("mem_save", text="Wind it at eleven.", title="Eleven", relate_to=[f"fixes:{bug}"]).data["id"]

    assert "    The clock stops at noon.\n" in server.call("mem_search", query="clock at noon").text
    read = re.match(
        r"([a-z2-7]+) \[observation] Eleven \(.*\)\n→ fixes ([a-z2-7]+)\n    Wind it at eleven.\n",
        server.call("mem_get", id=[fix]).text,
    )
    assert read is not None
    assert [short_id(each, [], least=len(read[1])) for each in (fix, bug)] == [*read.groups()]
    line = server.call("mem_timeline", id=fix, detail_level="summary").text
    assert re.findall(r"] (.*) \(", line) == ["Session s1", "Noon", "Eleven"]

    assert "Noon" in server.call("mem_list", kind="Error").text
    assert server.call("mem_save_many", memories=["One.", "Other."], project="boreal").text.startswith(
        "saved 2 memor"
    )
    assert server.call("mem_update", id=bug, importance=0.9).data["revision"] == 2
    assert server.call("mem_relate", id=fix, target=bug, kind="caused_by").data == {
        "source": fix,
        "kind": "caused_by",
        "target": bug,
    }
    assert "clock stops" in server.call("mem_context", query="why does the clock stop?").text
    assert "## Sessions\n" in server.call("mem_context").text
    assert server.call("context_pack", project="atlas").text.startswith("# Project Context: atlas (")
    assert "\natlas: " in server.call("mem_stats").text
    assert "design          present" in server.call("sdd_get_context").text
    assert "docs/design.md#Design > Keys" in server.call("sdd_context_check", change_description="rotate keys").text

    forgotten = server.call("mem_forget", id=[bug])
    assert forgotten.text == f"forgot 1 memory; undo: mem_forget(undo={forgotten.data['undo']})"
    assert server.call("mem_forget", undo=forgotten.data["undo"]).text == "restored 1 memory"
    assert server.call("mem_forget", kind="error", project="atlas", confirm=1).data["count"] == 1
    assert "Noon" not in server.call("mem_search", query="clock at noon", project="atlas").text
    assert server.call("mem_session", action="end", summary="It goes.").data["id"] == started.data["id"]
    outside = server.call("mem_save", text="Of no session.").data["id"]
    assert server.call("mem_timeline", id=outside, before=0, after=0).data["included"] == 1


def test_an_answer_comes_as_text_for_a_model_and_as_data_for_a_program(server: Connection):
    asked = {"query": "lantern", "project": "quiet"}
    reply = server.call("mem_search", **asked, max_tokens=1_000)
    assert reply.data == {"text": reply.text, "token_count": count_tokens(reply.text), "included": 2, "omitted": 0}
    tight = server.call("mem_search", **asked, max_tokens=2 * count_tokens(reply.text))
    assert tight.data is None, "twice would be more than was allowed"
    assert tight.text.partition("📏")[0] == reply.text.partition("📏")[0]
    saved = server.call("mem_save", text="The token is ghp_0123456789abcdefghijABCDEFGHIJ012345.")
    assert saved.text.endswith(f"masked: {', '.join(saved.data['masked'])}")


def test_what_is_wrong_is_said_in_one_line(server: Connection):
    for tool, arguments, said in (
        ("mem_search", {}, "mem_search needs query"),
        ("mem_search", {"max_tokn": 5}, "mem_search needs query; ignored: max_tokn; did you mean max_tokens?"),
        ("mem_search", {"query": "x", "max_tokens": -1}, "token budget -1 is negative; give 0 or more"),
        (
            "mem_search",
            {"query": "x", "max_tokens": 5, "token_budget": 6},
            "max_tokens and token_budget are two names ",
        ),
        ("mem_get", {"id": ["01a1e41f"]}, "no memory has the id '01a1e41f' here"),
        (
            "mem_get",
            {"cursor": "0123456789"},
            "the cursor '0123456789' is not known to mem_get any more; ask again ",
        ),
        ("mem_save", {"text": "x", "relate_to": "01a1e41f"}, "no memory has the id '01a1e41f' here"),
        ("mem_remember", {}, "there is no tool 'mem_remember'; there are: mem_save, "),
    ):
        assert server.refusal(tool, **arguments).startswith(said)
    assert "saved" in server.call("mem_save", text="It still works.", importance=1, tags='["a"]').text


def test_the_guide_is_a_prompt(server: Connection):
    (prompt,) = server.ask("list_prompts").prompts
    assert prompt.name == "memory-guide"
    (message,) = server.ask("get_prompt", "memory-guide").messages
    assert (message.role, message.content.text.split("\n")[0]) == ("user", "# Working with memory")
    with pytest.raises(mcp.MCPError, match="there is no prompt 'nothing'; there is memory-guide"):
        server.ask("get_prompt", "nothing")


def test_the_guide_names_a_project_if_it_is_given_one(server: Connection):
    (prompt,) = server.ask("list_prompts").prompts
    assert [(each.name, each.required) for each in prompt.arguments] == [("project", False)]
    (message,) = server.ask("get_prompt", "memory-guide", {"project": 'at"las\n## Other'}).messages
    assert message.content.text.endswith('Give `project="at\\"las\\n## Other"` in every call.\n')
    with pytest.raises(mcp.MCPError, match="project has 3,000 characters"):
        server.ask("get_prompt", "memory-guide", {"project": "x" * 3_000})


def test_projects_are_completed_for_the_prompt_and_for_packs(server: Connection, fenced: Connection):
    assert server.client.server_capabilities.completions is not None
    pack = types.ResourceTemplateReference(uri="satchel://pack/{project}")
    guide = types.PromptReference(name="memory-guide")

    def completed(asked: Connection, ref: Any, written: str, name: str = "project") -> list[str]:
        found = asked.ask("complete", ref, {"name": name, "value": written}).completion
        assert (found.total, found.has_more) == (len(found.values), False)
        return found.values

    for ref in (pack, guide):
        assert sorted(completed(server, ref, "")) == ["atlas", "boreal", "quiet"]
        assert completed(server, ref, "AT") == ["atlas"]
        assert completed(server, ref, "qui") == ["quiet"]
        assert completed(server, ref, "zebra") == []
        # A server of one project knows no other.
        assert completed(fenced, ref, "") == ["atlas"]
        assert completed(fenced, ref, "bor") == []
    assert completed(server, types.ResourceTemplateReference(uri="satchel://memory/{id}"), "0", "id") == []
    assert completed(server, guide, "a", "unknown") == []
    for ref in (types.PromptReference(name="other"), types.ResourceTemplateReference(uri="satchel://x/{y}")):
        with pytest.raises(mcp.MCPError, match=r"there are: memory-guide, satchel://memory/\{id\}, "):
            completed(server, ref, "")


def test_packs_and_memories_are_resources(server: Connection):
    listed = {str(each.uri) for each in server.ask("list_resources").resources}
    assert listed == {f"satchel://pack/{name}" for name in ("atlas", "boreal", "quiet")}
    templates = server.ask("list_resource_templates").resource_templates
    assert [each.uri_template for each in templates] == ["satchel://pack/{project}", "satchel://memory/{id}"]
    (pack,) = server.ask("read_resource", "satchel://pack/quiet").contents
    assert pack.text.startswith("# Project Context: quiet (2 memories, ")
    assert footers(pack.text).tokens == count_tokens(pack.text)
    identifier = server.call("mem_save", text="To be attached.").data["id"]
    (memory,) = server.ask("read_resource", f"satchel://memory/{identifier}").contents
    assert "    To be attached.\n" in memory.text
    with pytest.raises(mcp.MCPError, match="there is no resource 'satchel://secret/x'") as refused:
        server.ask("read_resource", "satchel://secret/x")
    assert refused.value.error.data == {"uri": "satchel://secret/x"}


def test_a_server_of_a_project_sees_and_writes_nothing_beyond_it(server: Connection, fenced: Connection):
    beyond = server.call("mem_save", text="The harbour freezes in May.", project="boreal").data["id"]
    for tool, arguments in (
        ("mem_search", {"query": "harbour freezes"}),
        ("mem_context", {"query": "harbour freezes"}),
        ("mem_context", {}),
        ("context_pack", {}),
        ("mem_stats", {}),
        ("sdd_context_check", {"change_description": "the harbour freezes"}),
    ):
        text = fenced.call(tool, **arguments).text
        assert "freezes" not in text
        assert "boreal" not in text
    for tool, arguments in (
        ("mem_get", {"id": [beyond]}),
        ("mem_timeline", {"id": beyond}),
        ("mem_update", {"id": beyond, "text": "x"}),
        ("mem_forget", {"id": [beyond], "purge": True}),
        ("mem_save", {"text": "x", "relate_to": beyond}),
    ):
        assert fenced.refusal(tool, **arguments) == f"no memory has the id '{beyond}' here"
    for tool, arguments in (
        ("mem_save", {"text": "x"}),
        ("mem_search", {"query": "x"}),
        ("mem_session", {"action": "start"}),
    ):
        refused = fenced.refusal(tool, **arguments, project="boreal")
        assert refused == "project 'boreal' is outside this view, which is project 'atlas'"
    assert [str(each.uri) for each in fenced.ask("list_resources").resources] == ["satchel://pack/atlas"]
    with pytest.raises(mcp.MCPError, match="outside this view"):
        fenced.ask("read_resource", "satchel://pack/boreal")
    inside = fenced.call("mem_save", text="The harbour is open.").data["id"]
    assert "(20" in (line := server.call("mem_get", id=[inside]).text.split("\n")[0])
    assert line.endswith(", atlas)")


def test_the_servers_own_limit_gives_pages_and_a_larger_budget_all_at_once(fenced: Connection):
    text = "A story that goes on and on. " * 200
    identifier = fenced.call("mem_save", text=text).data["id"]
    reply = fenced.call("mem_get", id=[identifier])
    pages = []
    while True:
        told = footers(reply.text)
        assert told.tokens == count_tokens(reply.text) <= 300
        pages.append(re.search(r"(?m)^    (.*)$", told.body)[1])
        if told.cursor is None:
            break
        assert reply.data is None or reply.data["cursor"] == told.cursor
        reply = fenced.call("mem_get", cursor=told.cursor)
    assert len(pages) > 4
    assert "".join(page.removesuffix(" …") for page in pages) == text.strip()
    assert text.strip() in fenced.call("mem_get", id=[identifier], max_tokens=5_000).text


def test_without_spec_documents_their_tools_are_not_offered(tmp_path: Path):
    with connected(tmp_path) as connection:
        assert [tool.name for tool in connection.ask("list_tools").tools] == list(MEMORY_TOOLS)
        assert connection.refusal("sdd_get_context").startswith("there is no tool 'sdd_get_context'")


def test_the_core_has_four_tools_that_cost_at_most_1100_tokens(folder: Path):
    """Over the handshake that older clients begin with."""
    with connected(folder, "--tools", "core", mode="legacy") as connection:
        listed = connection.ask("list_tools")
        assert [tool.name for tool in listed.tools] == ["mem_save", "mem_search", "mem_context", "mem_get"]
        said = listed.model_dump_json(by_alias=True, exclude_none=True) + connection.client.instructions
        assert count_tokens(said) <= 1_100
        assert connection.refusal("mem_stats").startswith("there is no tool 'mem_stats'; there are: mem_save, ")
        assert "Keys rotate every hour." in connection.call("mem_search", query="rotation").text
        assert connection.errors == ""


def test_a_save_names_what_it_may_replace_inside_its_project_only(server: Connection):
    old = server.call("mem_save", text="Our CI runs on Jenkins.", project="similar").data["id"]
    elsewhere = server.call("mem_save", text="Our CI runs on Jenkins.", project="similar-too")
    assert "similar" not in elsewhere.data
    new = server.call("mem_save", text="We moved CI from Jenkins to GitHub Actions.", project="similar")
    (named,) = new.data["similar"]
    assert named["id"] == short_id(old, [], least=len(named["id"]))
    assert named["headline"] == "Our CI runs on Jenkins."
    assert f"\n{named['id']} {named['at']} Our CI runs on Jenkins." in new.text
    assert count_tokens(new.text.partition("\n")[2]) <= 100
    server.call("mem_relate", id=new.data["id"], target=named["id"], kind="supersedes")
    again = server.call("mem_save", text="CI runs on GitHub Actions, not Jenkins.", project="similar")
    assert [each["headline"] for each in again.data["similar"]] == ["We moved CI from Jenkins to GitHub Actions."]
