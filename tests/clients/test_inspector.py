"""The command line of the MCP Inspector, over standard input and over HTTP."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from clients.http_server import mcp_over_http
from conftest import clean_environment
from mcp_pipe import LONGEST_WAIT, SATCHEL

pytestmark = pytest.mark.xdist_group("inspector")

LAUNCHER = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
TEXT = "Signing keys are rotated every 90 days."

Ask = Callable[..., Any]


@pytest.fixture(scope="module", params=["stdio", "http"])
def ask(request, npm, tmp_path_factory) -> Ask:
    """Ask the server, with a memory in it, through a new process of the Inspector each time."""
    folder = tmp_path_factory.mktemp("inspector")

    def asked(method: str, *options: str) -> Any:
        done = subprocess.run(
            [*npm.script(LAUNCHER), "--cli", *server, "--method", method, *options],
            cwd=folder,
            env=clean_environment(folder),
            capture_output=True,
            text=True,
            timeout=LONGEST_WAIT,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with mcp_over_http(folder) as url:
        server = [url, "--transport", "http"] if request.param == "http" else [str(SATCHEL), "mcp"]
        saved = asked("tools/call", "--tool-name", "mem_save", "--tool-arg", f"text={TEXT}", "project=harbor")
        assert not saved.get("isError")
        yield asked


def test_it_lists_the_tools_and_finds_no_error_in_their_schemas(ask):
    """With --strict it exits with an error if a schema is not portable."""
    tools = {tool["name"] for tool in ask("tools/list", "--strict")["tools"]}
    assert {"mem_save", "mem_search", "mem_context", "mem_get"} <= tools


def test_it_finds_what_it_saved(ask):
    found = ask("tools/call", "--tool-name", "mem_search", "--tool-arg", "query=key rotation", "max_tokens=200")
    assert TEXT in found["content"][0]["text"]


def test_it_lists_and_reads_resources(ask):
    assert [one["uri"] for one in ask("resources/list")["resources"]] == ["satchel://pack/harbor"]
    templates = ask("resources/templates/list")["resourceTemplates"]
    assert "satchel://memory/{id}" in [one["uriTemplate"] for one in templates]
    assert TEXT in ask("resources/read", "--uri", "satchel://pack/harbor")["contents"][0]["text"]


def test_it_lists_and_reads_prompts(ask):
    for prompt in ask("prompts/list")["prompts"]:
        assert ask("prompts/get", "--prompt-name", prompt["name"])["messages"]
