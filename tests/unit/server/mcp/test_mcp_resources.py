"""What can be attached without a tool: the pack of a project, a memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from desks import ask, empty_desk

from satchel.errors import InputError, UnknownIdError
from satchel.server.mcp.catalog import MOST_PROJECTS, TEMPLATES, pack_resources, read_resource
from satchel.server.mcp.desk import Desk
from tables import each_row

NAMES = ("atlas", "thesis & notes", "a/b?c#d", "航海", "100%")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with empty_desk(tmp_path) as made:
        for number, name in enumerate(NAMES):
            for place in range(len(NAMES) - number):
                made.bag.add(f"Something about {name}.", project=name, speaker=f"speaker {place}")
        made.bag.add("Of no project.")
        yield made


def test_there_is_a_pack_for_each_project_the_largest_first(desk: Desk):
    listed = pack_resources(desk)
    assert [each["name"] for each in listed] == [f"pack: {name}" for name in NAMES]
    for each, name in zip(listed, NAMES, strict=True):
        assert each["uri"].isascii()
        assert read_resource(desk, each["uri"]) == ask(desk, "context_pack", project=name).text
        assert f"Something about {name}." in read_resource(desk, each["uri"])


def test_of_very_many_projects_some_are_listed(tmp_path: Path):
    with empty_desk(tmp_path) as desk:
        with desk.bag.transaction():
            for number in range(MOST_PROJECTS + 5):
                desk.bag.add("Something.", project=f"p{number:03}")
        assert len(pack_resources(desk)) == MOST_PROJECTS


def test_a_memory_is_read_by_its_id_or_a_prefix(desk: Desk):
    memory = desk.bag.add("To be attached.")
    assert read_resource(desk, f"satchel://memory/{memory.id}") == ask(desk, "mem_get", ids=[memory.id]).text
    assert "To be attached." in read_resource(desk, f"satchel://memory/{memory.id}")
    with pytest.raises(UnknownIdError):
        read_resource(desk, "satchel://memory/01a1e41f")


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
def test_any_other_address_is_refused_in_one_short_line(desk: Desk, address: str):
    with pytest.raises(InputError) as caught:
        read_resource(desk, address)
    assert len(str(caught.value)) < 250


def test_templates_say_how_addresses_are_made():
    assert [each["uriTemplate"] for each in TEMPLATES] == ["satchel://pack/{project}", "satchel://memory/{id}"]
