"""The server's answers are recorded in the ledger of a session."""

import time
from pathlib import Path

import pytest

import satchel
from mcp_pipe import Pipe, lock_held
from satchel.server.recorder import BackgroundWriter, Recorder

pytestmark = pytest.mark.slow


def test_answers_are_entered_in_order_each_as_a_turn(bag):
    recorder = Recorder(bag, "mcp-1")
    for number in range(20):
        recorder.enter("mem_search", f"answer {number}", error=number == 3)
    recorder.close()
    session = bag.find_session("mcp-1")
    results = session.results()[::-1]
    assert [session.expand(each.handle) for each in results] == [f"answer {number}" for number in range(20)]
    assert [each.turn for each in results] == list(range(1, 21))
    assert [each.error for each in results].index(True) == 3
    assert session.state().delivered == sum(session.counter.count(f"answer {number}") for number in range(20))


def test_a_server_that_says_nothing_begins_no_session(bag):
    Recorder(bag, "mcp-1").close()
    assert bag.sessions() == []


def test_a_store_that_cannot_be_written_ends_the_recording_with_one_line(bag, capsys, monkeypatch):
    recorder = Recorder(bag, "mcp-1")
    monkeypatch.setattr(bag, "session", refused)
    for _ in range(5):
        recorder.enter("mem_search", "answer")
    recorder.close()
    recorder.enter("mem_search", "answer")
    assert capsys.readouterr().err == "satchel: answers are not recorded: the disk is full\n"


def refused(*_: object, **__: object) -> None:
    raise satchel.StoreFullError("the disk is full")


@pytest.mark.parametrize("name", [None, "my-session"])
def test_what_a_real_server_answers_is_in_the_books(tmp_path: Path, name):
    with Pipe(tmp_path, *(["--session", name] if name else [])) as pipe:
        answer = pipe.call("mem_stats")
        pipe.answer(pipe.start("mem_get", id=["nope"]))
        pipe.hang_up()
    with satchel.open(tmp_path / "notes.db") as bag:
        (state,) = bag.sessions()
        assert state.session == name if name else state.session.startswith("mcp-")
        assert state.results == 2
        wrong, right = bag.find_session(state.session).results()
        assert (wrong.tool, wrong.error, right.tool, right.error) == ("mem_get", True, "mem_stats", False)
        assert bag.find_session(state.session).expand(right.handle) == answer["content"][0]["text"]


def test_a_locked_store_holds_up_no_answer(tmp_path: Path):
    with Pipe(tmp_path) as pipe:
        pipe.call("mem_stats")
        with lock_held(tmp_path / "notes.db"):
            assert not pipe.call("mem_stats").get("isError")


def test_whoever_waits_for_what_is_written_behind_is_told_when_it_is():
    written: list[int] = []
    writer: BackgroundWriter[int] = BackgroundWriter(written.extend)
    started = time.monotonic()
    for number in range(100):
        writer.put(number)
        if number % 10 == 0:
            writer.flush(30)
            assert written == list(range(number + 1))
    assert time.monotonic() - started < 25


def test_one_entry_that_cannot_be_written_does_not_take_the_others_along(capsys):
    written: list[int] = []

    def write(entries: list[int]) -> None:
        if 3 in entries:
            raise ValueError("not this one")
        written.extend(entries)

    writer: BackgroundWriter[int] = BackgroundWriter(write)
    for number in range(6):
        writer.put(number)
    writer.flush(30)
    assert written == [0, 1, 2, 4, 5]
    assert capsys.readouterr().err == "satchel: answers are not recorded: not this one\n"


def test_what_a_lock_held_up_is_written_when_it_is_free():
    tries: list[list[int]] = []

    def write(entries: list[int]) -> None:
        tries.append(list(entries))
        if len(tries) < 3:
            raise satchel.StoreBusyError("locked")

    writer: BackgroundWriter[int] = BackgroundWriter(write)
    writer.put(1)
    writer.flush(30)
    assert tries == [[1]] * 3
