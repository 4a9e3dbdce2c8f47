"""mem_context and context_pack: a block for a question, and without one what is recent, section by section."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, cycle
from pathlib import Path

import pytest
from tool_contexts import ask, empty_context

from read_back import footers
from satchel import Draft, count_tokens
from satchel.api import saving
from satchel.model.ids import short_id
from satchel.server.mcp.tool_context import ToolContext

pytestmark = pytest.mark.usefixtures("all_matches")

START = datetime(2026, 2, 10, 9, 30, tzinfo=UTC)
KINDS = ("summary", "prompt", "fact", "decision")


@pytest.fixture
def context(tmp_path: Path, monkeypatch) -> Iterator[ToolContext]:
    """With forty memories of four kinds, an hour apart, two of them pinned; their headings all cost the same."""
    ids = (f"019b0000-0000-7000-8000-00{number:05x}00000" for number in count())
    # In turn for "boreal" and "atlas", of which the first costs a token more.
    costs = cycle((3, 4))

    def new_id() -> str:
        cost = next(costs)
        return next(each for each in ids if count_tokens(f"{short_id(each, [])} [") == cost)

    monkeypatch.setattr(saving, "new_id", new_id)
    with empty_context(tmp_path) as made:
        made.bag.add_many(
            Draft(
                f"Matter {number} was settled.",
                title=f"Title {number}",
                kind=KINDS[number % 4],
                pinned=number in (3, 20),
                project="atlas" if number % 2 else "boreal",
                at=START + timedelta(hours=number),
            )
            for number in range(40)
        )
        yield made


def sections(text: str) -> dict[str, list[int]]:
    """The numbers of the memories below each heading."""
    found: dict[str, list[int]] = {}
    for line in footers(text).body.split("\n"):
        if line.startswith("## "):
            found[line] = []
        elif "] Title " in line:
            found[list(found)[-1]].append(int(line.split("] Title ")[1].split(" ")[0]))
    return found


def test_without_a_query_the_newest_come_section_by_section(context: ToolContext):
    assert sections(ask(context, "mem_context", limit=8).text) == {
        "## Pinned": [20, 3],
        "## Sessions": [36, 32, 28, 24, 16],
        "## Prompts": [37, 33, 29, 25, 21],
        "## Observations": [39, 38, 35, 34, 31, 30, 27, 26],
    }


def test_a_blank_query_is_none(context: ToolContext):
    assert ask(context, "mem_context", query="  ") == ask(context, "mem_context")


def test_a_project_has_sections_of_its_own(context: ToolContext):
    found = sections(ask(context, "mem_context", project="atlas").text)
    assert found["## Pinned"] == [3]
    assert "## Sessions" not in found
    assert all(number % 2 for numbers in found.values() for number in numbers)


def test_when_it_is_tight_what_is_pinned_stays_and_each_section_keeps_its_newest(context: ToolContext):
    whole = sections(ask(context, "mem_context").text)
    sizes = []
    for budget in range(100, 700, 50):
        shown = sections(ask(context, "mem_context", max_tokens=budget, detail_level="summary").text)
        assert all(numbers == whole[name][: len(numbers)] for name, numbers in shown.items())
        others = {name: len(shown.get(name, [])) for name in whole if name != "## Pinned"}
        assert not any(others.values()) or shown["## Pinned"] == [20, 3]
        most = max(others.values())
        # A section begins with its heading, for which there may be no room where one more entry fits.
        begun = {name: size for name, size in others.items() if size}
        assert all(size >= min(most - 1, len(whole[name])) for name, size in begun.items()), "turn by turn"
        sizes.append(sum(others.values()))
    assert sizes == sorted(sizes)
    assert sizes[0] < 5 < 15 < sizes[-1]


@pytest.mark.parametrize("detail", ["summary", "standard", "full"])
def test_with_a_query_the_answer_is_the_block_of_the_library(context: ToolContext, detail: str):
    for format in ("system_prompt", "markdown", "raw"):
        answer = ask(context, "mem_context", query="settled matter 7", format=format, detail_level=detail)
        block = context.bag.context(
            "settled matter 7",
            format=format,
            detail=detail,
            limit=20,
            token_budget=20_000,
            pins="best_effort",
            ids=True,
        )
        assert footers(answer.text).body.rstrip("\n") == block.text.rstrip("\n")
        assert (answer.data["included"], answer.data["omitted"]) == (block.facts_included, 0)
        assert footers(answer.text).budget is None


def test_a_block_shows_the_short_id_and_kind_of_each_memory_so_that_a_model_can_update_it(context: ToolContext):
    text = ask(context, "mem_context", query="settled matter 7", limit=1).text
    found = re.search(r"\[(\w+) (\w+)\]", text)
    assert found is not None
    memory = context.bag.get(found[1])
    assert (memory.kind, memory.text in text) == (found[2], True)


def test_a_context_keeps_to_its_filters_with_and_without_a_query(context: ToolContext):
    for query in ({}, {"query": "settled matter"}):
        text = ask(context, "mem_context", **query, kind="decision", limit=50).text
        assert "decision]" in text
        assert "summary]" not in text
        assert "prompt]" not in text
        then = ask(context, "mem_context", **query, as_of="1999-01-01").text
        assert "settled" not in then


def test_without_a_format_the_block_is_a_system_prompt(context: ToolContext):
    assert ask(context, "mem_context", query="matter").text.startswith("<memory>\n")


def test_more_room_shows_more_and_at_last_all_of_it(context: ToolContext):
    shown = []
    for budget in range(80, 1_800, 60):
        answer = ask(context, "mem_context", query="settled matter", format="raw", max_tokens=budget)
        told = footers(answer.text)
        count = len(json.loads(told.body)) if answer.data["included"] else 0
        assert (answer.data["included"], told.budget is None) == (count, answer.data["omitted"] == 0)
        shown.append(count)
    assert shown[0] < shown[len(shown) // 2] < shown[-1] == 20


def test_a_pack_is_markdown_of_whole_memories_within_two_thousand_tokens(context: ToolContext):
    context.bag.add("A memory that is told at length. " * 2_000, project="atlas", importance=1)
    answer = ask(context, "context_pack", project="atlas")
    body = footers(answer.text).body
    assert body.startswith("# Project Context: atlas (20 memories, ~")
    assert body.count("\n## [") == 20
    assert footers(answer.text).budget == 2_000
    assert (answer.data["included"], answer.data["omitted"]) == (20, 1)
    larger = ask(context, "context_pack", project="atlas", max_tokens=20_000)
    assert (larger.data["included"], footers(larger.text).budget) == (21, None)


def test_a_pack_keeps_to_its_filters(context: ToolContext):
    answer = ask(context, "context_pack", kind="decision")
    assert answer.data["included"] == 10
    assert answer.text.count("## [decision]") == 10
    assert ask(context, "context_pack", tags=["none"]).text.startswith("Nothing matched.\n")
    asked = ask(context, "context_pack", query="matter 7", project="atlas", max_tokens=120)
    assert "Matter 3 was settled." in asked.text, "what is pinned comes first"
