"""What is evicted from the context of a session, and when: least recently used first, in batches, never lost."""

from datetime import timedelta
from itertools import pairwise

import pytest
from tool_lines import LINES

from satchel import Budget, ExpiredError
from satchel.model.memory import utc_now
from satchel.session import ledger


@pytest.fixture
def session(bag):
    return bag.session("fix-login", budget=Budget(total=100_000))


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
            sizes.append(session.state().used["history"])
            session.result("read_file", f"# {call}\n{LINES[:3_000]}", call_id=f"c{call}")
            sizes.append(session.state().used["history"])
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
        assert session.state().used["tool_results"] > 8_000
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
        monkeypatch.setattr(ledger, "_ENTRIES_BETWEEN_EXPIRIES", 3)
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
        assert session.state().delivered > 60_000
