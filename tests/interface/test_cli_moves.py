"""The commands that move memories, in a real process: export, import, backup, restore."""

import json
import stat
from pathlib import Path

import pytest
from complaint import complaint
from sample import contents, fill

import satchel
from conftest import Cli

ID = "01a1e252-5d9a-7bc3-aca3-0fb7aac97b91"
TIME = "2026-01-01T00:00:00Z"
RECORD = {"id": ID, "text": "kept", "at": TIME, "created_at": TIME, "updated_at": TIME, "tokens": 1}


@pytest.fixture
def exported(cli: Cli, path: Path, tmp_path: Path) -> Path:
    """The export of a store with history, relations and an ended memory."""
    first, second, *_ = fill(path)
    with satchel.open(path) as bag:
        bag.update(first.id, title="New title")
        bag.relate(second.id, first.id, "supersedes")
    file = tmp_path / "all.jsonl"
    done = cli("export", "-o", file)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"wrote 7 memories and relations to {file}\n"
    return file


def test_an_export_goes_into_another_store_and_comes_out_byte_for_byte(cli: Cli, exported: Path, tmp_path: Path):
    other = tmp_path / "other.db"
    done = cli("import", exported, "--db", other)
    assert done.stdout == "added 6, updated 0, unchanged 0, relations 1, bad lines 0\n"
    assert cli("export", "--db", other).stdout.encode() == exported.read_bytes()
    again = cli("import", "-", "--db", other, "--json", stdin=exported.read_bytes())
    assert (again.returncode, again.stderr) == (0, "")
    assert {"added": 0, "updated": 0, "kept": 6}.items() <= json.loads(again.stdout).items()
    assert contents(other) == exported.read_bytes()


def test_an_export_file_is_for_its_owner_only_and_leaves_no_other_file(exported: Path, tmp_path: Path):
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["all.jsonl", "notes.db"]


def test_an_export_can_be_narrowed(cli: Cli, path: Path):
    fill(path)
    lines = [json.loads(line) for line in cli("export", "--tag", "cron", "--kind", "fix").stdout.splitlines()]
    assert lines[0] == {"satchel": "export", "version": 1}
    assert [line["memory"]["kind"] for line in lines[1:]] == ["fix"]


def test_drafts_without_an_id_come_in_once(cli: Cli, path: Path):
    drafts = '{"text":"first draft","tags":["a"]}\n\n{"text":"second draft","kind":"todo","project":"p"}\n'
    assert cli("import", "-", stdin=drafts).stdout.startswith("added 2, ")
    before = contents(path)
    assert cli("import", "-", stdin=drafts).stdout.startswith("added 0, ")
    assert contents(path) == before
    assert "second draft" in cli("list", "--project", "p").stdout


def test_bad_lines_are_reported_with_their_numbers_and_the_rest_goes_in(cli: Cli, path: Path):
    lines = [
        b'{"text":"good one"}',
        b"not json",
        b'{"text":""}',
        b"\xff\xfe",
        b'{"text":"x","importance":7}',
        b'{"text":"x","colour":"red"}',
        b"[1]",
        b'{"text":"good two"}',
    ]
    done = cli("import", "-", stdin=b"\n".join(lines))
    assert done.returncode == 1
    assert done.stdout == "added 2, updated 0, unchanged 0, relations 0, bad lines 6\n"
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [f"line {n}" for n in range(2, 8)]
    assert "'colour'" in done.stderr
    as_json = json.loads(cli("import", "-", "--json", stdin=b"\n".join(lines)).stdout)
    assert [problem["line"] for problem in as_json["problems"]] == [2, 3, 4, 5, 6, 7]
    with satchel.open(path) as bag:
        assert sorted(memory.text for memory in bag.recent()) == ["good one", "good two"]


def test_a_strict_import_with_one_bad_line_changes_nothing(cli: Cli, path: Path):
    fill(path)
    before = contents(path)
    lines = b'{"text":"good"}\n' * 600 + b"bad\n" + b'{"text":"good too"}\n'
    said = complaint(cli("import", "-", "--strict", stdin=lines))
    assert "line 601" in said
    assert "nothing was imported" in said
    assert contents(path) == before


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("[" * 100_000, id="nested too deeply"),
        pytest.param(json.dumps({"memory": RECORD | {"revision": 10**30}}), id="a number too large"),
        pytest.param(json.dumps({"memory": RECORD | {"created_at": "2026-01-01T00:00:00"}}), id="no time zone"),
    ],
)
def test_an_odd_line_does_not_keep_the_rest_out(cli: Cli, path: Path, line: str):
    done = cli("import", "-", stdin=f'{{"text":"before"}}\n{line}\n{{"text":"after"}}\n')
    assert "unexpected" not in done.stderr
    with satchel.open(path) as bag:
        texts = {memory.text for memory in bag.recent()}
    assert {"before", "after"} <= texts
    if done.returncode:
        assert done.stderr.startswith("line 2: ")


def test_an_imported_history_that_makes_no_sense_is_refused_or_can_be_shown(cli: Cli):
    entry = {"memory": ID, "at": TIME, "action": "add", "changes": {"title": 5}}
    done = cli("import", "-", stdin=json.dumps({"memory": RECORD, "history": [entry]}))
    if done.returncode:
        assert done.stderr.startswith("line 1: ")
    else:
        shown = cli("history", ID)
        assert (shown.returncode, shown.stderr) == (0, "")


def test_a_backup_is_a_whole_store_and_restoring_keeps_the_old_one_aside(cli: Cli, path: Path, tmp_path: Path):
    fill(path)
    before = contents(path)
    backup = tmp_path / "backup.db"
    done = cli("backup", backup)
    assert done.returncode == 0
    assert done.stdout == f"backed up {backup.stat().st_size:,} bytes to {backup}\n"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert contents(backup) == before

    cli("add", "after the backup")
    changed = contents(path)
    assert "--force" in complaint(cli("restore", backup))
    assert contents(path) == changed

    done = cli("restore", backup, "--force")
    assert (done.returncode, done.stdout) == (0, f"restored {path}\n")
    assert contents(path) == before
    aside = Path(done.stderr.strip().removeprefix("the store that was replaced is now "))
    assert contents(aside) == changed


def test_a_backup_is_restored_where_there_was_no_store(cli: Cli, path: Path, tmp_path: Path):
    fill(path)
    new = tmp_path / "new.db"
    assert cli("backup", tmp_path / "backup.db").returncode == 0
    done = cli("restore", tmp_path / "backup.db", "--db", new)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"restored {new}\n", "")
    assert contents(new) == contents(path)
    assert stat.S_IMODE(new.stat().st_mode) == 0o600


def test_a_backup_is_restored_to_the_default_place_on_a_new_machine(cli: Cli, path: Path, tmp_path: Path):
    fill(path)
    assert cli("backup", tmp_path / "backup.db").returncode == 0
    done = cli("restore", tmp_path / "backup.db", SATCHEL_DB="")
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "satchel" / "satchel.db") == contents(path)


def test_restoring_into_memory_is_refused_and_makes_no_file(cli: Cli, path: Path, tmp_path: Path):
    fill(path)
    assert cli("backup", tmp_path / "backup.db").returncode == 0
    done = cli("restore", tmp_path / "backup.db", "--db", ":memory:")
    assert not (tmp_path / ":memory:").exists()
    complaint(done)


def test_restoring_a_store_from_itself_is_refused(cli: Cli, path: Path, tmp_path: Path):
    fill(path)
    before = contents(path)
    complaint(cli("restore", path, "--force"))
    assert contents(path) == before
    assert not list(tmp_path.glob("*before-restore*"))
