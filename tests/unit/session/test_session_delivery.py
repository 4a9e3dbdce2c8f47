"""Results of a session: within their allocation, in pages, searchable, with signed cursors."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from tool_lines import LINES

import satchel
from satchel import Budget, BudgetError, ExpiredError, InputError, UnknownIdError
from satchel.model.memory import utc_now
from satchel.session.account import FLOOR
from satchel.session.session import enter_all
from tables import each_row


@pytest.fixture
def session(bag):
    return bag.session("fix-login", budget=Budget(total=100_000))


class TestAllocation:
    def test_it_shrinks_with_what_the_turn_has_used_and_comes_back_with_the_next(self, session):
        sizes = [session.result("grep", LINES).allocation for _ in range(12)]
        assert sizes[0] == 8_000
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] == FLOOR
        # Half of what is left each time, not all until nothing is.
        assert len({size for size in sizes if FLOOR < size < 8_000}) >= 3
        assert session.state().used["tool_results"] <= 40_000 + sizes.count(FLOOR) * FLOOR
        session.next_turn()
        assert session.allocation() == 8_000

    def test_it_is_never_more_than_half_of_what_the_whole_budget_has_left(self, bag):
        session = bag.session("s", budget=Budget(total=50_000))
        session.record("system", "word " * 31_000)
        assert session.state().remaining < 4_100
        assert session.allocation() == session.state().remaining // 2

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
        turn = session.state().turn
        session.result("grep", LINES, call_id="a")
        session.result("grep", LINES, call_id="b")
        assert session.state().turn == turn

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
        assert session.state().used["tool_results"] <= 40_000 + 40 * FLOOR
        assert session.state().turn == 1

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
        assert session.state().used["tool_results"] == shown.token_count + 6_000


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
        with pytest.raises(InputError, match="not text, bytes or JSON but object"):
            session.result("odd", object())
        assert session.state().results == 0

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
        with pytest.raises(InputError, match="is binary"):
            session.find(handle, "a")

    def test_a_find_is_within_its_budget_even_if_nothing_is_found(self, session):
        handle = session.result("grep", LINES).handle
        for most in (0, 7, 8, 9):
            assert session.find(handle, "absent", max_tokens=most).token_count <= most

    def test_lines_with_half_a_surrogate_pair_are_found(self, session):
        handle = session.result("cat", "one\nhalf \ud800 pair\n").handle
        assert session.find(handle, "half").text.startswith("2: half \ud800 pair")
        assert session.history().text

    def test_its_digest_says_what_was_looked_for(self, session):
        handle = session.result("grep", LINES).handle
        session.find(handle, "login_?1")
        assert "matches of 'login_?1' in" in session.history().text


class TestCursors:
    @pytest.fixture
    def cursor(self, session) -> str:
        return session.result("grep", LINES).cursor

    @each_row("cursor", ["", "abc", "00000000.1", "00000000.1.0000000", 7, None, "ñ", "a" * 5_000])
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
        with pytest.raises(UnknownIdError, match="no result has the handle"):
            bag.session("else").page(cursor)

    def test_one_of_another_org_is_unknown(self, bag, cursor):
        with pytest.raises(UnknownIdError, match="no result has the handle"):
            bag.scoped(org="else").session("s").page(cursor)

    def test_an_expired_one_says_that_it_expired(self, session, cursor, bag):
        dropped = bag._store.ledgers.expire("default", before=utc_now() + timedelta(days=1), most_bytes=0)
        assert dropped == 1
        before = session.state()
        with pytest.raises(ExpiredError, match="has expired: contents are kept for 30 days"):
            session.page(cursor)
        with pytest.raises(ExpiredError):
            session.expand(cursor[:8])
        assert session.state() == before
        assert session.history().text

    @pytest.mark.parametrize("handle", ["", "zz", 3, None, "00000000"])
    def test_a_bad_handle_is_refused(self, session, handle):
        with pytest.raises(InputError):
            session.expand(handle)
