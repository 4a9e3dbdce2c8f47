"""A gateway in front of a third-party server, installed from npm once."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_client import gateway_client, texts

from satchel.text.tokens import count_tokens

pytestmark = pytest.mark.slow

PACKAGE, VERSION = "@modelcontextprotocol/server-everything", "2026.8.31"
CACHE = Path(sys.prefix) / "npm" / f"server-everything-{VERSION}"
SERVER = CACHE / "node_modules" / PACKAGE / "dist" / "index.js"
OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ENOTCACHED")


@pytest.fixture(scope="module")
def node():
    """Node, with the package installed; skipped only where there is no npm or no registry."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if found is None or npm is None:
        pytest.skip("node and npm are not installed")
    if not SERVER.exists():
        # Apart first: another test process may do the same, and what is there is whole.
        apart = CACHE.with_name(f"{CACHE.name}.{os.getpid()}")
        apart.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [
                npm,
                "install",
                "--prefix",
                apart,
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                f"{PACKAGE}@{VERSION}",
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode and any(code in done.stderr for code in OFFLINE):
            pytest.skip("the registry of npm cannot be reached")
        assert done.returncode == 0, done.stderr
        with contextlib.suppress(OSError):
            apart.rename(CACHE)
        shutil.rmtree(apart, ignore_errors=True)
    return found


@pytest.fixture(scope="module")
def gateway(node, tmp_path_factory):
    folder = tmp_path_factory.mktemp("npm")
    options = ("--per-call", "500", "--name", "everything", "--", node, SERVER, "stdio")
    with gateway_client(folder, *options) as client:
        yield client


def test_its_tools_are_listed_beside_ours(gateway):
    names = gateway.names()
    assert {"echo", "get-sum", "get-tiny-image"} <= set(names)
    assert names[-3:] == ["result_page", "result_find", "budget_status"]


def test_its_results_come_as_they_are_with_a_note(gateway):
    answer = gateway.call("echo", message="hello")
    assert texts(answer)[0] == "Echo: hello"
    assert "tokens" in texts(answer)[1]


def test_a_long_result_of_it_is_paged(gateway):
    message = "".join(f"line {number} of many\n" for number in range(2_000))
    answer = gateway.call("echo", message=message)
    assert sum(map(count_tokens, texts(answer))) <= 500
    cursor = texts(answer)[0].rsplit("cursor=", 1)[1].split()[0]
    assert "of many" in texts(gateway.call("result_page", cursor=cursor))[0]


def test_its_picture_passes(gateway):
    assert "image" in [part.type for part in gateway.call("get-tiny-image").content]


def test_its_structured_content_is_valid(gateway):
    """The client itself checks it against the schema that it was given."""
    answer = gateway.call("get-structured-content", location="New York")
    assert json.loads(texts(answer)[0]) == answer.structured_content


def test_its_progress_is_passed(gateway):
    reports = []

    async def report(progress, total, message):
        reports.append(progress)

    arguments = {"duration": 0.2, "steps": 2}
    gateway.ask("call_tool", "trigger-long-running-operation", arguments, progress_callback=report)
    assert reports == [1, 2]


def test_its_resources_and_prompts_are_there(gateway):
    (first, *_) = gateway.ask("list_resources").resources
    assert gateway.ask("read_resource", first.uri).contents
    prompts = [prompt.name for prompt in gateway.ask("list_prompts").prompts]
    assert "simple-prompt" in prompts
    assert gateway.ask("get_prompt", "simple-prompt").messages
