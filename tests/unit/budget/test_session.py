"""Sessions: what enters a context is counted, cut to its allocation, kept whole, and leaves in batches."""

import contextlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

import satchel
from satchel import Budget, BudgetError, ExpiredError, InputError, UnknownIdError
from satchel.budget import ledger
from satchel.budget.accounts import FLOOR
from satchel.budget.prepared import enter_all
from satchel.fields import utc_now

LINES = "".join(f"src/file{number % 7}.py:{number}: return login(user, {number})\n" for number in range(4_000))


@pytest.fixture
def session(bag):
    return bag.session("fix-login", budget=Budget(total=100_000))


def spent(session) -> int:
    return sum(session.state()["used"].values())


class TestLedger:
    def test_a_new_session_has_the_reserve_used_and_the_rest_left(self, session):
        state = session.state()
        assert state["used"] == {
            "system": 0,
            "history": 0,
            "tool_results": 0,
            "user": 0,
            "response_reserve": 30_000,
        }
        assert (state["total_budget"], state["remaining"], state["per_tool_budget"]) == (100_000, 70_000, 8_000)
        assert state["warning"] is None
        assert json.loads(json.dumps(state)) == state

    def test_each_category_is_counted_and_the_sum_is_what_is_not_left(self, session):
        count = session.counter.count
        session.record("system", "Be careful.")
        session.record("user", "Fix the login.")
        session.record("assistant", "I will look at it.")
        shown = session.result("read_file", "def login(): pass\n")
        used = session.state()["used"]
        assert used["system"] == count("Be careful.")
        assert used["user"] == count("Fix the login.")
        assert used["history"] == count("I will look at it.")
        assert used["tool_results"] == shown.token_count == count(shown.text)
        assert session.state()["remaining"] == 100_000 - spent(session)

    def test_a_system_text_takes_the_place_of_the_one_of_its_name(self, session):
        session.record("system", "one " * 50)
        session.record("system", "schemas", name="tools")
        session.record("system", "two")
        assert session.state()["used"]["system"] == session.counter.count("schemas") + session.counter.count("two")
        assert session.messages("openai").system == "schemas\n\ntwo"

    def test_an_earlier_message_of_the_user_becomes_history(self, session):
        session.record("user", "first " * 10)
        session.record("user", "second")
        used = session.state()["used"]
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
        assert bag.session("s", holds="whole").state()["total_budget"] == 70_000

    def test_what_is_left_is_told_after_the_result(self, session):
        shown = session.result("cat", LINES)
        assert f"~{session.state()['remaining'] // 1000}k left" in shown.note

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
        with pytest.raises(InputError, match="2 sessions have the name 'same'; say which by its project: two, one"):
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
            assert one.session("s").state()["results"] == 2

    def test_sessions_are_apart_by_scope(self, bag):
        bag.scoped(project="one").session("s").result("a", "text")
        assert bag.scoped(project="two").session("s").state()["results"] == 0
        assert {state["project"] for state in bag.sessions()} == {"one", "two"}

    @pytest.mark.parametrize("category", ["tool_results", "", "SYSTEM", None])
    def test_an_unknown_category_is_refused(self, session, category):
        with pytest.raises(InputError, match="known: system, user, assistant, history"):
            session.record(category, "text")

    @pytest.mark.parametrize(
        "options", [{"hints": "loud"}, {"holds": "some"}, {"budget": 100_000}, {"model": "no-such-model-at-all"}]
    )
    def test_bad_options_begin_no_session(self, bag, options):
        with pytest.raises(InputError):
            bag.session("s", **options)
        assert bag.sessions() == []

    @pytest.mark.parametrize("name", ["", "  ", 7])
    def test_a_session_needs_a_name(self, bag, name):
        with pytest.raises(InputError):
            bag.session(name)


class TestAllocation:
    def test_it_shrinks_with_what_the_turn_has_used_and_comes_back_with_the_next(self, session):
        sizes = [session.result("grep", LINES).allocation for _ in range(12)]
        assert sizes[0] == 8_000
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] == FLOOR
        # Half of what is left each time, not all until nothing is.
        assert len({size for size in sizes if FLOOR < size < 8_000}) >= 3
        assert session.state()["used"]["tool_results"] <= 40_000 + sizes.count(FLOOR) * FLOOR
        session.next_turn()
        assert session.allocation() == 8_000

    def test_it_is_never_more_than_half_of_what_the_whole_budget_has_left(self, bag):
        session = bag.session("s", budget=Budget(total=50_000))
        session.record("system", "word " * 31_000)
        assert session.state()["remaining"] < 4_100
        assert session.allocation() == session.state()["remaining"] // 2

    def test_a_result_prepared_before_others_took_the_room_is_cut_again(self, session):
        ready = [session.prepare("grep", f"{number} {LINES}", max_tokens=15_000) for number in range(4)]
        shown = [each.enter() for each in ready]
        assert [each.allocation for each in shown[:2]] == [15_000, 15_000]
        assert shown[2].token_count <= 10_500
        assert shown[3].token_count <= FLOOR
        for number, each in enumerate(shown):
            assert session.expand(each.handle) == f"{number} {LINES}"
            assert session.page(each.cursor).content

    def test_the_model_going_on_begins_a_turn(self, session):
        for _ in range(6):
            session.result("grep", LINES)
        assert session.allocation() < 8_000
        session.record("assistant", "I see.")
        assert session.allocation() == 8_000

    def test_calls_made_together_share_a_turn(self, session):
        session.call("grep", {}, "a")
        session.call("grep", {}, "b")
        turn = session.state()["turn"]
        session.result("grep", LINES, call_id="a")
        session.result("grep", LINES, call_id="b")
        assert session.state()["turn"] == turn

    def test_what_is_asked_for_is_granted_up_to_what_the_turn_has_left(self, session):
        assert session.result("grep", LINES, max_tokens=500).token_count <= 500
        assert session.result("grep", LINES, max_tokens=20_000).token_count > 15_000
        assert session.result("grep", LINES, max_tokens=60_000).token_count <= 40_000

    def test_a_limit_is_suggested_by_the_cost_of_an_item(self, session):
        assert session.suggest_limit(80) == 100
        assert session.suggest_limit("a line of a file\n") == 8_000 // session.counter.count("a line of a file\n")
        assert session.suggest_limit(10**6) == 1

    @pytest.mark.parametrize("cost", [0, -1, "", 1.5, None])
    def test_an_item_that_costs_nothing_is_refused(self, session, cost):
        with pytest.raises(BudgetError):
            session.suggest_limit(cost)

    def test_pages_and_finds_at_once_share_what_a_turn_has_left(self, path):
        with satchel.open(path) as bag:
            session = bag.session("s")
            shown = session.result("cat", LINES)
            session.next_turn()
            with ThreadPoolExecutor(12) as threads:
                pages = list(threads.map(lambda _: session.page(shown.cursor).token_count, range(24)))
                finds = list(threads.map(lambda _: session.find(shown.handle, "login").token_count, range(24)))
            assert sum(pages + finds) <= 40_000 + 48 * FLOOR

    def test_results_prepared_at_once_share_it_too(self, session):
        ready = [session.prepare("cat", f"{number} " + LINES[:9_000], new_turn=number == 0) for number in range(40)]
        enter_all(ready)
        assert session.state()["used"]["tool_results"] <= 40_000 + 40 * FLOOR
        assert session.state()["turn"] == 1

    def test_a_budget_smaller_than_the_floor_binds(self, bag):
        session = bag.session("s", budget=Budget(total=100))
        assert session.result("cat", LINES, max_tokens=400).allocation == 40

    def test_a_text_beside_a_large_picture_is_still_shown(self, session):
        shown = session.result("screenshot", "saved as a.png", extra_tokens=9_000)
        assert shown.content == "saved as a.png"
        assert "9,000" in shown.note
        assert "[no output]" not in session.result("screenshot", "", extra_tokens=900).text

    def test_parts_that_go_beside_the_text_leave_it_less_room(self, session):
        shown = session.result("screenshot", LINES, extra_tokens=6_000)
        assert shown.token_count <= 2_000
        assert session.state()["used"]["tool_results"] == shown.token_count + 6_000


class TestDelivery:
    def test_what_fits_goes_out_whole(self, session):
        shown = session.result("cat", "def login():\n    pass\n")
        assert shown.content == "def login():\n    pass\n"
        assert (shown.cursor, shown.returned, shown.total, shown.unit) == (None, 2, 2, "lines")
        assert shown.text.startswith(shown.content)
        assert f"📏 ~{shown.token_count:,} tokens" in shown.note

    def test_page_1_says_what_is_left_and_how_to_get_it(self, session):
        shown = session.result("grep", LINES)
        facts = shown.structured()
        assert facts["total"] == 4_000
        assert facts["returned"] == shown.content.count("\n")
        assert facts["continuation_token"] == shown.cursor
        assert shown.cursor in shown.note
        assert f"~{shown.remaining_tokens:,} tokens" in facts["budget_note"]
        assert abs(shown.remaining_tokens + shown.token_count - shown.total_tokens) < 0.02 * shown.total_tokens

    def test_a_page_asked_for_again_is_the_same(self, session):
        cursor = session.result("grep", LINES).cursor
        first = session.page(cursor)
        session.next_turn()
        session.result("grep", LINES.upper())
        session.next_turn()
        assert session.page(cursor).content == first.content

    def test_records_of_json_are_not_cut(self, session):
        records = [{"id": number, "text": "a, b [c] " * 5} for number in range(2_000)]
        shown = session.result("query", records)
        assert shown.unit == "records"
        assert json.loads(shown.content.rstrip(",") + "]") == records[: shown.returned]

    def test_hunks_of_a_diff_are_not_cut(self, session):
        hunk = "@@ -1,3 +1,3 @@\n context\n-old line of code\n+new line of code\n"
        text = "".join(f"diff --git a/f{n}.py b/f{n}.py\n--- a/f{n}.py\n+++ b/f{n}.py\n{hunk}" for n in range(900))
        shown = session.result("git_diff", text)
        assert text[len(shown.content) :].startswith("diff --git ")

    def test_hunks_of_one_file_are_not_cut_either(self, session):
        hunk = "@@ -1,3 +1,3 @@\n context\n-old line of code\n+new line of code\n more\n of it\n"
        text = "diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n" + hunk * 900
        shown = session.result("git_diff", text)
        assert text[len(shown.content) :].startswith("@@ ")

    def test_a_line_longer_than_a_page_is_cut_between_words(self, session):
        shown = session.result("cat", "words and more words " * 5_000)
        assert shown.content.endswith(" ")
        assert shown.unit == "characters"

    @pytest.mark.parametrize(
        ("output", "said"),
        [
            ("", "[no output]"),
            (b"\xff\x00", "[binary output, 2 bytes that are not UTF-8 text: kept whole, handle="),
            (b"plain", "plain"),
            ({"a": [1]}, '{"a":[1]}'),
            (None, "null"),
            ("half \ud800 pair", "half \ud800 pair"),
        ],
    )
    def test_odd_outputs_are_shown_and_kept(self, session, output, said):
        shown = session.result("odd", output)
        assert shown.text.startswith(said)
        whole = session.expand(shown.handle)
        assert whole == (
            output.decode() if output == b"plain" else output if isinstance(output, str | bytes) else said
        )

    def test_what_is_no_output_is_refused(self, session):
        with pytest.raises(InputError, match="not object"):
            session.result("odd", object())
        assert session.state()["results"] == 0

    def test_no_room_for_even_the_note_gives_nothing_and_keeps_all(self, bag):
        session = bag.session("tiny", budget=Budget(total=1_000, per_call=3))
        shown = session.result("grep", LINES)
        assert (shown.text, shown.token_count, shown.allocation) == ("", 0, 3)
        assert session.expand(shown.handle) == LINES
        needed = int(re.search(r"needs at least (\d+) tokens", shown.budget_note)[1])
        assert session.page(shown.cursor, max_tokens=needed).content == LINES[:1]
        assert session.page(shown.cursor, max_tokens=needed - 1).content == ""

    def test_a_digest_knows_what_the_call_asked_for(self, session):
        session.call("read_file", {"path": "src/login.py"}, "c1")
        session.result("read_file", "def login(user):\n    return check(user)\n" * 20, call_id="c1")
        assert "src/login.py" in session.results()[0].digest

    def test_the_same_content_is_kept_once(self, session, bag):
        session.result("grep", LINES)
        held = bag._store.ledgers.content_bytes("default")
        session.result("grep", LINES)
        assert bag._store.ledgers.content_bytes("default") == held < len(LINES) / 3


class TestFinding:
    def test_lines_come_with_their_numbers_within_the_budget(self, session):
        handle = session.result("grep", LINES).handle
        found = session.find(handle, r"file3\.py:3\d\d:", max_tokens=120)
        assert found.text.startswith("305: src/file3.py:304: ")
        assert session.counter.count(found.text) == found.token_count <= 120
        assert 0 < found.shown < found.matches == 14

    def test_nothing_found_says_so(self, session):
        handle = session.result("grep", LINES).handle
        assert session.find(handle, "absent").text.startswith("Nothing matched.")

    @pytest.mark.parametrize("pattern", ["(", "[", "", "a{9999999}", "x" * 2_000, None])
    def test_a_bad_pattern_is_refused_and_nothing_is_entered(self, session, pattern):
        handle = session.result("grep", LINES).handle
        before = session.state()
        with pytest.raises(InputError, match="pattern"):
            session.find(handle, pattern)
        assert session.state() == before

    def test_bytes_are_not_searched(self, session):
        handle = session.result("cat", b"\xff").handle
        with pytest.raises(InputError, match="not text"):
            session.find(handle, "a")

    def test_a_find_is_within_its_budget_even_if_nothing_is_found(self, session):
        handle = session.result("grep", LINES).handle
        for most in (0, 7, 8, 9):
            assert session.find(handle, "absent", max_tokens=most).token_count <= most

    def test_its_digest_says_what_was_looked_for(self, session):
        handle = session.result("grep", LINES).handle
        session.find(handle, "login_?1")
        assert "match 'login_?1'" in session.history().text


class TestCursors:
    @pytest.fixture
    def cursor(self, session) -> str:
        return session.result("grep", LINES).cursor

    @pytest.mark.parametrize("cursor", ["", "abc", "00000000.1", "00000000.1.0000000", 7, None, "ñ", "a" * 5_000])
    def test_what_is_no_cursor_is_said_to_be_none(self, session, cursor):
        with pytest.raises(InputError, match=r"cursor"):
            session.page(cursor)

    def test_an_unknown_one_is_unknown(self, session):
        with pytest.raises(UnknownIdError, match="no result has the handle '00000000'"):
            session.page("00000000.1.000000")

    def test_an_altered_one_is_refused(self, session, cursor):
        handle, place, seal = cursor.split(".")
        moved = f"{handle}.{place}1.{seal}"
        with pytest.raises(InputError, match="was altered"):
            session.page(moved)

    def test_one_of_another_session_is_refused(self, bag, cursor):
        with pytest.raises(UnknownIdError, match="belongs to another session"):
            bag.session("else").page(cursor)

    def test_one_of_another_org_is_unknown(self, bag, cursor):
        with pytest.raises(UnknownIdError, match="no result has the handle"):
            bag.scoped(org="else").session("s").page(cursor)

    def test_an_expired_one_says_that_it_expired(self, session, cursor, bag):
        dropped = bag._store.ledgers.expire("default", before=utc_now() + timedelta(days=1), most_bytes=0)
        assert dropped == 1
        before = session.state()
        with pytest.raises(ExpiredError, match="has expired: contents are kept 30 days"):
            session.page(cursor)
        with pytest.raises(ExpiredError):
            session.expand(cursor[:8])
        assert session.state() == before
        assert session.history().text

    @pytest.mark.parametrize("handle", ["", "zz", 3, None, "00000000"])
    def test_a_bad_handle_is_refused(self, session, handle):
        with pytest.raises(InputError):
            session.expand(handle)


class TestEviction:
    def fill(self, session, number: int, text: str = LINES[:20_000]) -> list[str]:
        handles = []
        for call in range(number):
            session.record("assistant", f"Now step {call}.")
            session.call("read_file", {"path": f"a/{call}.py"}, f"c{call}")
            shown = session.result("read_file", f"# {call}\n{text}", call_id=f"c{call}")
            handles.append(shown.handle)
        return handles

    def test_results_over_their_tier_become_digests_in_one_batch(self, session):
        self.fill(session, 80, LINES[:5_000])
        used = [row.tool_results for row in session.turns()]
        falls = [earlier - later for earlier, later in pairwise(used) if later < earlier]
        assert max(used) <= 40_000 + 8_000
        # A few times and by much, not a little on each of eighty turns.
        assert 2 <= len(falls) <= 10
        assert min(falls) > 5_000

    def test_history_over_its_tier_is_evicted_down_to_70_percent(self, bag):
        session = bag.session("s", budget=Budget(total=20_000))
        sizes = []
        for call in range(60):
            session.call("read_file", {"path": f"a/{call}.py"}, f"c{call}")
            sizes.append(session.state()["used"]["history"])
            session.result("read_file", f"# {call}\n{LINES[:3_000]}", call_id=f"c{call}")
            sizes.append(session.state()["used"]["history"])
        assert max(sizes) <= 2_400
        batches = [later for earlier, later in pairwise(sizes) if later < earlier]
        # One stub more is that of a list of stubs.
        assert 2 <= len(batches) <= 15
        assert all(later <= 0.7 * 2_400 + 30 for later in batches)

    def test_every_handle_gives_its_exact_content_whatever_has_left(self, bag):
        session = bag.session("s", budget=Budget(total=20_000))
        handles = self.fill(session, 60, LINES[:3_000])
        for number, handle in enumerate(handles):
            assert session.expand(handle) == f"# {number}\n{LINES[:3_000]}"

    def test_what_was_evicted_is_named_with_handle_line_and_size(self, bag):
        session = bag.session("s", budget=Budget(total=20_000))
        handles = self.fill(session, 40, LINES[:3_000])
        line = next(
            line for line in session.history(50_000).text.splitlines() if line.startswith("[") and "KB, ~" in line
        )
        assert line[1:9] in handles
        assert line[9:].startswith(" read_file: ")

    def test_many_stubs_are_listed_under_one_handle(self, bag):
        session = bag.session("s", budget=Budget(total=10_000))
        handles = self.fill(session, 80, LINES[:1_000])
        seen = text = session.history(100_000).text
        while lists := [line[1:9] for line in text.splitlines() if " lists " in line]:
            text = "".join(session.expand(handle) for handle in lists)
            seen += text
        assert " lists " in seen
        assert not [handle for handle in handles if handle not in seen]

    def test_results_of_this_turn_and_the_last_stay_whole(self, bag):
        session = bag.session("s", budget=Budget(total=20_000, per_call=2_500))
        seen = [session.result("cat", f"{number} {LINES}").handle for number in range(9)]
        session.next_turn()
        seen += [session.result("cat", f"{number} {LINES}").handle for number in range(9, 18)]
        levels = {entry.handle: entry.level for entry in session.entries()}
        assert {levels[handle] for handle in seen} == {"whole"}
        assert session.state()["used"]["tool_results"] > 8_000
        session.next_turn()
        session.next_turn()
        session.result("cat", "more")
        levels = {entry.handle: entry.level for entry in session.entries()}
        assert "digest" in {levels[handle] for handle in seen}

    def test_a_call_stays_while_its_result_is_whole(self, bag):
        session = bag.session("s", budget=Budget(total=20_000))
        session.call("cat", {"path": "first.py"}, "first")
        handle = session.result("cat", LINES[:3_000], call_id="first", pinned=True).handle
        for number in range(80):
            session.record("assistant", f"{number} " + "thinking about it " * 20)
        held = {entry.call_id: entry.level for entry in session.entries() if entry.role == "call"}
        assert held == {"first": "whole"}
        assert {entry.handle: entry.level for entry in session.entries()}[handle] == "whole"

    def test_what_nobody_used_for_long_expires_by_itself(self, session, monkeypatch):
        first = session.result("cat", "old " + LINES).handle
        monkeypatch.setattr(ledger, "_ENTRIES_BETWEEN_LOOKS", 3)
        monkeypatch.setattr(ledger, "utc_now", lambda: utc_now() + timedelta(days=ledger.KEEP_DAYS + 1))
        for number in range(4):
            session.result("cat", f"{number} new", new_turn=True)
        with pytest.raises(ExpiredError):
            session.expand(first)

    def test_what_takes_too_much_room_expires(self, session):
        first, second = (session.result("cat", f"{name} {LINES}", new_turn=True).handle for name in "ab")
        assert session._ledger.expire(most_bytes=30_000) == 1
        with pytest.raises(ExpiredError):
            session.expand(first)
        assert session.expand(second) == f"b {LINES}"

    def test_pins_stay(self, bag):
        session = bag.session("s", budget=Budget(total=20_000))
        session.record("history", "The user wants tabs, not spaces.", pinned=True)
        pinned = session.result("spec", "The spec: " + LINES[:500], pinned=True).handle
        self.fill(session, 60, LINES[:3_000])
        kept = {entry.handle: entry.level for entry in session.entries()}
        assert kept[pinned] == "whole"
        assert "tabs, not spaces" in session.history(250).text
        session.pin(pinned, pinned=False)
        self.fill(session, 30, LINES[:2_000])
        assert {entry.handle: entry.level for entry in session.entries()}.get(pinned) != "whole"

    def test_what_was_used_again_leaves_later(self, bag):
        session = bag.session("s", budget=Budget(total=20_000))
        first, second, *_ = self.fill(session, 5, LINES[:4_000])
        session.expand(first)
        self.fill(session, 2, LINES[:4_000])
        levels = {entry.handle: entry.level for entry in session.entries()}
        order = ("whole", "digest", "stub", None)
        assert order.index(levels.get(first)) < order.index(levels.get(second))

    def test_a_caller_that_holds_everything_is_taken_to_have_dropped_what_no_longer_fits(self, bag):
        session = bag.session("s", budget=Budget(total=50_000), holds="whole")
        for number in range(30):
            session.result("read_file", f"{number}\n{LINES[:9_000]}", new_turn=True)
        used = [row.tool_results for row in session.turns()]
        assert 20_000 < max(used) <= 35_000 + 8_000
        assert any(later < earlier for earlier, later in pairwise(used))
        assert session.state()["delivered"] > 60_000


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
        assert session.state()["warning"] == session.state()["warning"] is not None
        assert session.warning()
        assert session.warning() is None


class TestFeedback:
    def test_the_overhead_of_schemas_is_told_from_the_slope_of_the_counter(self, session):
        counted = 0
        for _ in range(4):
            text = "please look at the next file " * 200
            session.record("user", text)
            counted += session.counter.count(text)
            calibration = session.feedback({"input_tokens": counted + 5_000, "output_tokens": 1})
        assert (round(calibration.slope, 2), calibration.overhead) == (1.0, 5_000)
        assert session.state()["used"]["system"] == 5_000

    def test_a_counter_that_counts_too_little_gets_smaller_allocations(self, bag):
        session = bag.session("s")
        counted = 0
        for _ in range(4):
            text = "please look at the next file " * 200
            session.record("user", text)
            counted += session.counter.count(text)
            session.feedback({"prompt_tokens": counted * 2 + 1_000})
        assert session.allocation() == 4_000
        assert session.state()["used"]["system"] == 1_000
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
        assert session.state()["used"]["history"] <= 2_400

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
