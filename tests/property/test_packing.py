"""For any items, packing stays within the budget, more budget never gives less value, and the receipt is correct.

`make fuzz` runs the same with twenty times the examples, and others each time.
"""

import re
from collections import Counter as Tally
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace as changed
from packed_items import (
    BOOK,
    COUNTERS,
    EQUAL,
    RIVALS,
    TEXT_FORMATS,
    UNTITLED,
    Case,
    all_items,
    budgets,
    cases,
    examples,
    named,
    packable,
    some_items,
)

import satchel
from satchel import counter as find_counter
from satchel.fitting.choice import rooms_up_to
from satchel.fitting.context import Pricing
from satchel.fitting.formats import LAYOUTS, Parsed, as_messages, one_line
from satchel.fitting.listing import clean
from satchel.fitting.packing import Packed, prune
from satchel.model.memory import TIERS
from satchel.model.packing import FORMATS, Item, Placed
from satchel.text.near_duplicates import contained_texts


@examples(1_200)
@given(items=all_items, case=cases(), budget=budgets)
@example(items=BOOK, case=Case(), budget=4_999)
@example(items=EQUAL, case=Case(policy="tier"), budget=40)
@example(items=UNTITLED, case=Case(counter="claude-4.7"), budget=700)
def test_the_text_never_costs_more_than_the_budget(items, case, budget):
    block = case.block(items, budget)
    assert case.count(block.text) == block.token_count <= budget


@examples(150)
@given(items=all_items, case=cases(), budget=budgets)
def test_the_same_items_make_the_same_bytes(items, case, budget):
    first, second = case.block(items, budget), case.block(items, budget)
    assert first.text == second.text
    assert first.receipt == second.receipt


def as_read(placed: Placed, format: str) -> Parsed:
    """What a reader of the block should find of an item."""
    item = placed.item
    day = item.at.date().isoformat() if item.at else None
    if format == "raw":
        title = item.title if placed.text else item.headline()
        return Parsed(
            placed.text,
            title=title,
            speaker=item.speaker,
            tier=item.tier,
            day=day,
            id=item.id,
            short_id=item.short_id,
            kind=item.kind,
        )
    labelled = Parsed(
        "", tier=item.tier, day=day, short_id=item.short_id, kind=item.kind if item.short_id else None
    )
    if placed.level == "title":
        return labelled._replace(title=one_line(item.headline()))
    lines = clean(placed.text).strip().split("\n")
    return labelled._replace(
        text="\n".join(line if line.strip() else "" for line in lines),
        title=one_line(item.title),
        speaker=one_line(item.speaker),
    )


@pytest.mark.slow
@examples(600)
@given(items=all_items, case=cases(), budget=budgets)
def test_the_block_reads_back_as_what_the_receipt_says_is_kept(items, case, budget):
    packing, block = case.packing(items, budget), case.block(items, budget)
    assert block.text == packing.text
    kept = block.receipt.kept
    assert [(entry.id, entry.level) for entry in kept] == [
        (placed.item.id, placed.level) for placed in packing.placed.values()
    ]
    assert all(
        placed.text == placed.item.text.strip() for placed in packing.placed.values() if placed.level == "full"
    )
    parsed = case.layout.parse(block.text, ids=case.ids) if block.text else []
    assert Tally(parsed) == Tally(as_read(placed, case.format) for placed in packing.placed.values())
    assert block.included == block.facts_included == len(kept) == len(parsed)
    reasons = Tally(entry.reason for entry in block.receipt.left_out)
    assert block.facts_omitted == len(items) - len(kept) == len(block.receipt.left_out)
    assert (block.omitted, block.irrelevant) == (reasons["over budget"], reasons["not relevant"])
    assert block.tier_breakdown == Tally(entry.tier for entry in kept) == Tally(each.tier for each in parsed)


@examples(450)
@given(items=all_items, case=cases(), budget=budgets)
def test_the_receipt_accounts_for_every_candidate_once(items, case, budget):
    receipt = case.block(items, budget).receipt
    assert [entry.id for entry in receipt.entries] == [item.id for item in items]
    assert (receipt.budget, receipt.counter, receipt.policy, receipt.format) == (
        budget,
        case.counter,
        case.policy,
        case.format,
    )
    kept = {entry.id for entry in receipt.kept}
    for entry, item in zip(receipt.entries, items, strict=True):
        assert (entry.level is None) == (entry.reason is not None) == (not entry.kept)
        assert (entry.admitted_at is not None) == (entry.reason == "over budget")
        assert (entry.tier, entry.value) == (item.tier, item.value)
        match entry.reason:
            case "over budget":
                assert entry.admitted_at > budget
                assert entry.other is None
            case "superseded":
                assert entry.other == item.superseded_by
            case "not relevant":
                assert item.value < case.least
                assert not item.pinned
            case "duplicate":
                assert entry.other != entry.id
    assert kept.isdisjoint(entry.id for entry in receipt.left_out)


@pytest.mark.slow
@examples(400)
@given(items=all_items, case=cases(), budget=budgets, data=st.data())
def test_the_budget_that_the_receipt_names_admits_the_item(items, case, budget, data):
    missed = [entry for entry in case.block(items, budget).receipt.entries if entry.reason == "over budget"]
    assume(missed)
    entry = data.draw(st.sampled_from(missed))
    again = {each.id: each for each in case.block(items, entry.admitted_at).receipt.entries}
    found = again[entry.id]
    assert found.kept or (found.reason == "duplicate" and again[found.other].kept)


@pytest.mark.slow
@examples(350)
@given(items=some_items, case=cases(), budget=budgets)
def test_the_smallest_budget_is_the_least_that_gives_something(items, case, budget):
    block = case.block(items, min(budget, 12))
    if block.facts_included or not prune(case.relevant(items), budget=0).considered:
        assert block.smallest_budget is None
        return
    assert block.smallest_budget > min(budget, 12)
    assert case.block(items, block.smallest_budget).facts_included
    assert not case.block(items, block.smallest_budget - 1).facts_included


@examples(450)
@given(items=all_items, case=cases(["best"]), one=budgets, other=budgets)
def test_more_budget_is_never_worth_less(items, case, one, other):
    less, more = sorted((one, other))
    assert case.packing(items, less).value <= case.packing(items, more).value


def plain_choice(
    items: Sequence[Item], places: Iterable[int], case: Case, *, budget: int, stop: bool = False
) -> list[int]:
    """Each in turn if it still fits whole, by the prices of its parts; without any cleverness."""
    items = case.relevant(items)
    prices = Pricing(case.layout, find_counter(case.counter), None, len(items))
    spent, opened, kept = prices.around, set(), []
    for place in places:
        item = items[place]
        headings = {("section", prices.section(item)), ("group", prices.group(item))} - opened
        price = sum(cost for _, (_, cost) in headings)
        price += prices.lines(Placed(item, "full", item.text.strip()))
        if spent + price <= budget:
            spent += price
            opened |= headings
            kept.append(place)
        elif stop:
            break
    return kept


def by_rank(items: Sequence[Item], case: Case, budget: int) -> list[int]:
    """The pinned, then the others, each as they come, without repetitions and the like."""
    considered = prune(case.relevant(items), budget=budget).considered
    return sorted(considered, key=lambda place: (not items[place].pinned, place))


def worth(items: Sequence[Item], kept: Iterable[int]) -> int:
    return sum(max(1, round(items[place].value * 10**9)) + items[place].pinned * 10**14 for place in kept)


@examples(300)
@given(items=all_items, case=cases(["best"]), budget=budgets)
@example(items=RIVALS, case=Case(whole=True), budget=150)
def test_best_is_never_worth_less_than_skipping_by_rank(items, case, budget):
    """Compared at the largest room that is looked at: all of them up to 64, then ever fewer."""
    around = case.count(case.layout.around)
    looked_at = around + max(rooms_up_to(max(0, budget - around)))
    plain = plain_choice(items, by_rank(items, case, budget), case, budget=min(looked_at, budget))
    assert case.packing(items, budget).value >= worth(items, plain)


def is_as_plain(packing: Packed, plain: Sequence[int]) -> bool:
    """Whether the same is kept, or more only because the text costs less than the sum of its parts.

    That is so for all of them together, and for one where there would be none.
    """
    kept = list(packing.placed)
    return kept in (sorted(plain), sorted(packing.pruned.considered)) or (not plain and len(kept) == 1)


@examples(300)
@given(items=all_items, case=cases(["greedy"]), budget=budgets)
def test_greedy_goes_by_rank_and_stops_at_the_first_that_does_not_fit(items, case, budget):
    ranked = by_rank(items, case, budget)
    packing = case.packing(items, budget)
    assert is_as_plain(packing, plain_choice(items, ranked, case, budget=budget, stop=True))
    assert {placed.level for placed in packing.placed.values()} <= {"full"}


@examples(300)
@given(items=all_items, case=cases(["tier"]), budget=budgets)
def test_tier_takes_working_then_conversation_then_knowledge_and_skips(items, case, budget):
    ranked = by_rank(items, case, budget)
    order = sorted(ranked, key=lambda place: (not items[place].pinned, TIERS.index(items[place].tier)))
    packing = case.packing(items, budget)
    assert is_as_plain(packing, plain_choice(items, order, case, budget=budget))
    assert {placed.level for placed in packing.placed.values()} <= {"full"}


# Below it, opening another section and day with a speaker and a first word, which is not cut, can be more than a
# tenth of the budget: some forty tokens where the word is long. A title can be that at any budget, and so none is
# long here.
WELL_USED_FROM = 500


@pytest.mark.slow
@examples(250)
@given(
    items=st.lists(packable(), min_size=1, max_size=9).map(named),
    format=st.sampled_from(TEXT_FORMATS),
    budget=st.integers(WELL_USED_FROM, 1_500),
)
@example(items=BOOK, format="markdown", budget=4_000)
def test_nine_tenths_of_the_budget_are_used_where_there_is_enough_to_say(items, format, budget):
    case = Case(format=format)
    items = [changed(item, title=None) if len(item.title or "") > 20 else item for item in items]
    different = [items[place] for place in prune(items, budget=None).considered]
    repeated = contained_texts([item.text for item in different])
    said = [clean(item.text).strip() for place, item in enumerate(different) if place not in repeated]
    assume(sum(map(case.count, said)) > budget)
    assert case.block(items, budget).token_count >= 0.9 * budget


OURS = {
    "system_prompt": re.compile(r"</?(?:memory|working|conversation|knowledge)>|\d{4}-\d\d-\d\d:|[-*+] .+"),
    "markdown": re.compile(
        r"## Memory Context|### (?:Working Memory|Conversation|Knowledge)|\d{4}-\d\d-\d\d:|[-*+] .+"
    ),
}
TAG_LIKE = re.compile(r"<[^\w<\n]*(?:memory|working|conversation|knowledge)\b", re.IGNORECASE)


@examples(300)
@given(items=some_items, case=cases(), budget=budgets)
def test_nothing_stored_stands_at_the_margin_or_makes_a_tag(items, case, budget):
    assume(case.format != "raw")
    packing = case.packing(items, budget)
    text, layout = packing.text, case.format
    if layout == "messages":
        messages = as_messages(text) if text else []
        text, layout = "".join(message["content"] for message in messages), "system_prompt"
    margin = [line for line in text.split("\n") if line and not line.startswith(" ")]
    assert all(OURS[layout].fullmatch(line) for line in margin)
    if case.ids:
        labels = [line[2:].split(maxsplit=1)[0] for line in margin if line.startswith(("- ", "* ", "+ "))]
        assert sorted(labels) == sorted(f"[{placed.item.short_id}" for placed in packing.placed.values())
    kept = [placed.item for placed in packing.placed.values()]
    days = {(item.tier, item.at.date()) for item in kept if item.at}
    tiers = {item.tier for item in kept}
    headings = 0 if not kept else 2 + 2 * len(tiers) if layout == "system_prompt" else 1 + len(tiers)
    assert len(margin) == headings + len(days) + len(kept)
    assert len(TAG_LIKE.findall(text)) == (headings if layout == "system_prompt" else 0)


@examples(100)
@given(
    things=st.lists(
        st.fixed_dictionaries(
            {"text": st.text(st.characters(), min_size=1, max_size=20).filter(str.strip)},
            optional={
                "title": st.text(st.characters(), max_size=8),
                "role": st.text(st.characters(), max_size=4),
                "score": st.floats(-5, 5),
                "date": st.sampled_from(["2024-01-31", "yesterday", 0]),
                "tier": st.sampled_from(TIERS),
            },
        ),
        max_size=5,
    ),
    format=st.sampled_from(FORMATS),
    counter=st.sampled_from(COUNTERS),
    budget=st.integers(0, 200),
)
def test_what_comes_from_elsewhere_with_half_characters_fits_too(things, format, counter, budget):
    block = satchel.fit(things, token_budget=budget, format=format, counter=counter)
    assert satchel.count_tokens(block.text, counter) == block.token_count <= budget
    block.text.encode()
    assert len(block.receipt.entries) == len(things)
    if block.text:
        assert len(LAYOUTS[format].parse(block.text)) == block.facts_included
