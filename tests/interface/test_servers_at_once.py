"""Servers that answer before they have loaded anything, and that need no package of the extra `serve`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from gateway_client import UPSTREAM, config, gateway_pipe, upstream
from sample import fill

from conftest import clean_environment
from mcp_pipe import HELLO, LONGEST_WAIT, SATCHEL, Pipe, request, tool_call

pytestmark = pytest.mark.slow

HEAVY = ("anyio", "apsw", "asyncio", "mcp", "msgspec", "numpy", "pydantic", "satchel.api.satchel", "splintr")
GATEWAY = ("gateway", "--name", "one", "--", sys.executable, str(UPSTREAM), "--only", "echo")
BLOCKED = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

NAMES = ("mcp", "mcp_types", "anyio", "pydantic", "starlette", "uvicorn", "httpx2", "jwt")
sys.meta_path.insert(0, Missing())
"""


def asked(
    folder: Path, *lines: bytes, command: tuple[str, ...] = ("mcp",), python: tuple[str, ...] = (), **environment
):
    """What a server answers to these lines, which are all there when it starts."""
    done = subprocess.run(
        [sys.executable, *python, str(SATCHEL), *command],
        input=b"\n".join((request("hello", "initialize", HELLO), *lines, b"")),
        capture_output=True,
        timeout=LONGEST_WAIT,
        cwd=folder,
        env=clean_environment(folder) | environment,
    )
    return {json.loads(line).get("id"): json.loads(line) for line in done.stdout.splitlines()}, done


@pytest.fixture
def without_extra(tmp_path: Path) -> dict[str, str]:
    """An environment in which the packages of the extra `serve` cannot be imported."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    return {"PYTHONPATH": str(tmp_path)}


def imported(errors: bytes) -> set[str]:
    return {line.rpartition(b"|")[2].strip().decode() for line in errors.splitlines() if b"import time:" in line}


def test_the_tools_are_listed_before_anything_heavy_is_loaded(tmp_path: Path, path: Path):
    fill(path)
    answers, done = asked(
        tmp_path,
        request(1, "ping", {}),
        request(2, "tools/list", {}),
        request(3, "prompts/list", {}),
        request(4, "prompts/get", {"name": "memory-guide"}),
        request(5, "resources/templates/list", {}),
        python=("-X", "importtime"),
    )
    assert [each for each in answers if "result" in answers[each]] == ["hello", 1, 2, 3, 4, 5]
    assert done.returncode == 0
    assert imported(done.stderr) & set(HEAVY) == set()


def test_a_gateway_that_ran_before_lists_the_tools_before_anything_heavy_is_loaded(tmp_path: Path):
    with gateway_pipe(tmp_path, *GATEWAY[1:]) as pipe:
        first = pipe.answer(pipe.ask("tools/list", {}))["result"]["tools"]
        remember(pipe, tmp_path)
        assert pipe.hang_up()[0] == 0
    answers, done = asked(
        tmp_path, request(1, "ping", {}), request(2, "tools/list", {}), command=GATEWAY, python=("-X", "importtime")
    )
    assert answers[2]["result"]["tools"] == first
    assert "one: Ask me anything." in answers["hello"]["result"]["instructions"]
    assert imported(done.stderr) & set(HEAVY) == set()


def remembered_in(folder: Path) -> list[Path]:
    return sorted((folder / ".cache/satchel").glob("*.json"))


def remember(pipe: Pipe, folder: Path) -> None:
    """Wait until a gateway has written down what its servers offer."""
    pipe.answer(pipe.ask("tools/list", {}))
    while not remembered_in(folder):
        pipe.answer(pipe.ask("ping", {}))


def names(pipe: Pipe) -> list[str]:
    return [tool["name"] for tool in pipe.answer(pipe.ask("tools/list", {}))["result"]["tools"]]


def test_the_tools_of_a_server_that_is_slow_this_time_are_listed_as_before(tmp_path: Path):
    mark = tmp_path / "now"
    servers = config(tmp_path, late=upstream("--only", "echo", "--answer-after", mark))
    mark.touch()
    with gateway_pipe(tmp_path, "--config", servers) as pipe:
        remember(pipe, tmp_path)
    mark.unlink()
    with gateway_pipe(tmp_path, "--config", servers) as pipe:
        assert names(pipe)[0] == "echo"
        call = pipe.start("echo", text="in time")
        pipe.answer(pipe.ask("ping", {}))
        assert call not in pipe.answers
        mark.touch()
        assert pipe.result(call)["content"][0]["text"] == "in time"


CHANGING = """
import json, pathlib, sys
names = pathlib.Path(sys.argv[1]).read_text().split()
for line in sys.stdin:
    asked = json.loads(line)
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    results = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                              "serverInfo": {"name": "x", "version": "1"}}, "tools/list": {"tools": tools}}
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked["method"], {})}
        print(json.dumps(answer), flush=True)
"""


def test_a_server_that_offers_something_else_this_time_is_news(tmp_path: Path):
    offered = tmp_path / "tools.txt"
    server = ("--", sys.executable, "-c", CHANGING, str(offered))
    offered.write_text("one two")
    with gateway_pipe(tmp_path, *server) as pipe:
        remember(pipe, tmp_path)
    offered.write_text("two three")
    with gateway_pipe(tmp_path, *server) as pipe:
        assert names(pipe)[:2] in (["one", "two"], ["two", "three"])
        pipe.wait_until(lambda: any(b"tools/list_changed" in line for line in pipe.lines))
        assert names(pipe)[:2] == ["two", "three"]


def test_what_is_remembered_wrongly_is_not_used(tmp_path: Path):
    with gateway_pipe(tmp_path, *GATEWAY[1:]) as pipe:
        remember(pipe, tmp_path)
    (file,) = remembered_in(tmp_path)
    for wrong in (b"", b"[]", b"nonsense", b'{"instructions": 1, "tools": [], "lists": {}}', b"\xff"):
        file.write_bytes(wrong)
        with gateway_pipe(tmp_path, *GATEWAY[1:]) as pipe:
            assert names(pipe)[0] == "echo"
            assert pipe.call("echo", text="on")["content"][0]["text"] == "on"


def test_a_server_that_does_not_answer_holds_up_no_list_for_long(tmp_path: Path):
    servers = config(tmp_path, mute=upstream("--mute"))
    with gateway_pipe(tmp_path, "--config", servers, "--list-seconds", "0") as pipe:
        assert names(pipe) == ["result_page", "result_find", "budget_status"]


def test_a_client_that_leaves_at_once_finds_the_store_as_it_was(tmp_path: Path, path: Path):
    fill(path)
    before = path.stat().st_mtime_ns
    done = subprocess.run(
        [SATCHEL, "mcp"], input=b"", capture_output=True, timeout=LONGEST_WAIT, env=clean_environment(tmp_path)
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert path.stat().st_mtime_ns == before


def test_a_thousand_calls_that_come_before_the_store_is_open_are_answered(tmp_path: Path, path: Path):
    fill(path)
    calls = range(1000, 2000)
    with Pipe(tmp_path, greets=False) as server:
        server.send(request(0, "initialize", HELLO), *(tool_call(call, "mem_stats") for call in calls))
        server.answer(server.ask("ping", {}))
        for call in calls:
            assert "memories" in server.result(call)["content"][0]["text"]


def test_a_store_that_turns_out_to_be_damaged_is_named_and_the_server_goes_on(tmp_path: Path, path: Path):
    fill(path)
    with apsw.Connection(str(path)) as db:
        db.pragma("wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    with Pipe(tmp_path) as server:
        answer = server.answer(server.start("mem_search", query="anything"))["result"]
        assert answer["isError"]
        assert "\n" not in answer["content"][0]["text"]
        assert "notes.db" in answer["content"][0]["text"]
        server.answer(server.ask("ping", {}))
        path.write_bytes(whole)
        server.call("mem_stats")
        assert server.hang_up()[0] == 0


def test_the_library_the_commands_and_the_servers_on_standard_input_need_no_extra(
    tmp_path: Path, path: Path, without_extra: dict[str, str]
):
    fill(path)
    with Pipe(tmp_path, **without_extra) as server:
        server.call("mem_search", query="anything")
    with gateway_pipe(tmp_path, *GATEWAY[1:], **without_extra) as pipe:
        assert pipe.call("echo", text="on")["content"][0]["text"] == "on"
    environment = clean_environment(tmp_path) | without_extra
    for words in (("add", "a note"), ("search", "note"), ("stats",)):
        subprocess.run([SATCHEL, *words], check=True, capture_output=True, env=environment, timeout=LONGEST_WAIT)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("mcp", "--http", "127.0.0.1:0"), "satchel mcp --http"),
        (("serve", "--http", "127.0.0.1:0"), "satchel serve"),
        (("gateway", "--config", "mcp.json"), "the server web cannot be started: a server with a URL"),
        (("reembed", "--embedder", "openai:x@http://127.0.0.1:9"), "an embedder behind a URL"),
    ],
)
def test_what_needs_the_extra_says_so_in_one_line(tmp_path: Path, without_extra: dict[str, str], words, what: str):
    config(tmp_path, web={"url": "http://127.0.0.1:9/mcp"})
    environment = clean_environment(tmp_path) | without_extra
    fill(tmp_path / "notes.db")
    done = subprocess.run(
        [SATCHEL, *words], input=b"", capture_output=True, cwd=tmp_path, env=environment, timeout=LONGEST_WAIT
    )
    assert f"{what} needs the extra 'serve'; run: pip install 'satchel[serve]'" in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1
