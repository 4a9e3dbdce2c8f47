"""Two versions of the program on one file: the older one refuses it as soon as the newer one has upgraded it."""

import contextlib
from pathlib import Path

import pytest
from operations import add_future_migration, undo_migration

import satchel
from mcp_pipe import Pipe
from satchel.store.sqlite.connection import connect
from satchel.store.sqlite.header import SCHEMA_VERSION
from satchel.store.sqlite.migrations import prepare

UPGRADED = f"schema {SCHEMA_VERSION + 1}, this one knows {SCHEMA_VERSION}"


@pytest.fixture
def upgrade(path: Path, tmp_path: Path):
    """Upgrades the store as the next version of the program would."""
    migrations = tmp_path / "migrations"
    migrations.mkdir()
    add_future_migration(migrations)

    def run() -> None:
        with contextlib.closing(connect(str(path))) as db:
            prepare(db, str(path), migrations)

    return run


def counted(path: Path, table: str) -> int:
    with contextlib.closing(connect(str(path))) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").get)


def test_an_open_store_that_was_upgraded_is_neither_read_nor_written(path: Path, tmp_path: Path, upgrade):
    bag = satchel.open(path)
    kept = bag.add("before the upgrade")
    session = bag.session("work")
    handle = session.result("say", "kept\n" * 9_000).handle
    # Its use is counted later, and must not be written to the newer store either.
    bag.search("upgrade")
    upgrade()
    for refused in (
        lambda: bag.search("upgrade"),
        lambda: bag.get(kept.id),
        lambda: bag.recent(),
        lambda: bag.stats(),
        lambda: list(bag.export()),
        lambda: bag.add("after the upgrade"),
        lambda: bag.update(kept.id, text="changed"),
        lambda: bag.forget(kept.id),
        lambda: bag.reembed("none"),
        lambda: bag.backup(tmp_path / "copy.db"),
        lambda: bag.checks(),
        lambda: bag.repair(),
        lambda: session.expand(handle),
        lambda: session.result("say", "more"),
    ):
        with pytest.raises(satchel.StoreVersionError, match=UPGRADED) as refusal:
            refused()
        assert "restart this process" in str(refusal.value)
        assert "\n" not in str(refusal.value)
    bag.close()
    assert counted(path, "usage") == 0
    assert not (tmp_path / "copy.db").exists()
    undo_migration(path)
    with satchel.open(path) as bag:
        assert [memory.text for memory in bag.recent()] == ["before the upgrade"]
        assert bag.session("work").expand(handle) == "kept\n" * 9_000
        assert [check for check in bag.checks() if check.state != "ok"] == []


def test_a_transaction_that_began_before_an_upgrade_is_stored_before_it(path: Path, tmp_path: Path, upgrade):
    with satchel.open(path) as bag:
        with bag.transaction():
            bag.add("one")
            bag.add("two")
        upgrade()
        with pytest.raises(satchel.StoreVersionError), bag.transaction():
            bag.add("three")
    assert counted(path, "memory") == counted(path, "extra") == 2


def test_a_server_says_in_one_line_that_it_must_be_restarted(path: Path, tmp_path: Path, upgrade):
    satchel.open(path).close()
    with Pipe(tmp_path, "--db", path) as pipe:
        pipe.call("mem_save", text="before the upgrade")
        upgrade()
        for tool, arguments in (("mem_search", {"query": "upgrade"}), ("mem_save", {"text": "after the upgrade"})):
            result = pipe.answer(pipe.start(tool, **arguments))["result"]
            assert result["isError"]
            (said,) = [part["text"] for part in result["content"]]
            assert "restart this process" in said.splitlines()[0]
        assert pipe.hang_up()[0] == 0
    assert counted(path, "memory") == counted(path, "extra") == 1


def test_an_open_store_that_was_replaced_by_an_older_one_is_opened_again(path: Path, tmp_path: Path):
    with satchel.open(path) as bag:
        bag.add("kept")
        with contextlib.closing(connect(str(path))) as db:
            db.pragma("user_version", SCHEMA_VERSION - 1)
        with pytest.raises(satchel.StoreVersionError, match="open it again"):
            bag.recent()
        with contextlib.closing(connect(str(path))) as db:
            db.pragma("user_version", SCHEMA_VERSION)
        assert [memory.text for memory in bag.recent()] == ["kept"]
