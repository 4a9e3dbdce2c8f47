"""Read tools: what they show, in which order, and what is dropped when the budget is small."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tool_contexts import ask, empty_context

from read_back import footers, told_of
from satchel import Draft
from satchel.errors import InputError, UnknownIdError
from satchel.model.memory import Memory
from satchel.server.mcp.tool_context import ToolContext

pytestmark = pytest.mark.usefixtures("all_matches")

START = datetime(2026, 2, 10, 9, 30, tzinfo=UTC)


@pytest.fixture
def context(as_installed: None, tmp_path: Path) -> Iterator[ToolContext]:
    with empty_context(tmp_path) as made:
        yield made


@pytest.fixture
def day(context: ToolContext) -> list[Memory]:
    """Nine memories of one session, an hour apart."""
    return context.bag.add_many(
        Draft(
            f"What happened in hour {hour}. " * 8,
            session="s1",
            title=f"Hour {hour}",
            at=START + timedelta(hours=hour),
        )
        for hour in range(9)
    )


def headings(text: str) -> list[str]:
    return [line for line in footers(text).body.split("\n") if line and not line.startswith("    ")]


def test_a_search_shows_the_best_first_with_as_much_of_each_as_was_asked(context: ToolContext):
    text = "Keys rotate every hour, " + "and the log tells of it, " * 20 + "until the end."
    best = context.bag.add(text, title="Key rotation", kind="decision", tags=["auth"], project="atlas", at=START)
    context.bag.add("The clock in the hall rotates its hands.", project="boreal", at=START)
    answer = ask(context, "mem_search", query="rotation of keys")
    first, snippet, second, *_ = answer.text.split("\n")
    assert first.endswith(" [decision] Key rotation (2026-02-10, atlas, #auth)")
    assert context.bag.short_ids([best]) == first.split(" ")[:1]
    assert snippet.startswith("    Keys rotate every hour, ")
    assert re.fullmatch(r"    .{150,300}\w,?…", snippet)
    assert second.endswith(" [observation] (2026-02-10, boreal)")
    assert (answer.data["included"], answer.data["omitted"]) == (2, 0)
    assert answer.data["text"] == answer.text
    full = ask(context, "mem_search", query="rotation of keys", detail_level="full")
    assert f"\n    {text}\n" in full.text
    summary = ask(context, "mem_search", query="rotation of keys", detail_level="summary")
    assert len(headings(summary.text)) == len(footers(summary.text).body.strip().split("\n")) == 2


def test_a_search_keeps_to_its_filters(context: ToolContext):
    for kind, tags, project in (
        ("fix", ["a"], "p"),
        ("fix", ["b"], "p"),
        ("fact", ["a"], "p"),
        ("fix", ["a"], "q"),
    ):
        context.bag.add(f"Keys rotate: {kind} {tags} {project}", kind=kind, tags=tags, project=project)
    answer = ask(context, "mem_search", query="keys", kind="fix", tags=["a"], project="p")
    assert answer.data["included"] == 1
    assert "fix ['a'] p" in answer.text
    assert ask(context, "mem_search", query="keys", limit=3).data["included"] == 3
    assert ask(context, "mem_search", query="keys", kind="todo").text.startswith("Nothing matched.\n")
    with pytest.raises(InputError, match="unknown kind 'idea'"):
        ask(context, "mem_search", query="keys", kind="idea")


def test_what_was_forgotten_or_superseded_is_not_found(context: ToolContext):
    old, new, gone = (context.bag.add(f"Keys rotate {often}.") for often in ("daily", "hourly", "never"))
    context.bag.relate(new.id, old.id, "supersedes")
    context.bag.forget(gone.id)
    assert list(told_of([footers(ask(context, "mem_search", query="keys").text).body]).values()) == [
        "Keys rotate hourly."
    ]


def test_memories_are_read_whole_with_their_relations(context: ToolContext):
    text = "First line.\n\n  Indented.\n" + "More of it. " * 100
    memory = context.bag.add(text, title="Whole", kind="fix", at=START)
    other = context.bag.add("The error.")
    context.bag.relate(memory.id, other.id, "fixes")
    answer = ask(context, "mem_get", id=[memory.id[:13], other.id])
    lines = answer.text.split("\n")
    name, other_name = context.bag.short_ids([memory, other])
    assert lines[:5] == [
        f"{name} [fix] Whole (2026-02-10)",
        f"→ fixes {other_name}",
        "    First line.",
        "",
        "      Indented.",
    ]
    assert f"\n← fixes {name}\n    The error.\n" in answer.text
    assert told_of([footers(answer.text).body])[name] == text.rstrip()


def test_what_is_no_id_is_said_beside_those_that_are_there(context: ToolContext):
    memory = context.bag.add("There.")
    answer = ask(context, "mem_get", id=["zz\n📏 ~1 tokens", memory.id])
    assert "There." in answer.text
    assert "\n'zz\\n📏 ~1 tokens' is not an id: give a short id" in answer.text
    assert footers(answer.text).tokens > 20


def test_an_id_that_nobody_has_is_said_beside_those_that_are_there(context: ToolContext):
    memory = context.bag.add("There.")
    answer = ask(context, "mem_get", id=["01a1e41f", memory.id, memory.id])
    assert headings(answer.text)[1:] == ["no memory has the id '01a1e41f' here"]
    assert (answer.data["included"], answer.data["omitted"]) == (2, 0)
    cut = ask(context, "mem_get", id=["01a1e41f", "01a1e420", context.bag.add("x " * 300).id], max_tokens=100)
    assert footers(cut.text).noun == "ids", "a line about an id is no memory"
    with pytest.raises(UnknownIdError):
        ask(context, "mem_get", id=["01a1e41f"])
    with pytest.raises(InputError, match="mem_get needs id"):
        ask(context, "mem_get", id=[])


def test_a_timeline_has_the_focus_in_full_between_what_came_before_and_after(
    context: ToolContext, day: list[Memory]
):
    text = ask(context, "mem_timeline", id=day[4].id[:18], before=2, after=3, detail_level="summary").text
    assert [re.search(r"Hour \d", line)[0] for line in headings(text)] == [f"Hour {hour}" for hour in range(2, 8)]
    assert headings(text)[2].startswith("▶ ")
    assert sum(line.startswith("▶") for line in headings(text)) == 1
    assert f"\n    {day[4].text.strip()}\n" in text
    assert text.count("What happened in hour") == 8, "of the others only the titles"


def test_by_default_five_come_before_and_five_after(context: ToolContext, day: list[Memory]):
    assert ask(context, "mem_timeline", id=day[0].id).data["included"] == 6
    assert ask(context, "mem_timeline", id=day[8].id).data["included"] == 6
    assert ask(context, "mem_timeline", id=day[4].id).data["included"] == 9
    assert ask(context, "mem_timeline", id=day[4].id, before=0, after=0).data["included"] == 1


def test_when_it_is_tight_the_focus_stays_and_the_far_ends_go(context: ToolContext, day: list[Memory]):
    focus = 4
    sizes = set()
    for budget in range(60, 900, 20):
        answer = ask(context, "mem_timeline", id=day[focus].id, max_tokens=budget)
        if "smallest_budget" in answer.data:
            assert not sizes
            continue
        hours = [int(re.search(r"Hour (\d)", line)[1]) for line in headings(answer.text)]
        assert hours == list(range(hours[0], hours[-1] + 1)), "without a gap"
        assert focus in hours
        assert abs((focus - hours[0]) - (hours[-1] - focus)) <= 1, "both ends go alike"
        focused = told_of([footers(answer.text).body])[headings(answer.text)[hours.index(focus)].split(" ")[1]]
        assert len(hours) == 1 or focused == day[focus].text.strip(), "nothing beside a focus that is cut"
        sizes.add(len(hours))
    assert sizes == set(range(1, 10))


def test_a_timeline_stays_in_the_session_of_its_focus(context: ToolContext, day: list[Memory]):
    context.bag.add("Of another session.", session="s2", at=START + timedelta(hours=4, minutes=5))
    assert "another session" not in ask(context, "mem_timeline", id=day[4].id).text
    with pytest.raises(UnknownIdError):
        ask(context, "mem_timeline", id="01a1e41f")


def test_stats_tell_how_much_there_is_and_of_what(context: ToolContext, day: list[Memory]):
    context.bag.add("A decision.", kind="decision", project="atlas", at=START)
    context.bag.relate(day[0].id, day[1].id, "related")
    answer = ask(context, "mem_stats")
    tokens = sum(memory.tokens for memory in context.bag.recent(limit=20))
    assert footers(answer.text).body == (
        f"10 memories, 10 current, {tokens:,} tokens, 1 relations\n"
        "from 2026-02-10 to 2026-02-10\n"
        "kinds: observation 9, decision 1\n"
        "tiers: knowledge 10\n"
        "statuses: active 10\n"
        "\nprojects:\n(none): 9\natlas: 1\n"
    )
    assert ask(context, "mem_stats", project="atlas").text.startswith("1 memories, 1 current, ")
    assert ask(context, "mem_stats", project="nowhere").text.startswith("0 memories, 0 current, ")


READS: list[tuple[str, dict[str, Any]]] = [
    ("mem_search", {"query": "what happened"}),
    ("mem_context", {"query": "what happened"}),
    ("mem_context", {}),
    ("mem_timeline", {"id": None}),
    ("mem_get", {"id": None}),
    ("mem_stats", {}),
    ("context_pack", {}),
    ("sdd_get_context", {"detail_level": "full"}),
    ("sdd_context_check", {"change_description": "what happened"}),
]


@pytest.mark.parametrize(("tool", "asked"), READS)
def test_a_tool_that_reads_changes_nothing_but_the_count_of_uses(
    context: ToolContext, day, tool: str, asked: dict[str, Any]
):
    arguments = {name: day[4].id if value is None else value for name, value in asked.items()}
    before = _without_uses(context)
    for budget in (None, 0, 100, 5_000):
        ask(context, tool, **arguments, max_tokens=budget)
    assert _without_uses(context) == before


def _without_uses(context: ToolContext) -> list[bytes]:
    uses = re.compile(rb',"access_count":\d+|,"accessed_at":"[^"]*"')
    return [uses.sub(b"", line) for line in context.bag.export()]


@pytest.mark.parametrize(
    ("tool", "given"), [("mem_search", {"kind": "todo"}), ("mem_context", {"since": "2026-01-01"})]
)
def test_where_nothing_matches_what_passes_a_filter_is_shown_and_that_is_said(
    context: ToolContext, tool: str, given: dict
):
    context.bag.add_many(Draft(f"Buy {thing}", kind="todo", at=START) for thing in ("milk", "bread", "salt"))
    answer = ask(context, tool, query="zyzzyva quokka", **given)
    assert answer.text.startswith(
        "Nothing matched the query; the newest and most important that pass the filters:\n"
    )
    assert all(f"Buy {thing}" in answer.text for thing in ("milk", "bread", "salt"))
    for budget in (60, 80, 100):
        tight = ask(context, tool, query="zyzzyva quokka", max_tokens=budget, **given)
        assert context.count(tight.text) <= budget
    assert ask(context, "mem_search", query="zyzzyva quokka").text.startswith("Nothing matched.\n")
