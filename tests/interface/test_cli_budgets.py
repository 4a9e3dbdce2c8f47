"""The budget holds: the output of `search` never has more tokens than allowed."""

import json
import re
from pathlib import Path

import pytest

import satchel
from conftest import Cli
from satchel import Draft, count_tokens

BUDGETS = (1, 90, 200, 333, 900, 100_000)


@pytest.fixture
def stocked(path: Path) -> Path:
    """Twelve memories that match, from short to long, in several scripts."""
    shapes = ("plain words ", "{'code': [1, 2]} ", "記憶を回す ", "dGhpcyBpcyBiYXNlNjQ= ")
    with satchel.open(path) as bag:
        bag.add_many(
            Draft("rotation " + shapes[number % 4] * (number * 3), title=f"Note {number}", tags=["t"])
            for number in range(12)
        )
    return path


@pytest.mark.parametrize("options", [(), ("--json", "--detail", "full")])
def test_output_never_costs_more_than_the_budget(cli: Cli, stocked: Path, options: tuple[str, ...]):
    kept = []
    for budget in BUDGETS:
        done = cli("search", "rotation", "--limit", "12", "--token-budget", str(budget), *options)
        assert done.returncode == 0, done.stderr
        shown = done.stdout.count("Note ")
        kept.append(shown)
        # JSON that only says that nothing fitted is exempt, as an error is.
        assert count_tokens(done.stdout) <= (budget if shown or not options else max(budget, 20))
        if "--json" in options and done.stdout:
            answer = json.loads(done.stdout)
            assert len(answer["hits"]) == shown
            assert answer["omitted"] == 12 - shown
        if shown:
            found = "1 relevant memory" if shown == 1 else f"{shown} relevant memories"
            said = f"{found}, {count_tokens(done.stdout):,} of {budget:,} tokens"
            rest = f"; {12 - shown} more did not fit" if shown < 12 else ""
            assert done.stderr == f"{said}{rest}\n"
    assert kept[0] == 0
    assert kept[-1] == 12
    assert kept == sorted(kept)
    assert len(set(kept)) > 3


@pytest.mark.parametrize("name", ["cl100k_base", "claude", "chars/4"])
def test_the_budget_binds_under_every_counter(cli: Cli, stocked: Path, name: str):
    for options in ((), ("--json",)):
        done = cli("search", "rotation", "--limit", "12", "--token-budget", "400", "--counter", name, *options)
        assert done.returncode == 0, done.stderr
        assert 0 < count_tokens(done.stdout, name) <= 400


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_budget_too_small_names_the_smallest_that_works_and_it_does(
    cli: Cli, stocked: Path, options: tuple[str, ...]
):
    for budget in ("0", "12"):
        done = cli("search", "rotation", "--token-budget", budget, *options)
        assert done.returncode == 0
        assert done.stderr.startswith(f"nothing fitted into {budget} tokens: 10 matched")
        assert done.stderr.count("\n") == 1
        named = re.findall(r"a budget of ([\d,]+)", done.stderr)
        smallest = int(named[0].replace(",", ""))
        if options and budget != "0":
            assert json.loads(done.stdout) == {"hits": [], "omitted": 10, "smallest_budget": smallest}
        else:
            assert done.stdout == "", "a budget of 0 leaves nothing at all"
    enough = cli("search", "rotation", "--token-budget", str(smallest), *options)
    assert enough.stdout.count("Note ") == 1
    assert count_tokens(enough.stdout) <= smallest
    short = cli("search", "rotation", "--token-budget", str(smallest - 1), *options)
    assert short.stdout.count("Note ") == 0


@pytest.mark.parametrize(("command", "empty"), [("context", "text"), ("context-pack", "memories")])
def test_json_says_that_nothing_fitted_and_which_budget_would_do(cli: Cli, stocked: Path, command: str, empty: str):
    answer = json.loads(cli(command, "rotation", "--json", "--tokens", "5").stdout)
    assert not answer[empty]
    assert answer["omitted"] > 0
    enough = cli(command, "rotation", "--json", "--tokens", str(answer["smallest_budget"]))
    assert json.loads(enough.stdout)[empty]


def test_nothing_matched_reads_differently_from_nothing_fitted(cli: Cli, stocked: Path):
    for budget in ("0", "1000"):
        done = cli("search", "zebra", "--token-budget", budget)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing matched\n")
    done = cli("search", "zebra", "--token-budget", "1000", "--json")
    assert json.loads(done.stdout) == {
        "hits": [],
        "included": 0,
        "omitted": 0,
        "tokens_omitted": 0,
        "irrelevant": 0,
        "complete": True,
        "matched": True,
    }
    assert done.stderr == "nothing matched\n"


def test_the_limit_is_applied_before_the_budget(cli: Cli, stocked: Path):
    best = json.loads(cli("search", "rotation", "--limit", "2", "--json").stdout)["hits"]
    done = cli("search", "rotation", "--limit", "2", "--token-budget", "100", "--json")
    answer = json.loads(done.stdout)
    assert len(answer["hits"]) + answer["omitted"] == 2
    assert {hit["memory"]["id"] for hit in answer["hits"]} <= {hit["memory"]["id"] for hit in best}


def test_without_a_budget_nothing_is_left_out(cli: Cli, stocked: Path):
    done = cli("search", "rotation", "--limit", "100")
    assert done.stdout.count("Note ") == 12
    assert done.stderr == ""
