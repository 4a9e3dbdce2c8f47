"""mem_list: memories by date, with filters and pages."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tool_contexts import ask, bodies, empty_context

from read_back import footers
from satchel import Draft
from satchel.server.mcp import reading_tools
from satchel.server.mcp.tool_context import ToolContext

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    with empty_context(tmp_path) as made:
        made.bag.add_many(
            Draft(
                f"Day {day} was calm.",
                title=f"Day {day}",
                at=FIRST + timedelta(days=day),
                kind="decision" if day % 2 else "fact",
                tags=["odd"] if day % 2 else [],
                project="atlas" if day < 30 else "boreal",
            )
            for day in range(50)
        )
        yield made


def listed(text: str) -> list[int]:
    return [int(line.split("] Day ")[1].split(" ")[0]) for line in text.split("\n") if "] Day " in line]


def test_the_newest_are_listed_first_as_titles_and_the_page_says_how_many_there_are(context: ToolContext):
    answer = ask(context, "mem_list")
    assert listed(answer.text) == list(range(49, 29, -1))
    assert "calm" not in answer.text
    told = footers(answer.text)
    assert (told.listed, told.of, told.tokens) == (20, 50, context.count(answer.text))
    assert told.cursor == answer.data["cursor"]
    assert (answer.data["included"], answer.data["omitted"]) == (20, 30)


def test_page_after_page_every_memory_comes_once(context: ToolContext):
    pages = bodies(context, "mem_list", limit=15)
    assert [len(listed(page)) for page in pages] == [15, 15, 15, 5]
    assert [day for page in pages for day in listed(page)] == list(range(49, -1, -1))


def test_a_budget_cuts_a_page_and_the_cursor_brings_the_rest(context: ToolContext):
    seen: list[int] = []
    answer = ask(context, "mem_list", limit=40, max_tokens=300)
    while True:
        told = footers(answer.text)
        assert told.tokens == context.count(answer.text) <= 300
        seen += listed(answer.text)
        if told.cursor is None:
            break
        answer = ask(context, "mem_list", cursor=told.cursor, max_tokens=300)
    assert seen == list(range(49, -1, -1))


@pytest.mark.parametrize(
    ("filters", "days"),
    [
        ({"kind": "Decision", "limit": 3}, [49, 47, 45]),
        ({"kind": "decision, fact", "limit": 2}, [49, 48]),
        ({"tags": "odd", "project": "atlas", "limit": 2}, [29, 27]),
        ({"since": "2026-01-30", "until": "2026-02-01"}, [31, 30, 29]),
        ({"status": "archived"}, []),
    ],
)
def test_filters_and_dates_select(context: ToolContext, filters: dict[str, object], days: list[int]):
    assert listed(ask(context, "mem_list", **filters).text) == days


def test_superseded_memories_are_listed_by_their_status(context: ToolContext):
    old, new = context.bag.recent(limit=2)
    context.bag.relate(new.id, old.id, "supersedes")
    assert listed(ask(context, "mem_list", status="superseded").text) == [49]


def test_a_list_shows_as_much_of_each_memory_as_is_asked_for(context: ToolContext):
    assert "    Day 49 was calm.\n" in ask(context, "mem_list", limit=1, detail_level="full").text


def test_where_nothing_matches_the_answer_says_so(context: ToolContext):
    assert ask(context, "mem_list", tags="even").text.startswith("Nothing matched.")


def test_the_end_of_a_very_long_list_says_how_to_go_on(context: ToolContext, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading_tools, "MOST_LISTED", 30)
    *_, last = bodies(context, "mem_list")
    assert listed(last)[-1] == 20
    assert last.rstrip().endswith("There are older ones: until=2026-01-21 lists them.")
