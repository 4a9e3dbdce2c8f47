"""Resources: the pack of a project, and a single memory."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import mcp
import mcp_types as types
import pytest
from tool_contexts import ask, empty_context

from satchel.errors import InputError, UnknownIdError
from satchel.server.mcp.catalog import MOST_PROJECTS, complete_project, pack_resources, read_resource
from satchel.server.mcp.guide import TEMPLATES
from satchel.server.mcp.server import build_server, in_threads
from satchel.server.mcp.tool_context import ToolContext
from tables import each_row

NAMES = ("atlas", "thesis & notes", "a/b?c#d", "航海", "100%")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    with empty_context(tmp_path) as made:
        for number, name in enumerate(NAMES):
            for place in range(len(NAMES) - number):
                made.bag.add(f"Something about {name}.", project=name, speaker=f"speaker {place}")
        made.bag.add("Of no project.")
        yield made


def test_there_is_a_pack_for_each_project_the_largest_first(context: ToolContext):
    listed = pack_resources(context)
    assert [each["name"] for each in listed] == [f"pack: {name}" for name in NAMES]
    for each, name in zip(listed, NAMES, strict=True):
        assert each["uri"].isascii()
        assert read_resource(context, each["uri"]) == ask(context, "context_pack", project=name).text
        assert f"Something about {name}." in read_resource(context, each["uri"])


def test_of_very_many_projects_some_are_listed(tmp_path: Path):
    with empty_context(tmp_path) as context:
        with context.bag.transaction():
            for number in range(MOST_PROJECTS + 5):
                context.bag.add("Something.", project=f"p{number:03}")
        assert len(pack_resources(context)) == MOST_PROJECTS


def test_projects_that_begin_with_a_text_come_before_those_that_contain_it(context: ToolContext):
    for name in ("notes", "Thesis 2"):
        context.bag.add("Something.", project=name)
    assert complete_project(context, "THESIS") == ["thesis & notes", "Thesis 2"]
    assert complete_project(context, "notes") == ["notes", "thesis & notes"]
    assert complete_project(context, "航") == ["航海"]
    assert complete_project(ToolContext(context.bag.scoped(project="atlas"), context.specs), "") == ["atlas"]


def test_at_most_a_hundred_completions_are_sent(tmp_path: Path):
    with empty_context(tmp_path) as context:
        with context.bag.transaction():
            for number in range(120):
                context.bag.add("Something.", project=f"p{number:03}")
        server = build_server((), in_threads(context, {}))

        async def asked() -> types.Completion:
            async with mcp.Client(server) as client:
                ref = types.PromptReference(name="memory-guide")
                return (await client.complete(ref, {"name": "project", "value": "p"})).completion

        found = anyio.run(asked)
    assert len(found.values) == 100
    assert (found.total, found.has_more) == (120, True)


def test_a_memory_is_read_by_its_id_or_a_prefix(context: ToolContext):
    memory = context.bag.add("To be attached.")
    assert read_resource(context, f"satchel://memory/{memory.id}") == ask(context, "mem_get", id=[memory.id]).text
    assert "To be attached." in read_resource(context, f"satchel://memory/{memory.id}")
    with pytest.raises(UnknownIdError):
        read_resource(context, "satchel://memory/01a1e41f")


@each_row(
    "address",
    [
        "",
        "satchel://",
        "satchel://pack",
        "satchel://pack/",
        "satchel://memory/",
        "satchel://memory/..%2f..",
        "satchel://secret/x",
        "file:///etc/passwd",
        "http://pack/atlas",
        "satchel://[pack/x",
        "x" * 10_000,
    ],
)
def test_any_other_address_is_refused_in_one_short_line(context: ToolContext, address: str):
    with pytest.raises(InputError) as caught:
        read_resource(context, address)
    assert len(str(caught.value)) < 250


def test_templates_say_how_addresses_are_made():
    assert [each["uriTemplate"] for each in TEMPLATES] == ["satchel://pack/{project}", "satchel://memory/{id}"]
