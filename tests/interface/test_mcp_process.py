"""The stdio server process: start, exit, and output that contains only the protocol."""

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from complaint import complaint
from sample import contents, fill
from terminal import on_a_terminal

import satchel
from conftest import clean_environment
from mcp_pipe import HELLO, LONGEST_WAIT, SATCHEL, Pipe, lock_held, request, tool_call
from satchel.cli import app
from satchel.server.loading import Loading
from satchel.server.mcp import stdio
from satchel.server.mcp.stdio import StdioServer
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.specs.specs import Specs

pytestmark = pytest.mark.slow

Refusal = Callable[..., str]

LAST_SECONDS = 5.0
PIPE_SIZE = 65_536


def _refused(names: object, open_store: Callable[[], object], *, at_once: bool) -> int:
    """In place of the server: what it would not serve at once fails when it is opened."""
    if not at_once:
        open_store()
    pytest.fail("it serves")


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusal:
    """The one line with which `satchel mcp OPTIONS…` refuses to start."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SATCHEL_DB", "notes.db")
    monkeypatch.setattr(stdio, "serve_stdio", _refused)

    def refuse(*options: str) -> str:
        code = app.run(["mcp", *options])
        printed = capsys.readouterr()
        done = subprocess.CompletedProcess(options, code, printed.out, printed.err)
        assert code in (1, 2)
        return complaint(done, code=code)

    return refuse


def test_it_ends_when_standard_input_closes(tmp_path: Path):
    with Pipe(tmp_path) as server:
        code, seconds = server.hang_up()
        assert code == 0
        assert seconds < LAST_SECONDS
        assert server.errors == ""


def test_what_is_read_is_text_only_unless_structured_content_is_asked_for_and_fits(tmp_path: Path):
    text = "The pilot boards at the buoy. 水先人は浮標のところで乗船する。" * 5
    with Pipe(tmp_path) as server:
        saved = server.call("mem_save", text=text)
        assert saved["structuredContent"]["outcome"] == "saved"
        read = server.call("mem_search", query="pilot", detail_level="full")
        assert "buoy" in read["content"][0]["text"]
        assert "structuredContent" not in read
    with Pipe(tmp_path, "--structured") as server:
        whole = server.call("mem_search", query="pilot", detail_level="full")
        assert whole["structuredContent"]["text"] == whole["content"][0]["text"]
        kept = []
        for budget in range(300, 2_500, 200):
            read = server.call("mem_search", query="pilot", detail_level="full", max_tokens=budget)
            shown = [read["content"][0]["text"], json.dumps(read.get("structuredContent", ""), indent=2)]
            assert sum(map(satchel.count_tokens, shown)) <= budget + 2, "a client may show a model both"
            kept.append("structuredContent" in read)
        assert (kept[0], kept[-1]) == (False, True)


def test_whoever_starts_it_by_hand_is_told_what_it_waits_for(tmp_path: Path):
    shown = on_a_terminal("mcp", folder=tmp_path, typed="\x04")
    assert (
        "waiting for an MCP client on standard input; `satchel mcp install` sets one up, Ctrl-D quits"
        in shown.screen
    )
    assert shown.returncode == 0


def test_a_store_that_is_closed_while_all_is_made_ready_is_no_trouble(path: Path):
    bag = satchel.open(path)
    bag.close()
    with pytest.raises(satchel.StoreError):
        bag.warm_up()
    stdio.warm_up(ToolContext(bag, Specs(path.parent)))


def test_what_was_asked_before_standard_input_closed_is_answered(tmp_path: Path, path: Path):
    # With word vectors, so that a busy machine is done with all of it in the time that an end may take.
    with Pipe(tmp_path, "--embedder", "static") as server:
        calls = range(1000, 1060)
        server.send(*(tool_call(call, "mem_save", text=f"note {call}") for call in calls))
        code, seconds = server.hang_up()
        assert code == 0
        assert seconds < LAST_SECONDS
        saved = {server.result(call)["structuredContent"]["id"] for call in calls}
    with satchel.open(path) as bag:
        assert {memory.id for memory in bag.recent(limit=100)} == saved
        assert len(saved) == len(calls)


def test_a_store_that_is_locked_does_not_hold_up_the_end(tmp_path: Path, path: Path):
    """With more calls waiting than there are threads, so that none is left to read or write."""
    with Pipe(tmp_path) as server:
        first = server.call("mem_save", text="before")["structuredContent"]["id"]
        with lock_held(path):
            server.send(*(tool_call(1000 + number, "mem_save", text="never") for number in range(100)))
            code, seconds = server.hang_up()
        assert code == 0
        assert seconds < LAST_SECONDS
        assert [answer for answer in server.answers.values() if answer["id"] >= 1000 and "result" in answer] == []
    with satchel.open(path) as bag:
        assert [memory.id for memory in bag.recent()] == [first]
        assert [check for check in bag.checks() if check.state != "ok"] == []


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_signal_ends_it_at_once_even_while_the_store_is_locked(tmp_path: Path, path: Path, number, expected):
    with Pipe(tmp_path) as server:
        saved = server.call("mem_save", text="before")["structuredContent"]["id"]
        with lock_held(path):
            server.start("mem_save", text="never")
            server.answer(server.ask("ping", {}))
            code, seconds = server.signalled(number)
        assert code == expected
        assert seconds < LAST_SECONDS
        assert server.errors.strip() in ("", "satchel: stopped")
    with satchel.open(path) as bag:
        assert [memory.id for memory in bag.recent()] == [saved]


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path):
    with Pipe(tmp_path, reads=False, greets=False) as server:
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.ask("initialize", HELLO)
        # Its standard input stays open.
        assert server.ended()[0] == 1
        assert server.errors == ""


def test_a_client_that_no_longer_reads_does_not_hold_up_the_end(tmp_path: Path):
    with Pipe(tmp_path, reads=False, greets=False) as server:
        server.ask("initialize", HELLO)
        server.ask("tools/list", {})
        assert server.process.stdout is not None
        lengths = [len(server.process.stdout.readline()) for _ in range(2)]
        for _ in range(2 * PIPE_SIZE // lengths[1]):
            server.ask("tools/list", {})
        code, seconds = server.hang_up()
        assert code == 0
        assert seconds < LAST_SECONDS
        assert server.errors == ""


def test_lines_that_are_left_to_be_read_do_not_hold_up_the_end(tmp_path: Path):
    """Each is refused at once, and nobody reads the refusals."""
    with Pipe(tmp_path, reads=False, greets=False) as server:
        server.send(b"x")
        assert server.process.stdout is not None
        assert b'"error"' in server.process.stdout.readline()
        server.send(*[b"x\n"] * (PIPE_SIZE // 40))
        code, seconds = server.hang_up()
        assert code == 0
        assert seconds < LAST_SECONDS


def test_a_cancelled_call_is_not_waited_for_at_the_end():
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    never = threading.Event()
    answers: list[dict[str, Any]] = []

    def open_store() -> stdio.Opened:
        never.wait(60)
        raise satchel.StoreError("never")

    server = StdioServer(["mem_save"], Loading(open_store), answers.append)
    for line in (request(1, "initialize", HELLO), tool_call(7, "mem_save", text="never mind")):
        server.receive(line)
    server.receive(json.dumps(cancelled).encode())
    began = time.monotonic()
    server.finish(60)
    assert time.monotonic() - began < 30
    never.set()
    assert [answer["id"] for answer in answers] == [1]


STRAY = """
import os, subprocess, sys, warnings
from satchel.server.mcp import stdio

serve = stdio._serve

def run(*given):
    print("stray words")
    sys.stdout.flush()
    os.write(1, b"stray bytes\\n")
    subprocess.run(["sh", "-c", "echo stray child; cat"], check=True)
    warnings.warn("a stray warning")
    return serve(*given)

stdio._serve = run
"""


def test_whatever_libraries_print_and_read_does_not_touch_the_protocol(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(STRAY)
    with Pipe(
        tmp_path,
        python=["-X", "importtime", "-X", "dev", "-W", "always"],
        PYTHONPATH=str(tmp_path),
        SATCHEL_DEBUG="1",
    ) as server:
        server.call("mem_save", text="Quinces ripen in October.")
        assert "Quinces" in server.call("mem_search", query="quinces")["content"][0]["text"]
        refused = server.answer(server.start("mem_search", query=5))["result"]
        assert refused["content"][0]["text"] == "query must be a string, not int"
        assert server.hang_up()[0] == 0
        for stray in ("stray words", "stray bytes", "stray child", "a stray warning", "import time:"):
            assert stray in server.errors
        assert len(server.lines) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--tools nonsense", "there is no tool 'nonsense'"),
        ("--tools core,mem_stats", "there is no tool 'core'"),
        ("--tools=", "there is no tool ''"),
        ("--db .", "is a folder"),
        ("--db nowhere/notes.db", "nowhere does not exist"),
        ("--db=", "--db is empty"),
        ("--root nowhere", "'nowhere' is not a folder"),
        ("--root notes.txt", "'notes.txt' is not a folder"),
        ("--specs ../x", "'../x' is not inside the project"),
        ("--specs /etc", "'/etc' is not inside the project"),
        ("--most-tokens 0", "--most-tokens 0 is too small"),
        ("--most-tokens -5", "--most-tokens -5 is too small"),
        ("--most-tokens many", "'many' is not a valid integer"),
        ("--token-file notes.txt", "--token-file needs --http; give that too"),
        ("--allow-host example.org", "--allow-host needs --http; give that too"),
        ("--counter nonsense", "unknown counter 'nonsense'"),
        ("--embedder nonsense", "nonsense"),
        ("--project=", "--project is blank"),
        ("nonsense", "No such command 'nonsense'"),
    ],
)
def test_wrong_options_are_refused_in_one_line_and_nothing_is_made(
    refusal: Refusal, tmp_path: Path, options, words
):
    (tmp_path / "notes.txt").write_text("not a folder")
    assert words in refusal(*options.split())
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def damaged(path: Path) -> None:
    path.write_bytes(b"no longer a store" * 5000)


def newer(path: Path) -> None:
    fill(path)
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.pragma("user_version", db.pragma("user_version") + 1)


def foreign(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.execute("CREATE TABLE receipt (id)")


@pytest.mark.parametrize(
    ("spoil", "words"), [(damaged, "damaged or not a Satchel store"), (newer, "newer"), (foreign, "not")]
)
def test_a_store_that_cannot_be_served_is_reported_and_not_changed(
    refusal: Refusal, path: Path, spoil: Callable[[Path], None], words: str
):
    spoil(path)
    before = path.read_bytes()
    assert words in refusal()
    assert path.read_bytes() == before


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_stream_that_is_closed_from_the_start_is_foreseen(path: Path, tmp_path: Path, closed: str):
    """The others are files, which do as well as pipes."""
    fill(path)
    before = contents(path)
    asked = tmp_path / "asked.jsonl"
    asked.write_bytes(request(1, "initialize", HELLO) + b"\n\n" + tool_call(2, "mem_stats"))
    done = subprocess.run(
        ["sh", "-c", f"exec {SATCHEL} mcp < asked.jsonl {closed}"],
        capture_output=True,
        timeout=LONGEST_WAIT,
        cwd=tmp_path,
        env=clean_environment(tmp_path),
    )
    answered = [json.loads(line)["id"] for line in done.stdout.splitlines()]
    if closed == "2>&-":
        assert (done.returncode, answered) == (0, [1, 2])
    elif closed == "<&-":
        assert (done.returncode, answered, done.stderr) == (0, [], b"")
    else:
        assert (done.returncode, done.stderr) == (1, b"satchel: output: Bad file descriptor\n")
    assert contents(path) == before
