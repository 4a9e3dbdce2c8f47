"""Files that are not a usable store are rejected in one clear line and left unchanged."""

from pathlib import Path

import pytest
from samples import CASES, PAGE, Sample, assert_one_line, beside, contents, sample

import satchel
from conftest import Cli

# A fixture, which the tests ask for by name.
__all__ = ["sample"]


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_is_no_usable_store_is_refused_and_left_as_it_was(path: Path, sample: Sample, name):
    case = CASES[name]
    case.build(path, sample)
    before = contents(path.parent)
    with pytest.raises(case.error, match=case.advice) as refusal:
        satchel.open(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert contents(path.parent) == before


@pytest.mark.parametrize("name", CASES)
def test_the_command_says_it_in_one_line_and_leaves_the_file_as_it_was(path: Path, sample: Sample, cli: Cli, name):
    case = CASES[name]
    case.build(path, sample)
    before = contents(path.parent)
    done = cli("add", "hello", "--db", path)
    assert_one_line(done, code=2 if case.error is satchel.InputError else 1, path=path)
    assert contents(path.parent) == before


def test_a_missing_folder_is_named_and_not_made(tmp_path: Path, cli: Cli):
    path = tmp_path / "missing" / "notes.db"
    with pytest.raises(satchel.InputError, match="does not exist; make it first") as refusal:
        satchel.open(path)
    assert str(path.parent) in str(refusal.value)
    assert_one_line(cli("add", "hello", "--db", path), code=2, path=path.parent)
    assert contents(tmp_path) == {}


def test_a_missing_file_is_not_made_by_a_command_that_reads(tmp_path: Path, cli: Cli):
    path = tmp_path / "missing.db"
    with pytest.raises(satchel.InputError, match="there is no store at"):
        satchel.open(path, create=False)
    for command in (["stats"], ["search", "x"], ["export"], ["doctor"], ["backup", "copy.db"]):
        assert_one_line(cli(*command, "--db", path), code=2, path=path)
    assert contents(tmp_path) == {}


def test_an_empty_file_is_a_fine_new_store(path: Path):
    path.touch(mode=0o600)
    with satchel.open(path) as bag:
        bag.add("first")
    with satchel.open(path) as bag:
        assert [memory.text for memory in bag.recent()] == ["first"]
        assert all(check.state == "ok" for check in bag.checks())


def test_a_file_cut_behind_what_its_log_holds_is_whole_again(path: Path, sample: Sample):
    """A kill in the middle of writing the log back leaves this; it is not damage."""
    path.write_bytes(sample.killed)
    beside(path, "-wal").write_bytes(sample.log)
    path.chmod(0o600)
    with satchel.open(path) as bag:
        assert bag.recent(limit=1)[0].text == "in the log only"
        assert bag.stats().memories == 61
        assert not [check for check in bag.checks() if check.state == "failed"]


@pytest.mark.parametrize("kept", [0, 1, 31, 32, 5000])
def test_a_cut_log_takes_only_what_was_written_last(path: Path, sample: Sample, kept):
    path.write_bytes(sample.killed)
    beside(path, "-wal").write_bytes(sample.log[:kept])
    with satchel.open(path) as bag:
        assert bag.stats().memories == 60
        assert not [check for check in bag.checks() if check.state == "failed"]


@pytest.mark.parametrize("place", [20_000, 60_000, 100_000])
def test_damage_in_the_middle_is_found_by_doctor_and_reported_in_one_line(path: Path, sample: Sample, cli, place):
    damaged = bytearray(sample.closed)
    damaged[place // PAGE * PAGE : place // PAGE * PAGE + 200] = b"\xff" * 200
    path.write_bytes(damaged)
    done = cli("doctor", "--db", path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
    assert "restore a backup" in done.stdout + done.stderr
    assert path.read_bytes() == damaged


def test_a_link_to_a_store_works_and_stays_a_link(path: Path, tmp_path: Path):
    with satchel.open(path) as bag:
        bag.add("through the front door")
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    with satchel.open(link) as through, satchel.open(path) as straight:
        through.add("through the link")
        assert straight.stats().memories == 2
        assert not beside(link, "-wal").exists()
    assert link.is_symlink()
    assert [file.name for file in link.parent.iterdir()] == ["link.db"]


@pytest.mark.parametrize(
    "name",
    [
        "with spaces.db",
        "記憶 ünïcode.db",
        "what?mode=ro.db",
        "#hash.db",
        "100%25 %00.db",
        "file:notes.db",
        'it\'s; "quoted".db',
        "new\nline.db",
        ".hidden",
    ],
)
def test_any_name_is_taken_as_it_is(tmp_path: Path, cli: Cli, name):
    path = tmp_path / name
    with satchel.open(path) as bag:
        bag.add("here")
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert cli("list", "--db", name).returncode == 0
    done = cli("add", "there", "--db", name)
    assert done.returncode == 0
    assert [file.name for file in tmp_path.iterdir()] == [name]
    with satchel.open(path) as bag:
        assert bag.stats().memories == 2
        bag.backup(tmp_path / f"copy of {name}")
    assert satchel.open(tmp_path / f"copy of {name}").stats().memories == 2
