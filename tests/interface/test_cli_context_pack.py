"""`satchel context-pack` in a real process: whole memories as one text, printed or written."""

import json
import re
import stat
from pathlib import Path

import pytest
from complaint import complaint
from sample import contents, fill

import satchel
from conftest import Cli
from satchel import Draft, count_tokens


@pytest.fixture
def thesis(path: Path) -> Path:
    """Ten memories of a project, from short to long, and one of another project."""
    with satchel.open(path) as bag:
        bag.add_many(
            Draft(f"rotation {number} " + "and words " * number * 5, project="thesis", tags=[f"t{number % 2}"])
            for number in range(10)
        )
        bag.add("rotation elsewhere", project="other", kind="fact")
    return path


def test_it_prints_whole_memories_of_the_project_under_a_heading_that_counts_itself(cli: Cli, thesis: Path):
    done = cli("context-pack", "rotation", "--project", "thesis", "--tokens", "2000")
    assert done.returncode == 0
    counted = count_tokens(done.stdout)
    assert done.stdout.startswith(
        f"# Project Context: thesis (10 memories, ~{counted} tokens)\n\n## [observation] "
    )
    assert "elsewhere" not in done.stdout
    assert done.stderr == f"10 relevant memories, {counted} of 2,000 tokens\n"


@pytest.mark.parametrize(
    "options",
    [(), ("--json",), ("--format", "system_prompt"), ("--format", "raw", "--policy", "greedy")],
    ids=" ".join,
)
def test_no_form_costs_more_than_the_budget(cli: Cli, thesis: Path, options: tuple[str, ...]):
    for budget in (1, 150, 400):
        done = cli("context-pack", "rotation", "--tokens", str(budget), *options)
        assert done.returncode == 0, done.stderr
        # JSON that says that nothing fitted is a message, as an error is.
        assert count_tokens(done.stdout) <= (max(budget, 20) if "--json" in options else budget)
    assert f"{count_tokens(done.stdout)} of 400 tokens; " in done.stderr
    assert done.stdout.count("and words and words") > 1


def test_filters_and_the_limit_narrow_it(cli: Cli, thesis: Path):
    assert cli("context-pack", "--kind", "fact").stdout.count("## [fact]") == 1
    tagged = cli("context-pack", "--tag", "t1", "--limit", "3").stdout
    assert tagged.count("## [") == tagged.count("| tags: t1*") == 3


def test_a_file_is_written_or_replaced_and_nothing_is_printed(cli: Cli, thesis: Path, tmp_path: Path):
    printed = cli("context-pack", "--project", "thesis").stdout
    target = tmp_path / "thesis.md"
    for before in (None, "what was there\n" * 10_000):
        if before:
            target.write_text(before)
        done = cli("context-pack", "--project", "thesis", "-o", "thesis.md")
        assert (done.returncode, done.stdout) == (0, "")
        assert target.read_text() == printed
        assert done.stderr == f"wrote 10 memories to thesis.md: {count_tokens(printed)} of 2,000 tokens\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir() if "thesis" in file.name or "partial" in file.name) == [
        "thesis.md"
    ]


def test_one_memory_is_not_several(cli: Cli, thesis: Path):
    assert cli("context-pack", "--kind", "fact", "-o", "one.md").stderr.startswith("wrote 1 memory to one.md: ")


def test_a_dash_is_standard_output(cli: Cli, thesis: Path, tmp_path: Path):
    done = cli("context-pack", "-o", "-")
    assert done.stdout == cli("context-pack").stdout != ""
    assert not (tmp_path / "-").exists()


def test_a_file_named_as_json_is_json_unless_a_form_is_given(cli: Cli, thesis: Path, tmp_path: Path):
    cli("context-pack", "-o", "pack.json")
    assert json.loads((tmp_path / "pack.json").read_text())["satchel"] == "context-pack"
    cli("context-pack", "-o", "pack.json", "--format", "markdown")
    assert (tmp_path / "pack.json").read_text().startswith("# Context (")


def test_json_says_what_it_is_and_what_it_costs(cli: Cli, thesis: Path):
    done = cli("context-pack", "--json", "--tokens", "700", "--project", "thesis")
    pack = json.loads(done.stdout)
    assert (pack["satchel"], pack["version"], pack["project"]) == ("context-pack", 1, "thesis")
    assert pack["token_count"] == count_tokens(done.stdout) <= pack["token_budget"] == 700
    assert 0 < len(pack["memories"]) < 10
    assert done.stderr.endswith(f"; {10 - len(pack['memories'])} more did not fit; --explain says which\n")
    assert cli("context-pack", "--format", "json", "--tokens", "700", "--project", "thesis").stdout == done.stdout


def test_where_nothing_fits_the_smallest_budget_that_works_is_named(cli: Cli, thesis: Path):
    for options in ((), ("--json",)):
        done = cli("context-pack", "rotation", "--tokens", "9", *options)
        assert (done.returncode, done.stdout) == (0, "" if not options else done.stdout)
        assert done.stderr.startswith(
            "nothing fitted into 9 tokens: 11 relevant memories, the smallest needs a budget of "
        )
        smallest = int(re.findall(r"a budget of (\d+)", done.stderr)[0])
        assert cli("context-pack", "rotation", "--tokens", str(smallest), *options).stdout.count("rotation") >= 1
        less = cli("context-pack", "rotation", "--tokens", str(smallest - 1), *options).stdout
        said = {"memories": [], "omitted": 11, "smallest_budget": smallest}
        assert (json.loads(less) == said) if options else (less == "")


def test_an_empty_pack_is_not_written_and_replaces_nothing(cli: Cli, thesis: Path, tmp_path: Path):
    old = tmp_path / "old.md"
    old.write_text("precious")
    for target in ("old.md", "new.md"):
        done = cli("context-pack", "--tokens", "0", "-o", target)
        assert (done.returncode, done.stdout) == (0, "")
        assert re.fullmatch(rf"nothing fitted into 0 tokens: .+; {target} was not written\n", done.stderr)
    done = cli("context-pack", "rotation", "--project", "none", "-o", "old.md")
    assert done.stderr.startswith("nothing matched; old.md was not written\n")
    done = cli("context-pack", "--project", "none", "-o", "old.md")
    assert done.stderr == (
        'no memories here; old.md was not written\nno project "none"; there are: thesis, other\n'
    )
    assert old.read_text() == "precious"
    assert not (tmp_path / "new.md").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--tokens", "-1"), "token budget -1 is negative"),
        (("--tokens", "1.5"), "token budget '1.5' is not a whole number"),
        (("--tokens", "abc"), "token budget 'abc' is not a whole number"),
        (("--format", "poem"), "'poem' is not one of"),
        (("--format", "messages"), "'messages' is not one of"),
        (("--json", "--format", "markdown"), "--json and --format markdown are two forms; give one of them"),
        (("--project", " "), "--project is blank"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_options_give_one_clear_line_and_change_nothing(
    cli: Cli, thesis: Path, options: tuple[str, ...], said: str
):
    before = contents(thesis)
    assert said in complaint(cli("context-pack", "rotation", *options))
    assert contents(thesis) == before


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere/pack.md", "nowhere does not exist; make it first"),
        ("folder", "folder is a folder, not a file"),
        ("notes.db", "notes.db is a database"),
    ],
)
def test_a_target_that_is_no_file_to_write_is_one_clear_line(
    cli: Cli, thesis: Path, tmp_path: Path, target: str, said: str
):
    (tmp_path / "folder").mkdir()
    files = set(tmp_path.rglob("*"))
    assert said in complaint(cli("context-pack", "rotation", "-o", target))
    assert set(tmp_path.rglob("*")) == files
    assert cli("list").stdout.count("rotation") == 11


@pytest.mark.parametrize("target", ["/dev/full", "/proc/pack.md"])
def test_a_file_that_cannot_be_written_is_a_failure_of_one_line(cli: Cli, thesis: Path, target: str):
    assert f"cannot write {target}: " in complaint(cli("context-pack", "-o", target), code=1)


def test_a_store_that_is_not_there_and_one_that_is_empty_read_differently(cli: Cli, path: Path):
    assert "there is no store at" in complaint(cli("context-pack"))
    satchel.open(path).close()
    done = cli("context-pack")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no memories here\n")


@pytest.mark.parametrize("project", ["# one\n## [fact] two", "**bold** `code`", "پروژه", "🎒 esrever"])
def test_an_odd_name_of_a_project_stays_on_the_first_line(cli: Cli, path: Path, project: str):
    with satchel.open(path) as bag:
        bag.add("A note.", project=project, title="سلام 🚀\n---\n# three", at="2026-02-10")
    done = cli("context-pack", "--project", project)
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first.startswith(f"# Project Context: {' '.join(project.split())} (1 memory, ~")
    assert others == [
        "",
        "## [observation] سلام 🚀 --- # three",
        "*2026-02-10 | importance: 0.5*",
        "",
        "A note.",
    ]


def test_more_room_than_there_are_memories_leaves_nothing_out(cli: Cli, path: Path):
    memories = fill(path)
    done = cli("context-pack", "--tokens", "10000")
    assert all(memory.text in done.stdout for memory in memories)
    assert done.stderr == f"{count_tokens(done.stdout)} of 10,000 tokens\n"
