"""Where the command keeps its store: --db, SATCHEL_DB, the user data directory."""

import os
import stat
from pathlib import Path

import apsw
from complaint import complaint
from sample import contents, fill

from conftest import Cli


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_db_stands_before_or_after_the_command_and_wins_over_the_environment(cli: Cli, path: Path, tmp_path: Path):
    other = tmp_path / "other.db"
    assert cli("--db", other, "add", "one").returncode == 0
    assert cli("add", "two", "--db", other).returncode == 0
    assert not path.exists()
    assert cli("list", "--db", other).stdout.count("\n") == 2
    nearest = tmp_path / "nearest.db"
    assert cli("--db", other, "add", "three", "--db", nearest).returncode == 0
    assert nearest.exists()


def test_the_environment_names_the_store_and_a_new_one_is_for_its_owner_only(cli: Cli, tmp_path: Path):
    place = tmp_path / "from-environment.db"
    assert cli("add", "one", SATCHEL_DB=str(place)).returncode == 0
    assert mode(place) == 0o600


def test_without_either_the_store_is_in_the_data_folder(cli: Cli, tmp_path: Path):
    data = tmp_path / "data"
    assert cli("add", "one", SATCHEL_DB="", XDG_DATA_HOME=str(data)).returncode == 0
    assert mode(data / "satchel") == 0o700
    assert mode(data / "satchel" / "satchel.db") == 0o600
    assert "one" in cli("list", SATCHEL_DB="", XDG_DATA_HOME=str(data)).stdout


def test_without_xdg_the_data_folder_is_under_home(cli: Cli, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    environment = {"SATCHEL_DB": "", "XDG_DATA_HOME": "", "HOME": str(home)}
    done = cli("import", "-", stdin='{"text":"one"}', **environment)
    assert done.returncode == 0, done.stderr
    stores = list(home.rglob("satchel.db"))
    assert len(stores) == 1
    assert mode(stores[0].parent) == 0o700
    assert mode(stores[0]) == 0o600


def test_reading_a_store_that_does_not_exist_makes_none(cli: Cli, path: Path, tmp_path: Path):
    for arguments in (
        ("list",),
        ("search", "x", "--json"),
        ("export",),
        ("doctor", "--fix"),
        ("forget", "01a1e252"),
        ("update", "01a1e252", "--title", "x"),
    ):
        assert str(path) in complaint(cli(*arguments))
    complaint(cli("list", SATCHEL_DB=""))
    assert list(tmp_path.iterdir()) == []


def test_bad_input_for_a_new_store_makes_none(cli: Cli, path: Path):
    complaint(cli("add", ""))
    complaint(cli("add", "text", "--importance", "7"))
    complaint(cli("import", "missing.jsonl"))
    assert not path.exists()


def test_files_that_are_no_store_are_reported_and_left_alone(cli: Cli, tmp_path: Path):
    fill(tmp_path / "good.db")
    truncated = (tmp_path / "good.db").read_bytes()[:5000]
    for name, content in {"text.db": b"just some notes\n" * 99, "cut.db": truncated}.items():
        place = tmp_path / name
        place.write_bytes(content)
        assert name in complaint(cli("list", "--db", place), code=1)
        assert place.read_bytes() == content

    for name, sql in {
        "other.db": "CREATE TABLE songs (title)",
        "newer.db": "PRAGMA user_version = 9000",
    }.items():
        place = tmp_path / name
        if name == "newer.db":
            fill(place)
        connection = apsw.Connection(str(place))
        connection.execute(sql)
        connection.close()
        before = place.read_bytes()
        assert name in complaint(cli("add", "x", "--db", place), code=1)
        assert place.read_bytes() == before

    complaint(cli("list", "--db", tmp_path))
    complaint(cli("add", "x", "--db", tmp_path / "none" / "x.db"))
    assert contents(tmp_path / "good.db")


def test_the_password_of_an_address_is_never_printed(cli: Cli, path: Path, tmp_path: Path):
    fill(path)
    assert cli("backup", tmp_path / "backup.db").returncode == 0
    password = "hunter" + "2-secret"
    address = f"postgresql://ana:{password}@db.example/notes"
    for arguments in (("list",), ("add", "x"), ("restore", "backup.db")):
        done = cli(*arguments, SATCHEL_DB=address)
        assert password not in done.stdout + done.stderr
        assert done.returncode in (1, 2)
        assert done.stderr.count("\n") == 1


def test_a_name_that_only_begins_with_a_tilde_is_a_file_like_any_other(cli: Cli, tmp_path: Path):
    assert cli("--db", "~.db", "add", "one").returncode == 0
    assert (tmp_path / "~.db").is_file()
    assert cli("--db", "~.db", "backup", "~backup.db").returncode == 0
    assert (tmp_path / "~backup.db").is_file()
    assert cli("--db", "~.db", "export", "-o", "~all.jsonl").returncode == 0
    assert (tmp_path / "~all.jsonl").is_file()


def test_a_named_pipe_is_refused_as_a_store_at_once(cli: Cli, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.db")
    for command in (["add", "one"], ["list"], ["doctor"], ["search", "one"]):
        done = cli("--db", tmp_path / "pipe.db", *command)
        assert complaint(done).endswith("pipe.db is a pipe, a socket or a device, not a file; give another name")


def test_a_store_in_memory_says_that_nothing_is_kept(cli: Cli):
    done = cli("--db", ":memory:", "add", "one")
    assert done.returncode == 0
    assert (
        done.stderr.splitlines()[0] == "the store :memory: is gone when this command ends; name a file to keep it"
    )
    assert done.stderr.count(":memory:") == 1
