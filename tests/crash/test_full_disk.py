"""A full disk is reported, no acknowledged write is lost, and writing works again when there is space."""

import errno
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from operations import OPERATIONS, assert_whole_or_not_at_all, failure_of, fresh, inside, state, template
from weather import Weather, weather

import satchel

# Fixtures, which the tests ask for by name.
__all__ = ["inside", "template", "weather"]


@pytest.mark.parametrize("name", ["add", "import", "backup", "migration"])
def test_a_disk_that_is_full_at_any_write_says_so(template: Path, inside: Path, weather: Weather, name):
    fresh(template, inside)
    with pytest.raises(satchel.StoreFullError, match="free some disk space"):
        OPERATIONS[name](inside, weather.arm(1, lasting=True, reason=errno.ENOSPC))
    weather.disarm()
    failures = assert_whole_or_not_at_all(
        template,
        inside,
        name,
        lambda step: weather.arm(step, lasting=True, reason=errno.ENOSPC),
        weather.disarm,
    )
    assert failures >= 2


def test_a_store_on_a_full_disk_is_opened_or_the_reason_is_said(template: Path, inside: Path, weather: Weather):
    """SQLite wants a little room even to read; "disk I/O error" would send people to the wrong place."""
    fresh(template, inside)
    before = state(inside)
    weather.arm(1, lasting=True, reason=errno.ENOSPC)()
    failure = failure_of(lambda _: satchel.open(inside).close(), lambda: None)
    weather.disarm()
    assert failure is None or "free some disk space" in failure
    assert state(inside) == before


def test_a_full_page_limit_says_that_the_disk_is_full_and_loses_nothing(path: Path):
    with satchel.open(path) as bag:
        bag.add("acknowledged")
        before = b"".join(bag.export())
        with bag._store._pool.connection() as db:
            pages = db.pragma("page_count")
            db.pragma("max_page_count", pages + 2)
        with pytest.raises(satchel.StoreFullError, match="free some disk space") as refusal:
            bag.add("long " * 10_000)
        assert str(path) in str(refusal.value)
        assert b"".join(bag.export()) == before
        with pytest.raises(satchel.StoreFullError):
            bag.add_many([satchel.Draft("short"), satchel.Draft("long " * 10_000)])
        assert b"".join(bag.export()) == before
        with bag._store._pool.connection() as db:
            db.pragma("max_page_count", pages + 1000)
        bag.add("long " * 10_000)
        assert bag.stats().memories == 2
        assert [check for check in bag.checks() if check.state != "ok"] == []


FULL = """
import json, os, resource, subprocess, sys, satchel
folder, way, command = sys.argv[1:]
path, filler = folder + "/notes.db", folder + "/filler"
if way == "disk":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], check=True)
    with open(filler, "wb") as file:
        file.write(bytes(1_000_000))
else:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_200_000, hard))

bag = satchel.open(path, embedder="static")
said, error = [], None
while error is None and len(said) < 2000:
    try:
        said.append(bag.add(f"note {len(said)} " + "word " * 300).id)
    except satchel.StoreError as caught:
        error = caught
result = {"said": len(said), "error": type(error).__name__, "message": str(error)}
there = {memory.id for memory in bag.recent(limit=10_000)}
result["exact"] = there == set(said)

def run(*arguments, text=""):
    done = subprocess.run([command, *arguments, "--db", path], input=text, capture_output=True, text=True)
    return [done.returncode, done.stdout, done.stderr]

result["add"] = run("add", "-", text="long " * 100_000)
result["stats"] = run("stats")
bag.close()
if way == "disk":
    os.unlink(filler)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
with satchel.open(path) as bag:
    result["exact afterwards"] = {memory.id for memory in bag.recent(limit=10_000)} == set(said)
    bag.add("there is room again " * 100)
    result["more"] = bag.stats().memories - len(said)
    result["unwell"] = [check.name for check in bag.checks() if check.state != "ok"]
print(json.dumps(result))
"""


def a_small_disk_can_be_mounted() -> bool:
    """Whether we may mount one that only we see, and that is gone with the process; mostly only root may."""
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


# A limit on the size of files stands in for a small disk wherever none can be had.
WAYS = ("disk", "limit") if a_small_disk_can_be_mounted() else ("limit",)


@pytest.mark.parametrize("way", WAYS)
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path, way):
    folder = tmp_path / "small"
    folder.mkdir()
    command = [sys.executable, "-c", FULL, folder, way, Path(sys.executable).with_name("satchel")]
    if way == "disk":
        command = ["unshare", "--mount", *command]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["said"] > 9
    assert result["error"] == ("StoreFullError" if way == "disk" else "StoreError")
    assert str(folder / "notes.db") in result["message"]
    assert "\n" not in result["message"]
    assert result["exact"]
    code, output, complaint = result["add"]
    assert (code, output, complaint.count("\n")) == (1, "", 1)
    assert str(folder / "notes.db") in complaint
    code, output, _ = result["stats"]
    assert (code, str(result["said"]) in output) == (0, True)
    assert result["exact afterwards"]
    assert result["more"] == 1
    assert result["unwell"] == []
