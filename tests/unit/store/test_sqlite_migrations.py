"""Migrations: forward only, each once, backed up first, atomic."""

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from satchel.errors import StoreError, StoreReadOnlyError, StoreVersionError
from satchel.store.sqlite.connection import connect, create_file
from satchel.store.sqlite.header import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION
from satchel.store.sqlite.migrations import prepare, recognise

STEPS = {
    1: "CREATE TABLE log (step INTEGER); INSERT INTO log VALUES (1);",
    2: "-- The second.\nALTER TABLE log ADD COLUMN note TEXT; INSERT INTO log VALUES (2, 'two');",
    3: "CREATE INDEX log_step ON log (step); INSERT INTO log VALUES (3, 'three');",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "queries.sql").write_text("this is no migration")
    write(folder, 1)
    return folder


def write(folder: Path, *numbers: int) -> None:
    for number in numbers:
        (folder / f"{number:04}_step.sql").write_text(STEPS[number])


def migrated(path: Path, folder: Path, *, readonly: bool = False) -> apsw.Connection:
    create_file(path)
    connection = connect(str(path), readonly=readonly)
    try:
        prepare(connection, str(path), folder)
    except BaseException:
        connection.close()
        raise
    return connection


def version(connection: apsw.Connection) -> tuple[int, int]:
    return connection.pragma("application_id"), connection.pragma("user_version")


def steps(connection: apsw.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT step FROM log ORDER BY rowid")]


def backups(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir() if "backup" in file.name)


def test_a_new_file_gets_every_migration_in_order(path: Path, folder: Path):
    write(folder, 3, 2)
    db = migrated(path, folder)
    assert steps(db) == [1, 2, 3]
    assert version(db) == (APPLICATION_ID, 3)
    assert db.pragma("journal_mode") == "wal"
    assert backups(path) == []
    db.close()


def test_a_migration_is_applied_once(path: Path, folder: Path):
    for _ in range(3):
        db = migrated(path, folder)
        assert steps(db) == [1]
        db.close()
    write(folder, 2)
    for _ in range(3):
        db = migrated(path, folder)
        assert steps(db) == [1, 2]
        db.close()


def test_the_old_version_is_backed_up_before_a_migration(path: Path, folder: Path):
    db = migrated(path, folder)
    db.execute("INSERT INTO log VALUES (1000)")
    db.close()
    write(folder, 2, 3)
    migrated(path, folder).close()
    assert backups(path) == ["notes.db.schema-1.backup"]
    backup = path.with_name("notes.db.schema-1.backup")
    assert backup.stat().st_mode & 0o777 == 0o600
    old = connect(str(backup))
    assert version(old) == (APPLICATION_ID, 1)
    assert steps(old) == [1, 1000]
    old.close()


def test_a_backup_opens_as_the_old_version(path: Path, folder: Path, tmp_path: Path):
    migrated(path, folder).close()
    write(folder, 2)
    migrated(path, folder).close()
    old_folder = tmp_path / "old"
    old_folder.mkdir()
    write(old_folder, 1)
    old = migrated(path.with_name("notes.db.schema-1.backup"), old_folder)
    assert steps(old) == [1]
    old.close()


def test_what_is_new_since_an_earlier_backup_is_backed_up_too(path: Path, folder: Path):
    """As when an old store was restored and is migrated a second time."""
    path.with_name("notes.db.schema-1.backup").write_bytes(b"the backup of another time")
    db = migrated(path, folder)
    db.execute("INSERT INTO log VALUES (1000)")
    db.close()
    write(folder, 2)
    migrated(path, folder).close()
    assert path.with_name("notes.db.schema-1.backup").read_bytes() == b"the backup of another time"
    (newer,) = [name for name in backups(path) if name != "notes.db.schema-1.backup"]
    old = connect(str(path.with_name(newer)))
    assert steps(old) == [1, 1000]
    old.close()


@pytest.mark.parametrize(
    "broken", ["INSERT INTO log VALUES (9); SELECT broken syntax here;", "INSERT INTO nowhere VALUES (1);"]
)
def test_a_failing_migration_leaves_the_old_version_usable(path: Path, folder: Path, broken):
    migrated(path, folder).close()
    write(folder, 2)
    (folder / "0003_broken.sql").write_text(broken)
    with pytest.raises(StoreError) as failure:
        migrated(path, folder)
    assert str(path) in str(failure.value)
    (folder / "0002_step.sql").unlink()
    (folder / "0003_broken.sql").unlink()
    db = migrated(path, folder)
    assert version(db) == (APPLICATION_ID, 1)
    assert steps(db) == [1]
    db.execute("INSERT INTO log VALUES (10)")
    db.close()


def test_a_failing_migration_of_a_new_file_leaves_it_empty(path: Path, folder: Path):
    (folder / "0002_broken.sql").write_text("SELECT broken syntax here")
    with pytest.raises(StoreError):
        migrated(path, folder)
    (folder / "0002_broken.sql").unlink()
    db = migrated(path, folder)
    assert (steps(db), version(db)) == ([1], (APPLICATION_ID, 1))
    db.close()


def test_a_newer_file_is_refused_untouched(path: Path, folder: Path):
    write(folder, 2)
    migrated(path, folder).close()
    before = path.read_bytes()
    (folder / "0002_step.sql").unlink()
    with pytest.raises(StoreVersionError, match=r"schema 2, this one knows 1.*upgrade Satchel"):
        migrated(path, folder)
    assert path.read_bytes() == before
    assert backups(path) == []


def test_a_store_that_can_only_be_read_is_not_migrated(path: Path, folder: Path):
    migrated(path, folder).close()
    before = path.read_bytes()
    reader = migrated(path, folder, readonly=True)
    assert steps(reader) == [1]
    reader.close()
    write(folder, 2)
    with pytest.raises(StoreReadOnlyError, match="needs an upgrade"):
        migrated(path, folder, readonly=True)
    assert path.read_bytes() == before
    assert backups(path) == []


AT_ONCE = """
import sys
from pathlib import Path
from satchel.store.sqlite.connection import connect
from satchel.store.sqlite.migrations import prepare
path, folder = sys.argv[1:]
db = connect(path)
print("ready", flush=True)
sys.stdin.readline()
prepare(db, path, Path(folder))
print(db.pragma("user_version"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(3))
def test_8_processes_at_once_apply_each_migration_once(path: Path, folder: Path, attempt):
    db = migrated(path, folder)
    # Enough that making the backup takes a while.
    db.execute("CREATE TABLE ballast AS SELECT randomblob(4000000) AS content")
    db.close()
    write(folder, 2, 3)
    crew = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, str(path), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in crew:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in crew:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outcomes = [process.communicate(timeout=60) for process in crew]
    assert [complaint.splitlines()[-1:] for _, complaint in outcomes] == [[]] * 8
    assert [output for output, _ in outcomes] == ["3\n"] * 8
    db = migrated(path, folder)
    assert steps(db) == [1, 2, 3]
    db.close()
    assert backups(path) == ["notes.db.schema-1.backup"]
    old = connect(str(path.with_name("notes.db.schema-1.backup")))
    assert (steps(old), version(old)) == ([1], (APPLICATION_ID, 1))
    old.close()


def test_the_real_migrations_are_numbered_without_a_gap():
    numbers = sorted(int(file.name[:4]) for file in MIGRATIONS.glob("[0-9]*.sql"))
    assert numbers == list(range(1, SCHEMA_VERSION + 1))


def test_a_store_made_by_the_real_migrations_is_recognised(path: Path):
    db = migrated(path, MIGRATIONS)
    assert recognise(db, str(path)) == SCHEMA_VERSION
    assert db.pragma("foreign_key_check") is None
    db.close()
