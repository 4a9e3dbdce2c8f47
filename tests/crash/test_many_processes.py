"""Several processes on one file: nothing is lost, nothing fails."""

import subprocess
import sys
from pathlib import Path

import satchel

OPENER = """
import sys, satchel
path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with satchel.open(path) as bag:
    for number in range(count):
        print(bag.add(f"process {who} note {number}").id)
"""


def run_at_once(path: Path, processes: int, writes: int) -> list[str]:
    crew = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, str(path), str(who), str(writes)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for who in range(processes)
    ]
    ids: list[str] = []
    for process in crew:
        output, complaints = process.communicate(timeout=120)
        assert (process.returncode, complaints) == (0, b"")
        ids += output.decode().split()
    return ids


def test_8_processes_store_250_memories_each_without_an_error_or_a_loss(path: Path):
    ids = run_at_once(path, processes=8, writes=250)
    assert len(set(ids)) == 2000
    with satchel.open(path) as bag:
        assert {memory.id for memory in bag.recent(limit=10_000)} == set(ids)
        assert [check for check in bag.checks() if check.state != "ok"] == []


def test_16_processes_opening_a_new_file_at_once_all_succeed(tmp_path: Path):
    for number in range(4):
        path = tmp_path / f"new{number}.db"
        ids = run_at_once(path, processes=16, writes=1)
        assert len(set(ids)) == 16
        with satchel.open(path) as bag:
            assert bag.stats().memories == 16
            assert [check for check in bag.checks() if check.state != "ok"] == []


def test_a_backup_made_while_others_write_is_whole(path: Path, tmp_path: Path):
    writer = Path(__file__).with_name("writer.py")
    crew = [
        subprocess.Popen([sys.executable, str(writer), str(path), str(who)], stdout=subprocess.PIPE)
        for who in range(2)
    ]
    try:
        for process in crew:
            assert process.stdout is not None
            process.stdout.readline()
        with satchel.open(path) as bag:
            for number in range(5):
                before = bag.stats().memories
                bag.backup(tmp_path / f"copy{number}.db")
                with satchel.open(tmp_path / f"copy{number}.db") as copy:
                    assert copy.stats().memories >= before
                    assert [check.name for check in copy.checks() if check.state == "failed"] == []
    finally:
        for process in crew:
            process.kill()
            process.communicate(timeout=30)


def test_a_forked_child_can_use_the_store_its_parent_opened(path: Path):
    script = """
import os, sys, satchel
bag = satchel.open(sys.argv[1])
bag.add("from the parent")
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        for index in range(10):
            bag.add(f"from child {number}, {index}")
        os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
bag.add("from the parent again")
assert bag.stats().memories == 42, bag.stats().memories
assert all(check.state == "ok" for check in bag.checks()), bag.checks()
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
