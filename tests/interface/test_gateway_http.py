"""A gateway in front of HTTP servers: Satchel's own, which uses the SDK, on loopback."""

import json
import signal
import socket
import subprocess
from contextlib import ExitStack, contextmanager

import pytest
from gateway_client import config, gateway_pipe, upstream, wait_until

from conftest import clean_environment
from mcp_pipe import LONGEST_WAIT, SATCHEL
from satchel.text.tokens import count_tokens

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-31-characters-or-so"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def memory_server(folder, port):
    """`satchel mcp` over HTTP on a port, from the moment that it listens."""
    said = folder / "server.errors"
    with open(said, "w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [SATCHEL, "mcp", "--http", f"127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=folder,
            env=clean_environment(folder) | {"SATCHEL_TOKEN": TOKEN},
        )
    try:
        wait_until(lambda: "serving http://" in said.read_text("utf-8"))
        yield process
    finally:
        process.kill()
        process.wait(LONGEST_WAIT)


def text_of(result):
    return result["content"][0]["text"]


def test_a_server_over_http_is_used_lost_and_found_again(tmp_path):
    port = free_port()
    web = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}}
    servers = config(tmp_path, web=web, local=upstream("--only", "echo"))
    folder = tmp_path / "web"
    folder.mkdir()
    options = ("--config", servers, "--start-seconds", "10", "--total", "1000000", "--per-call", "1000")
    with memory_server(folder, port) as server, gateway_pipe(tmp_path, *options, KEY=TOKEN) as pipe:
        pipe.call("mem_save", title="Rotation", text="We rotate keys every hour. " * 1_000)
        search = {"query": "rotate keys", "detail_level": "full", "max_tokens": 10_000}
        found = pipe.call("mem_search", **search)
        assert "We rotate keys" in text_of(found)
        assert count_tokens(text_of(found)) <= 1_000
        cursor = text_of(found).rsplit("➡ The rest: cursor=", 1)[1].split()[0]
        assert "rotate keys" in text_of(pipe.call("result_page", cursor=cursor))
        server.send_signal(signal.SIGKILL)
        server.wait(LONGEST_WAIT)
        lost = pipe.answer(pipe.start("mem_search", **search))["result"]
        assert lost["isError"]
        assert text_of(lost).startswith("the server web cannot be reached: ")
        assert text_of(pipe.call("echo", text="on")) == "on"
        with memory_server(folder, port):
            assert "We rotate keys" in text_of(pipe.call("mem_search", **search))
        with memory_server(folder, port):
            forgotten = pipe.answer(pipe.start("mem_search", **search))["result"]
            assert "the server web ended the session (HTTP 404) during this call" in text_of(forgotten)
            assert "We rotate keys" in text_of(pipe.call("mem_search", **search))


@pytest.mark.parametrize("case", ["nobody", "refused"])
def test_a_server_that_cannot_be_reached_says_why_and_the_others_go_on(tmp_path, case):
    port = free_port()
    servers = config(tmp_path, web={"url": f"http://127.0.0.1:{port}/mcp"}, local=upstream("--only", "echo"))
    with ExitStack() as stack:
        if case == "refused":
            stack.enter_context(memory_server(tmp_path, port))
        pipe = stack.enter_context(gateway_pipe(tmp_path, "--config", servers, "--start-seconds", "5"))
        assert text_of(pipe.call("echo", text="on")) == "on"
        state = json.loads(text_of(pipe.call("budget_status")))["servers"]["web"]
    assert state.startswith("restarting: it ")
    assert ("HTTP 401" if case == "refused" else "cannot be reached") in state
