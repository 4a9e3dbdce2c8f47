"""`since` and `until` on every interface: the same span, and the same error for an invalid date."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from complaint import complaint
from mcp_client import Connection, connected
from sample import contents

import satchel
from conftest import Cli
from satchel import Draft
from service_client import Served

NOT_A_DATE = '{name} \'blursday\' is not a date; write 2026-03-01, "yesterday" or "2 weeks ago"'
BAD = (
    ({"since": "blursday"}, NOT_A_DATE.format(name="since")),
    ({"until": "blursday"}, NOT_A_DATE.format(name="until")),
    (
        {"since": "2026-02-02", "until": "2026-02-01"},
        "since '2026-02-02' is after until '2026-02-01'; swap them, or leave one out",
    ),
    (
        {"since": "tomorrow"},
        "since 'tomorrow' is in the future; name an earlier time",
    ),
)
GOOD = (
    ({"since": "2 weeks ago"}, {"new"}),
    ({"until": "2024-03"}, {"march"}),
    ({"since": "April 2024", "until": "30 days ago"}, {"april"}),
    ({"since": "2024-03-31", "until": "2024年4月1日"}, {"march", "april"}),
    ({"since": "avril 2024", "until": "tomorrow"}, {"april", "new"}),
)
NAMES = {"march", "april", "new"}


def drafts() -> list[Draft]:
    week = datetime.now(UTC) - timedelta(days=7)
    return [
        Draft("The rotation of march", at="2024-03-31T23:30:00Z"),
        Draft("The rotation of april", at="2024-04-01"),
        Draft("The rotation that is new", at=week),
    ]


def names(text: str) -> set[str]:
    """Which of the memories a text shows."""
    return {name for name in NAMES if f"rotation of {name}" in text or f"that is {name}" in text}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("dated")
    with satchel.open(made / "notes.db") as bag:
        bag.add_many(drafts())
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Connection]:
    with connected(folder) as connection:
        yield connection


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served")) as running:
        for draft in drafts():
            at = draft.at if isinstance(draft.at, str) else draft.at.isoformat()
            running.done("POST", "/v1/memories", {"text": draft.text, "at": at})
        yield running


COMMANDS = (
    ("search", "rotation"),
    ("context", "rotation"),
    ("context",),
    ("context-pack", "rotation"),
    ("list",),
    ("export",),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_show_what_is_of_that_time(cli: Cli, folder: Path, command: tuple[str, ...]):
    for chosen, meant in GOOD:
        options = [word for name, value in chosen.items() for word in (f"--{name}", value)]
        done = cli(*command, *options, "--db", folder / "notes.db")
        assert done.returncode == 0, done.stderr
        assert names(done.stdout) == meant, chosen


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_refuse_what_is_no_span_in_one_line(cli: Cli, folder: Path, command: tuple[str, ...]):
    before = contents(folder / "notes.db")
    for chosen, said in BAD:
        options = [word for name, value in chosen.items() for word in (f"--{name}", value)]
        assert said in complaint(cli(*command, *options, "--db", folder / "notes.db"), code=2)
    assert contents(folder / "notes.db") == before


def test_forget_takes_the_same_times_as_search(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        bag.add_many(drafts())
    assert cli("forget", "--until", "2024-03").stdout == "forgot 1 memory\n"
    assert names(cli("list").stdout) == {"april", "new"}
    assert cli("forget", "--since", "April 2024", "--until", "30 days ago").stdout == "forgot 1 memory\n"
    assert names(cli("list").stdout) == {"new"}


TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("mem_search", {"query": "rotation"}),
    ("mem_context", {"query": "rotation"}),
    ("mem_context", {}),
    ("context_pack", {"query": "rotation"}),
)


@pytest.mark.parametrize(("tool", "arguments"), TOOLS)
def test_tools_show_what_is_of_that_time(server: Connection, tool: str, arguments: dict[str, Any]):
    for chosen, meant in GOOD:
        answer = server.ask("call_tool", tool, arguments | chosen)
        assert not answer.is_error
        assert names(answer.content[0].text) == meant, chosen


@pytest.mark.parametrize(("tool", "arguments"), TOOLS)
def test_tools_refuse_what_is_no_span_in_one_line(server: Connection, tool: str, arguments: dict[str, Any]):
    for chosen, said in BAD:
        answer = server.ask("call_tool", tool, arguments | chosen)
        assert answer.is_error
        assert said in answer.content[0].text


ROUTES = ("/v1/search", "/v1/context", "/v1/pack")


def test_the_service_shows_what_is_of_that_time(service: Served):
    for chosen, meant in GOOD:
        for route in ROUTES:
            assert names(json.dumps(service.done("POST", route, {"query": "rotation"} | chosen))) == meant, route
        assert names(json.dumps(service.done("GET", f"/v1/memories?{_query(chosen)}"))) == meant, chosen


def test_the_service_refuses_what_is_no_span_as_a_problem(service: Served):
    for chosen, said in BAD:
        replies = [service.ask("POST", route, {"query": "rotation"} | chosen) for route in ROUTES]
        for reply in (*replies, service.ask("GET", f"/v1/memories?{_query(chosen)}")):
            assert reply.status == 422
            assert reply.headers["content-type"] == "application/problem+json"
            assert reply.value["detail"] == said


def _query(chosen: dict[str, str]) -> str:
    return urlencode(chosen)
