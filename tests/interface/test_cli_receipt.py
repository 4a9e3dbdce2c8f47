"""`--explain` with a context: the outcome for every candidate, in a real process."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from sample import fill
from terminal import ESCAPE, on_a_terminal, plain

import satchel
from conftest import Cli
from satchel import Draft, count_tokens

HEADINGS = re.compile(r"^id +kept as, or why not +tokens +needs +score +memory$")


class Row(NamedTuple):
    name: str
    became: str
    tokens: int
    needs: int | None
    headline: str


def rows(text: str) -> list[Row]:
    """The lines of the table in a text."""
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if HEADINGS.match(line)) + 1
    end = next(place for place, line in enumerate(lines) if line.startswith(("… and", "tokens: ")))
    found = []
    for line in lines[start:end]:
        name, became, tokens, needs, _, *headline = [*re.split(r"  +", line), ""]
        found.append(Row(name, became, number(tokens), None if needs == "–" else number(needs), headline[0]))
    return found


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.fixture
def stocked(path: Path) -> Path:
    """Twelve memories that match, from short to long, and one that says again what another says."""
    with satchel.open(path) as bag:
        bag.add_many(
            Draft("rotation " + f"of part {number} " * (number * 6), title=f"Note {number}", at="2026-02-10")
            for number in range(1, 13)
        )
        bag.add("rotation " + "of part 3 " * 18, title="Note 3 again", at="2026-02-09")
    return path


@pytest.mark.parametrize("options", [(), ("--json", "--tokens", "2000"), ("--format", "messages")], ids=" ".join)
def test_the_table_stands_apart_from_the_text(cli: Cli, path: Path, options: tuple[str, ...]):
    fill(path)
    text = cli("context", "rotation job", *options).stdout
    done = cli("context", "rotation job", "--explain", *options)
    assert done.returncode == 0
    assert done.stdout == text
    assert {row.headline for row in rows(done.stderr)} >= {"Key rotation", "The rotation job failed on leap day."}
    assert f" relevant memories, {count_tokens(text)} of 2,000 tokens" in done.stderr.splitlines()[-1]


def test_json_without_a_budget_of_its_own_has_the_receipt_in_it(cli: Cli, path: Path):
    fill(path)
    assert json.loads(cli("context", "rotation job", "--json").stdout)["receipt"] is None
    done = cli("context", "rotation job", "--json", "--explain")
    entries = json.loads(done.stdout)["receipt"]["entries"]
    assert {entry["headline"] for entry in entries} >= {"Key rotation", "The rotation job failed on leap day."}
    assert done.stderr.count("\n") == 1


def test_what_was_kept_comes_first_and_its_tokens_add_up(cli: Cli, stocked: Path):
    done = cli("context", "rotation", "--tokens", "300", "--explain", "--policy", "tier")
    table = rows(done.stderr)
    kept = [row for row in table if row.became == "full"]
    assert 1 < len(kept) < 12
    assert table[: len(kept)] == kept
    assert table[len(kept)].became == "headings"
    assert sum(row.tokens for row in kept) + table[len(kept)].tokens == count_tokens(done.stdout)
    assert all(row.needs is None for row in kept)
    left_out = table[len(kept) + 1 :]
    assert len(kept) + len(left_out) == 13
    assert all(row.needs is not None and row.needs > 300 for row in left_out if row.became == "over budget")
    assert re.search(rf"; {len(left_out)} left out: \d+ over budget, 1 duplicate$", done.stderr.rstrip())


@pytest.mark.parametrize("command", ["context", "context-pack"])
def test_the_budget_that_something_needs_keeps_it_and_one_token_less_does_not(
    cli: Cli, stocked: Path, command: str
):
    def table(budget: int) -> dict[str, Row]:
        done = cli(command, "rotation", "--tokens", str(budget), "--explain", "--policy", "greedy")
        assert done.returncode == 0, done.stderr
        return {row.name: row for row in rows(done.stderr)}

    missed = next(row for row in table(300).values() if row.became == "over budget")
    assert missed.needs is not None
    assert table(missed.needs)[missed.name].became == "full"
    assert table(missed.needs - 1)[missed.name].became == "over budget"


def test_a_duplicate_names_the_one_it_repeats_by_an_id_that_works(cli: Cli, stocked: Path):
    table = rows(cli("context", "rotation", "--tokens", "10000", "--explain").stderr)
    repeated = [row for row in table if row.became.startswith("duplicate of ")]
    assert len(repeated) == 1
    other = repeated[0].became.removeprefix("duplicate of ")
    both = {cli("get", name).stdout.splitlines()[0].split("] ")[1][:6] for name in (repeated[0].name, other)}
    assert both == {"Note 3"}
    assert other in {row.name for row in table if row.became == "full"}


def test_without_a_query_there_is_a_table_too(cli: Cli, path: Path):
    fill(path)
    done = cli("context", "--explain")
    assert done.stdout == cli("context").stdout
    assert [row.became for row in rows(done.stderr)] == ["full"] * 6 + ["headings"]


def test_where_nothing_fitted_the_table_says_what_each_needs(cli: Cli, stocked: Path):
    for command in ("context", "context-pack"):
        done = cli(command, "rotation", "--tokens", "5", "--explain")
        assert done.stdout == ""
        assert "nothing fitted into 5 tokens" in done.stderr
        needed = [row.needs for row in rows(done.stderr) if row.needs is not None]
        assert len(needed) == 12
        smallest = number(re.findall(r"a budget of ([\d,]+)", done.stderr)[0])
        assert 5 < smallest <= min(needed)


def test_nothing_found_needs_no_table(cli: Cli, path: Path):
    fill(path)
    done = cli("context", "rotation", "--project", "none", "--explain")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "",
        'nothing matched\nno project "none"; there are: thesis\n',
    )


def test_a_stored_title_cannot_pose_as_a_row(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        bag.add("rotation", title="one\x1b[2J\r\n01a1  full  1  –  1.000  two\u2028three")
    done = cli("context", "rotation", "--explain")
    assert ESCAPE not in done.stderr
    assert [row.became for row in rows(done.stderr)] == ["full", "headings"]


def test_a_terminal_gets_as_much_as_a_screen_can_show_and_a_file_gets_it_all(cli: Cli, path: Path, tmp_path: Path):
    with satchel.open(path) as bag:
        bag.add_many(Draft(f"記憶を回す {'long title ' * 9}{number}", project="p") for number in range(60))
    command = ("context", "--tokens", "60", "--explain", "--policy", "greedy")
    assert len(rows(cli(*command).stderr)) >= 50
    shown = on_a_terminal(*command, folder=tmp_path, stdout_is_a_pipe=True, COLUMNS="80")
    assert ESCAPE in shown.screen
    assert ESCAPE not in shown.piped
    table = rows(plain(shown.screen))
    assert sum(row.became == "over budget" for row in table) == 40
    assert re.search(r"… and \d+ more left out", shown.screen)
    assert all(len(line) <= 80 for line in plain(shown.screen).splitlines())
