"""Coding agents use a server from npm behind the gateway: a long result comes in pages, and nothing twice."""

import re
from typing import Any, NamedTuple

import pytest

from clients.coding_clients import FILES, CodingClient, Played
from clients.model_stub import Call, Turn
from satchel.text.tokens import count_tokens

LINES = 3_000
MARKED = (7, 1_500, 2_999)


def line(number: int) -> str:
    mark = " MARKED" if number in MARKED else ""
    return f"{number:05} the keeper of lighthouse {number} counts ships and reports{mark}"


def cursor(turn: Turn) -> dict[str, Any]:
    found = re.search(r"cursor=([\w.]+)", turn.results[-1])
    assert found, turn.results[-1][-500:]
    return {"cursor": found[1]}


def handle(turn: Turn) -> dict[str, Any]:
    found = re.search(r"handle=(\w+)", turn.results[1])
    assert found, turn.results[1][-500:]
    return {"handle": found[1], "pattern": "MARKED"}


class Reading(NamedTuple):
    """One run of a client that reads a short and a long file."""

    client: CodingClient
    played: Played

    def text(self, place: int) -> str:
        results = self.played.turn.results
        assert place < len(results), f"only {len(results)} calls were answered\n{self.played.output}"
        return "\n".join(self.client.parts(results[place]))

    def numbers(self, place: int) -> list[int]:
        """The numbers of the lines of the long file in a result."""
        return [int(number) for number in re.findall(r"(\d{5}) the keeper", self.text(place))]


@pytest.fixture(scope="session")
def reading(kind, npm, tmp_path_factory) -> Reading:
    folder = tmp_path_factory.mktemp(f"{kind.name}-gateway")
    client = kind(npm, folder, folder / "notes.db")
    files = client.work / "files"
    files.mkdir()
    (files / "long.txt").write_text("".join(f"{line(number)}\n" for number in range(LINES)))
    (files / "short.txt").write_text("A short file.\n")
    client.install_gateway("files", [*npm.script(f"{FILES}/dist/index.js"), str(files)])
    script = [
        Call("read_text_file", {"path": str(files / "short.txt"), "wait_for_previous": True}),
        Call("read_text_file", {"path": str(files / "long.txt")}),
        Call("result_page", cursor),
        Call("result_find", handle),
    ]
    return Reading(client, client.play(script))


def test_tools_behind_the_gateway_are_called(reading):
    reading.played.finished(4)
    assert "A short file." in reading.text(0)


def test_a_long_result_comes_as_a_page_within_the_limit(reading, record_property):
    shown = reading.text(1)
    assert reading.numbers(1) == list(range(len(reading.numbers(1))))
    per_call = reading.client.per_call
    assert per_call / 2 < count_tokens(shown) <= per_call
    record_property("fact", (reading.client.name, "first page of a long result", f"{count_tokens(shown):,} tokens"))


def test_the_next_page_continues_where_the_first_ended(reading):
    first, second = reading.numbers(1), reading.numbers(2)
    assert second
    assert [*first, *second] == list(range(len(first) + len(second)))


def test_a_search_in_a_stored_result_gives_each_match_once(reading):
    shown = reading.text(3)
    assert [number for number in reading.numbers(3) if number in MARKED] == list(MARKED), shown
    assert re.search(r"\b3 of 3\b", shown), shown


def test_the_note_does_not_claim_to_know_the_window_of_the_model(reading):
    shown = "\n".join(map(reading.text, range(3)))
    assert "tokens" in shown
    assert not re.search(r"\bleft\b|Budget Critical", shown), re.findall(r".*\bleft\b.*", shown)


def test_the_gateway_and_its_server_end_with_the_client(reading):
    assert reading.played.left == []
