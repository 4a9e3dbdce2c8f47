"""Many MCP servers on one file, as started by many agents: nothing is lost or fails, even when some are killed."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import satchel
from in_step import differences
from mcp_pipe import Pipe, tool_call

NURSERY = Path(__file__).with_name("mcp_nursery.py")
SERVERS = 8
SAVES = 250
KILLS = 24
SEED = 20261118
# Most of the time goes into writing, then, and not into vectors.
WORD_VECTORS = ("--embedder", "static")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def ten(folder: Path) -> Iterator[list[Pipe]]:
    """Servers that start at the same time, on a file that is not there yet."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Pipe(folder, *WORD_VECTORS, greets=False)) for _ in range(10)]
        for server in servers:
            server.greet()
        yield servers


def test_10_servers_on_one_new_file_read_and_write_together(ten: list[Pipe], folder: Path):
    saves, reads = [], []
    for number in range(5):
        for who, server in enumerate(ten):
            saves.append((server, server.start("mem_save", text=f"pear {who} {number}", project="orchard")))
            reads.append((server, server.start("mem_search", query="pear", max_tokens=300)))
    ids = {saved(server, call) for server, call in saves}
    assert len(ids) == 50
    for server, call in reads:
        assert "📏" in server.result(call)["content"][0]["text"]
    # What one of them saved, every other one has.
    for server in ten:
        found = server.call("mem_get", id=sorted(ids))["content"][0]["text"]
        assert found.count("[observation]") == 50
    assert_whole(folder / "notes.db", ids)


def test_8_servers_save_250_memories_each_without_an_error_or_a_loss(ten: list[Pipe], folder: Path):
    ids: set[str] = set()
    for server, calls in [(server, burst(server)) for server in ten[:SERVERS]]:
        ids |= {saved(server, call) for call in calls}
        assert server.errors == ""
    assert len(ids) == SERVERS * SAVES
    assert_whole(folder / "notes.db", ids)


def test_no_acknowledged_memory_is_lost_when_8_servers_are_killed_again_and_again_and_restarted(path: Path):
    done = subprocess.run(
        [sys.executable, str(NURSERY), *map(str, (path, KILLS, SERVERS, SAVES, SEED))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    deaths = [line.split() for line in done.stdout.splitlines()]
    assert len(deaths) == KILLS
    # Most had work done and work to do.
    assert sum(0 < len(ids) < SAVES for ids in deaths) > KILLS // 2
    assert_whole(path, {identifier for ids in deaths for identifier in ids})


def burst(server: Pipe) -> range:
    """Ask for all of them at once, and wait for none; the ids of the calls."""
    first = server.reserve(SAVES)
    calls = range(first, first + SAVES)
    server.send(*(tool_call(call, "mem_save", text=f"{server.process.pid} saves {call}") for call in calls))
    return calls


def saved(server: Pipe, call: int) -> str:
    data = server.result(call)["structuredContent"]
    assert data["outcome"] == "saved"
    return str(data["id"])


def assert_whole(store: Path, acknowledged: set[str]) -> None:
    """Looked at through a connection of our own, all of it is there, found, and in step."""
    with satchel.open(store) as bag:
        stored = {memory.id: memory for memory in bag.recent(limit=10_000)}
        assert acknowledged - stored.keys() == set()
        assert [check for check in bag.checks() if check.state != "ok"] == []
        assert differences(bag) == []
        for identifier in sorted(acknowledged)[:20]:
            hits = bag.search(stored[identifier].text, limit=50)
            assert identifier in {hit.memory.id for hit in hits}
