"""Files that are not a usable store: refused in one clear line, and left exactly as they were."""

import hashlib
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

import satchel
from conftest import Cli, clean_environment

NOBODY = 65534
PAGE = 4096


class Sample(NamedTuple):
    """A store that was closed, and the same one as a kill leaves it: with a log that holds more."""

    closed: bytes
    killed: bytes
    log: bytes


class Case(NamedTuple):
    build: Callable[[Path, Sample], object]
    error: type[satchel.SatchelError]
    advice: str


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    path = tmp_path_factory.mktemp("sample") / "notes.db"
    with satchel.open(path) as bag:
        bag.add_many([satchel.Draft(f"note {number} {number} " * 40, tags=["t"]) for number in range(60)])
    closed = path.read_bytes()
    with satchel.open(path) as bag:
        bag.add("in the log only")
        return Sample(closed, path.read_bytes(), beside(path, "-wal").read_bytes())


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder and a digest of its bytes: what a refused open must leave as it was."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def foreign(*statements: str) -> Callable[[Path, Sample], object]:
    def build(path: Path, _: Sample) -> None:
        connection = apsw.Connection(str(path))
        for each in statements:
            connection.execute(each)
        connection.close()

    return build


def killed(*statements: str) -> Callable[[Path, Sample], object]:
    """Another program's file as a kill leaves it: what it wrote last is only in the log."""

    def build(path: Path, _: Sample) -> None:
        original = path.with_name("original")
        connection = apsw.Connection(str(original))
        connection.execute("PRAGMA journal_mode = WAL")
        for each in statements:
            connection.execute(each)
        take_over(original, path)
        connection.close()
        original.unlink()

    return build


def take_over(original: Path, path: Path) -> None:
    for suffix in ("", "-wal"):
        shutil.copy(beside(original, suffix), beside(path, suffix))


def truncated(length: Callable[[int], int]) -> Callable[[Path, Sample], object]:
    return lambda path, sample: path.write_bytes(sample.closed[: length(len(sample.closed))])


def truncated_with_log(length: Callable[[int], int]) -> Callable[[Path, Sample], object]:
    def build(path: Path, sample: Sample) -> None:
        path.write_bytes(sample.killed[: length(len(sample.killed))])
        beside(path, "-wal").write_bytes(sample.log)

    return build


def newer(path: Path, sample: Sample) -> None:
    path.write_bytes(sample.closed)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()


def newer_and_killed(path: Path, sample: Sample) -> None:
    original = path.with_name("original")
    original.write_bytes(sample.closed)
    connection = apsw.Connection(str(original))
    connection.pragma("user_version", 99)
    take_over(original, path)
    connection.close()
    original.unlink()


def dangling(path: Path, _: Sample) -> None:
    path.symlink_to(path.parent / "missing" / "other.db")


TABLES = "CREATE TABLE bookmark (url TEXT); INSERT INTO bookmark VALUES ('https://example.org')"
WAL = "PRAGMA journal_mode = WAL"
FORMAT, ELSEWHERE = satchel.StoreFormatError, "give another file"

CASES = {
    "a folder": Case(lambda path, _: path.mkdir(), satchel.InputError, "a folder, not a file"),
    "a link to nowhere": Case(dangling, satchel.SatchelError, "no such file|does not exist"),
    "another program's tables": Case(foreign(TABLES), FORMAT, ELSEWHERE),
    "another program's tables in WAL mode": Case(foreign(WAL, TABLES), FORMAT, ELSEWHERE),
    "another program's tables in its log": Case(killed(TABLES), FORMAT, ELSEWHERE),
    "another program's id only": Case(foreign("PRAGMA application_id = 7"), FORMAT, ELSEWHERE),
    "another program's id in its log": Case(killed("PRAGMA application_id = 7"), FORMAT, ELSEWHERE),
    "another program's version only": Case(foreign("PRAGMA user_version = 1"), FORMAT, ELSEWHERE),
    "another program's version in its log": Case(killed("PRAGMA user_version = 1"), FORMAT, ELSEWHERE),
    "cut inside the header": Case(truncated(lambda size: 50), FORMAT, "restore a backup"),
    "cut after the header": Case(truncated(lambda size: 100), FORMAT, "restore a backup"),
    "cut inside the first page": Case(truncated(lambda size: 1000), FORMAT, "restore a backup"),
    "cut after the first page": Case(truncated(lambda size: PAGE), FORMAT, "restore a backup"),
    "cut inside the second page": Case(truncated(lambda size: 6000), FORMAT, "restore a backup"),
    "cut in half": Case(truncated(lambda size: size // PAGE // 2 * PAGE), FORMAT, "restore a backup"),
    "cut in half inside a page": Case(truncated(lambda size: size // PAGE // 2 * PAGE + 9), FORMAT, "restore"),
    "without its last page": Case(truncated(lambda size: size - PAGE), FORMAT, "restore a backup"),
    "without half of its last page": Case(truncated(lambda size: size - PAGE // 2), FORMAT, "restore a backup"),
    "emptied beside its log": Case(truncated_with_log(lambda size: 0), FORMAT, "restore a backup"),
    "cut in the header beside its log": Case(truncated_with_log(lambda size: 50), FORMAT, "restore a backup"),
    "cut to a page beside its log": Case(truncated_with_log(lambda size: PAGE), FORMAT, "restore a backup"),
    "cut inside a page beside its log": Case(truncated_with_log(lambda size: 5000), FORMAT, "restore a backup"),
    "random bytes": Case(
        lambda path, _: path.write_bytes(random.Random(7).randbytes(9000)), FORMAT, "give another file"
    ),
    "a text": Case(lambda path, _: path.write_text("Dear diary,\n" * 300), FORMAT, ELSEWHERE),
    "a text of one byte": Case(lambda path, _: path.write_text("x"), FORMAT, ELSEWHERE),
    "a short text": Case(lambda path, _: path.write_text("Dear diary\n"), FORMAT, ELSEWHERE),
    "from a newer version": Case(newer, satchel.StoreVersionError, "upgrade Satchel"),
    "from a newer version, in its log": Case(newer_and_killed, satchel.StoreVersionError, "upgrade Satchel"),
}


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


def assert_one_line(done: subprocess.CompletedProcess[str], *, code: int, path: Path) -> None:
    assert done.stdout == ""
    assert done.stderr.startswith("satchel: ")
    assert done.stderr.count("\n") == 1
    assert str(path) in done.stderr
    assert "unexpected" not in done.stderr
    assert done.returncode == code


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
import contextlib, io, os, sys, satchel, satchel.cli
with satchel.open(":memory:") as bag:
    bag.import_([b'{{"text": "warm"}}'])
    bag.search("warm")
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()):
    for command in (["add", "warm"], ["stats"], ["get", "nothing"]):
        satchel.cli.run([*command, "--db", ":memory:"])
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
    return as_user(folder, "satchel.cli.main(sys.argv[1:])", *arguments)


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


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("a link to nowhere", "a folder")])
def test_a_bad_backup_is_not_restored(tmp_path: Path, sample: Sample, name):
    backup, store = tmp_path / "backups" / "notes.db", tmp_path / "stores" / "notes.db"
    backup.parent.mkdir()
    store.parent.mkdir()
    CASES[name].build(backup, sample)
    store.write_bytes(sample.closed)
    before = contents(tmp_path)
    with pytest.raises(satchel.SatchelError) as refusal:
        satchel.restore(backup, store, replace=True)
    assert str(backup) in str(refusal.value)
    assert contents(tmp_path) == before


def test_a_store_that_cannot_be_kept_aside_is_not_replaced(tmp_path: Path):
    backup, store = tmp_path / "backup.db", tmp_path / "notes.db"
    with satchel.open(":memory:") as bag:
        bag.backup(backup)
    store.write_bytes(random.Random(7).randbytes(9000))
    before = contents(tmp_path)
    with pytest.raises(satchel.StoreError, match="move it away yourself"):
        satchel.restore(backup, store, replace=True)
    assert contents(tmp_path) == before


def test_a_restored_store_is_as_well_as_any_other(tmp_path: Path, sample: Sample):
    original, store = tmp_path / "original.db", tmp_path / "notes.db"
    original.write_bytes(sample.closed)
    original.chmod(0o600)
    with satchel.open(original) as bag:
        bag.backup(tmp_path / "backup.db")
    satchel.restore(tmp_path / "backup.db", store)
    with satchel.open(store) as bag:
        assert [check for check in bag.checks() if check.state != "ok"] == []


def test_a_backup_that_is_used_as_a_store_is_as_well_as_any_other(tmp_path: Path, sample: Sample):
    original = tmp_path / "original.db"
    original.write_bytes(sample.closed)
    with satchel.open(original) as bag:
        bag.backup(tmp_path / "backup.db")
    with satchel.open(tmp_path / "backup.db") as bag:
        bag.add("more")
        assert [check for check in bag.checks() if check.state != "ok"] == []


def test_a_store_is_not_restored_from_itself(path: Path, sample: Sample, monkeypatch):
    monkeypatch.setattr("satchel.store.sqlite.connection.BUSY_SECONDS", 0.1)
    path.write_bytes(sample.closed)
    before = contents(path.parent)
    with pytest.raises(satchel.InputError):
        satchel.restore(path, path, replace=True)
    assert contents(path.parent) == before


def test_nothing_is_restored_into_memory(tmp_path: Path, sample: Sample, monkeypatch):
    monkeypatch.chdir(tmp_path)
    backup = tmp_path / "backup.db"
    backup.write_bytes(sample.closed)
    before = contents(tmp_path)
    with pytest.raises(satchel.InputError):
        satchel.restore(backup, ":memory:")
    assert contents(tmp_path) == before
