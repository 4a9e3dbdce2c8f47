"""Completion offers what is in the store, and is silent where it cannot."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sample import contents

import satchel
from conftest import Cli, clean_environment
from tables import each_row


@pytest.fixture
def stocked(path: Path) -> Path:
    with satchel.open(path) as bag:
        for project, session in (("harbor", "s1"), ("thesis", "s2"), ("my notes", "s2")):
            view = bag.scoped(project=project, session=session, user="ana", agent="coder")
            view.add(f"We rotate keys in {project}.", tags=["auth", project], kind="decision")
        bag.scoped(org="other", project="secret").add("Not for everyone.", tags=["hidden"])
        bag.add("gone")
        bag.forget(bag.recent(limit=1)[0].id)
    return path


def offered(cli: Cli, line: str, shell: str = "bash") -> list[str]:
    words = line.split(" ")
    done = cli(_SATCHEL_COMPLETE=f"{shell}_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (done.returncode, done.stderr) == (0, "")
    return [each.partition(",")[2] for each in done.stdout.splitlines() if each]


@each_row(
    ("line", "wanted"),
    [
        ("satchel list --project ", ["harbor", "'my notes'", "thesis"]),
        ("satchel list --project HAR", ["harbor"]),
        ("satchel add x --project th", ["thesis"]),
        ("satchel search x --session ", ["s2", "s1"]),
        ("satchel search x --user ", ["ana"]),
        ("satchel context --agent c", ["coder"]),
        ("satchel rm --tag a", ["auth"]),
        ("satchel list --project harbor --tag ", ["auth", "harbor"]),
        ("satchel list --org other --project ", ["secret"]),
        ("satchel list --kind dec", ["decision"]),
        ("satchel list --sort u", ["updated", "used"]),
        ("satchel rem", ["remember", "remove"]),
        ("satchel sh", ["show"]),
        ("satchel zzz", []),
    ],
)
def test_names_in_the_store_are_offered(cli: Cli, stocked: Path, line: str, wanted: list[str]):
    assert sorted(offered(cli, line)) == sorted(wanted)


def test_ids_are_offered_short_with_their_first_words(cli: Cli, stocked: Path):
    with satchel.open(stocked) as bag:
        current = bag.recent(sort="created")
        names = bag.short_ids(current)
    for line in ("get ", "cat ", "edit ", "rm ", "timeline ", f"relate {names[0]} ", f"forget {names[0]} "):
        assert sorted(offered(cli, f"satchel {line}")) == sorted(names), line
    assert offered(cli, f"satchel get {names[0][:3]}") == [names[0]]
    done = cli(_SATCHEL_COMPLETE="zsh_complete", COMP_WORDS="satchel get ", COMP_CWORD="2")
    kinds, ids, helps = (done.stdout.splitlines()[start::3] for start in range(3))
    assert set(kinds) == {"plain"}
    assert dict(zip(ids, helps, strict=True)) == {
        name: f"[decision] {memory.text}" for name, memory in zip(names, current, strict=True)
    }


def test_what_was_forgotten_is_offered_to_be_restored(cli: Cli, stocked: Path):
    (name,) = offered(cli, "satchel unforget ")
    assert "gone" in cli("get", name).stdout


def test_a_store_given_on_the_line_is_the_one_that_is_read(cli: Cli, stocked: Path, tmp_path: Path):
    with satchel.open(tmp_path / "other.db") as bag:
        bag.add("x", project="elsewhere")
    assert offered(cli, f"satchel --db {tmp_path}/other.db list --project ") == ["elsewhere"]
    assert offered(cli, f"satchel list --db {tmp_path}/other.db --project ") == ["elsewhere"]


@pytest.mark.parametrize("line", ["satchel get ", "satchel list --project ", "satchel list --tag x"])
def test_a_store_that_cannot_be_read_offers_nothing_and_says_nothing(cli: Cli, tmp_path: Path, line: str):
    (tmp_path / "broken.db").write_bytes(b"no store" * 100)
    for place in ("missing.db", "broken.db", "postgresql://127.0.0.1:1/none"):
        done = cli(
            _SATCHEL_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(line.count(" ")), SATCHEL_DB=place
        )
        assert (done.stdout, done.stderr) == ("", "")
    assert not (tmp_path / "missing.db").exists()


def test_completing_changes_nothing(cli: Cli, stocked: Path):
    before = contents(stocked)
    for line in ("satchel get ", "satchel forget --project ", "satchel no-command ", "satchel get 01a1 "):
        cli(_SATCHEL_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(line.count(" ")))
    assert contents(stocked) == before


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_real_shell_offers_projects(cli: Cli, stocked: Path, tmp_path: Path, shell: str):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / f"completion.{shell}"
    script.write_text(cli("completion", shell).stdout)
    asked = {
        "bash": f'source "{script}"; COMP_WORDS=(satchel list --project h); COMP_CWORD=3; '
        '_satchel_completion satchel; echo "${COMPREPLY[@]}"',
        "fish": f'source "{script}"; complete -C "satchel list --project h"',
    }[shell]
    environment = clean_environment(tmp_path)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run([shell, "-c", asked], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert "harbor" in done.stdout
