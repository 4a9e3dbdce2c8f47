"""A replay bills each request for cached and uncached tokens, under each policy."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.cli.simulation import (
    IMAGE_TOKENS,
    KeepAll,
    KeepLast,
    OldestUntilItFits,
    Part,
    Policy,
    Prices,
    SimulatedCost,
    Step,
    Trace,
    Watermarks,
    assumptions,
    remarks,
    replay,
    synthetic_trace,
    trace_of,
)
from satchel.cli.transcripts import Transcript, TranscriptEntry
from satchel.errors import InputError
from satchel.text.tokens import counter
from tables import each_row

WORDS = counter("o200k_base")
START = datetime(2026, 2, 10, 9, tzinfo=UTC)


def even_trace(turns: int, tokens: int = 100, *, minutes: float | None = None) -> Trace:
    """A system prompt of 50, then a unit of the same size on each turn."""
    steps = []
    for turn in range(turns):
        parts = (Part(-1, 50, standing=True),) if turn == 0 else ()
        at = None if minutes is None else START + timedelta(minutes=minutes * turn)
        steps.append(Step((*parts, Part(turn, tokens)), 10, at))
    return Trace(tuple(steps))


def test_keeping_all_reads_the_prompt_before_and_writes_what_is_new():
    done = replay(even_trace(3), KeepAll(), Prices())
    assert (done.sent, done.peak) == (150 + 250 + 350, 350)
    assert (done.read, done.written) == (150 + 250, 150 + 100 + 100)
    assert (done.evictions, done.evicted, done.output) == (0, 0, 30)
    assert done.cost == pytest.approx(400 * 0.1 + 350 * 1.25 + 30 * 5)


def test_evicting_the_oldest_on_each_turn_leaves_only_the_system_prompt_to_be_read():
    done = replay(even_trace(5), OldestUntilItFits(250), Prices())
    assert (done.evictions, done.evicted) == (3, 3)
    assert done.read == 150 + 3 * 50
    assert done.peak == 250


def test_watermarks_leave_stubs_that_stay_in_the_prompt():
    done = replay(even_trace(6), Watermarks(450, 0.5, stub=20), Prices())
    # On the fifth turn 550 tokens become 50 + 4 stubs of 20 + 100.
    assert (done.evictions, done.evicted) == (1, 4)
    assert done.sent == 150 + 250 + 350 + 450 + 230 + 330
    assert done.read == 150 + 250 + 350 + 50 + 230


def test_keeping_the_last_turns_keeps_that_many():
    done = replay(even_trace(6), KeepLast(2), Prices())
    assert done.peak == 50 + 200
    assert done.evictions == done.evicted == 4
    assert KeepLast(1).name == "keep the last turn"


def test_a_call_and_its_result_leave_together():
    steps = [
        Step((Part(0, 10, standing=True), Part(1, 30)), 1),
        Step((Part(1, 70), Part(2, 40)), 1),
        Step((Part(3, 5),), 1),
    ]
    done = replay(Trace(tuple(steps)), OldestUntilItFits(150), Prices())
    assert (done.evicted, done.sent) == (1, 40 + 150 + 55)


def test_what_is_new_on_a_turn_stays_and_is_told_to_be_over_the_limit():
    done = replay(even_trace(3, 1_000), Watermarks(500), Prices())
    assert done.over_limit == 3
    assert done.evicted == 2
    assert done.peak == 50 + 20 * 2 + 1_000


def test_a_cache_that_has_expired_is_read_no_more():
    slow, quick = (even_trace(4, minutes=minutes) for minutes in (6, 5))
    prices = Prices(cache_minutes=5)
    assert replay(slow, KeepAll(), prices).read == 0
    assert replay(quick, KeepAll(), prices).read == replay(quick, KeepAll(), Prices()).read > 0


def test_without_a_cache_each_token_costs_its_plain_price():
    done = replay(even_trace(4), KeepAll(), Prices(cache_minutes=0, output=0))
    assert done.read == 0
    assert done.cost == done.sent == done.written


def test_minutes_need_times():
    with pytest.raises(InputError, match="have no timestamps"):
        replay(even_trace(2), KeepAll(), Prices(cache_minutes=5))


@each_row("field", ["read", "write", "output", "cache_minutes"])
@each_row("value", [-0.1, float("nan"), float("inf")])
def test_a_price_is_a_number_from_0_upwards(field: str, value: float):
    with pytest.raises(InputError, match="give a number from 0 upwards"):
        Prices(**{field: value})


TRACES = st.lists(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 90), st.booleans()), max_size=4), min_size=1, max_size=14
)
POLICIES = st.sampled_from(
    [KeepAll(), KeepLast(1), KeepLast(3), *(OldestUntilItFits(limit) for limit in (0, 90, 250))]
    + [Watermarks(limit, low) for limit in (90, 250) for low in (0.2, 0.7, 1.0)]
)


@given(TRACES, POLICIES)
def test_a_replay_is_what_comparing_whole_prompts_gives(rows: list[list[tuple[int, int, bool]]], policy: Policy):
    steps = [
        Step(
            tuple(
                Part(turn - turn % 3 + unit % 4, tokens, standing and unit == 0) for unit, tokens, standing in row
            ),
            7,
        )
        for turn, row in enumerate(rows)
    ]
    trace = Trace(tuple(steps))
    done = replay(trace, policy, Prices())
    assert (done.sent, done.peak, done.read, done.evictions, done.evicted) == slowly(trace, policy)


def slowly(trace: Trace, policy: Policy) -> tuple[int, int, int, int, int]:
    """Each prompt as a list of what it holds, compared with the one before from its start."""
    entries: list[tuple[object, int]] = []
    sizes: dict[int, int] = {}
    touched: dict[int, int] = {}
    before: list[tuple[object, int]] = []
    sent = peak = read = evictions = evicted = serial = 0
    for turn, step in enumerate(trace.steps):
        for part in step.parts:
            serial += 1
            entries.append((("standing", serial) if part.standing else (part.unit, serial), part.tokens))
            if not part.standing:
                sizes[part.unit] = sizes.get(part.unit, 0) + part.tokens
                touched.pop(part.unit, None)
                touched[part.unit] = turn
        gone = chosen(policy, sum(tokens for _, tokens in entries), sizes, touched, turn)
        for unit in gone:
            place = next(place for place, (name, _) in enumerate(entries) if name[0] == unit)
            entries = [
                (("stub", unit, turn), policy.stub) if number == place else entry
                for number, entry in enumerate(entries)
                if number == place or entry[0][0] != unit
            ]
            del sizes[unit], touched[unit]
        prompt = [entry for entry in entries if entry[1]]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, prompt, strict=False))
        read += sum(tokens for _, (_, tokens) in same)
        sent += sum(tokens for _, tokens in prompt)
        peak = max(peak, sum(tokens for _, tokens in prompt))
        evictions += bool(gone)
        evicted += len(gone)
        before = prompt
    return sent, peak, read, evictions, evicted


def chosen(policy: Policy, total: int, sizes: dict[int, int], touched: dict[int, int], turn: int) -> list[int]:
    if isinstance(policy, KeepAll):
        return []
    if isinstance(policy, KeepLast):
        return [unit for unit, when in touched.items() if when <= turn - policy.turns]
    mark = policy.limit * (policy.low if isinstance(policy, Watermarks) else 1)
    gone: list[int] = []
    if total > policy.limit:
        for unit, when in touched.items():
            if total > mark and when < turn and sizes[unit] > policy.stub:
                total -= sizes[unit] - policy.stub
                gone.append(unit)
    return gone


def outcomes(turns: int, limit: int) -> dict[str, float]:
    """The cost of each policy on the synthetic trace, as a multiple of keeping all."""
    trace = synthetic_trace(turns)
    policies = [OldestUntilItFits(limit), KeepLast(20), *(Watermarks(limit, low) for low in (0.8, 0.7, 0.5, 0.3))]
    keep_all = replay(trace, KeepAll(), Prices()).cost
    return {policy.name: replay(trace, policy, Prices()).cost / keep_all for policy in policies}


def test_evicting_a_little_each_turn_costs_more_than_keeping_all_and_watermarks_far_less():
    times = outcomes(200, 100_000)
    assert 1.5 < times["oldest until it fits"] < 2.5
    assert 1.5 < times["keep the last 20 turns"] < 2.5
    depths = [times[f"watermarks, down to {low}"] for low in (0.8, 0.7, 0.5, 0.3)]
    assert depths == sorted(depths, reverse=True)
    assert 0.2 < depths[-1] < depths[0] < 0.75


def test_the_synthetic_trace_is_of_the_length_asked_for_and_begins_alike():
    assert synthetic_trace(30).steps == synthetic_trace(200).steps[:30]
    assert len(synthetic_trace(1).steps) == 1


def said(role: str, turn: int, text: str, **fields) -> TranscriptEntry:
    return TranscriptEntry(role=role, turn=turn, text=text, **fields)


def test_a_transcript_becomes_a_trace_with_its_answers_in_the_next_prompt():
    entries = (
        said("user", 0, "please look"),
        said("assistant", 0, "looking"),
        said("assistant", 0, "Bash ls", call_id="a", tool="Bash"),
        said("tool", 1, "one two three", call_id="a", images=2),
        said("assistant", 1, "done"),
        said("user", 2, "never answered"),
    )
    trace = trace_of(Transcript(entries=entries, times=(None, START)), WORDS)
    first, second = trace.steps
    counts = [WORDS.count(entry.text) for entry in entries]
    assert [part.tokens for part in first.parts] == counts[:1]
    assert [part.tokens for part in second.parts] == [*counts[1:3], counts[3] + 2 * IMAGE_TOKENS]
    assert second.parts[1].unit == second.parts[2].unit != second.parts[0].unit
    assert (first.output, second.output) == (counts[1] + counts[2], counts[4])
    assert (trace.timed, first.at, second.at) == (False, None, START)


def test_a_system_prompt_that_is_not_recorded_is_taken_from_the_first_usage():
    entries = (said("user", 0, "hello"), said("assistant", 0, "hi"))
    unseen = trace_of(Transcript(entries=entries, times=(None,), first_prompt=9_000), WORDS)
    assert unseen.unseen == 9_000 - WORDS.count("hello")
    assert unseen.steps[0].parts[0] == Part(-1, unseen.unseen, standing=True)
    told = (said("system", 0, "be brief"), *entries)
    assert trace_of(Transcript(entries=told, times=(None,), first_prompt=9_000), WORDS).unseen == 0
    assert trace_of(Transcript(entries=entries, times=(None,), first_prompt=0), WORDS).unseen == 0


def test_assumptions_name_what_was_counted_how():
    entries = (said("user", 0, "hello", images=3), said("assistant", 0, "hi"))
    transcript = Transcript(
        entries=entries, times=(None,), first_prompt=9_000, skipped=12, sidechains=1, compactions=2
    )
    lines = assumptions(trace_of(transcript, WORDS), transcript, Prices(read=0.2), counter="o200k_base")
    text = "\n".join(lines)
    assert "at 0.2, the rest is written at 1.25" in text
    assert "counted by o200k_base, images and other attachments (3) as 1,500 each" in text
    assert "tool schemas: 4,499 tokens" in text
    assert "2 compactions of the recording undone" in text
    assert "does not expire" in text
    skipped, apart = remarks(transcript)
    assert skipped == "12 lines of other kinds skipped"
    assert apart.startswith("1 line of subagents skipped")
    without = assumptions(synthetic_trace(2), None, Prices(cache_minutes=0), counter="o200k_base")
    assert any("no cache" in line for line in without)
    assert any("synthetic session" in line for line in without)


def test_an_outcome_adds_up():
    done: SimulatedCost = replay(synthetic_trace(50), Watermarks(40_000), Prices())
    assert done.read + done.written == done.sent
    assert done.evictions <= done.evicted
