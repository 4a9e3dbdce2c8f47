"""The block of `context`: never over its budget, well used, with a correct account of what was left out."""

import asyncio
import inspect
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import satchel
from satchel import Draft
from satchel.fitting.context import BlockFacts, Frame
from satchel.fitting.formats import LAYOUTS
from satchel.model.packing import FORMATS

pytestmark = pytest.mark.usefixtures("all_matches")

COUNTERS = ("o200k_base", "cl100k_base", "claude", "chars/4")
SHAPES = (
    "plain words about rotation. ",
    "def rotation(key):\n    return [key, {'a': 1}]\n\n",
    "記憶の rotation を回す。",
    "🎒👩‍👩‍👧 rotation! ",
    "dGhpcyByb3RhdGlvbiBiYXNlNjQ= rotation ",
    "# rotation\n- one\n- two\n",
)


@pytest.fixture
def stocked(bag: satchel.Satchel) -> satchel.Satchel:
    """Forty memories that match, from short to long, in several scripts, over ten days and sessions."""
    bag.add_many(
        Draft(
            f"rotation {number} " + SHAPES[number % 6] * (1 + number),
            tier="conversation" if number % 2 else "knowledge",
            title=f"Note {number}" if number % 5 == 0 else None,
            speaker="Ana" if number % 2 else None,
            session=f"s{number % 10}" if number % 3 else None,
            at=f"2026-02-{10 + number % 10}",
        )
        for number in range(40)
    )
    return bag


@pytest.mark.parametrize("name", COUNTERS)
def test_the_budget_binds_under_every_counter(stocked: satchel.Satchel, path: Path, name: str):
    with satchel.open(path, counter=name) as bag:
        included = []
        for budget in (0, 1, 15, 40, 90, 200, 333, 1_000, 5_000, 200_000):
            block = bag.context("rotation", token_budget=budget)
            assert block.token_count == satchel.count_tokens(block.text, name) <= budget
            assert block.facts_included + block.facts_omitted <= 40
            assert (block.smallest_budget is None) == (block.facts_included > 0)
            included.append(block.facts_included)
        assert included[0] == 0
        assert included[-1] == 40
        assert len(set(included)) > 4


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.text(max_size=200),
            st.sampled_from(SHAPES),
            st.integers(0, 9),
            st.sampled_from([None, "s1", "s2"]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 400),
    st.sampled_from(COUNTERS),
)
def test_the_budget_binds_whatever_is_stored(stored, budget, name):
    with satchel.open(":memory:", counter=name) as bag:
        for text, shape, times, session in stored:
            bag.add(f"rotation {text} {shape * times}", session=session)
        for query in ("rotation", None):
            block = bag.context(query, token_budget=budget)
            assert satchel.count_tokens(block.text, name) <= budget
            if not block.facts_included:
                assert block.text == ""
                enough = bag.context(query, token_budget=block.smallest_budget)
                assert enough.facts_included >= 1
                assert bag.context(query, token_budget=block.smallest_budget - 1).facts_included == 0


def test_no_budget_gives_all_that_was_found(stocked: satchel.Satchel):
    block = stocked.context("rotation", token_budget=None)
    assert (block.facts_included, block.facts_omitted) == (40, 0)
    assert all(hit.memory.text.split("\n")[0].strip() in block.text for hit in block.hits)


def test_a_budget_of_nothing_is_empty_and_says_what_would_do(stocked: satchel.Satchel):
    block = stocked.context("rotation", token_budget=0)
    assert (block.text, block.token_count, block.facts_included, block.hits) == ("", 0, 0, ())
    assert block.facts_omitted > 0
    assert stocked.context("rotation", token_budget=block.smallest_budget).facts_included == 1


def test_nothing_found_differs_from_nothing_fitted(stocked: satchel.Satchel):
    block = stocked.scoped(project="empty").context("rotation")
    assert (block.text, block.facts_included, block.facts_omitted, block.smallest_budget) == ("", 0, 0, None)


@pytest.mark.parametrize("budget", [-1, 1.5, "many", True])
def test_a_budget_that_is_none_is_refused(bag: satchel.Satchel, budget: object):
    with pytest.raises(satchel.BudgetError):
        bag.context("x", token_budget=budget)


def test_an_unknown_format_is_refused_in_one_line(bag: satchel.Satchel):
    with pytest.raises(satchel.InputError) as caught:
        bag.context("x", format="poem")
    assert str(caught.value) == "unknown format 'poem'; known: system_prompt, markdown, raw, messages"


def test_the_block_says_what_it_holds(stocked: satchel.Satchel):
    block = stocked.context("rotation", token_budget=1_000)
    tiers = [hit.memory.tier for hit in block.hits]
    assert block.tier_breakdown == {tier: tiers.count(tier) for tier in set(tiers)}
    assert len(block.hits) == block.facts_included == block.text.count("\n- ")
    scores = [hit.score for hit in block.hits]
    assert scores == sorted(scores, reverse=True)


def test_what_was_included_counts_as_used_and_nothing_else(bag: satchel.Satchel):
    memories = [bag.add("rotation"), *(bag.add(f"rotation {n} " + "and many other words " * 100) for n in range(9))]
    included = {hit.memory.id for hit in bag.context("rotation", token_budget=50).hits}
    assert memories[0].id in included
    assert len(included) < 4
    assert [bag.get(each.id).access_count for each in memories] == [1 + (each.id in included) for each in memories]


def test_the_budget_is_well_spent(bag: satchel.Satchel):
    """Estimates are on the high side, and what they leave is filled."""
    bag.add_many(
        Draft(f"rotation {number}.\n\n\n\n- {'word ' * (number % 4)}\n- x", session="s", at="2026-02-10")
        for number in range(200)
    )
    for budget in (100, 500, 1_500):
        block = bag.context("rotation", token_budget=budget)
        assert block.token_count > budget - 16


def test_without_a_query_the_pinned_come_first_and_then_the_newest(bag: satchel.Satchel):
    for day in range(1, 10):
        bag.add(f"note of day {day}", at=f"2026-02-0{day}", pinned=day == 2)
    block = bag.context(token_budget=40)
    days = [hit.memory.at.day for hit in block.hits]
    assert days[0] == 2
    assert days[1:] == list(range(9, 9 - len(days[1:]), -1))
    assert 1 < len(days) < 9
    lines = [line for line in block.text.splitlines() if line.startswith("- ")]
    assert lines == sorted(lines), "the text is in the order of time"


def test_a_long_pinned_memory_comes_before_short_new_ones(bag: satchel.Satchel):
    pinned = bag.add("Never deploy on a Friday, " * 8, pinned=True, at="2020-01-01")
    bag.add_many(Draft(f"note {number}") for number in range(20))
    block = bag.context(token_budget=pinned.tokens + 40)
    assert block.hits[0].memory.id == pinned.id
    assert block.facts_included > 1


def test_the_detail_is_the_most_that_is_shown_of_a_memory(bag: satchel.Satchel):
    long = "Keys are kept in a safe. " * 15 + "Rotation is done by the night shift. " + "More follows. " * 25
    bag.add(long, title="Rotation of keys")
    summary, standard, full = (
        bag.context("Who does the rotation?", detail=detail, format="markdown").text
        for detail in ("summary", "standard", "full")
    )
    assert "Rotation of keys" in summary
    assert "night shift" not in summary
    assert "Rotation is done by the night shift." in standard
    assert len(standard) < 450
    assert long.strip() in full


def test_a_detail_that_is_none_is_refused(bag: satchel.Satchel):
    with pytest.raises(satchel.InputError, match="unknown detail 'much'; known: summary, standard, full"):
        bag.context(detail="much")


def test_the_block_knows_how_many_there_would_be_with_room_for_all(stocked: satchel.Satchel):
    everything = stocked.context("rotation", token_budget=None)
    tight = stocked.context("rotation", token_budget=150)
    assert (everything.included, everything.omitted, everything.complete) == (40, 0, True)
    assert (tight.included + tight.omitted, tight.complete) == (40, False)
    # What is said already was not left out for lack of room.
    stocked.add("rotation 0 plain words about rotation.")
    assert stocked.context("rotation", token_budget=None).included == 40


def test_the_pinned_can_be_listed_alone(bag: satchel.Satchel):
    bag.add("new")
    pinned = bag.add("kept", pinned=True)
    assert bag.recent(pinned=True) == [pinned]


def test_the_filters_of_a_search_narrow_a_context(stocked: satchel.Satchel):
    block = stocked.context("rotation", token_budget=None, tier="conversation")
    assert set(block.tier_breakdown) == {"conversation"}
    assert stocked.context("rotation", token_budget=None, limit=3).facts_included == 3
    with pytest.raises(satchel.InputError):
        stocked.context("rotation", limit=0)


def test_a_frame_makes_the_final_text_and_is_paid_for(stocked: satchel.Satchel):
    class Prompt(Frame):
        def write(self, body: str, facts: BlockFacts) -> str:
            return f"You are kind.\n\n{body}\n({facts.included} facts, {facts.token_count} tokens)"

    for budget in (0, 8, 60, 300, 2_000):
        block = stocked.context("rotation", token_budget=budget, frame=Prompt())
        assert satchel.count_tokens(block.text) == block.token_count <= budget
        if block.facts_included:
            assert block.text.startswith("You are kind.\n\n<memory>\n")
            own = satchel.count_tokens(block.body)
            assert block.text.endswith(f"{block.body}\n({block.facts_included} facts, {own} tokens)")


def test_a_function_is_not_a_frame(stocked: satchel.Satchel):
    with pytest.raises(satchel.InputError, match="frame must be a Frame, not function"):
        stocked.context("rotation", frame=lambda block: block.text)


def test_with_ids_every_memory_in_the_text_can_be_looked_up(stocked: satchel.Satchel):
    for format in FORMATS:
        block = stocked.context("rotation", token_budget=2_000, format=format, ids=True)
        read = LAYOUTS[format].parse(block.text, ids=True)
        assert {stocked.get(each.short_id).id for each in read} == {hit.memory.id for hit in block.hits}
        assert {each.kind for each in read} == {"observation"}


def test_ids_are_paid_for_from_the_budget(stocked: satchel.Satchel):
    for format in FORMATS:
        for budget in (0, 30, 60, 200, 1_000):
            block = stocked.context("rotation", token_budget=budget, format=format, ids=True)
            assert satchel.count_tokens(block.text) == block.token_count <= budget
        plain = stocked.context("rotation", token_budget=None, format=format)
        labelled = stocked.context("rotation", token_budget=None, format=format, ids=True)
        assert plain.token_count < labelled.token_count < plain.token_count + 40 * 16
        assert labelled.hits == plain.hits


def test_the_same_call_gives_the_same_bytes(stocked: satchel.Satchel):
    assert stocked.context("rotation").text == stocked.context("rotation").text
    assert stocked.context("rotation", ids=True).text == stocked.context("rotation", ids=True).text


def test_the_async_twin_gives_the_same_block(stocked: satchel.Satchel, path: Path):
    async def ask() -> satchel.ContextBlock:
        async with await satchel.aopen(path) as bag:
            return await bag.context("rotation", token_budget=300)

    assert asyncio.run(ask()).text == stocked.context("rotation", token_budget=300).text
    assert inspect.signature(satchel.AsyncSatchel.context) == inspect.signature(satchel.Satchel.context)
