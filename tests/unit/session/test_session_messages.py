"""The history of a session, as a text log and as messages for a provider."""

import json
import re

import pytest
from tool_lines import LINES

from satchel import Budget


@pytest.fixture
def session(bag):
    return bag.session("fix-login", budget=Budget(total=100_000))


class TestHistory:
    def test_it_is_within_its_budget_and_names_what_it_leaves_out(self, session):
        for number in range(40):
            session.call("read_file", {"path": f"{number}.py"}, f"c{number}")
            session.result("read_file", LINES[: 100 * number + 10], call_id=f"c{number}")
        whole = session.history(100_000)
        for budget in (0, 1, 20, 100, 400, 1_000, 3_000, 12_000):
            log = session.history(max_tokens=budget)
            assert session.counter.count(log.text) == log.token_count <= budget
            assert log.omitted >= whole.omitted
        assert session.history(400).omitted > 20

    def test_a_result_that_no_call_was_recorded_for_gets_one(self, session):
        session.result("query", "rows")
        session.call("cat", {"path": "a"}, "c1")
        first = session.result("cat", LINES, call_id="c1")
        session.page(first.cursor, call_id="c1")
        call, result, again, answer, more, rest = session.messages()[-6:]
        assert call["content"][0]["name"] == "query"
        assert result["content"][0]["content"].startswith("rows\n📏")
        assert again["content"] == [{"type": "tool_use", "id": "c1", "name": "cat", "input": {"path": "a"}}]
        assert answer["content"][0]["tool_use_id"] == "c1"
        assert more["content"][0]["id"] == rest["content"][0]["tool_use_id"] != "c1"

    def test_an_id_that_is_used_again_names_another_call(self, bag):
        session = bag.session("s", budget=Budget(total=20_000))
        for number in range(3):
            session.call("cat", {"n": number}, "call_0")
            session.result("cat", f"answer {number}", call_id="call_0")
        messages = session.messages("openai")
        asked = [call for message in messages for call in message.get("tool_calls", ())]
        assert [json.loads(call["function"]["arguments"]) for call in asked] == [{"n": 0}, {"n": 1}, {"n": 2}]
        answers = [message["content"] for message in messages if message["role"] == "tool"]
        assert [answer.split("\n")[0] for answer in answers] == ["answer 0", "answer 1", "answer 2"]
        assert len({call["id"] for call in asked}) == 3
        for number in range(200):
            session.call("cat", {"n": number}, "call_0")
            session.result("cat", f"answer {number} " + LINES[:300], call_id="call_0")
        assert session.state().used["history"] <= 2_400

    def test_ids_and_names_that_a_provider_refuses_are_written_so_that_it_does_not(self, session):
        for call_id in ("a/b", "a.b", "a b", "x" * 150, "\ud800", "fine"):
            session.call("files/read.all\n" + "y" * 100, {"half": "\ud800"}, call_id)
            session.result("files/read.all\n" + "y" * 100, "half \ud800", call_id=call_id)
        calls = [call for message in session.messages("openai") for call in message.get("tool_calls", ())]
        assert len({call["id"] for call in calls}) == 6
        assert calls[-1]["id"] == "fine"
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", call["id"]) for call in calls)
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call["function"]["name"]) for call in calls)

    def test_messages_use_the_budget_they_are_given(self, session):
        for number in range(60):
            session.call("cat", {"n": number}, f"c{number}")
            session.result("cat", f"{number} {LINES[:1_500]}", call_id=f"c{number}")
        whole = session.messages().token_count
        for budget in (2_000, 5_000, 12_000, whole - 1):
            messages = session.messages(max_tokens=budget)
            assert 0.6 * budget < messages.token_count <= budget
        assert session.messages(max_tokens=whole).omitted == 0
        few = session.messages(max_tokens=1_200)
        assert few.omitted > 0
        assert f"[{few.omitted} entries left out for lack of room]" in few[0]["content"][0]["text"]

    def test_blank_texts_are_not_for_a_provider(self, session):
        session.record("user", "  \n")
        session.record("user", "go")
        session.record("assistant", "gone  \n\n")
        assert [message["content"][-1]["text"] for message in session.messages()] == ["go", "gone"]

    def test_a_call_without_a_result_is_not_for_a_provider(self, session):
        session.record("user", "go")
        session.call("cat", {}, "c1")
        assert session.messages() == [{"role": "user", "content": [{"type": "text", "text": "go"}]}]

    def test_the_newest_comes_last_and_results_are_digests(self, session):
        session.record("user", "Find the login.")
        session.call("grep", {"pattern": "login"}, "c1")
        handle = session.result("grep", LINES, call_id="c1").handle
        lines = session.history().text.splitlines()
        assert lines[0] == "User: Find the login."
        assert lines[1] == '→ grep {"pattern":"login"}'
        assert lines[2].startswith(f"[{handle}] grep: ")
        assert len(session.history().text) < 800
