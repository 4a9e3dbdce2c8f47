"""A full disk is reported, no acknowledged write is lost, and writing works again when there is space."""

import errno
import json
import re
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


# A client of a gateway whose store is on a small disk, and what makes that disk full.
CLIENT = """
import json, os, resource, subprocess, sys
folder, way, satchel, upstream = sys.argv[1:]
filler = folder + "/filler"
if way == "disk":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)

def start():
    options = ["--db", folder + "/notes.db", "--per-call", "500"]
    command = [satchel, "gateway", *options, "--", sys.executable, upstream]
    # Its errors go to the same disk, as those of many clients do.
    with open(folder + "/errors", "w") as errors:
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        gateway = subprocess.Popen(command, text=True, encoding="utf-8", **streams)
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    ask(gateway, "initialize", client)
    return gateway

def ask(gateway, method, params):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    print(json.dumps(message), file=gateway.stdin, flush=True)
    for line in gateway.stdout:
        if json.loads(line).get("id") == 1:
            return json.loads(line)["result"]

def call(tool, **arguments):
    answer = ask(gateway, "tools/call", {"name": tool, "arguments": arguments})
    return [answer.get("isError", False), *(part["text"] for part in answer["content"])]

def fill():
    if way == "limit":
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return
    with open(filler, "wb", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass

def free():
    if way == "limit":
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        os.unlink(filler)

def cursor(text):
    return text.split("cursor=")[1].split()[0]

def end():
    gateway.stdin.close()
    return gateway.wait(30)
"""

FILLED_MEANWHILE = (
    CLIENT
    + """
gateway = start()
told = {"before": call("bulk", shape="log", size=100_000)}
fill()
told["small"] = [call("echo", text=f"answer {number}") for number in range(3)]
told["large"] = [call("bulk", shape="lines", size=400_000) for _ in range(3)]
told["page"] = call("result_page", cursor=cursor(told["before"][1]))
told["find"] = call("result_find", handle=cursor(told["before"][1]), pattern="step 150 ")
told["status"] = call("budget_status")
free()
told["after"] = call("bulk", shape="lines", size=400_000)
told["later"] = call("result_page", cursor=cursor(told["after"][1]))
told["recorded"] = call("echo", text="recorded")
told["results"] = json.loads(call("budget_status")[1])["results"]
told["exit"] = end()
print(json.dumps(told))
"""
)

FULL_AT_THE_START = (
    CLIENT
    + """
fill()
gateway = start()
told = {"large": call("bulk", shape="lines", size=400_000)}
told["later"] = call("result_page", cursor=cursor(told["large"][1]))
told["exit"] = end()
print(json.dumps(told))
"""
)

# Clients of a service with two worker processes whose store is on a small disk.
SERVED_MEANWHILE = """
import http.client, json, os, resource, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
folder, way, satchel = sys.argv[1:]
path, filler = folder + "/notes.db", folder + "/filler"
if way == "disk":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    with open(filler, "wb") as file:
        file.write(bytes(1_000_000))
command = [satchel, "serve", "--http", "127.0.0.1:0", "--db", path, "--processes", "2", "--embedder", "static"]
service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
port = int(service.stderr.readline().rpartition(":")[2])
children = Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()

def limit(size):
    for each in (service.pid, *map(int, children)):
        resource.prlimit(each, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

if way == "limit":
    limit(1_500_000)

def ask(method, path, body=None):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    line.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"} if body else {})
    reply = line.getresponse()
    return reply.status, json.loads(reply.read())

def write(writer):
    said = []
    for number in range(500):
        status, reply = ask("POST", "/v1/memories", {"text": f"{writer} wrote {number} " + "word " * 300})
        if status != 201:
            return said, [status, reply["type"], reply["detail"]]
        said.append(reply["id"])
    return said, None

with ThreadPoolExecutor(4) as pool:
    done = list(pool.map(write, range(4)))
said = {each for ids, _ in done for each in ids}
told = {"said": len(said), "refused": [refused for _, refused in done]}
told["read"] = ask("GET", "/v1/stats")[0]
if way == "disk":
    os.unlink(filler)
else:
    limit(resource.RLIM_INFINITY)
status, reply = ask("POST", "/v1/memories", {"text": "there is room again"})
said.add(reply["id"])
told["after"] = status
service.terminate()
told["complaints"] = service.stderr.read().splitlines()
told["exit"] = service.wait(30)
told["processes"] = [each for each in children if Path("/proc", each).exists()]
import satchel
with satchel.open(path) as bag:
    bag = bag.scoped(org="default")
    told["exact"] = {memory.id for memory in bag.recent(limit=10_000)} == said
    told["unwell"] = [check.name for check in bag.checks() if check.state != "ok"]
print(json.dumps(told))
"""


def a_small_disk_can_be_mounted() -> bool:
    """Whether we may mount one that only we see, and that is gone with the process; mostly only root may."""
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


UPSTREAM = Path(__file__).parents[1] / "gateway_upstream.py"
# A limit on the size of files stands in for a small disk wherever none can be had.
WAYS = ("disk", "limit") if a_small_disk_can_be_mounted() else ("limit",)


def run_inside(way, script, folder: Path, *arguments):
    """Run a script that may make the disk of a folder full, and return what it prints."""
    folder.mkdir()
    command = [sys.executable, "-c", script, folder, way, Path(sys.executable).with_name("satchel"), *arguments]
    if way == "disk":
        command = ["unshare", "--mount", *command]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path, way):
    folder = tmp_path / "small"
    result = run_inside(way, FULL, folder)
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


@pytest.mark.parametrize("way", WAYS)
def test_a_gateway_on_a_full_disk_passes_results_on_and_says_what_it_cannot_keep(tmp_path: Path, way):
    folder = tmp_path / "small"
    told = run_inside(way, FILLED_MEANWHILE, folder, UPSTREAM)
    assert "cursor=" in told["before"][1]
    assert [answer[:2] for answer in told["small"]] == [[False, f"answer {number}"] for number in range(3)]
    for failed, text in told["large"]:
        assert not failed
        assert text.startswith("src/part_0/module_0.py")
        assert 400 < satchel.count_tokens(text) <= 500
        assert "cursor=" not in text
        note = re.search(r"\n\[lines 1–\d+ of [\d,]+; the rest \(~[\d,]+ tokens\) is not kept: (.+)\]\n", text)
        assert str(folder / "notes.db") in note[1]
    assert told["page"][1].startswith("2026-01-")
    assert "step 150 done" in told["find"][1]
    assert not told["status"][0]
    assert "cursor=" in told["after"][1]
    assert told["later"][1].startswith("src/part_")
    # The first, the one after, and the small one; those that came while the disk was full are not in the ledger.
    assert told["results"] == 3
    assert told["exit"] == 0


@pytest.mark.skipif("disk" not in WAYS, reason="a small disk cannot be mounted")
def test_a_gateway_that_starts_on_a_full_disk_keeps_results_in_memory(tmp_path: Path):
    told = run_inside("disk", FULL_AT_THE_START, tmp_path / "small", UPSTREAM)
    assert "cursor=" in told["large"][1]
    assert told["later"][1].startswith("src/part_")
    assert told["exit"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_service_with_workers_on_a_full_disk_keeps_what_it_has_acknowledged(tmp_path: Path, way):
    folder = tmp_path / "small"
    told = run_inside(way, SERVED_MEANWHILE, folder)
    assert told["said"] > 9
    expected = [507, "urn:satchel:problem:store-full"] if way == "disk" else [503, "urn:satchel:problem:store"]
    assert [refused[:2] for refused in told["refused"]] == [expected] * 4
    assert not any(str(folder) in refused[2] for refused in told["refused"])
    assert (told["read"], told["after"], told["exit"]) == (200, 201, 0)
    # The operator is told where, once.
    assert any(str(folder / "notes.db") in line for line in told["complaints"])
    assert len(told["complaints"]) <= 4
    assert told["processes"] == []
    assert told["exact"]
    assert told["unwell"] == []
