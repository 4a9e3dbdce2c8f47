"""`--explain` and `--as-of` in a real process."""

import json
import re
from pathlib import Path

import pytest
from complaint import complaint
from sample import fill
from terminal import ESCAPE, on_a_terminal, plain

import satchel
from conftest import Cli
from satchel import Draft, count_tokens

PARTS = (
    "words", "surroundings", "session", "meaning", "speaker", "shape", "kind", "time", "currency", "graph", "trust",
)  # fmt: skip
LEGEND = "score: how likely it is needed; parts: log-odds against the average candidate\n"


def explained(text: str) -> list[tuple[str, float, dict[str, float]]]:
    """The id, the score and the parts of each table in a text."""
    found = []
    for line in text.splitlines():
        if heading := re.match(r"(\S+)  score (\S+)", line):
            found.append((heading[1], float(heading[2]), {}))
        elif found and line.startswith("    "):
            words = line.split()
            found[-1][2].update(zip(words[::2], map(float, words[1::2]), strict=True))
    return found


@pytest.fixture
def long_memory(path: Path) -> satchel.Memory:
    filler = [f"Paragraph {number} tells of something else altogether." for number in range(200)]
    filler[150] = "The secret ingredient is saffron."
    with satchel.open(path) as bag:
        bag.add_many(Draft(f"short note {number}") for number in range(5))
        return bag.add("\n\n".join(filler), title="Recipe")


def sureless(listing: str) -> str:
    """Without how sure each hit is: that moves a little when a memory is used."""
    return re.sub(r"(?m)^(\S+) \d+% ", r"\1 ", listing)


def test_search_explains_each_hit_after_the_listing(cli: Cli, path: Path):
    fill(path)
    listing = sureless(cli("search", "rotation job").stdout)
    done = cli("search", "rotation job", "--explain")
    assert done.returncode == 0
    assert done.stderr == LEGEND
    shown, tables = sureless(done.stdout).removeprefix(listing), explained(done.stdout)
    assert sureless(done.stdout).startswith(listing)
    assert shown.startswith("\n")
    assert [name for name, _, _ in tables] == [line.split()[0] for line in listing.splitlines() if line[:1].strip()]
    assert [tuple(parts) for _, _, parts in tables] == [PARTS] * len(tables)
    scores = [score for _, score, _ in tables]
    assert scores == sorted(scores, reverse=True)
    assert tables[0][2]["words"] > tables[-1][2]["words"]


def test_the_same_part_stands_at_the_same_place_of_every_table(cli: Cli, path: Path):
    fill(path)
    lines = cli("search", "rotation job", "--explain").stdout.splitlines()
    for part in PARTS:
        ends = {line.index(f" {part} ") for line in lines if f" {part} " in line and re.search(r"\d\.\d\d$", line)}
        assert len(ends) == 1, part


def test_a_long_memory_names_the_passage_that_matched(cli: Cli, long_memory: satchel.Memory):
    done = cli("search", "saffron", "--explain", "--detail", "summary")
    heading = re.search(r"characters ([\d,]+)–([\d,]+) of ([\d,]+)$", done.stdout, re.MULTILINE)
    start, end, length = (int(number.replace(",", "")) for number in heading.groups())
    assert "saffron" in long_memory.text[start:end]
    assert end - start < length == len(long_memory.text)
    hit = json.loads(cli("search", "saffron", "--explain", "--json").stdout)["hits"][0]
    assert hit["passages"][0] == [start, end]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_long_memory_is_shown_by_the_passage_that_matched_within_the_budget(
    cli: Cli, long_memory: satchel.Memory, options: tuple[str, ...]
):
    done = cli("search", "saffron", "--tokens", "250", *options)
    assert 0 < count_tokens(done.stdout) <= 250
    assert "Paragraph 0 " not in done.stdout
    assert "saffron" in done.stdout


def test_json_has_the_parts_only_if_they_were_asked_for(cli: Cli, path: Path, long_memory: satchel.Memory):
    plainly = json.loads(cli("search", "short saffron", "--json", "--tokens", "5000").stdout)["hits"]
    whole = json.loads(cli("search", "short saffron", "--json").stdout)["hits"]
    assert all(hit["parts"] is None for hit in whole)
    done = cli("search", "short saffron", "--json", "--tokens", "5000", "--explain")
    assert "score" not in done.stderr
    why = json.loads(done.stdout)["hits"]
    assert [hit["memory"]["id"] for hit in why] == [hit["memory"]["id"] for hit in plainly]
    assert not any({"parts", "passages"} & hit.keys() for hit in plainly)
    assert [tuple(hit["parts"]) for hit in why] == [PARTS] * len(why)
    assert {hit["memory"]["id"] for hit in why if "passages" in hit} == {long_memory.id}


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_budget_holds_for_what_is_printed_with_the_explanation(cli: Cli, path: Path, options: tuple[str, ...]):
    with satchel.open(path) as bag:
        bag.add_many(Draft(f"rotation note {number} " + "words " * number) for number in range(10))
    kept = []
    for budget in (60, 150, 400, 5_000):
        done = cli("search", "rotation", "--explain", "--token-budget", str(budget), *options)
        assert done.returncode == 0, done.stderr
        assert count_tokens(done.stdout) <= budget
        if options:
            hits = json.loads(done.stdout)["hits"] if done.stdout else []
            assert all("parts" in hit for hit in hits)
        else:
            hits = explained(done.stderr)
            assert "score" not in done.stdout
        kept.append(len(hits))
        assert not hits or f"{count_tokens(done.stdout):,} of {budget:,} tokens" in done.stderr
    assert kept == sorted(kept)
    assert kept[-1] == 10


def test_nothing_found_needs_no_explanation(cli: Cli, path: Path):
    fill(path)
    done = cli("search", "zebra", "--explain")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing matched\n")


def test_a_terminal_sets_the_headings_off(path: Path, tmp_path: Path):
    fill(path)
    shown = on_a_terminal("search", "rotation", "--explain", folder=tmp_path, COLUMNS="80")
    assert ESCAPE in shown.screen
    assert len(explained(plain(shown.screen))) == 4
    assert all(len(line) <= 80 for line in plain(shown.screen).splitlines())
    shown = on_a_terminal(
        "search", "rotation", "--explain", "--tokens", "500", folder=tmp_path, stdout_is_a_pipe=True
    )
    assert ESCAPE in shown.screen
    assert ESCAPE not in shown.piped
    assert len(explained(plain(shown.screen))) == 4


@pytest.fixture
def changed_mind(path: Path) -> Path:
    with satchel.open(path) as bag:
        old = bag.add("We deploy on Fridays.", at="2025-01-10")
        new = bag.add("We deploy on Tuesdays.", at="2025-06-10", valid_from="2025-06-10")
        bag.relate(new.id, old.id, "supersedes")
        bag.update(old.id, invalid_at="2025-06-10")
    return path


@pytest.mark.parametrize("command", [("search", "deploy"), ("context", "deploy"), ("context",)], ids=" ".join)
def test_as_of_shows_what_held_at_that_time(cli: Cli, changed_mind: Path, command: tuple[str, ...]):
    for moment, days in (
        ((), {"Tuesdays"}),
        (("--as-of", "2025-03-01"), {"Fridays"}),
        (("--as-of", "2025-06-11T08:00:00Z"), {"Tuesdays"}),
        (("--as-of", "2024-12-31"), set()),
    ):
        done = cli(*command, *moment)
        assert done.returncode == 0, done.stderr
        assert set(re.findall(r"Fridays|Tuesdays", done.stdout)) == days


@pytest.mark.parametrize("moment", ["", "yesterday", "2025-02-30", "2025", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_is_none_is_named_and_refused(cli: Cli, changed_mind: Path, moment: str):
    for command in (("search", "deploy"), ("context", "deploy")):
        said = complaint(cli(*command, "--as-of", moment))
        assert "as_of" in said
        assert moment in said
