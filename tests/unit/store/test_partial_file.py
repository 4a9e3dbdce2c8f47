"""Partial files are removed at the end, or by the next process if theirs was killed, never while in use."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import satchel
from satchel.store.partial_file import PREFIX, partial_file

HOLDER = """
import sys
from pathlib import Path
from satchel.store.partial_file import partial_file
with partial_file(Path(sys.argv[1])) as partial:
    Path(f"{partial}-journal").write_text("half of a copy")
    print(partial, flush=True)
    sys.stdin.read()
"""


def left(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.name.startswith(PREFIX))


@pytest.fixture
def holder(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_partial_file_is_for_its_owner_only_and_is_gone_at_the_end(tmp_path: Path):
    with partial_file(tmp_path) as partial:
        assert partial.stat().st_mode & 0o777 == 0o600
        Path(f"{partial}-journal").touch()
    assert left(tmp_path) == []


def test_a_partial_file_that_is_renamed_stays_under_its_new_name(tmp_path: Path):
    with partial_file(tmp_path) as partial:
        partial.write_text("whole")
        partial.rename(tmp_path / "target")
    assert (tmp_path / "target").read_text() == "whole"
    assert left(tmp_path) == []


def test_the_partial_file_of_a_running_process_is_left_alone(tmp_path: Path, holder: "subprocess.Popen[str]"):
    theirs = left(tmp_path)
    with partial_file(tmp_path):
        assert set(theirs) < set(left(tmp_path))
    assert left(tmp_path) == theirs
    assert len(theirs) == 2


def test_the_partial_file_of_a_killed_process_is_removed_by_the_next_backup(
    tmp_path: Path, holder: "subprocess.Popen[str]"
):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(60)
    assert len(left(tmp_path)) == 2
    with satchel.open(tmp_path / "notes.db") as bag:
        bag.backup(tmp_path / "copy.db")
    assert left(tmp_path) == []


def test_a_journal_without_its_partial_file_is_removed_too(tmp_path: Path):
    (tmp_path / f"{PREFIX}0123-journal").touch()
    with partial_file(tmp_path):
        pass
    assert left(tmp_path) == []


def test_a_file_of_a_similar_name_stays(tmp_path: Path):
    (tmp_path / "satchel-partial-notes").touch()
    with partial_file(tmp_path):
        pass
    assert (tmp_path / "satchel-partial-notes").exists()
