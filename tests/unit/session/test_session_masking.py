"""Secrets in what a session stores: masked everywhere but in results, and there too if asked for."""

import contextlib
import sqlite3
import zlib

import pytest

import satchel
from invented_secrets import mixed
from satchel.server.gateway.delivery import Call, Delivery
from satchel.server.recorder import Recorder
from satchel.session.session import enter_all

SECRET = "ghp" + "_" + mixed(36)
PASSWORD = "Tr0ub4dor&3"


def stored(path) -> str:
    """Everything in the file, contents unpacked."""
    with sqlite3.connect(path) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        values = [value for table in tables for row in db.execute(f'SELECT * FROM "{table}"') for value in row]
    return "\n".join(_text(value) for value in values if isinstance(value, str | bytes))


def _text(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    with contextlib.suppress(zlib.error):
        value = zlib.decompress(value)
    return value.decode("utf-8", "replace")


@pytest.fixture
def bag(path):
    with satchel.open(path, embedder="none") as opened:
        yield opened


@pytest.mark.parametrize("category", ["system", "user", "assistant", "history"])
def test_recorded_texts_are_masked(bag, path, category):
    session = bag.session("s")
    entry = session.record(category, f"deploy with {SECRET}, the password is {PASSWORD}.", name=f"prompt {SECRET}")
    assert session.expand(entry.handle) == "deploy with [masked:github-token], the password is [masked:password]."
    assert SECRET not in stored(path)
    assert PASSWORD not in stored(path)


def test_a_recorded_text_that_is_remembered_is_masked_in_both_places(bag, path):
    bag.session("s").record("user", f"use {SECRET}", remember=True)
    assert SECRET not in stored(path)


def test_arguments_of_calls_are_masked_and_stay_json(bag, path):
    session = bag.session("s")
    arguments = {"url": f"https://x.org/?access_token={SECRET}", "password": PASSWORD, "pin": 48312, "n": 3}
    entry = session.call("login", arguments, call_id="c1")
    session.result("login", "ok", call_id="c1")
    (message,) = [each for each in session.messages() if each["role"] == "assistant"]
    assert message["content"][0]["input"]["n"] == 3
    assert "[masked:" in session.expand(entry.handle)
    session.call("shell", f"curl -u admin:{PASSWORD} https://x.org")
    session.result("shell", "ok", arguments={"command": f"TOKEN={SECRET} deploy"})
    assert SECRET not in stored(path)
    assert PASSWORD not in stored(path)


def test_names_of_tools_and_sessions_are_masked(bag, path):
    session = bag.session(f"run {SECRET}")
    assert session.name == "run [masked:github-token]"
    session.result(f"tool {SECRET}", "ok")
    session.call(f"tool {SECRET}", {})
    assert bag.find_session(f"run {SECRET}").name == session.name
    assert SECRET not in stored(path)
    with pytest.raises(satchel.UnknownIdError) as raised:
        bag.find_session(f"other {SECRET}")
    assert SECRET not in str(raised.value)
    bag.forget_session(f"run {SECRET}")
    assert bag.sessions() == []


def test_a_result_is_exact_by_its_handle_and_masked_in_everything_made_of_it(bag, path):
    session = bag.session("s", budget=satchel.Budget(total=50_000, per_call=400))
    output = f"TOKEN={SECRET}\n" + "".join(f"line {number} of the log\n" for number in range(400))
    shown = session.result("read", output)
    assert session.expand(shown.handle) == output
    session.find(shown.handle, f"TOKEN|{SECRET}")
    assert stored(path).count(SECRET) == 1
    assert SECRET not in session.history().text


def test_results_are_masked_if_the_session_is_asked_to(bag, path):
    session = bag.session("s", mask_results=True)
    shown = session.result("read", f"TOKEN={SECRET}\nname=satchel\n")
    assert session.expand(shown.handle) == "TOKEN=[masked:github-token]\nname=satchel\n"
    assert SECRET not in shown.text
    assert session.expand(session.result("raw", b"\xff\xfe").handle) == b"\xff\xfe"
    assert SECRET not in stored(path)


def test_answers_that_the_server_records_are_masked(bag, path):
    recorder = Recorder(bag, f"mcp {SECRET}")
    recorder.enter(f"mem_{SECRET}", f"there is no memory '{SECRET}'", error=True)
    recorder.close()
    assert bag.sessions()[0].results == 1
    assert SECRET not in stored(path)


@pytest.mark.parametrize("masks", [False, True])
def test_the_gateway_masks_arguments_always_and_results_if_asked_to(bag, path, masks):
    session = bag.session("gateway", mask_results=masks, holds="whole")
    call = Call(tool="fetch", arguments={"header": f"Authorization: Bearer {SECRET}"})
    image = {"type": "image", "data": SECRET, "mimeType": "image/png"}
    result = {"content": [{"type": "text", "text": f"key {SECRET}"}, image], "structuredContent": {"key": SECRET}}
    answer, to_enter = Delivery(session)(call, result, new_turn=True)
    enter_all([to_enter])
    (row,) = session.results()
    assert (SECRET in session.expand(row.handle)) is not masks
    assert (SECRET in str(answer["content"][0])) is not masks
    assert (SECRET in str(answer["structuredContent"])) is not masks
    assert answer["content"][1] == image
    assert (SECRET in stored(path)) is not masks


def test_mask_results_must_be_true_or_false(bag):
    with pytest.raises(satchel.InputError, match="mask_results 'yes' is not true or false"):
        bag.session("s", mask_results="yes")
