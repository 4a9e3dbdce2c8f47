"""A gateway in front of third-party servers, installed from npm once."""

import json
import re
from pathlib import Path

import pytest
from gateway_client import gateway_client, texts

from gateway_upstream import sample
from npm_packages import node, npm_packages
from satchel.text.tokens import count_tokens

pytestmark = pytest.mark.slow

SCOPE, VERSION = "@modelcontextprotocol", "2026.8.31"


def installed(name: str) -> Path:
    """The main file of a server, which is installed first if need be."""
    packages = npm_packages(name, {"dependencies": {f"{SCOPE}/{name}": VERSION}})
    return packages / SCOPE / name / "dist" / "index.js"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("npm")
    options = ("--per-call", "500", "--name", "everything", "--", node(), installed("server-everything"), "stdio")
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


TEXT, JSON = sample("lines", 900_000), sample("json", 900_000)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shelf").resolve()
    (folder / "large.txt").write_text(TEXT, encoding="utf-8")
    (folder / "large.json").write_text(JSON, encoding="utf-8")
    (folder / "small.txt").write_text("three\nshort\nlines\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def files(shelf, tmp_path_factory):
    """A gateway in front of the server for files, which gives each text again as structured content."""
    options = ("--name", "files", "--", node(), installed("server-filesystem"), shelf)
    with gateway_client(tmp_path_factory.mktemp("files"), *options) as client:
        yield client


@pytest.mark.parametrize("tool", ["read_text_file", "read_file", "read_multiple_files"])
def test_a_large_file_is_one_result_that_costs_what_its_text_costs(files, shelf, tool):
    arguments = {"paths": [str(shelf / "large.txt")]} if tool == "read_multiple_files" else {}
    answer = files.call(tool, **(arguments or {"path": str(shelf / "large.txt")}))
    (page,) = texts(answer)
    assert answer.structured_content is None
    assert count_tokens(page) <= 8_000
    rest = int(re.search(r"the rest costs ~([\d,]+) tokens", page)[1].replace(",", ""))
    assert abs(count_tokens(page) + rest - count_tokens(TEXT)) < 0.02 * count_tokens(TEXT)
    handle = re.search(r"handle=(\w+)", page)[1]
    found = texts(files.call("result_find", handle=handle, pattern=r"module_777\.py"))[0]
    assert "⚡ 1 of 1 matches." in found


def test_a_large_json_file_keeps_its_records(files, shelf):
    (page,) = texts(files.call("read_text_file", path=str(shelf / "large.json")))
    total = len(json.loads(JSON))
    last = int(re.search(rf"⚡ records 1–(\d+) of {total:,}; the rest", page)[1])
    cursor = re.search(r"cursor=(\S+)", page)[1]
    later = texts(files.call("result_page", cursor=cursor))[0]
    assert later.startswith(f'{{"id": {last}, ')
    assert re.search(rf"⚡ records {last + 1}–\d+ of {total:,}; the rest", later)


def test_a_small_file_comes_once(files, shelf):
    answer = files.call("read_text_file", path=str(shelf / "small.txt"))
    assert texts(answer)[0] == "three\nshort\nlines\n"
    assert answer.structured_content is None
    assert re.fullmatch(r"📏 ~\d+ tokens", texts(answer)[1])


def test_without_a_known_window_nothing_is_said_to_be_left(files, shelf):
    (page,) = texts(files.call("read_text_file", path=str(shelf / "large.txt")))
    for _ in range(15):
        assert re.search(r"\n📏 ~[\d,]+ tokens$", page)
        (page,) = texts(files.call("result_page", cursor=re.search(r"cursor=(\S+)", page)[1]))
    assert re.search(r"\n⚡ lines [\d,]+–[\d,]+ of ", page)


def test_a_parameter_of_the_client_reaches_no_tool_that_refuses_it(files, shelf):
    answer = files.call("read_text_file", path=str(shelf / "small.txt"), wait_for_previous=True)
    assert not answer.is_error
    assert texts(answer)[0].startswith("three\n")
