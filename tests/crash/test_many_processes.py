"""Several processes on one file: nothing is lost, nothing fails."""

import subprocess
import sys
from pathlib import Path

import pytest

import satchel

# With word vectors: what is written is the same, and most of the time goes into writing it.
CREW = """
import os, sys, traceback, satchel
path, processes, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with satchel.open(":memory:", embedder="static") as bag:
    bag.add("loads all that is loaded late, once for every child")

text = "process {who} note {number}" if len(sys.argv) < 5 else sys.argv[4]

def work(who):
    with satchel.open(path, embedder="static") as bag:
        for number in range(writes):
            os.write(1, f"{bag.add(text.format(who=who, number=number)).id}\\n".encode())

gate, opener = os.pipe()
children = []
for who in range(processes):
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            os.close(opener)
            os.read(gate, 1)
            work(who)
            failed = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(failed)
    children.append(child)
os.close(opener)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


def run_at_once(path: Path | str, processes: int, writes: int, *texts: str) -> list[str]:
    """Forked and then let go together: interpreters that start one after the other would rarely meet."""
    command = [sys.executable, "-c", CREW, str(path), str(processes), str(writes), *texts]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().split()


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


@pytest.mark.parametrize("place", ["path", "pg_rows_url"])
def test_processes_that_add_the_same_text_at_once_end_with_one_memory(request: pytest.FixtureRequest, place: str):
    location: Path | str = request.getfixturevalue(place)
    ids = run_at_once(location, 4, 10, "note {number}")
    assert len(ids) == 40
    with satchel.open(location) as bag:
        found = bag.recent(limit=100)
        assert {memory.id for memory in found} == set(ids)
        assert sorted(memory.text for memory in found) == sorted(f"note {number}" for number in range(10))
        assert {(memory.confirmations, memory.revision) for memory in found} == {(3, 4)}
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
