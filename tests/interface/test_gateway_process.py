"""The gateway process: start, rejected options, exit, and cleanup."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest
from complaint import complaint
from gateway_client import UPSTREAM, config, gateway_pipe, upstream, wait_until

from conftest import clean_environment
from mcp_pipe import HELLO, LONGEST_WAIT, SATCHEL, request, tool_call

pytestmark = pytest.mark.slow

LAST_SECONDS = 5.0
SERVER = ("--", sys.executable, UPSTREAM)
# Neither the end of its input nor a request to end makes it go.
STUBBORN = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, file=open(sys.argv[1], "w"), flush=True)
sys.argv = ["upstream", "--name", "stubborn"]
try:
    exec(open({str(UPSTREAM)!r}).read())
finally:
    time.sleep(600)
"""


def text_of(answer):
    return answer["result"]["content"][0]["text"]


def names(pipe):
    return [tool["name"] for tool in pipe.answer(pipe.ask("tools/list", {}))["result"]["tools"]]


def told(pipe, method):
    return [line for line in pipe.lines if json.loads(line).get("method") == method]


def is_running(pid):
    """Whether it is there, and not only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def pipe(tmp_path_factory):
    with gateway_pipe(tmp_path_factory.mktemp("shared"), *SERVER) as shared:
        yield shared


def test_a_cancelled_call_is_cancelled_at_its_server_and_never_answered(pipe, tmp_path):
    before = int(pipe.call("cancelled")["content"][0]["text"])
    mark = tmp_path / "hangs"
    hanging = pipe.start("hang", touch=str(mark))
    wait_until(mark.exists)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": hanging}}
    pipe.send(json.dumps(cancel).encode())
    assert int(pipe.call("cancelled")["content"][0]["text"]) == before + 1
    assert pipe.call("echo", text="on")["content"][0]["text"] == "on"
    assert hanging not in pipe.answers


def test_a_call_of_the_id_0_is_cancelled_too(pipe, tmp_path):
    before = int(pipe.call("cancelled")["content"][0]["text"])
    mark = tmp_path / "hangs"
    pipe.send(tool_call(0, "hang", touch=str(mark)))
    wait_until(mark.exists)
    pipe.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}')
    assert int(pipe.call("cancelled")["content"][0]["text"]) == before + 1


def test_an_id_that_was_cancelled_before_its_call_began_can_be_used_again(pipe):
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"again"}}'
    pipe.send(tool_call("again", "echo", text="first"), cancel, tool_call("again", "echo", text="second"))
    assert text_of(pipe.answer("again")) == "second"


def test_a_turn_lasts_while_one_of_its_calls_does(pipe, tmp_path):
    def turn():
        return json.loads(pipe.call("budget_status")["content"][0]["text"])["turn"]

    mark = tmp_path / "hangs"
    hanging = pipe.start("hang", touch=str(mark))
    wait_until(mark.exists)
    during = [turn() for _ in range(3)]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": hanging}}
    pipe.send(json.dumps(cancel).encode())
    assert during == [during[0]] * 3
    assert [turn(), turn()] == [during[0] + 1, during[0] + 2]


def test_ids_of_either_kind_are_kept_apart(pipe):
    for identifier, text in (("70007", "a string"), (70007, "a number"), ("x y", "words"), (-1, "below zero")):
        pipe.send(request(identifier, "tools/call", {"name": "echo", "arguments": {"text": text}}))
    found = {each: text_of(pipe.answer(each)) for each in ("70007", 70007, "x y", -1)}
    assert found == {"70007": "a string", 70007: "a number", "x y": "words", -1: "below zero"}


def test_what_a_client_writes_wrongly_is_answered_and_the_next_request_works(pipe):
    before = len(pipe.lines)
    wrong = [
        (b"not json", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700),
        (b"[]", -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 91}', -32600),
        (b'{"jsonrpc": "2.0", "id": 92, "method": 3}', -32600),
        (b'{"jsonrpc": "2.0", "id": 93, "method": "ping", "params": []}', -32602),
        (b'{"jsonrpc": "2.0", "id": 94, "method": "tasks/list"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 95, "method": "tools/call", "params": {}}', -32602),
        (
            b'{"jsonrpc": "2.0", "id": 96, "method": "tools/call", "params": {"name": "echo", "arguments": 1}}',
            -32602,
        ),
        (b'{"jsonrpc": "2.0", "id": 97, "method": "tools/list", "params": {"cursor": "x"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 98, "method": "prompts/get", "params": {"name": "none"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 99, "method": "completion/complete", "params": {}}', -32602),
    ]
    for number, (line, code) in enumerate(wrong, start=before + 1):
        pipe.send(line)
        pipe.wait_until(lambda number=number: len(pipe.lines) >= number)
        assert json.loads(pipe.lines[-1])["error"]["code"] == code, line
    assert pipe.call("echo", text="on")["content"][0]["text"] == "on"


def test_a_client_that_does_not_greet_is_served_all_the_same(tmp_path):
    with gateway_pipe(tmp_path, *SERVER, greets=False) as pipe:
        assert pipe.call("echo", text="hello")["content"][0]["text"] == "hello"


def test_a_server_that_never_answers_the_greeting_does_not_hold_up_the_others(tmp_path):
    servers = config(tmp_path, mute=upstream("--mute"), good=upstream("--only", "echo"))
    with gateway_pipe(tmp_path, "--config", servers, "--start-seconds", "0.5") as pipe:
        assert names(pipe) == ["echo", "result_page", "result_find", "budget_status"]
        wait_until(lambda: "the server mute has not answered initialize within 0.5 s" in pipe.errors)
        status = json.loads(pipe.call("budget_status")["content"][0]["text"])
        assert status["servers"] == {
            "mute": "starting: it has not answered initialize within 0.5 s",
            "good": "ready",
        }
        assert pipe.call("echo", text="on")["content"][0]["text"] == "on"


def test_a_server_that_is_ready_late_brings_its_tools_then(tmp_path):
    mark = tmp_path / "now"
    late = upstream("--only", "echo,whoami", "--name", "late", "--answer-after", mark)
    servers = config(tmp_path, late=late, good=upstream("--only", "echo"))
    with gateway_pipe(tmp_path, "--config", servers, "--start-seconds", "0.2") as pipe:
        # On a busy machine the good one may not be ready in time either, and is news of its own.
        wait_until(lambda: names(pipe)[0] == "echo")
        before = len(told(pipe, "notifications/tools/list_changed"))
        mark.touch()
        wait_until(lambda: names(pipe)[:3] == ["late__echo", "whoami", "good__echo"])
        pipe.wait_until(lambda: len(told(pipe, "notifications/tools/list_changed")) > before)
        # A client that has not asked again calls it by the name it knows.
        assert pipe.call("echo", text="still")["content"][0]["text"] == "still"


def test_a_server_that_comes_back_with_the_same_tools_is_no_news(pipe):
    listed = names(pipe)
    assert "ended (exit code 3)" in text_of(pipe.answer(pipe.start("crash")))
    pipe.call("echo", text="back")
    assert names(pipe) == listed
    assert told(pipe, "notifications/tools/list_changed") == []


def test_a_server_killed_in_mid_call_gives_an_error_at_once(pipe, tmp_path):
    pid = int(pipe.call("whoami")["content"][0]["text"].split()[1])
    mark = tmp_path / "hangs"
    hanging = pipe.start("hang", touch=str(mark))
    wait_until(mark.exists)
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    answer = pipe.answer(hanging)
    assert time.monotonic() - began < LAST_SECONDS
    assert answer["result"]["isError"]
    assert "was ended by SIGKILL during this call; it is being restarted" in text_of(answer)
    assert int(pipe.call("whoami")["content"][0]["text"].split()[1]) != pid


def test_it_ends_when_its_input_closes_and_leaves_no_server_behind(tmp_path):
    with gateway_pipe(tmp_path, *SERVER) as pipe:
        pid = int(pipe.call("whoami")["content"][0]["text"].split()[1])
        code, took = pipe.hang_up()
    assert code == 0
    assert took < LAST_SECONDS
    assert not is_running(pid)


def test_a_server_that_will_not_go_is_killed_with_all_it_started(tmp_path):
    mark = tmp_path / "child"
    with gateway_pipe(tmp_path, "--", sys.executable, "-c", STUBBORN, mark) as pipe:
        pid = int(pipe.call("whoami")["content"][0]["text"].split()[1])
        child = int(mark.read_text())
        assert is_running(child)
        code, took = pipe.hang_up()
    assert code == 0
    assert took < LAST_SECONDS
    assert not is_running(pid)
    assert not is_running(child)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_signal_ends_it_and_its_servers(tmp_path, number, code):
    with gateway_pipe(tmp_path, *SERVER) as pipe:
        pid = int(pipe.call("whoami")["content"][0]["text"].split()[1])
        assert pipe.signalled(number)[0] == code
    wait_until(lambda: not is_running(pid))


def test_what_was_asked_before_its_input_closed_is_still_answered(tmp_path):
    with gateway_pipe(tmp_path, *SERVER) as pipe:
        asked = [pipe.start("echo", text=str(number)) for number in range(20)]
        pipe.hang_up()
        assert [text_of(pipe.answers[each]) for each in asked] == [str(number) for number in range(20)]


def test_schemas_say_what_the_budget_allows_only_where_that_is_asked_for(pipe, tmp_path):
    def described(of):
        tools = of.answer(of.ask("tools/list", {}))["result"]["tools"]
        return next(tool for tool in tools if tool["name"] == "echo")

    with gateway_pipe(tmp_path, "--hints", "schema", *SERVER) as hinting:
        assert "Budget allows ~" in json.dumps(described(hinting))
    assert "Budget allows" not in json.dumps(described(pipe))


def test_it_ends_when_nobody_reads_its_answers(tmp_path):
    command = [str(SATCHEL), "gateway", *map(str, SERVER)]
    environment = clean_environment(tmp_path)
    with subprocess.Popen(
        command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, cwd=tmp_path, env=environment
    ) as process:
        process.stdout.close()
        process.stdin.write(request(1, "ping", {}) + b"\n")
        process.stdin.flush()
        assert process.wait(LONGEST_WAIT) == 1


def test_requests_may_come_from_a_file(cli):
    call = request(2, "tools/call", {"name": "echo", "arguments": {"text": "from a file"}})
    done = cli("gateway", *SERVER, stdin=b"\n".join([request(1, "ping", {}), call, b""]))
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0
    assert text_of(answers[2]) == "from a file"


def test_results_of_an_earlier_run_can_be_paged_in_a_later_one(tmp_path):
    with gateway_pipe(tmp_path, "--session", "kept", *SERVER) as pipe:
        page = pipe.call("bulk", shape="lines", size=100_000)["content"][0]["text"]
        pipe.hang_up()
    cursor = page.split("cursor=")[1].split()[0]
    with gateway_pipe(tmp_path, "--session", "kept", *SERVER) as pipe:
        assert "handler_" in pipe.call("result_page", cursor=cursor)["content"][0]["text"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no server is given"),
        (["--config", "none.json"], "cannot read none.json: No such file"),
        (["--config", "broken.json"], "broken.json, line 1, column 17"),
        (["--config", "empty.json"], "has no enabled server"),
        (["--name", "x"], "--name needs a server from"),
        (["--", "satchel", "gateway"], "is a gateway itself"),
        (["--start-seconds", "0", "--", "x"], "start-seconds"),
        (["--total", "-3", "--", sys.executable], "-3"),
        (["--hints", "loud", "--", "x"], "loud"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_starts(cli, tmp_path, arguments, said):
    (tmp_path / "broken.json").write_text('{"mcpServers": {,}}')
    (tmp_path / "empty.json").write_text('{"mcpServers": {"a": {"command": "x", "disabled": true}}}')
    assert said in complaint(cli("gateway", *arguments))


def test_servers_none_of_which_can_be_started_are_named_one_by_one(cli, tmp_path):
    servers = config(tmp_path, a={"command": "no-such-a"}, b={"command": "no-such-b"})
    done = cli("gateway", "--config", servers)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "satchel: the server a cannot be started: there is no command 'no-such-a'",
        "satchel: the server b cannot be started: there is no command 'no-such-b'",
    ]


def test_a_gateway_behind_a_script_finds_out_that_it_is_one(cli):
    done = cli("gateway", "--", sys.executable, SATCHEL_GATEWAY="outer")
    assert "this gateway was started by another" in complaint(done)


@pytest.mark.parametrize(
    ("options", "told", "left"),
    [
        ((), {}, None),
        (("--total", "200000"), {}, "~139k"),
        (("--model", "gpt-4o"), {}, "~44k"),
        ((), {"window": 400_000}, "~139k"),
        ((), {"model": "gpt-4o"}, "~44k"),
        (("--total", "200000"), {"window": 1_000_000}, "~139k"),
        ((), {"model": "nobody-knows-it"}, None),
        ((), {"window": "many"}, None),
    ],
)
def test_what_is_left_is_said_only_where_the_window_is_known(tmp_path, options, told, left):
    with gateway_pipe(tmp_path, *options, *SERVER, greets=False) as pipe:
        pipe.answer(pipe.ask("initialize", HELLO | {"capabilities": {"experimental": {"satchel": told}}}))
        note = pipe.call("echo", text="x")["content"][1]["text"]
        assert re.fullmatch(r"📏 ~\d+ tokens" + ("" if left is None else f"; {left} left"), note)
        status = json.loads(pipe.call("budget_status")["content"][0]["text"])
        assert ("remaining" in status) == (left is not None)
