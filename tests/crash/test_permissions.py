"""Read-only and unreadable files and folders, and the permissions of new files."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from samples import Sample, assert_one_line, contents, sample

import satchel
from conftest import clean_environment

# A fixture, which the tests ask for by name.
__all__ = ["sample"]

NOBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can reach, which pytest's own are not."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        folder.chmod(0o777)


# Everything is loaded first: the interpreter itself may lie where only its owner can read.
AS_USER = f"""
import contextlib, io, os, sys, satchel, satchel.cli.app
for embedder in (None, "static"):
    with satchel.open(":memory:", embedder=embedder) as bag:
        bag.import_([b'{{"text": "warm"}}'])
        bag.search("warm")
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()):
    for command in (["add", "warm"], ["stats"], ["get", "nothing"]):
        satchel.cli.app.run([*command, "--db", ":memory:"])
if os.getuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
"""


def as_user(folder: Path, script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a script as someone whom file permissions bind: nobody, if we are root."""
    return subprocess.run(
        [sys.executable, "-c", AS_USER + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env=clean_environment(folder),
    )


def satchel_as_user(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return as_user(folder, "satchel.cli.app.main(sys.argv[1:])", *arguments)


READ_ONLY = """
with satchel.open(sys.argv[1]) as bag:
    found = bag.search("note 7")
    assert len(found) > 0 and bag.get(found[0].memory.id).text == found[0].memory.text
    assert bag.stats().memories == 60
    assert len(list(bag.export())) == 61
    assert not [check for check in bag.checks() if check.state == "failed"], bag.checks()
    for write in (
        lambda: bag.add("more"),
        lambda: bag.update(found[0].memory.id, text="other"),
        lambda: bag.forget(found[0].memory.id, purge=True),
        lambda: bag.import_([b'{"text": "more"}']),
        lambda: bag.relate(found[0].memory.id, found[1].memory.id),
    ):
        try:
            write()
        except satchel.StoreReadOnlyError as error:
            assert sys.argv[1] in str(error) and "writable" in str(error), error
        else:
            raise AssertionError("a write went through")
    bag.backup(sys.argv[2])
print("fine")
"""


def test_a_file_that_may_only_be_read_is_read_and_a_write_says_so(open_folder: Path, sample: Sample):
    path = open_folder / "notes.db"
    path.write_bytes(sample.closed)
    path.chmod(0o444)
    done = as_user(open_folder, READ_ONLY, path, open_folder / "copy.db")
    assert (done.stdout, done.stderr) == ("fine\n", "")
    assert path.read_bytes() == sample.closed
    with satchel.open(open_folder / "copy.db") as copy:
        assert copy.stats().memories == 60
    refused = satchel_as_user(open_folder, "add", "more", "--db", path)
    assert_one_line(refused, code=1, path=path)
    assert "can only be read" in refused.stderr
    assert path.read_bytes() == sample.closed


def test_a_folder_that_may_only_be_read_is_named_in_one_line(open_folder: Path, sample: Sample):
    """SQLite needs its log beside the file, so that nothing can be read here, but nothing is harmed."""
    path = open_folder / "notes.db"
    path.write_bytes(sample.closed)
    path.chmod(0o444)
    open_folder.chmod(0o555)
    before = contents(open_folder)
    for command in (["add", "more"], ["stats"]):
        done = satchel_as_user(open_folder, *command, "--db", path)
        if done.returncode == 0:
            assert command == ["stats"]
            assert "60" in done.stdout
        else:
            assert_one_line(done, code=1, path=path)
            assert "read" in done.stderr
            assert "folder" in done.stderr or "write beside it" in done.stderr
    assert contents(open_folder) == before


def test_a_new_store_in_a_folder_that_may_only_be_read_is_refused(open_folder: Path):
    open_folder.chmod(0o555)
    path = open_folder / "notes.db"
    done = satchel_as_user(open_folder, "add", "more", "--db", path)
    assert_one_line(done, code=1, path=path)
    assert contents(open_folder) == {}


def test_a_store_of_someone_else_that_cannot_be_read_is_refused(open_folder: Path, sample: Sample):
    path = open_folder / "notes.db"
    path.write_bytes(sample.closed)
    path.chmod(0o000)
    done = satchel_as_user(open_folder, "stats", "--db", path)
    assert_one_line(done, code=1, path=path)
    assert "permission" in done.stderr
    assert list(contents(open_folder)) == ["notes.db"]


def test_an_empty_file_that_may_only_be_read_is_refused(open_folder: Path):
    path = open_folder / "notes.db"
    path.touch()
    path.chmod(0o444)
    done = satchel_as_user(open_folder, "add", "more", "--db", path)
    assert_one_line(done, code=1, path=path)
    assert "can only be read" in done.stderr
    assert list(contents(open_folder)) == ["notes.db"]
    assert path.stat().st_size == 0


def test_a_new_store_is_closed_to_others(path: Path):
    with satchel.open(path) as bag:
        bag.add("mine")
        bag.backup(path.with_name("copy.db"))
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert {"notes.db", "notes.db-wal", "copy.db"} <= modes.keys()
