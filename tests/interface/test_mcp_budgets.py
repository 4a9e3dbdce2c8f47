"""The budget holds over a real pipe: every read tool, thousands of calls, the official client, a second counter."""

import json
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mcp_client import Call, Connection, Reply, connected

import satchel
from read_back import footers, shown_in
from satchel import count_tokens
from varied import KINDS, PROJECTS, TAGS, TOPICS, fill_varied, write_specs

pytestmark = pytest.mark.slow

CALLS = 1_000
QUESTIONS = 100
AT_ONCE = 8
LEAST, MOST = 50, 5_000
NO_LIMIT = 1_000_000

# How many of a hundred questions each tool is asked: the cheap ones cost the test less.
SHARES = {
    "mem_search": 16,
    "mem_context": 20,
    "mem_timeline": 16,
    "mem_get": 12,
    "mem_list": 4,
    "mem_stats": 6,
    "context_pack": 8,
    "sdd_get_context": 14,
    "sdd_context_check": 4,
}
DETAILS = (None, "summary", "standard", "full")
STAGES = (None, None, "design", "specify", "validate", "clarify", "adrs", "changes/search", "記憶")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    with satchel.open(folder / "notes.db") as bag:
        (folder / "ids").write_text("\n".join(fill_varied(bag)))
    write_specs(folder)
    return folder


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[Connection]:
    with connected(project, "--structured") as connection:
        yield connection


@pytest.fixture(scope="module")
def ids(project: Path) -> list[str]:
    return (project / "ids").read_text().split("\n")


def test_a_thousand_answers_stay_within_their_budgets_and_say_so_truly(server: Connection, ids: list[str]):
    random = Random(50)
    questions = [_question(random, tool, ids) for tool, share in SHARES.items() for _ in range(share)]
    assert len(questions) == QUESTIONS
    everything = server.attempts([_within(each, NO_LIMIT) for each in questions], at_once=AT_ONCE)
    asked = [(place, _budget(random)) for place in range(QUESTIONS) for _ in range(CALLS // QUESTIONS)]
    random.shuffle(asked)
    replies = server.attempts([_within(questions[place], budget) for place, budget in asked], at_once=AT_ONCE)
    seen = set()
    for (place, budget), reply in zip(asked, replies, strict=True):
        tool, arguments = questions[place]
        try:
            seen.add((tool, _judge(tool, arguments, budget, reply, everything[place])))
        except AssertionError as error:
            raise AssertionError(f"{tool} {arguments} within {budget}: {error}\n{reply.text}") from error
    # So that none of it was true for want of anything to be true of.
    assert {verdict for _, verdict in seen} == {"whole", "cut", "nothing fitted"}
    assert {tool for tool, verdict in seen if verdict == "cut"} == set(SHARES)
    assert server.errors == ""


def _judge(tool: str, arguments: dict[str, Any], budget: int, reply: Reply, everything: Reply) -> str:
    """Whether what an answer says of itself is true; and which sort of answer it is."""
    assert not reply.is_error
    cost = count_tokens(reply.text)
    said, whole = footers(reply.text), footers(everything.text)
    nothing = said.body.startswith(
        ("Nothing matched.", "Nothing relevant.", "Nothing fitted", "Nothing here", "Nothing is")
    )
    shown = 0 if said.total == 0 or nothing else shown_in(said.body, tool, arguments)
    assert cost <= budget
    assert said.tokens == cost
    assert said.cursor is None or tool == "mem_list"
    if reply.data is not None:
        for form in ({"ensure_ascii": False, "separators": (",", ":")}, {}, {"indent": 2}):
            assert cost + count_tokens(json.dumps(reply.data, **form)) <= budget, "a client may show both"
        assert (reply.data["text"], reply.data["token_count"], reply.data["included"]) == (reply.text, cost, shown)
    if said.budget is None:
        assert said.body == whole.body, "nothing says that something was left out"
        return "whole"
    assert said.body != whole.body
    assert (said.used, said.budget, said.shown) == (cost, budget, shown)
    assert said.total is not None
    assert shown <= said.total
    if tool != "context_pack":  # which looks at more candidates where there is more room
        listed = everything.data or {"included": said.total, "omitted": 0}
        assert said.total == listed["included"] + listed["omitted"]
    if shown == 0:
        assert said.body.startswith("Nothing fitted (needs at least ")
        return "nothing fitted"
    return "cut"


def _question(random: Random, tool: str, ids: list[str]) -> Call:
    detail = random.choice(DETAILS)
    project = random.choice((None, *PROJECTS))
    query = f"{random.choice(TOPICS)} {random.choice(('', 'midnight', 'why was a token refused?'))}".strip()
    asked: dict[str, dict[str, Any]] = {
        "mem_search": {
            "query": query,
            "limit": random.choice((None, 3, 10, 25)),
            "kind": random.choice((None, None, None, *KINDS[:3])),
            "tags": random.choice((None, None, [TAGS[0]])),
            "project": project,
            "detail_level": detail,
        },
        "mem_context": {
            "query": random.choice((None, query, query)),
            "limit": random.choice((None, 5, 20)),
            "format": random.choice((None, "system_prompt", "markdown", "raw")),
            "project": project,
            "detail_level": detail,
        },
        "mem_timeline": {
            "id": random.choice(ids),
            "before": random.choice((None, 0, 3, 8)),
            "after": random.choice((None, 0, 3, 8)),
            "detail_level": detail,
        },
        "mem_get": {"id": random.sample(ids, random.randint(1, 4)) + random.choice(([], [], ["0" * 8]))},
        "mem_list": {"kind": random.choice((None, *KINDS[:3])), "project": project, "detail_level": detail},
        "mem_stats": {"project": project},
        "context_pack": {
            "query": random.choice((None, query)),
            "kind": random.choice((None, None, *KINDS[:3])),
            "tags": random.choice((None, None, [TAGS[1]])),
            "project": project,
        },
        "sdd_get_context": {"stage": random.choice(STAGES), "detail_level": detail},
        "sdd_context_check": {"change_description": query, "project": project, "detail_level": detail},
    }
    return tool, {name: value for name, value in asked[tool].items() if value is not None}


def _budget(random: Random) -> int:
    """As many small ones as large ones."""
    return round(exp(random.uniform(log(LEAST), log(MOST))))


def _within(question: Call, budget: int) -> Call:
    tool, arguments = question
    return tool, arguments | {"max_tokens": budget}
