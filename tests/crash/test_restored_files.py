"""Backup and restore: a restored store works like any other, or it is rejected and nothing is replaced."""

import random
from pathlib import Path

import pytest
from samples import CASES, Sample, contents, sample

import satchel

# A fixture, which the tests ask for by name.
__all__ = ["sample"]


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
