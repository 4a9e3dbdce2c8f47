"""A client's file on disk: backed up, replaced atomically, and left alone when in doubt."""

import fcntl
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from conftest import clean_environment
from satchel.cli.clients.client import CLIENTS
from satchel.cli.clients.config_file import Change, carry_out, planned
from satchel.cli.clients.entry import Edited, Fields
from satchel.errors import InputError, SatchelError

NOW = datetime(2026, 3, 9, 14, 5, 7)
ENTRY = Fields("satchel", {"command": "/opt/satchel", "args": ["mcp"]})
BACKUP = "mcp.json.satchel-backup-20260309-140507"
NOBODY = 65534


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "mcp.json"
    place.write_bytes(b'{\n  "mcpServers": {\n    "a": {"command": "x"}\n  }\n}\n')
    return place


def add(text: str) -> Edited:
    return CLIENTS["cursor"].with_entry(text, ENTRY)


def remove(text: str) -> Edited:
    return CLIENTS["cursor"].without_entry(text, "satchel")


def install(path: Path) -> Change:
    return carry_out(path, add, now=NOW)


def names(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def assert_refused(path: Path, reason: str) -> None:
    """One line that names the file, and nothing in its folder that was not there."""
    before = names(path.parent)
    for attempt in (lambda: install(path), lambda: planned(path, add)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert str(path) in str(caught.value)
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)
    assert names(path.parent) == before


@pytest.mark.parametrize("bits", [0o600, 0o644, 0o664])
def test_a_copy_of_what_was_there_is_left_beside_it_with_the_same_permissions(file: Path, bits: int):
    file.chmod(bits)
    before = file.read_bytes()
    change = install(file)
    assert change.backup == file.with_name(BACKUP)
    assert change.backup.read_bytes() == before
    assert json.loads(file.read_bytes())["mcpServers"]["satchel"]["command"] == "/opt/satchel"
    assert (mode(file), mode(change.backup)) == (bits, bits)
    assert names(file.parent) == ["mcp.json", BACKUP]


def test_each_change_has_a_copy_of_its_own(file: Path):
    first = install(file)
    second = carry_out(file, remove, now=NOW)
    third = install(file)
    assert [change.backup and change.backup.name for change in (first, second, third)] == [
        BACKUP,
        f"{BACKUP}-2",
        f"{BACKUP}-3",
    ]
    assert second.backup is not None
    assert second.backup.read_bytes() == first.after


def test_what_is_there_already_is_not_written_again(file: Path):
    install(file)
    before, stamp, beside = file.read_bytes(), file.stat().st_mtime_ns, names(file.parent)
    again = install(file)
    assert (again.what, again.backup) == ("unchanged", None)
    assert (file.read_bytes(), file.stat().st_mtime_ns, names(file.parent)) == (before, stamp, beside)


def test_what_is_planned_is_not_done(file: Path):
    before = file.read_bytes()
    change = planned(file, add)
    assert change.what == "added"
    assert change.before == before
    assert change.after != before
    assert file.read_bytes() == before
    assert names(file.parent) == ["mcp.json"]


def test_a_missing_file_is_made_with_its_folders_for_its_owner_only(tmp_path: Path):
    place = tmp_path / "deep" / "folder" / "mcp.json"
    change = install(place)
    assert (change.before, change.backup) == (None, None)
    assert place.read_bytes() == change.after
    assert mode(place) == 0o600
    assert names(place.parent) == ["mcp.json"]


def test_nothing_is_made_to_remove_something_from(tmp_path: Path):
    assert carry_out(tmp_path / "none" / "mcp.json", remove, now=NOW).what == "absent"
    assert names(tmp_path) == []


def test_a_byte_order_mark_stays(file: Path):
    before = b"\xef\xbb\xbf" + file.read_bytes()
    file.write_bytes(before)
    install(file)
    assert file.read_bytes().startswith(b'\xef\xbb\xbf{\n  "mcpServers"')
    assert file.read_bytes().count(b"\xef\xbb\xbf") == 1
    carry_out(file, remove, now=NOW)
    assert file.read_bytes() == before


@pytest.mark.parametrize("relative", [False, True])
def test_a_link_stays_a_link_and_its_target_is_edited(file: Path, tmp_path: Path, relative: bool):
    kept = tmp_path / "dotfiles"
    kept.mkdir()
    target = file.rename(kept / "cursor.json")
    file.symlink_to(Path("dotfiles", "cursor.json") if relative else target)
    change = install(file)
    assert file.is_symlink()
    assert "satchel" in json.loads(target.read_bytes())["mcpServers"]
    assert change.backup is not None
    assert change.backup.parent == kept


def test_a_link_to_nothing_yet_gets_its_target(tmp_path: Path):
    link = tmp_path / "mcp.json"
    link.symlink_to(tmp_path / "kept" / "cursor.json")
    install(link)
    assert link.is_symlink()
    assert "satchel" in json.loads((tmp_path / "kept" / "cursor.json").read_bytes())["mcpServers"]


def test_a_folder_is_refused(tmp_path: Path):
    place = tmp_path / "mcp.json"
    place.mkdir()
    assert_refused(place, "is a folder")


def test_the_root_folder_is_refused():
    with pytest.raises(InputError, match="/ is a folder"):
        install(Path("/"))


def test_a_folder_that_someone_keeps_locked_does_not_stop_an_install(file: Path, monkeypatch):
    monkeypatch.setattr("satchel.store.file_lock.PATIENCE", 0.05)
    held = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert install(file).what == "added"
    finally:
        os.close(held)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path):
    place = tmp_path / "mcp.json"
    os.mkfifo(place)
    assert_refused(place, "not a regular file")


def test_a_path_through_a_file_is_refused(file: Path):
    with pytest.raises(InputError, match="Not a directory"):
        install(file / "mcp.json")


def test_links_in_a_circle_are_refused(tmp_path: Path):
    place = tmp_path / "mcp.json"
    place.symlink_to(place)
    assert_refused(place, "cannot be read")


@pytest.mark.parametrize("content", [b'{"a": "\xff"}', '{"a": 1}'.encode("utf-16")])
def test_what_is_not_utf_8_is_refused(file: Path, content: bytes):
    file.write_bytes(content)
    assert_refused(file, "is not UTF-8")
    assert file.read_bytes() == content


def test_broken_json_is_refused_with_the_place_where_it_breaks(file: Path):
    broken = b'{\n  "mcpServers": {\n    "a": {}\n    "b": {}\n  }\n}\n'
    file.write_bytes(broken)
    assert_refused(file, "line 4, column 5: expected a comma or }")
    assert file.read_bytes() == broken


def test_a_read_only_file_is_refused_unless_nothing_is_to_be_done(file: Path):
    before = file.read_bytes()
    file.chmod(0o444)
    assert_refused(file, "is read-only")
    assert (file.read_bytes(), mode(file)) == (before, 0o444)
    assert carry_out(file, remove, now=NOW).what == "absent"


def interrupting(path: Path, interruptions: list[bytes]) -> Callable[[str], Edited]:
    """An edit during which someone else writes to the file."""

    def edit(text: str) -> Edited:
        if interruptions:
            path.write_bytes(interruptions.pop(0))
        return add(text)

    return edit


def test_what_someone_else_writes_meanwhile_is_not_lost(file: Path):
    theirs = b'{"mcpServers": {"theirs": {}}}'
    change = carry_out(file, interrupting(file, [theirs]), now=NOW)
    assert set(json.loads(file.read_bytes())["mcpServers"]) == {"theirs", "satchel"}
    assert change.backup is not None
    assert change.backup.read_bytes() == theirs
    assert names(file.parent) == ["mcp.json", BACKUP]


def test_a_file_that_someone_makes_meanwhile_is_not_overwritten(tmp_path: Path):
    place = tmp_path / "mcp.json"
    carry_out(place, interrupting(place, [b'{"theme": "dark"}']), now=NOW)
    assert set(json.loads(place.read_bytes())) == {"theme", "mcpServers"}


def test_a_file_that_never_rests_is_given_up(file: Path):
    contents = [json.dumps({"count": number}).encode() for number in range(50)]
    with pytest.raises(SatchelError, match="keeps changing"):
        carry_out(file, interrupting(file, contents), now=NOW)
    assert set(json.loads(file.read_bytes())) == {"count"}
    assert names(file.parent) == ["mcp.json"]


def test_a_disk_that_fails_leaves_everything_as_it_was(file: Path, monkeypatch):
    before = file.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SatchelError, match="No space left on device; nothing was changed"):
        install(file)
    assert file.read_bytes() == before
    assert names(file.parent) == ["mcp.json"]


AS_SOMEONE = f"""
import os, sys
from datetime import datetime
from pathlib import Path
from satchel.cli.clients.client import CLIENTS
from satchel.cli.clients.config_file import carry_out
from satchel.cli.clients.entry import Fields
from satchel.errors import InputError
ENTRY = Fields("satchel", {{"command": "x", "args": ["mcp"]}})
CLIENTS["cursor"].with_entry("", ENTRY)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
def add(text):
    return CLIENTS["cursor"].with_entry(text, ENTRY)
for name in sys.argv[1:]:
    try:
        carry_out(Path(name), add, now=datetime.now())
    except InputError as error:
        print(error)
"""


def test_what_may_not_be_read_or_not_be_written_is_refused():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        unreadable, readable, new = (
            folder / "unreadable.json",
            folder / "readable.json",
            folder / "sub" / "new.json",
        )
        for place in (unreadable, readable):
            place.write_text("{}")
        unreadable.chmod(0o000)
        readable.chmod(0o644)
        folder.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", AS_SOMEONE, unreadable, readable, new],
            capture_output=True,
            text=True,
            timeout=60,
            env=clean_environment(folder),
        )
        folder.chmod(0o755)
        assert done.stderr == ""
        first, second, third = done.stdout.splitlines()
        assert re.fullmatch(r".*unreadable.json cannot be read: Permission denied", first)
        assert "readable.json is read-only" in second or "its folder" in second
        assert re.fullmatch(r".*new.json cannot be written: its folder .* is read-only", third)
        assert names(folder) == ["readable.json", "unreadable.json"]
