"""A valid store, invalid and damaged files, and the checks that a file is rejected and left unchanged."""

import hashlib
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

import satchel

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


def assert_one_line(done: subprocess.CompletedProcess[str], *, code: int, path: Path) -> None:
    assert done.stdout == ""
    assert done.stderr.startswith("satchel: ")
    assert done.stderr.count("\n") == 1
    assert str(path) in done.stderr
    assert "unexpected" not in done.stderr
    assert done.returncode == code
