"""Edge cases of packing, through `satchel.fit` and through a real store."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import satchel
from satchel import BudgetError, Draft, Satchel, count_tokens, fit
from satchel.fitting.context import ContextBlock
from satchel.fitting.formats import LAYOUTS
from satchel.model.packing import FORMATS, Item, ReceiptEntry
from satchel.recall.finder import enough_for
from satchel.text.tokens import Counter
from tables import each_row

pytestmark = pytest.mark.usefixtures("all_matches")

NOTES = [
    "The deploy runs on every Friday evening.",
    "Maria keeps the list of the old contracts in Berlin.",
    "Tests run in CI on every push, and take four minutes.",
]
LONG = " ".join(f"Deploy step {number} changes the server called host-{number * 7}." for number in range(1_500))
NOW = datetime(2026, 3, 1, tzinfo=UTC)
TIERS_IN_TURN = ("knowledge", "conversation", "working")


@pytest.fixture
def store() -> Iterator[Satchel]:
    with satchel.open(":memory:") as opened:
        yield opened


def entries(block: ContextBlock) -> dict[str, ReceiptEntry]:
    return {entry.id: entry for entry in block.receipt.entries}


def reasons(block: ContextBlock) -> list[str | None]:
    return [entry.reason for entry in block.receipt.entries]


@pytest.mark.parametrize("format", FORMATS)
def test_a_budget_of_0_gives_no_text_and_says_what_would_do(format: str):
    block = fit(NOTES, token_budget=0, format=format)
    assert (block.text, block.token_count, block.facts_included, block.facts_omitted) == ("", 0, 0, 3)
    assert block.smallest_budget > 0
    assert reasons(block) == ["over budget"] * 3


def test_a_budget_of_0_gives_nothing_of_a_store_even_if_something_is_pinned(store: Satchel):
    store.add(NOTES[0], pinned=True)
    for query in (None, "deploy"):
        block = store.context(query, token_budget=0)
        assert (block.text, block.facts_included, block.facts_omitted) == ("", 0, 1)
        assert block.smallest_budget > 0


@pytest.mark.parametrize("format", FORMATS)
def test_a_budget_of_1_holds_no_item(format: str):
    block = fit(NOTES, token_budget=1, format=format)
    assert block.token_count <= 1
    assert block.facts_included == 0
    assert block.smallest_budget > 1


def test_a_budget_of_1_holds_nothing_of_a_store(store: Satchel):
    store.add_many(map(Draft, NOTES))
    assert store.context("deploy", token_budget=1).facts_included == 0


@each_row("policy", ["best", "greedy", "tier"])
@each_row("format", FORMATS)
@each_row(
    "items",
    [
        NOTES,
        [LONG, NOTES[0]],
        [{"text": NOTES[0], "title": "A title that is longer than what it stands for, by far"}],
        [{"text": NOTES[0], "title": "T", "date": "2026-03-01", "role": "Ana"}],
        ["記憶の予算を守る。" * 50],
    ],
)
def test_the_smallest_budget_gives_something_and_one_less_nothing(policy: str, format: str, items: list):
    smallest = fit(items, token_budget=0, format=format, policy=policy).smallest_budget
    assert fit(items, token_budget=smallest, format=format, policy=policy).facts_included == 1
    below = fit(items, token_budget=smallest - 1, format=format, policy=policy)
    assert (below.facts_included, below.smallest_budget) == (0, smallest)


def test_the_smallest_budget_of_a_store_gives_something_and_one_less_nothing(store: Satchel):
    store.add_many(map(Draft, [*NOTES, LONG]))
    for query in ("deploy", None):
        smallest = store.context(query, token_budget=0).smallest_budget
        assert store.context(query, token_budget=smallest).facts_included == 1
        assert store.context(query, token_budget=smallest - 1).facts_included == 0


def test_after_a_first_item_larger_than_the_budget_the_rest_still_comes():
    block = fit([LONG, *NOTES], token_budget=100)
    assert all(note in block.text for note in NOTES)
    assert block.token_count >= 90
    assert entries(block)["item-1"].level in ("summary", "excerpt")
    assert " …\n" in block.text


def test_a_first_item_larger_than_the_budget_ends_greedy_and_is_skipped_by_tier():
    assert fit([LONG, *NOTES], token_budget=100, policy="greedy").facts_included == 0
    block = fit([LONG, *NOTES], token_budget=100, policy="tier")
    assert [entry.id for entry in block.receipt.kept] == ["item-2", "item-3", "item-4"]


def test_one_item_larger_than_the_budget_is_cut_to_fill_it():
    for budget in (50, 500, 5_000):
        block = fit([LONG], token_budget=budget)
        assert 0.9 * budget <= block.token_count <= budget
        assert entries(block)["item-1"].level in ("summary", "excerpt")


def test_of_a_memory_larger_than_the_budget_the_store_gives_what_matched(store: Satchel):
    store.add("Nothing but a prologue. " * 150 + "The password of the vault hangs behind the clock. " + LONG)
    block = store.context("where is the password of the vault?", token_budget=300)
    assert "behind the clock" in block.text
    assert "\n- … " in block.text
    assert block.token_count >= 270
    assert [entry.level for entry in block.receipt.entries] == ["excerpt"]


def test_pins_that_exceed_the_budget_are_an_error_that_names_them():
    items = [{"text": f"{note} " * 20, "pinned": True, "id": f"pin{place}"} for place, note in enumerate(NOTES)]
    with pytest.raises(BudgetError) as caught:
        fit(items, token_budget=300)
    message = str(caught.value)
    assert all(f"pin{place} " in message for place in range(3))
    assert "not 300" in message
    needed = int(message.split("need a budget of ")[1].split(" tokens")[0])
    assert fit(items, token_budget=needed).facts_included == 3
    with pytest.raises(BudgetError):
        fit(items, token_budget=needed - 20)


def test_of_many_pins_that_exceed_the_budget_three_are_named():
    items = [{"text": f"Note number {place}.", "pinned": True} for place in range(10)]
    with pytest.raises(BudgetError, match=r"item-1 .*item-3 .* and 7 more"):
        fit(items, token_budget=20)


def test_pins_at_best_effort_are_as_many_as_fit_and_come_before_the_others():
    items = [{"text": f"{note} " * 5, "pinned": True} for note in NOTES] + ["Short."]
    block = fit(items, token_budget=130, pins="best_effort")
    kept = entries(block)
    assert block.token_count <= 130
    assert [kept[f"item-{place}"].level for place in (1, 2)] == ["full", "full"]
    assert kept["item-3"].level != "full"


def test_pins_of_a_store_that_exceed_the_budget_are_an_error_that_names_them(store: Satchel):
    pinned = store.add(LONG, pinned=True)
    store.add(NOTES[0])
    for query in (None, "deploy"):
        with pytest.raises(BudgetError, match=pinned.id):
            store.context(query, token_budget=200)
        block = store.context(query, token_budget=200, pins="best_effort")
        assert 180 <= block.token_count <= 200


def test_what_is_pinned_is_kept_however_little_it_is_worth():
    items = [*NOTES, {"text": "Answer in French.", "pinned": True, "score": 0.01}]
    block = fit([(each, 0.9) if isinstance(each, str) else each for each in items], token_budget=25)
    assert "Answer in French." in block.text


def test_no_items_give_no_text():
    block = fit([], token_budget=100)
    assert (block.text, block.facts_included, block.facts_omitted, block.smallest_budget) == ("", 0, 0, None)
    assert block.receipt.entries == ()


def test_an_empty_store_gives_no_text(store: Satchel):
    for query in (None, "deploy"):
        block = store.context(query)
        assert (block.text, block.token_count, block.facts_included, block.smallest_budget) == ("", 0, 0, None)
        assert block.receipt.entries == ()


def test_of_ten_thousand_identical_items_one_is_kept_and_the_others_are_called_duplicates():
    counted: list[str] = []

    class Noting(Counter):
        def count(self, text: str) -> int:
            counted.append(text)
            return len(text)

    block = fit(["We use PostgreSQL."] * 10_000, token_budget=500, counter=Noting("noting"))
    # A comparison or a count of each would take seconds.
    assert len(counted) < 50
    found = block.receipt
    assert block.facts_included == 1
    assert block.text.count("PostgreSQL") == 1
    assert [entry.reason for entry in found.entries[1:]] == ["duplicate"] * 9_999
    assert {entry.other for entry in found.left_out} == {"item-1"}


def test_of_identical_memories_in_a_store_one_is_kept(store: Satchel):
    store.add_many(Draft("We use PostgreSQL.", session=f"s{number}") for number in range(300))
    for query in (None, "PostgreSQL"):
        block = store.context(query, token_budget=500)
        assert block.text.count("PostgreSQL") == block.facts_included == 1
        assert set(reasons(block)) == {None, "duplicate"}


@pytest.mark.parametrize("text", ["a" * 30_000, "記憶" * 5_000, "👩🏽\u200d🚀" * 900, "dGhpcyBpcw" * 2_000])
def test_a_text_without_spaces_is_cut_between_characters(text: str):
    block = fit([text], token_budget=200)
    assert 180 <= block.token_count <= 200
    kept = LAYOUTS["system_prompt"].parse(block.text)[0].text
    assert kept.endswith(" …")
    assert text.startswith(kept.removesuffix(" …"))


def test_a_memory_without_spaces_fits_too(store: Satchel):
    store.add("a" * 30_000)
    block = store.context(token_budget=200)
    assert 180 <= block.token_count <= 200


@pytest.mark.parametrize("text", ["זיכרון ארוך מאוד של סוכן. ", "ذاكرة الوكيل معكوس طويلة جدا! "])
def test_text_from_right_to_left_is_kept_as_it_is_and_cut_at_a_word(store: Satchel, text: str):
    assert text.strip() in fit([text], token_budget=60).text
    block = fit([text * 100], token_budget=100)
    assert 90 <= block.token_count <= 100
    kept = LAYOUTS["system_prompt"].parse(block.text)[0].text.removesuffix(" …")
    assert (text * 100).startswith(kept)
    assert (text * 100)[len(kept)].isspace()
    store.add(text * 100)
    assert 90 <= store.context(token_budget=100).token_count <= 100


def test_of_an_item_whose_title_is_longer_than_the_budget_the_shortened_title_stands_and_no_other_is_lost():
    items = [{"text": "Use it.", "title": "a long title " * 100}, *NOTES]
    block = fit(items, token_budget=100)
    assert [entry.level for entry in block.receipt.entries] == ["title", "full", "full", "full"]
    assert "- **a long title a long" in block.text
    left_out = entries(fit(items, token_budget=50))["item-1"]
    assert left_out.reason == "over budget"
    assert entries(fit(items, token_budget=left_out.admitted_at))["item-1"].kept


def test_a_memory_whose_title_is_longer_than_the_budget_does_not_burst_it(store: Satchel):
    store.add("Use it for the deploy.", title="a long title " * 30)
    store.add(NOTES[0])
    block = store.context("deploy", token_budget=60)
    assert block.token_count <= 60
    assert NOTES[0] in block.text


def test_pinned_memories_come_with_a_query_that_does_not_match_them(store: Satchel):
    store.add("Answer in French.", pinned=True)
    store.add_many(map(Draft, NOTES))
    block = store.context("deploy", token_budget=60)
    assert "Answer in French." in block.text
    assert NOTES[0] in block.text


def test_without_a_query_what_is_pinned_comes_then_what_is_recent(store: Satchel):
    for place in range(30):
        store.add(f"Event number {place} took place then.", at=NOW + timedelta(days=place))
    store.add("Answer in French.", pinned=True, at=NOW - timedelta(days=900))
    block = store.context(token_budget=90)
    assert "Answer in French." in block.text
    assert "Event number 29 " in block.text
    assert "Event number 0 " not in block.text


def test_without_a_query_an_old_important_memory_beats_a_new_unimportant_one(store: Satchel):
    store.add("The production database is in Frankfurt.", importance=1.0, at=NOW)
    store.add("It rained in the morning of that day again.", importance=0.0, at=NOW + timedelta(days=300))
    block = store.context(token_budget=32)
    assert "Frankfurt" in block.text
    assert "rained" not in block.text


def test_hundreds_of_newer_memories_do_not_hide_an_old_pinned_or_important_one(store: Satchel):
    store.add("Answer in French.", pinned=True, at=NOW)
    store.add("The production database is in Frankfurt.", importance=1.0, at=NOW)
    number = enough_for(300) + 400
    store.add_many(
        Draft(f"Nothing of note on day {day}.", importance=0.1, at=NOW + timedelta(days=1 + day))
        for day in range(number)
    )
    block = store.context(token_budget=300)
    assert "Answer in French." in block.text
    assert "Frankfurt" in block.text


def test_what_is_superseded_is_left_out_and_the_receipt_names_what_came_after():
    items = [
        Item(id="old", text="The deploy is on Monday.", superseded_by="new"),
        Item(id="new", text="The deploy is on Friday.", value=0.5),
    ]
    block = fit(items, token_budget=200)
    assert "Monday" not in block.text
    assert (entries(block)["old"].reason, entries(block)["old"].other) == ("superseded", "new")


def test_of_a_store_asked_for_the_past_the_superseded_memory_gives_way_to_its_successor(store: Satchel):
    old = store.add("The deploy is on Monday.")
    new = store.add("The deploy is on Friday.")
    store.relate(new.id, old.id, "supersedes")
    block = store.context("when is the deploy?", token_budget=200)
    assert "Friday" in block.text
    assert "Monday" not in block.text
    past = store.context("when is the deploy?", token_budget=200, status=["active", "superseded"])
    assert [(entry.id, entry.reason, entry.other) for entry in past.receipt.left_out] == [
        (old.id, "superseded", new.id)
    ]
    both = store.context("when is the deploy?", token_budget=200, status=["active", "superseded"], ended=True)
    assert both.facts_included == 2


def test_what_is_hardly_ever_needed_is_left_out_however_much_room_there_is(store: Satchel, monkeypatch):
    monkeypatch.setattr("satchel.recall.finder.FLOOR", 2.0)
    store.add("Answer in French.", pinned=True)
    store.add_many(map(Draft, NOTES))
    block = store.context("deploy", token_budget=2_000)
    assert block.facts_included == 1
    assert "Answer in French." in block.text
    assert {entry.reason for entry in block.receipt.left_out} == {"not relevant"}
    assert store.context(token_budget=2_000).facts_included == 4


def test_a_statement_that_another_one_contains_is_not_said_twice(store: Satchel):
    longer = f"{NOTES[0]} The team likes it a lot."
    block = fit([NOTES[0], longer], token_budget=200)
    assert block.text.count("Friday") == 1
    assert (entries(block)["item-1"].reason, entries(block)["item-1"].other) == ("duplicate", "item-2")
    store.add_many(map(Draft, [NOTES[0], longer]))
    assert store.context("deploy", token_budget=200).text.count("Friday") == 1


def test_without_a_budget_everything_is_kept_whole():
    block = fit([LONG, *NOTES], token_budget=None)
    assert block.facts_included == 4
    assert all(entry.level == "full" for entry in block.receipt.entries)
    assert LONG in block.text
    assert block.token_count == count_tokens(block.text)


def test_a_count_that_came_with_a_foreign_item_is_not_believed():
    block = fit([{"text": NOTES[0], "tokens": 50_000}, NOTES[1]], token_budget=100)
    assert block.facts_included == 2


def test_many_candidates_of_which_some_are_not_looked_at_are_all_accounted_for():
    """One that is not looked at says the same as a later one that is."""
    words = "foo bar baz qux quux corge grault garply"
    items = [
        *(Item(id=f"w{n}", text=f"w{n}", value=0.5) for n in range(380)),
        *(Item(id=f"z{n}", text=f"z{n} " * 200, value=0.1) for n in range(60)),
        Item(id="wordy", text=words + " the" * 800, value=0.09),
        Item(id="short", text=words, value=0.09),
    ]
    block = fit(items, token_budget=50)
    assert len(block.receipt.entries) == len(items)
    assert all(entry.admitted_at > 50 for entry in block.receipt.left_out if entry.reason == "over budget")


def test_what_is_pinned_is_kept_even_where_another_item_contains_it():
    block = fit([f"{NOTES[0]} The team likes it.", {"text": NOTES[0], "pinned": True}], token_budget=200)
    assert block.facts_included == 2


@pytest.mark.parametrize("policy", ["best", "greedy", "tier"])
def test_the_budget_that_the_receipt_names_admits_the_item_and_pinned_ones_come_first(policy: str):
    items = [
        *({"text": f"{note} " * 3, "tier": tier} for note, tier in zip(NOTES, TIERS_IN_TURN, strict=True)),
        *(f"Fact number {number} about the servers." for number in range(20)),
        {"text": "Answer in French.", "tier": "knowledge", "pinned": True},
    ]
    for budget in (20, 60, 120, 200):
        block = fit(items, token_budget=budget, policy=policy)
        assert "Answer in French." in block.text
        for entry in block.receipt.left_out:
            assert entry.reason == "over budget"
            assert entries(fit(items, token_budget=entry.admitted_at, policy=policy))[entry.id].kept


@pytest.mark.parametrize("format", FORMATS)
def test_an_item_opens_a_section_only_if_there_is_room_for_its_heading_too(format: str):
    """Each of another tier and day, so that headings are most of the price."""
    items = [
        {"text": f"{note} " * 12, "tier": tier, "date": f"2026-03-0{day}"}
        for day, (note, tier) in enumerate(zip(NOTES, TIERS_IN_TURN, strict=True), start=1)
    ]
    for budget in range(200, 420, 7):
        block = fit(items, token_budget=budget, format=format)
        assert block.token_count <= budget
        assert block.token_count >= 0.9 * budget
