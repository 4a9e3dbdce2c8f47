"""Whatever a client sends, it gets a clear answer, and the server keeps running."""

import json
import os
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from mcp_nonsense import Line, nonsense

import satchel
from mcp_pipe import Pipe

pytestmark = pytest.mark.slow

CALLS = 5_000
FUZZ = int(os.environ.get("SATCHEL_FUZZ", "1"))
AT_ONCE = 100
MANY = 8_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("fuzz")
    # So that the tools for specs are offered.
    (made / "docs").mkdir()
    (made / "docs" / "design.md").write_text("# Design\n\nKeys rotate.\n")
    return made


@pytest.fixture(scope="module")
def ids(folder: Path) -> list[str]:
    with satchel.open(folder / "notes.db") as bag:
        return [bag.add(f"note {number} about keys", title=f"Note {number}").id for number in range(30)]


@pytest.fixture(scope="module")
def server(folder: Path, ids: list[str]) -> Iterator[Pipe]:
    with Pipe(folder) as running:
        yield running


@pytest.fixture(autouse=True)
def no_complaint(server: Pipe) -> Iterator[None]:
    """Nothing that a client sends makes the server print anything."""
    before = server.errors
    yield
    assert server.errors == before


def test_5_000_nonsensical_calls_get_a_clear_answer_each(server: Pipe, folder: Path, ids: list[str]):
    # Like those of packing: the same ones each time, and others where there are more.
    seed = 20261117 if FUZZ == 1 else random.randrange(10**9)
    lines = nonsense(random.Random(seed), CALLS * FUZZ, ids)
    refused = 0
    while chunk := list(islice(lines, AT_ONCE)):
        refused += sum(assert_clear(line, answer, seed) for line, answer in answered(server, chunk))
    assert refused > CALLS * FUZZ // 2
    assert_still_well(server, folder)


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("mem_save", {"text": "x" * MANY}, "text has 8,000,000 characters"),
        ("mem_save", {"text": "é" * (MANY // 2)}, "text has 8,000,000 bytes"),
        ("mem_save", {"text": "a", "tags": ["t"] * 500_000}, "tags has 500,000 entries"),
        ("mem_search", {"query": "word " * 200_000}, "query has 1,000,000 characters"),
        ("mem_search", {"query": "\ud800" * 300_000}, "query has 300,000 characters"),
        ("x" * MANY, {}, "there is no tool 'xxx"),
    ],
    ids=["text", "bytes", "list", "query", "surrogates", "tool"],
)
def test_megabytes_are_refused_in_a_line(server: Pipe, tool: str, arguments: dict[str, Any], complaint: str):
    result = server.answer(server.start(tool, **arguments))["result"]
    assert result["isError"]
    assert complaint in result["content"][0]["text"]
    assert_short(result["content"][0]["text"])


def test_megabytes_of_an_unknown_name_are_ignored_in_short(server: Pipe):
    said = server.call("mem_stats", **{"x" * MANY: 1})["content"][0]["text"]
    assert "\nignored: 'xxx" in said
    assert len(said) < 1_000


@pytest.mark.parametrize("filling", [b"x", b"[", b'{"a":', b"\xff", b'"'])
def test_megabytes_that_are_no_message_are_refused_in_a_line(server: Pipe, filling: bytes):
    before = len(server.lines)
    server.send(filling * (MANY // len(filling)))
    server.wait_until(lambda: len(server.lines) > before)
    error = json.loads(server.lines[-1])["error"]
    assert ("is not UTF-8" if filling == b"\xff" else "is not JSON") in error["message"]
    assert_short(error["message"])
    server.call("mem_stats")


def test_text_that_is_no_text_is_stored_as_text(server: Pipe, folder: Path):
    """A client that cuts a string between the halves of an emoji sends such."""
    text = "cut \ud83c\udf92 here \ud83c and \x00 there"
    saved = server.call("mem_save", text=text)["structuredContent"]
    with satchel.open(folder / "notes.db") as bag:
        assert bag.get(saved["id"]).text == "cut 🎒 here \ufffd and \x00 there"


def answered(server: Pipe, chunk: list[Line]) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Each line that must be answered, with its answer; those without a readable id in any order."""
    before = len(server.lines)
    server.send(*(line.sent for line in chunk))
    due = sum(line.answers for line in chunk)
    server.wait_until(lambda: len(server.lines) >= before + due)
    answers = [json.loads(line) for line in server.lines[before:]]
    assert len(answers) == due
    anonymous = [answer for answer in answers if answer["id"] is None]
    for line in chunk:
        if line.identifier is not None:
            assert line.identifier in server.answers, line.about
            yield line, server.answers[line.identifier]
        elif line.answers:
            fitting = [answer for answer in anonymous if line.names in answer["error"]["message"]]
            assert fitting, line.about
            anonymous.remove(fitting[0])
            yield line, fitting[0]
    assert anonymous == []


def assert_clear(line: Line, answer: dict[str, Any], seed: int) -> bool:
    """Whether it was refused, as what must be refused has to be: in a line that says why."""
    about = f"{line.about} (seed {seed}): {str(answer)[:300]}"
    if "error" in answer:
        refused, said = True, answer["error"]["message"]
    else:
        refused, said = answer["result"].get("isError", False), answer["result"]["content"][0]["text"]
    if refused:
        assert_short(said, about)
    assert refused or not line.wrong, about
    assert line.names in said, about
    return refused


def assert_short(message: str, about: str = "") -> None:
    assert message.strip(), about
    assert "\n" not in message, about
    assert len(message) <= 700, about
    assert "SATCHEL_DEBUG" not in message, about
    assert "Traceback" not in message, about


def assert_still_well(server: Pipe, folder: Path) -> None:
    """It remembers and finds, and the store is whole."""
    saved = server.call("mem_save", text="Quinces ripen in October.")["structuredContent"]
    found = server.call("mem_search", query="when do quinces ripen")
    assert "Quinces ripen" in found["content"][0]["text"]
    with satchel.open(folder / "notes.db") as bag:
        assert bag.get(saved["id"]).text == "Quinces ripen in October."
        assert [check for check in bag.checks() if check.state != "ok"] == []
