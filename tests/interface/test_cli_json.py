"""`--json` prints what the HTTP service answers, complete, and `satchel import` reads it again."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from complaint import complaint
from sample import contents, fill

import satchel
from conftest import Cli
from satchel import Memory, count_tokens
from service_client import Served

# A use that is counted, or a moment between two calls, changes these.
CHANGING = {"access_count", "accessed_at", "score", "relevance", "at", "closeness", "parts", "value"}


def steady(value: Any) -> Any:
    """A value without what may change from call to call; the keys stay."""
    if isinstance(value, dict):
        return {key: "*" if key in CHANGING else steady(each) for key, each in value.items()}
    # So does the order of what ranks alike.
    if isinstance(value, list):
        return sorted((steady(each) for each in value), key=str)
    return sorted(re.sub(r" \d+% ", " ", value).split("\n")) if isinstance(value, str) else value


@pytest.fixture
def memories(path: Path) -> list[Memory]:
    filled = fill(path)
    with satchel.open(path) as bag:
        bag.update(filled[1].id, title="The failure")
        bag.relate(filled[2].id, filled[1].id, "fixes")
    return filled


@pytest.fixture
def service(memories: list[Memory], tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, guarded=False) as running:
        yield running


def test_a_command_prints_what_http_answers(cli: Cli, memories: list[Memory], service: Served):
    error, fix = memories[1].id, memories[2].id
    asked: list[tuple[str, str, str, dict[str, Any] | None]] = [
        (f"get {error}", "GET", f"/v1/memories/{error}", None),
        ("list --limit 3 --kind fix --kind error", "GET", "/v1/memories?limit=3&kind=fix&kind=error", None),
        (f"timeline {error}", "GET", f"/v1/memories/{error}/timeline", None),
        (f"history {error}", "GET", f"/v1/memories/{error}/history", None),
        (f"similar {error}", "GET", f"/v1/memories/{error}/similar", None),
        ("search rotation --detail full", "POST", "/v1/search", {"query": "rotation"}),
        ("context rotation", "POST", "/v1/context", {"query": "rotation"}),
        (
            "context rotation --explain",
            "POST",
            "/v1/context",
            {"query": "rotation", "explain": True, "receipt": True},
        ),
        ("projects", "GET", "/v1/projects", None),
        ("tags", "GET", "/v1/tags", None),
        (f"update {error} --title T", "PATCH", f"/v1/memories/{error}", {"title": "T"}),
        (f"forget {fix}", "DELETE", f"/v1/memories/{memories[3].id}", None),
    ]
    for command, method, path, body in asked:
        done = cli(*command.split(), "--json")
        assert done.returncode == 0, done.stderr
        assert steady(json.loads(done.stdout)) == steady(service.done(method, path, body)), command
    added = json.loads(cli("add", "The job runs at night.", "--json").stdout)
    answered = service.done("POST", "/v1/memories", {"text": "The logo is blue."})
    assert added.keys() == answered.keys() >= {"kind", "tier", "scope", "created_at", "outcome", "similar"}
    # What else the command knows of its store.
    stats = json.loads(cli("stats", "--json").stdout)
    assert stats.keys() == service.done("GET", "/v1/stats").keys()


def test_what_json_prints_can_be_imported(cli: Cli, memories: list[Memory], tmp_path: Path):
    texts = {memory.id: memory.text for memory in memories}
    for number, command in enumerate(
        (
            ("get", memories[1].id),
            ("list",),
            ("search", "rotation"),
            ("search", "rotation", "--detail", "summary"),
            ("context", "rotation"),
            ("context-pack", "rotation"),
            ("add", memories[0].text),
            ("update", memories[0].id, "--title", "T"),
        )
    ):
        printed = cli(*command, "--json").stdout
        other = tmp_path / f"other{number}.db"
        done = cli("import", "-", "--db", other, stdin=printed)
        assert done.returncode == 0, (command, done.stderr)
        with satchel.open(other) as bag:
            found = {memory.id: memory.text for memory in bag.recent()}
        assert found, command
        assert found.items() <= texts.items(), command


def test_what_was_cut_to_a_budget_is_not_imported_as_if_it_were_whole(cli: Cli, path: Path, tmp_path: Path):
    with satchel.open(path) as bag:
        bag.add("rotation of keys " + "and more words " * 100)
    printed = cli("search", "rotation", "--json", "--tokens", "500").stdout
    assert json.loads(printed)["hits"][0]["memory"]["shortened"] is True
    before = contents(path)
    done = cli("import", "-", stdin=printed)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert contents(path) == before


@pytest.mark.parametrize("command", ["search", "context"])
@pytest.mark.parametrize("budget", [0, 40, 90, 150, 400, 2000])
def test_json_stays_within_a_budget_that_is_given(cli: Cli, path: Path, command: str, budget: int):
    with satchel.open(path) as bag:
        bag.add_many(satchel.Draft(f"rotation {number} " + "words " * number * 3) for number in range(20))
    done = cli(command, "rotation", "--json", "--tokens", str(budget))
    assert done.returncode == 0
    assert count_tokens(done.stdout) <= budget
    if done.stdout:
        names = json.loads(done.stdout).keys()
        whole = json.loads(cli(command, "rotation", "--json").stdout).keys()
        assert names <= whole


def test_json_and_an_error_print_no_json(cli: Cli, path: Path):
    fill(path)
    complaint(cli("get", "zzzz", "--json"))
