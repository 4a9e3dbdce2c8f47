"""Bad input gives one clear line and the right exit code, and leaves the store unchanged."""

import json
import shutil
from pathlib import Path

import pytest
from complaint import complaint
from sample import contents, fill

import satchel
from conftest import Cli
from tables import each_row

TIME = "2026-01-01T00:00:00Z"
# Two ids that share their first ten digits.
TWINS = ("01a1e252-5d00-7bc3-aca3-0fb7aac97b91", "01a1e252-5dff-7bc3-aca3-0fb7aac97b92")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "notes.db"
    fill(path)
    with satchel.open(path) as bag:
        bag.import_(
            json.dumps(
                {
                    "memory": {
                        "id": each,
                        "text": "t",
                        "at": TIME,
                        "created_at": TIME,
                        "updated_at": TIME,
                        "tokens": 1,
                    }
                }
            ).encode()
            for each in TWINS
        )
    return path


@pytest.fixture
def store(filled: Path, path: Path) -> Path:
    return shutil.copy(filled, path)


def told(cli: Cli, store: Path, *arguments: str | Path, code: int = 2, stdin: bytes | str = "") -> str:
    before = contents(store)
    said = complaint(cli(*arguments, stdin=stdin), code=code)
    assert contents(store) == before
    return said


@pytest.mark.parametrize("text", ["", " \t\n "])
def test_a_text_of_nothing_is_not_stored(cli: Cli, store: Path, text: str):
    for arguments in (("add", text), ("add", "-"), ("update", TWINS[0], "--text", text)):
        assert "text is empty" in told(cli, store, *arguments, stdin=text)


def test_a_text_over_the_limit_is_not_stored(cli: Cli, store: Path, tmp_path: Path):
    (tmp_path / "long.txt").write_text("é" * 500_001)
    said = told(cli, store, "add", "--file", "long.txt")
    assert "1,000,002 bytes" in said
    assert "1,000,000" in said
    (tmp_path / "long.txt").write_text("é" * 500_000)
    assert cli("add", "--file", "long.txt").returncode == 0


@each_row("budget", ["-1", "1.5", "1e3", "many", "", "nan", "100000001", "9" * 40])
def test_a_budget_that_is_none_is_named_and_refused(cli: Cli, store: Path, budget: str):
    said = told(cli, store, "search", "rotation", "--token-budget", budget)
    assert "token budget" in said
    assert budget in said


@each_row("limit", ["-1", "0", "2.5", "ten", "10001", "9" * 40])
def test_a_limit_that_is_none_is_named_and_refused(cli: Cli, store: Path, limit: str):
    said = told(cli, store, "search", "rotation", "--limit", limit)
    assert "limit" in said
    assert limit in said


def test_counts_of_other_commands_are_checked_too(cli: Cli, store: Path):
    assert "limit" in told(cli, store, "list", "--limit", "0")
    assert "before" in told(cli, store, "timeline", TWINS[0], "--before", "-1")
    assert "after" in told(cli, store, "timeline", TWINS[0], "--after", "0.5")


@pytest.mark.parametrize("weight", ["-0.1", "1.01", "nan", "inf", "high"])
def test_a_weight_outside_0_to_1_is_refused(cli: Cli, store: Path, weight: str):
    assert "importance" in told(cli, store, "add", "text", "--importance", weight)
    assert weight in told(cli, store, "relate", *TWINS, "--strength", weight)


@each_row(
    ("arguments", "named"),
    [
        (("add", "x", "--kind", "rumour"), "rumour"),
        (("add", "x", "--tier", "attic"), "attic"),
        (("add", "x", "--status", "lost"), "lost"),
        (("add", "x", "--confidence", "2"), "confidence"),
        (("add", "x", "--colour", "red"), "--colour"),
        (("add", "x", "--at", "yesterday"), "yesterday"),
        (("add", "x", "--valid-from", "2026-02-30"), "2026-02-30"),
        (("add", "x", "--invalid-at", "9999-12-31T23:59:59-14:00"), "9999"),
        (("add", "x", "--title", "t" * 1001), "title"),
        (("search", "x", "--kind", "rumour"), "rumour"),
        (("search", "x", "--detail", "some"), "some"),
        (("search", "x", "--counter", "abacus"), "abacus"),
        (("relate", *TWINS, "--kind", "loves"), "loves"),
        (("relate", TWINS[0], TWINS[0]), "itself"),
        (("update", TWINS[0]), "nothing to change"),
        (("forget",), "what to forget"),
        (("forget", "--project", ""), "--project is blank"),
        (("completion", "powershell"), "powershell"),
    ],
)
def test_a_value_nobody_knows_is_named(cli: Cli, store: Path, arguments: tuple[str, ...], named: str):
    assert named in told(cli, store, *arguments)


@pytest.mark.parametrize(
    ("identifier", "why"),
    [
        (TWINS[0][:8], "several|ambiguous|2 memories|share"),
        ("ffffffff", "no memory"),
        ("01a1e25", "8"),
        ("not-an-id", "hexadecimal"),
        ("", "hexadecimal"),
        (TWINS[0] + "0", "hexadecimal"),
        ("0%1a1e252", "hexadecimal"),
    ],
)
def test_an_id_that_names_no_single_memory_is_refused(cli: Cli, store: Path, identifier: str, why: str):
    said = told(cli, store, "get", identifier)
    assert any(word in said for word in why.split("|"))
    assert identifier in said


def test_every_command_that_takes_an_id_refuses_an_unknown_one(cli: Cli, store: Path):
    for arguments in (
        ("update", "ffffffff", "--title", "x"),
        ("forget", TWINS[0], "ffffffff"),
        ("forget", "--purge", TWINS[0], "ffffffff"),
        ("relate", TWINS[0], "ffffffff"),
        ("timeline", "ffffffff"),
        ("history", "ffffffff"),
    ):
        assert "ffffffff" in told(cli, store, *arguments)


@each_row(
    "arguments",
    [
        ("frobnicate",),
        ("search",),
        ("get",),
        ("add",),
        ("add", "one", "two"),
        ("add", "text", "--file", "note.txt"),
        ("list", "--limit"),
        ("import",),
    ],
)
def test_a_command_that_is_not_one_is_refused(cli: Cli, store: Path, tmp_path: Path, arguments: tuple[str, ...]):
    (tmp_path / "note.txt").write_text("from a file")
    told(cli, store, *arguments)


def test_files_that_cannot_be_read_are_named(cli: Cli, store: Path, tmp_path: Path):
    (tmp_path / "latin1.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "folder").mkdir()
    for name in ("missing.txt", "folder"):
        assert name in told(cli, store, "add", "--file", name)
        assert name in told(cli, store, "import", name)
    assert "latin1.txt is not UTF-8 text: byte 3" in told(cli, store, "add", "--file", "latin1.txt")
    assert "standard input is not UTF-8" in told(cli, store, "add", "-", stdin=b"caf\xe9")


def test_an_export_that_cannot_be_written_says_why_and_leaves_nothing(cli: Cli, store: Path, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for target, reason in (
        ("missing/out.jsonl", "missing does not exist"),
        ("file/out.jsonl", "file does not exist"),
        ("folder", "folder is a folder, not a file"),
    ):
        assert reason in told(cli, store, "export", "-o", target)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_backup_that_cannot_be_written_leaves_what_is_there(cli: Cli, store: Path, tmp_path: Path):
    (tmp_path / "there.db").write_text("mine")
    assert "there.db exists" in told(cli, store, "backup", "there.db")
    assert (tmp_path / "there.db").read_text() == "mine"
    told(cli, store, "backup", "notes.db")
    assert "the folder missing does not exist" in told(cli, store, "backup", "missing/new.db")


def test_what_is_no_backup_is_not_restored(cli: Cli, store: Path, tmp_path: Path):
    (tmp_path / "text").write_text("not a database, only words\n" * 50)
    (tmp_path / "empty").touch()
    assert "text" in told(cli, store, "restore", "text", "--force", code=1)
    assert "empty" in told(cli, store, "restore", "empty", "--force")
    assert "missing" in told(cli, store, "restore", "missing", "--force")
    assert not list(tmp_path.glob("*before-restore*"))
