"""Sessions: tokens are counted by category, warnings are given, and counts are calibrated with the provider's."""

import contextlib
import json
from pathlib import Path

import pytest
from tool_lines import LINES

import satchel
from satchel import Budget, InputError
from satchel.session.budget import resolve_budget


@pytest.fixture
def session(bag):
    return bag.session("fix-login", budget=Budget(total=100_000))


def spent(session) -> int:
    return sum(session.state().used.values())


class TestLedger:
    def test_a_new_session_has_the_reserve_used_and_the_rest_left(self, session):
        state = session.state()
        assert state.used == {
            "system": 0,
            "history": 0,
            "tool_results": 0,
            "user": 0,
            "response_reserve": 30_000,
        }
        assert (state.total_budget, state.remaining, state.per_tool_budget) == (100_000, 70_000, 8_000)
        assert state.warning is None
        assert json.loads(state.json()) == state.to_dict()

    def test_each_category_is_counted_and_the_sum_is_what_is_not_left(self, session):
        count = session.counter.count
        session.record("system", "Be careful.")
        session.record("user", "Fix the login.")
        session.record("assistant", "I will look at it.")
        shown = session.result("read_file", "def login(): pass\n")
        used = session.state().used
        assert used["system"] == count("Be careful.")
        assert used["user"] == count("Fix the login.")
        assert used["history"] == count("I will look at it.")
        assert used["tool_results"] == shown.token_count == count(shown.text)
        assert session.state().remaining == 100_000 - spent(session)

    def test_a_system_text_takes_the_place_of_the_one_of_its_name(self, session):
        session.record("system", "one " * 50)
        session.record("system", "schemas", name="tools")
        session.record("system", "two")
        assert session.state().used["system"] == session.counter.count("schemas") + session.counter.count("two")
        assert session.messages("openai").system == "schemas\n\ntwo"

    def test_an_earlier_message_of_the_user_becomes_history(self, session):
        session.record("user", "first " * 10)
        session.record("user", "second")
        used = session.state().used
        assert used["user"] == session.counter.count("second")
        assert used["history"] == session.counter.count("first " * 10)

    def test_the_books_are_there_after_a_restart(self, path: Path):
        with satchel.open(path) as bag:
            session = bag.session("s", budget=Budget(total=50_000))
            shown = session.result("grep", LINES)
            before = session.state()
        with satchel.open(path) as bag:
            again = bag.session("s")
            assert again.state() == before
            assert again.budget.total == 50_000
            assert LINES.startswith(shown.content + again.page(shown.cursor).content)

    def test_a_budget_that_is_given_again_holds_from_then_on(self, bag):
        bag.session("s", budget=Budget(total=50_000))
        assert bag.session("s", budget=Budget(total=70_000)).budget.total == 70_000
        assert bag.session("s").budget.total == 70_000
        assert bag.session("s", holds="whole").state().total_budget == 70_000

    def test_what_is_left_is_told_after_the_result(self, session):
        shown = session.result("cat", LINES)
        assert f"~{session.state().remaining // 1000}k left" in shown.note

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda session: session.call("t", object()),
            lambda session: session.call("t", b"\xff"),
            lambda session: session.call("", {}),
            lambda session: session.result("t", "x", call_id=[1]),
            lambda session: session.result("t", "x", call_id="x" * 201),
            lambda session: session.result("t", "x", error="yes"),
            lambda session: session.result("t", "x", pinned="yes"),
            lambda session: session.result("t", "x", nonsense=1),
            lambda session: session.record(["user"], "x"),
            lambda session: session.record("user", "x", pinned="x"),
            lambda session: session.tool_schema(None),
            lambda session: session.results(limit=-1),
            lambda session: session.results(limit="x"),
        ],
    )
    def test_what_cannot_be_used_is_refused_and_changes_nothing(self, session, wrong):
        before = session.state()
        with pytest.raises(InputError):
            wrong(session)
        assert session.state() == before

    def test_one_of_several_sessions_of_a_name_is_not_removed_by_chance(self, bag):
        for project in ("one", "two"):
            bag.scoped(project=project).session("same")
        with pytest.raises(InputError, match="2 sessions are called 'same'; name the project of one: two, one"):
            bag.forget_session("same")
        bag.scoped(project="one").forget_session("same")
        bag.forget_session("same")

    def test_what_was_undone_is_not_counted(self, session, bag):
        with contextlib.suppress(RuntimeError), bag.transaction():
            session.result("cat", LINES)
            raise RuntimeError
        assert session.prepare("cat", LINES).shown.allocation == 8_000

    def test_two_processes_of_one_session_see_the_same_books(self, path: Path):
        with satchel.open(path) as one, satchel.open(path) as other:
            one.session("s").result("a", "some text")
            other.session("s").result("b", "more text")
            assert one.session("s").state() == other.session("s").state()
            assert one.session("s").state().results == 2

    def test_sessions_are_apart_by_scope(self, bag):
        bag.scoped(project="one").session("s").result("a", "text")
        assert bag.scoped(project="two").session("s").state().results == 0
        assert {state.project for state in bag.sessions()} == {"one", "two"}

    @pytest.mark.parametrize("category", ["tool_results", "", "SYSTEM", None])
    def test_an_unknown_category_is_refused(self, session, category):
        with pytest.raises(InputError, match="known: system, user, assistant, history"):
            session.record(category, "text")

    @pytest.mark.parametrize(
        "options", [{"hints": "loud"}, {"holds": "some"}, {"budget": "100_000"}, {"model": "no-such-model-at-all"}]
    )
    def test_bad_options_begin_no_session(self, bag, options):
        with pytest.raises(InputError):
            bag.session("s", **options)
        assert bag.sessions() == []

    @pytest.mark.parametrize("name", ["", "  ", 7])
    def test_a_session_needs_a_name(self, bag, name):
        with pytest.raises(InputError):
            bag.session(name)


class TestWarnings:
    def test_each_level_is_told_once(self, bag):
        session = bag.session(
            "s",
            budget=Budget(
                total=100_000, response=30_000, history=65_000, tool_results=1_000, system=2_000, user=2_000
            ),
        )
        said = []
        for number in range(60):
            session.record("history", f"{number} " + "a note of some length " * 200)
            said.append(session.warning())
        told = [line for line in said if line]
        assert told[0] == "[Budget Alert: ~19k tokens remaining. Consider summarizing or completing soon.]"
        assert told[1].startswith("[Budget Critical: ~9k tokens remaining.")
        assert len([line for line in told if "Critical" in line]) < len(said) / 4

    def test_it_is_not_told_when_there_is_room_again_but_the_next_time_there_is_not(self, bag):
        session = bag.session("s", budget=Budget(total=30_000))
        for _ in range(2):
            session.record("system", "x y " * 8_000)
            assert session.warning()
            session.record("system", "short")
            assert session.warning() is None

    def test_a_state_shows_the_warning_without_using_it_up(self, bag):
        session = bag.session("s", budget=Budget(total=30_000))
        session.record("system", "x y " * 8_000)
        assert session.state().warning == session.state().warning is not None
        assert session.warning()
        assert session.warning() is None


class TestWindow:
    def test_a_window_that_becomes_known_replaces_an_assumed_total(self, bag):
        session = bag.session("s", budget=Budget(per_call=3_000, assumed=True))
        assert "left" not in session.result("cat", "text").note
        session.learn_window(1_000_000)
        assert (session.budget.total, session.budget.per_call, session.budget.assumed) == (500_000, 3_000, False)
        assert "~349k left" in session.result("cat", "text").note
        session.learn_window("gpt-4o")
        assert session.budget.total == 500_000

    def test_a_small_window_limits_a_call_too(self, bag):
        session = bag.session("s", budget=Budget(assumed=True))
        session.learn_window("gpt-4")
        assert (session.budget.total, session.budget.per_call) == (4_096, 1_638)

    @pytest.mark.parametrize("window", [0, 1_999, -5, True, "no-such-model-at-all", None, 1.5])
    def test_what_is_no_window_is_refused(self, bag, window):
        session = bag.session("s", budget=Budget(assumed=True))
        with pytest.raises(InputError):
            session.learn_window(window)
        assert session.budget == Budget(assumed=True)

    def test_only_a_default_total_is_assumed(self, tmp_path):
        def assumed(settings="", **options):
            (tmp_path / "satchel.toml").write_text(f"[budget]\n{settings}", encoding="utf-8")
            environ = options.pop("environ", {})
            return resolve_budget(
                environ=environ, file=tmp_path / "satchel.toml", total_is_real=False, **options
            ).assumed

        assert assumed()
        assert assumed(per_call=3_000)
        assert not assumed(total=50_000)
        assert not assumed(model="gpt-4o")
        assert not assumed(environ={"SATCHEL_BUDGET_TOTAL": "50000"})
        assert not assumed('model = "gpt-4o"')
        assert not resolve_budget(environ={}, file=tmp_path / "satchel.toml", total=None).assumed


class TestFeedback:
    def test_the_overhead_of_schemas_is_told_from_the_slope_of_the_counter(self, session):
        counted = 0
        for _ in range(4):
            text = "please look at the next file " * 200
            session.record("user", text)
            counted += session.counter.count(text)
            calibration = session.feedback({"input_tokens": counted + 5_000, "output_tokens": 1})
        assert (round(calibration.slope, 2), calibration.overhead) == (1.0, 5_000)
        assert session.state().used["system"] == 5_000

    def test_a_counter_that_counts_too_little_gets_smaller_allocations(self, bag):
        session = bag.session("s")
        counted = 0
        for _ in range(4):
            text = "please look at the next file " * 200
            session.record("user", text)
            counted += session.counter.count(text)
            session.feedback({"prompt_tokens": counted * 2 + 1_000})
        assert session.allocation() == 4_000
        assert session.state().used["system"] == 1_000
        assert session.result("grep", LINES).token_count <= 4_000

    def test_what_is_no_usage_is_refused(self, session):
        with pytest.raises(InputError, match="usage"):
            session.feedback({"tokens": 5})


SCHEMA = {
    "name": "search_content",
    "description": "Search.",
    "inputSchema": {"type": "object", "properties": {"max_matches": {"type": "integer"}}},
}


class TestSchemas:
    def test_they_are_left_alone_unless_asked_for(self, session):
        assert session.tool_schema(SCHEMA) == SCHEMA

    def test_with_schema_hints_they_say_what_the_budget_allows(self, bag):
        session = bag.session("s", hints="schema")
        hinted = session.tool_schema(SCHEMA)
        assert "Budget allows ~200 matches" in hinted["description"]
        assert hinted["inputSchema"]["properties"]["max_matches"]["default"] == 200
        for _ in range(7):
            session.result("grep", LINES)
        assert session.tool_schema(SCHEMA)["inputSchema"]["properties"]["max_matches"]["default"] < 50

    def test_by_default_the_hint_stands_in_the_footer(self, bag):
        assert "Budget allows ~" in bag.session("a").result("grep", LINES).note
        assert "Budget allows ~" not in bag.session("b", hints="none").result("grep", LINES).note
