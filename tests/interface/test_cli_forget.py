"""Forgetting by filter asks first, says how to undo it, and undoing restores exactly that."""

import json
import re
import shlex
from pathlib import Path

import pytest
from complaint import complaint
from sample import contents, fill
from terminal import on_a_terminal, plain

import satchel
from conftest import Cli


def undo(done_stderr: str) -> list[str]:
    (command,) = re.findall(r"undo: `satchel ([^`]+)`", done_stderr)
    return shlex.split(command)


def current(path: Path) -> set[str]:
    with satchel.open(path) as bag:
        return {memory.id for memory in bag.recent()}


def test_the_answer_names_the_command_that_undoes_it(cli: Cli, path: Path):
    memories = fill(path)
    before = current(path)
    with satchel.open(path) as bag:
        (name,) = bag.short_ids([memories[0]])
    one = cli("forget", memories[0].id)
    assert undo(one.stderr) == ["unforget", name]
    many = cli("forget", "--tag", "cron")
    assert (many.stdout, undo(many.stderr)[:2]) == ("forgot 2 memories\n", ["unforget", "--at"])
    assert current(path) == before - {memories[0].id, memories[1].id, memories[2].id}
    done = cli(*undo(many.stderr))
    assert (done.returncode, done.stdout, done.stderr) == (0, "restored 2 memories\n", "")
    assert cli(*undo(one.stderr)).stdout == "restored 1 memory\n"
    assert current(path) == before
    again = cli(*undo(one.stderr))
    assert (again.returncode, again.stdout) == (0, "restored 0 memories\n")
    assert "satchel list --ended" in again.stderr


def test_undoing_several_ids_leaves_what_was_forgotten_before(cli: Cli, path: Path):
    first, second, *_ = fill(path)
    cli("forget", first.id)
    both = cli("forget", first.id, second.id)
    assert both.stdout == "forgot 1 memory\n"
    cli(*undo(both.stderr))
    assert first.id not in current(path)
    assert second.id in current(path)


def test_the_undo_names_the_store_and_the_org(cli: Cli, path: Path, tmp_path: Path):
    other = tmp_path / "my notes.db"
    with satchel.open(other) as bag:
        memory = bag.scoped(org="acme corp").add("x")
    done = cli("forget", memory.id, "--org", "acme corp", "--db", other)
    command = undo(done.stderr)
    assert command[:2] == ["--db", str(other)]
    assert command[-2:] == ["--org", "acme corp"]
    assert cli(*command).stdout == "restored 1 memory\n"


def test_what_is_purged_has_no_undo(cli: Cli, path: Path):
    memory = fill(path)[0]
    done = cli("forget", "--purge", memory.id)
    assert (done.stdout, done.stderr) == ("purged 1 memory\n", "")
    assert complaint(cli("unforget", memory.id)).endswith("here")


def test_a_dry_run_changes_nothing(cli: Cli, path: Path):
    fill(path)
    before = contents(path)
    done = cli("forget", "--tag", "cron", "--dry-run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "would forget 2 memories\n", "")
    assert cli("forget", "--project", "thesis", "--purge", "--dry-run").stdout == "would purge 1 memory\n"
    assert json.loads(cli("forget", "--tag", "cron", "--dry-run", "--json").stdout)["count"] == 2
    assert contents(path) == before


def test_json_is_the_count_and_the_moment_that_undoes_it(cli: Cli, path: Path):
    fill(path)
    done = json.loads(cli("forget", "--tag", "cron", "--json").stdout)
    assert (done["count"], done["purged"]) == (2, False)
    assert json.loads(cli("unforget", "--at", done["at"], "--json").stdout) == {"count": 2}


def test_nothing_to_restore_is_bad_input(cli: Cli, path: Path):
    fill(path)
    assert "say what to restore" in complaint(cli("unforget"))


@pytest.mark.slow
def test_forgetting_by_filter_shows_what_matches_and_asks(path: Path, tmp_path: Path):
    memories = fill(path)
    before = contents(path)
    refused = on_a_terminal("forget", "--tag", "cron", folder=tmp_path, typed="n\n")
    shown = plain(refused.screen)
    assert refused.returncode == 1
    assert "The rotation job failed on leap day." in shown
    assert "Key rotation" not in shown
    assert "Forget these 2 memories? [y/N]:" in shown
    assert shown.rstrip().endswith("nothing was changed")
    assert contents(path) == before
    agreed = on_a_terminal("forget", "--kind", "fix", folder=tmp_path, typed="y\n")
    assert "Forget this memory?" in agreed.screen
    assert "forgot 1 memory" in agreed.screen
    assert memories[2].id not in current(path)
    assert "?" not in on_a_terminal("forget", "--kind", "todo", "--yes", folder=tmp_path).screen


@pytest.mark.slow
def test_only_the_first_few_of_many_are_shown(path: Path, tmp_path: Path):
    with satchel.open(path) as bag:
        bag.add_many(satchel.Draft(f"note {number}", project="p") for number in range(30))
        bag.forget(bag.recent()[0].id)
    shown = on_a_terminal("forget", "--project", "p", folder=tmp_path, typed="n\n", COLUMNS="60")
    assert len(re.findall(r"note \d+", shown.screen)) == 5
    assert "… and 24 more" in shown.screen
    assert "Forget these 29 memories?" in shown.screen
