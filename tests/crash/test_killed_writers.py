"""An acknowledged write survives SIGKILL, and no write is stored partially."""

import subprocess
import sys
from pathlib import Path

from writer import delivered

import satchel
from in_step import differences
from satchel.session.ledger import cost

NURSERY = Path(__file__).with_name("nursery.py")
KILLS = 200
STAGES = 4


def test_every_acknowledged_write_is_there_after_200_kills(path: Path, tmp_path: Path):
    satchel.open(path).close()
    said: dict[str, int] = {}
    for stage in range(STAGES):
        folder = tmp_path / f"said{stage}"
        folder.mkdir()
        kill_writers("write", path, folder, kills=KILLS // STAGES, seed=20261116 + stage)
        for file in folder.iterdir():
            said |= acknowledged(file.read_bytes())
        assert_all_there(path, said)
    assert len(said) > KILLS


def test_passages_and_vectors_are_in_step_after_60_kills_of_whatever_changes_them(path: Path, tmp_path: Path):
    satchel.open(path).close()
    for stage in range(3):
        folder = tmp_path / f"said{stage}"
        folder.mkdir()
        kill_writers("churn", path, folder, kills=20, seed=stage)
        assert sum(file.stat().st_size > 0 for file in folder.iterdir()) > 5
        with satchel.open(path) as bag:
            assert [check for check in bag.checks() if check.state == "failed"] == []
            assert differences(bag) == []
            bag.reembed("static")
            assert [check for check in bag.checks() if check.state != "ok"] == []
            assert differences(bag) == []


def test_every_handle_that_was_given_out_expands_after_40_kills(path: Path, tmp_path: Path):
    """Four processes deliver results into one session at once; its sums are those of its entries afterwards."""
    satchel.open(path).close()
    kill_writers("deliver", path, tmp_path, kills=40, seed=5)
    lines = [line.split() for file in tmp_path.glob("w5-*.txt") for line in file.read_text().splitlines()]
    given = {handle: delivered(who, int(number)) for handle, who, number in lines if number}
    assert len(given) > 40
    with satchel.open(path) as bag:
        session = bag.session("shared")
        for handle, output in given.items():
            assert session.expand(handle) == output
        held = bag._store.ledgers.held("default", session._ledger.session)
        used = session.state().used
        for category in ("history", "tool_results"):
            assert used[category] == sum(cost(entry) for entry in held if entry.category == category)
        assert [check for check in bag.checks() if check.state != "ok"] == []


def kill_writers(work: str, path: Path, folder: Path, *, kills: int, seed: int) -> None:
    arguments = [work, path, folder, kills, 4, seed]
    done = subprocess.run([sys.executable, str(NURSERY), *map(str, arguments)], capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")


def acknowledged(output: bytes) -> dict[str, int]:
    """The ids that were said in full, each with the last revision that was said."""
    complete = output[: output.rfind(b"\n") + 1].decode().split("\n")[:-1]
    return {line.split()[0]: int(line.split()[1]) for line in complete}


def assert_all_there(path: Path, said: dict[str, int]) -> None:
    with satchel.open(path) as bag:
        stored = {memory.id: memory for memory in bag.recent(limit=10_000)}
        lost = {each for each, revision in said.items() if stored[each].revision < revision}
        assert not lost
        assert [check for check in bag.checks() if check.state != "ok"] == []
        # What was stored is also found, and its history is whole.
        for memory in list(stored.values())[:20]:
            assert len(bag.history(memory.id)) == memory.revision
            assert memory.id in {hit.memory.id for hit in bag.search(memory.text, limit=50)}
