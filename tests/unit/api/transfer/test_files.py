"""A file is written atomically, and a write error is one line."""

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from satchel import InputError, SatchelError
from satchel.api.transfer import write_atomically


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_all_chunks_are_written_and_counted_for_the_owner_only(tmp_path: Path):
    target = tmp_path / "out"
    assert write_atomically(target, iter([b"one\n", b"", b"two\n"])) == 3
    assert target.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert write_atomically(target, []) == 0
    assert target.read_bytes() == b""
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(
    "failure", [OSError(28, "No space left on device"), ValueError("bad"), KeyboardInterrupt()]
)
def test_what_fails_half_way_keeps_the_old_file_and_leaves_no_other(tmp_path: Path, failure: BaseException):
    target = tmp_path / "out"
    target.write_bytes(b"old")

    def chunks() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise failure

    with pytest.raises((SatchelError, type(failure))) as caught:
        write_atomically(target, chunks())
    if isinstance(failure, OSError):
        assert str(caught.value) == f"cannot write {target}: No space left on device"
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


def test_the_old_file_can_be_read_until_the_new_one_is_complete(tmp_path: Path):
    target = tmp_path / "out"
    target.write_bytes(b"old")

    def chunks() -> Iterator[bytes]:
        yield b"x" * 100_000
        assert target.read_bytes() == b"old"
        # As another thread would, at the same time.
        write_atomically(target, [b"between"])
        assert target.read_bytes() == b"between"

    write_atomically(target, chunks())
    assert target.read_bytes() == b"x" * 100_000


def test_through_a_link_the_file_it_leads_to_is_replaced(tmp_path: Path):
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", [b"new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_link_that_leads_to_itself_does_not_stop_it(tmp_path: Path):
    (tmp_path / "link").symlink_to("link")
    write_atomically(tmp_path / "link", [b"new"])
    assert (tmp_path / "link").read_bytes() == b"new"


def test_the_longest_name_a_file_can_have_is_no_obstacle(tmp_path: Path):
    write_atomically(tmp_path / ("n" * 255), [b"new"])
    assert names(tmp_path) == ["n" * 255]


def test_a_device_is_written_to_and_stays_one():
    assert write_atomically(Path(os.devnull), [b"one", b""]) == 2
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_bad_targets_are_named(tmp_path: Path):
    (tmp_path / "store.db").write_bytes(b"SQLite format 3\0 and so on")
    (tmp_path / "plain").write_bytes(b"")
    for target, complaint in [
        (tmp_path, f"{tmp_path} is a folder, not a file"),
        (tmp_path / "no" / "out", f"the folder {tmp_path / 'no'} does not exist; make it first"),
        (tmp_path / "plain" / "out", f"the folder {tmp_path / 'plain'} does not exist; make it first"),
        (tmp_path / "store.db", f"{tmp_path / 'store.db'} is a database and not replaced"),
    ]:
        with pytest.raises(InputError) as caught:
            write_atomically(target, [b"x"])
        assert str(caught.value).startswith(complaint)
    assert names(tmp_path) == ["plain", "store.db"]


def test_a_name_too_long_is_said_in_one_line(tmp_path: Path):
    with pytest.raises(SatchelError, match=r"^cannot write .*: File name too long$"):
        write_atomically(tmp_path / ("n" * 256), [b"x"])
    assert names(tmp_path) == []


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder for anyone to see and nobody to write into, and no one who may do so nevertheless."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "inner").mkdir(mode=0o000)
        (folder / "secret").touch(mode=0o000)
        folder.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)
            for each in (folder, folder / "inner"):
                each.chmod(0o700)


@pytest.mark.parametrize("name", ["out", "inner/out", "secret"])
def test_a_place_without_permission_is_said_in_one_line(locked: Path, name: str):
    with pytest.raises(SatchelError, match=rf"^cannot write {locked / name}: Permission denied$"):
        write_atomically(locked / name, [b"x"])
