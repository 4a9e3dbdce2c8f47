"""A disk that fails at any write or sync: a write is stored completely or not at all, and the store still works."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from operations import OPERATIONS, STEPS, assert_whole_or_not_at_all, failure_of, fresh, inside, state, template
from weather import Weather, unsynced, weather

import satchel
from conftest import Cli

# Fixtures, which the tests ask for by name.
__all__ = ["inside", "template", "unsynced", "weather"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_fails_at_any_write_leaves_it_whole_or_undone(
    template: Path, inside: Path, weather: Weather, name
):
    """Once at one step, from then on at the next."""
    failures = assert_whole_or_not_at_all(
        template, inside, name, lambda step: weather.arm(step, lasting=step % 2 == 0), weather.disarm
    )
    assert failures >= 2


@pytest.mark.parametrize("name", ["add", "supersede", "purge", "import", "a transaction of several"])
def test_a_disk_that_cannot_be_synced_leaves_it_whole_or_undone(
    template: Path, inside: Path, unsynced: Weather, name
):
    failures = assert_whole_or_not_at_all(
        template, inside, name, lambda step: unsynced.arm(step, lasting=False), unsynced.disarm
    )
    assert failures >= 1


def test_a_disk_that_fails_while_a_store_is_made_leaves_one_that_can_be_made_again(path: Path, weather: Weather):
    for step in range(1, STEPS):
        weather.arm(step, lasting=step % 2 == 0)()
        failure = failure_of(lambda _: satchel.open(path).close(), lambda: None)
        reached = weather.disarm()
        assert failure is None or (reached and str(path) in failure)
        with satchel.open(path) as bag:
            bag.add("first")
            assert bag.stats().memories == 1
            assert [check for check in bag.checks() if check.state != "ok"] == []
        for file in path.parent.iterdir():
            file.unlink()
        if not reached:
            break
    assert 5 < step < STEPS - 1


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("name", ["backup", "restore", "migration"])
def test_a_copy_that_fails_leaves_no_part_of_itself(template: Path, inside: Path, weather: Weather, name, lasting):
    for step in range(1, STEPS):
        fresh(template, inside)
        failure_of(lambda begin: OPERATIONS[name](inside, begin), weather.arm(step, lasting=lasting))
        assert [file.name for file in inside.parent.iterdir() if "partial" in file.name] == [], step
        if not weather.disarm():
            return


def test_closing_never_fails_on_a_disk_that_does(template: Path, inside: Path, weather: Weather):
    for reason in (errno.EIO, errno.ENOSPC, errno.EROFS):
        fresh(template, inside)
        before = state(inside)
        bag = satchel.open(inside)
        bag.search("apple")
        weather.arm(1, lasting=True, reason=reason)()
        bag.close()
        assert weather.disarm()
        assert state(inside) == before


def test_a_disk_that_fails_gives_the_command_one_line_and_code_1(template: Path, inside: Path, cli: Cli):
    fresh(template, inside)
    before = state(inside)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "add", "long " * 20_000, "--db", str(inside)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"satchel: {inside}")
    assert state(inside) == before
    assert cli("add", "short", "--db", inside).returncode == 0


LIMITED = """
import resource, sys, satchel.cli.app
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
satchel.cli.app.main(sys.argv[1:])
"""


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
def test_a_backup_that_cannot_be_moved_into_place_leaves_nothing(bag, path: Path, monkeypatch, reason):
    bag.add("apple")

    def fail(*_: object) -> None:
        raise OSError(reason, "the disk failed")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(satchel.StoreError, match=r"copy\.db"):
        bag.backup(path.with_name("copy.db"))
    assert not [file for file in path.parent.iterdir() if "copy" in file.name]
