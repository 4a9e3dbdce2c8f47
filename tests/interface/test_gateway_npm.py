"""A gateway in front of a third-party server, installed from npm once."""

import json

import pytest
from gateway_client import gateway_client, texts

from npm_packages import node, npm_packages
from satchel.text.tokens import count_tokens

pytestmark = pytest.mark.slow

PACKAGE, VERSION = "@modelcontextprotocol/server-everything", "2026.8.31"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("npm")
    packages = npm_packages("server-everything", {"dependencies": {PACKAGE: VERSION}})
    server = packages / PACKAGE / "dist" / "index.js"
    options = ("--per-call", "500", "--name", "everything", "--", node(), server, "stdio")
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
