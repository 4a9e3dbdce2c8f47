"""A power cut loses what the disk had not flushed, in any order, but no write that had returned."""

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from weather import close_anyway

import satchel
from satchel.store.sqlite import connection

LONGEST_LOG = 60


class Disk:
    """What is on disk for certain of each file, and the changes after that, of which a power cut may lose any."""

    def __init__(self) -> None:
        self.stable: dict[str, bytearray] = {}
        self.pending: dict[str, list[tuple[int, bytes]]] = {}
        self.flushes = 0

    def change(self, path: str, offset: int, data: bytes) -> None:
        self.pending.setdefault(path, []).append((offset, data))

    def flush(self, path: str) -> None:
        self.flushes += 1
        for offset, data in self.pending.pop(path, []):
            _apply(self.stable.setdefault(path, bytearray()), offset, data)

    def after_power_cut(self, path: str, chance: random.Random) -> bytes:
        content = bytearray(self.stable.get(path, b""))
        for offset, data in self.pending.get(path, []):
            if chance.random() < 0.5:
                _apply(content, offset, data)
        return bytes(content)


def _apply(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset + len(data) - len(content))))
    content[offset : offset + len(data)] = data


class RecordedFile(apsw.VFSFile):
    def __init__(self, base: str, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__(base, name, flags)
        self.disk = disk
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self.disk.change(self.path, offset, bytes(data))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self.disk.flush(self.path)


class RecordedDisk(apsw.VFS):
    """The system's files, with a record of what is written and flushed. Nothing is ever truncated."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.base = apsw.vfs_names()[0]
        super().__init__("recorded", self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return RecordedFile(self.base, self.disk, name, flags)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    recorded = Disk()

    def flush(handle: int) -> None:
        (log,) = (path for path in recorded.pending | recorded.stable if path.endswith("-wal"))
        assert os.fstat(handle).st_ino == Path(log).stat().st_ino
        recorded.flush(log)

    monkeypatch.setattr(connection, "_flush", flush)
    monkeypatch.setattr(connection.SqliteConnection, "close", close_anyway)
    system = RecordedDisk(recorded)
    yield recorded
    system.unregister()


def after_power_cut(disk: Disk, path: Path, folder: Path, chance: random.Random) -> Path:
    """Write the files of a store as a power cut may leave them, and return the path of the store."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        (folder / f"{path.name}{suffix}").write_bytes(disk.after_power_cut(f"{path}{suffix}", chance))
    return folder / path.name


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_loses_no_write_that_has_returned(
    path: Path, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, seed
):
    monkeypatch.setattr(connection, "LONGEST_LOG", LONGEST_LOG)
    chance = random.Random(seed)
    kept: dict[str, str] = {}
    with satchel.open(path, embedder="static") as bag:
        for number in range(40):
            text = f"memory {number} of the harbour"
            kept[bag.add(text).id] = text
            if chance.random() < 0.2:
                changed = chance.choice(list(kept))
                kept[changed] = bag.update(changed, text=f"{kept[changed]}, changed by {number}").text
            if chance.random() < 0.2:
                gone = chance.choice(list(kept))
                bag.forget(gone, purge=chance.random() < 0.5)
                del kept[gone]
            cut = after_power_cut(disk, path, tmp_path / f"cut {number}", chance)
            with satchel.open(cut, create=False) as found:
                assert {memory.id: memory.text for memory in found.recent(limit=100)} == kept
                assert [check for check in found.checks() if check.state == "failed"] == []


def test_the_disk_of_these_tests_loses_what_is_not_flushed(path: Path, tmp_path: Path, disk: Disk, monkeypatch):
    monkeypatch.setattr(connection, "_flush", lambda handle: None)
    chance = random.Random(1)
    with satchel.open(path, embedder="static") as bag:
        bag.add("never flushed")
        with satchel.open(after_power_cut(disk, path, tmp_path / "cut", chance), create=False) as found:
            assert found.recent() == []


def test_others_can_write_and_see_a_write_while_it_is_flushed(path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[int] = []
    with satchel.open(path, embedder="static") as bag, satchel.open(path, embedder="static") as other:

        def flush(handle: int) -> None:
            assert os.fstat(handle).st_ino == Path(f"{path}-wal").stat().st_ino
            if not seen:
                seen.append(other.stats().memories)
                other.add("the second, before the first has returned")
            else:
                seen.append(other.stats().memories)

        monkeypatch.setattr(connection, "_flush", flush)
        bag.add("the first")
        assert seen == [1, 2]


def test_a_store_behind_a_link_is_flushed_too(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    flushed: list[int] = []
    monkeypatch.setattr(connection, "_flush", lambda handle: flushed.append(os.fstat(handle).st_ino))
    (tmp_path / "link.db").symlink_to(path)
    with satchel.open(path), satchel.open(tmp_path / "link.db", embedder="static") as bag:
        bag.add("behind a link")
        assert flushed == [Path(f"{path}-wal").stat().st_ino]


def test_several_writes_of_one_transaction_are_flushed_once(path: Path, disk: Disk):
    with satchel.open(path, embedder="static") as bag:
        flushes = disk.flushes
        with bag.transaction():
            bag.add("one")
            bag.add("two")
        assert disk.flushes == flushes + 1
        bag.search("one")
        assert disk.flushes == flushes + 1


def test_a_flush_that_fails_says_so_in_one_line_and_the_store_still_works(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with satchel.open(path, embedder="static") as bag:
        with monkeypatch.context() as patch:
            patch.setattr(connection, "_flush", fail)
            with pytest.raises(
                satchel.StoreError, match=r"notes\.db: written, but .* \(Input/output error\); a power"
            ):
                bag.add("not confirmed")
        bag.add("confirmed")
        assert bag.stats().memories == 2
