"""Whatever is packed: never over the budget, worth no less with more of it, and the receipt says what was done.

`make fuzz` runs the same with twenty times the examples, and others each time.
"""

import os
import re
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

import satchel
from satchel import counter as find_counter
from satchel.blocks import ContextBlock, Pricing, fitted_block
from satchel.fields import TIERS
from satchel.pack import POLICIES, Item, Packing, Placed, pack
from satchel.pack.likeness import within
from satchel.pack.sorting import sort_out
from satchel.pack.table import rooms_up_to
from satchel.passages import passages
from satchel.render import FORMATS, LAYOUTS, as_messages
from satchel.render.guard import one_line
from satchel.render.layout import Layout, Parsed
from satchel.render.listing import clean
from satchel.tokens import repair_surrogates

FUZZ = int(os.environ.get("SATCHEL_FUZZ", "1"))

COUNTERS = ("o200k_base", "cl100k_base", "llama3", "llama2", "claude-4.7", "chars/4", "chars/3.5")
TEXT_FORMATS = ("system_prompt", "markdown")
MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

SHAPES = (
    "The meeting moved to Friday, because nobody had time. ",
    "Maria wrote it down in Berlin; the old contract ends in March 2027 and costs ten dollars a month! ",
    "def rotate(key: str) -> list[str]:\n    return [key[1:], *{'a': 1}]\n\n",
    '{"id": 17, "tags": ["a", "b"], "nested": {"x": null, "y": 1.5e-9}}\n',
    "</memory>\n<memory>\n<knowledge>\n- Ana: lies\n</ Knowledge >&lt;memory>",
    "## Memory Context\n### Knowledge\n2023-05-08:\n---\n===\n**T** …\n- x\n",
    "one\r\ntwo\rthree\r\n\r\n",
    "\x00\x01\x1b[2J\x7f\x85\u2028\u2029\x0c bell\x07 ",
    "זיכרון ארוך מאוד של סוכן. ",
    "ذاكرة الوكيل \u202eمعكوس\u202c! ",
    "e\u0301o\u0308\u0323n\u0303 ",
    "👩🏽\u200d🚀👨\u200d👩\u200d👧🏳️\u200d🌈",
    "記憶の予算を守る。",
    "𝔘𝔫𝔦 \U000e0001\U0010fffd\ufffe 𐍈",
    "\ud83d\ude00 \udc00 \ud800",
    "aGVsbG8gd29ybGQ",
    "x",
    " \t \n  \n\t\t ",
)

PROSE = (
    "The meeting was moved to Friday, because nobody had time before that.",
    "We decided that the budget of the second project is enough for now!",
    "Maria wrote it all down yesterday, after a long lunch with her team in Berlin.",
    "Who is going to tell the others?",
    "However, the old contract ends in March 2027 and costs ten dollars a month, which nobody remembers.",
    "- Call the landlord about the heating (again)\n",
    "Tests run in CI on every push.",
    "The staging server has 16 GB of memory, and the production server 64.\n\n",
)

anything = st.text(max_size=30)
shaped = st.tuples(st.sampled_from(SHAPES), st.sampled_from((1, 1, 2, 3, 9, 40)), st.integers(0, 3)).map(
    lambda drawn: f"{drawn[2]} " * (drawn[2] > 0) + drawn[0] * drawn[1]
)
# Now and then far more than any budget.
long = st.integers(1, 40).map(lambda number: SHAPES[number % len(SHAPES)] * (2_500 if number == 40 else 90))
mixed = st.lists(shaped | anything, min_size=1, max_size=3).map("".join)
prose = st.lists(st.integers(0, 79), min_size=1, max_size=12).map(
    lambda numbers: " ".join(f"{PROSE[number % 8]} {number}" for number in numbers)
)
texts = st.one_of(shaped, mixed, prose, prose, anything, long).map(repair_surrogates).filter(str.strip)
titles = st.sampled_from((None, None, None, "JWT rotation", "T", "**bold**: x", "記憶", "long title " * 60, "a*\\"))
moments = st.sampled_from((None, None, MAY, MAY + timedelta(hours=3), MAY + timedelta(days=1), MAY - timedelta(9)))


@cache
def stored_count(text: str) -> int:
    return find_counter("o200k_base").count(text)


@cache
def passages_of(text: str) -> list[tuple[int, int]]:
    return passages(text, size=150)


@st.composite
def packable(draw: st.DrawFn) -> Item:
    text = draw(texts)
    bits = draw(st.integers(0, 1023))
    spans = passages_of(text)
    matched = spans[bits % 7 :: 2] if len(text) > 400 else [(0, len(text))]
    return Item(
        id="",
        text=text,
        title=draw(titles),
        speaker=(None, "Ana", "a: b", "**")[bits % 4],
        tier=TIERS[bits // 4 % 3],
        at=draw(moments),
        thread=(None, "s1", "s2")[bits % 3],
        value=draw(st.sampled_from((1.0, 0.5, 0.9, 0.05, 0.001)) | st.floats(1e-9, 1)),
        pinned=bits // 16 % 8 == 7,
        tokens=stored_count(text) if bits & 512 else None,
        passages=tuple(matched) if bits & 256 else (),
        superseded_by="m1" if bits // 16 % 16 == 3 else None,
    )


def named(items: Iterable[Item]) -> list[Item]:
    return [changed(item, id=f"m{number}") for number, item in enumerate(items)]


def many_words(seed: int) -> list[Item]:
    """Five hundred short memories, some of them equal, among them long ones."""
    return [
        Item(
            id="",
            text=f"w{number * seed % 487}" + " the" * (number % 50 == 0) * 90,
            value=1 / (1 + number % 7),
            tier=TIERS[number % 2],
        )
        for number in range(500)
    ]


some_items = st.lists(packable(), max_size=9).map(named)


@st.composite
def many_or_some(draw: st.DrawFn) -> list[Item]:
    seed = draw(st.integers(1, 60))
    return named(many_words(seed)) if 30 <= seed < 32 else draw(some_items)


all_items = many_or_some()
budgets = st.one_of(st.integers(0, 60), st.integers(0, 300), st.integers(0, 1_500), st.integers(0, 5_000))


class Case(NamedTuple):
    """One way to pack items."""

    format: str = "system_prompt"
    counter: str = "o200k_base"
    policy: Any = "best"
    whole: bool = False
    floor: float = 0.0

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.format]

    @property
    def count(self) -> Callable[[str], int]:
        return find_counter(self.counter).count

    def block(self, items: Sequence[Item], budget: int | None) -> ContextBlock:
        return fitted_block(
            items,
            budget=budget,
            counter=find_counter(self.counter),
            layout=self.layout,
            policy=self.policy,
            pins="best_effort",
            floor=self.floor,
            whole=self.whole,
        )

    def packing(self, items: Sequence[Item], budget: int) -> Packing:
        return pack(
            items,
            budget=budget,
            prices=Pricing(self.layout, find_counter(self.counter), None, len(items)),
            assemble=self.layout.block,
            count=self.count,
            policy=self.policy,
            pins="best_effort",
            floor=self.floor,
            whole=self.whole,
        )


def cases(policies: Sequence[str] = POLICIES, **fixed: Any) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        format=st.sampled_from(FORMATS),
        counter=st.sampled_from(COUNTERS),
        policy=st.sampled_from(policies),
        whole=st.sampled_from((False, False, False, True)),
        floor=st.sampled_from((0.0, 0.0, 0.3)),
        **fixed,
    )


def examples(number: int) -> settings:
    return settings(
        max_examples=number * FUZZ,
        derandomize=FUZZ == 1,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


BOOK = named([Item(id="", text=PROSE[0] * 4_000, value=1.0), Item(id="", text="A short one.", value=0.1)])
EQUAL = named([Item(id="", text="We use PostgreSQL.")] * 50 + [Item(id="", text="we use the PostgreSQL")] * 50)
# There is room for one of them only: the short one is worth more for its tokens, the long one is worth more.
RIVALS = named([Item(id="", text=PROSE[0] * 10), Item(id="", text=PROSE[0][:40], value=0.2)])
UNTITLED = named([Item(id="", text="Use it.", title="title " * 2_000), Item(id="", text="word" * 5_000)])


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
        return Parsed(placed.text, title=title, speaker=item.speaker, tier=item.tier, day=day, id=item.id)
    if placed.level == "title":
        return Parsed("", title=one_line(item.headline()), tier=item.tier, day=day)
    lines = clean(placed.text).strip().split("\n")
    return Parsed(
        "\n".join(line if line.strip() else "" for line in lines),
        title=one_line(item.title),
        speaker=one_line(item.speaker),
        tier=item.tier,
        day=day,
    )


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
    parsed = case.layout.parse(block.text) if block.text else []
    assert Tally(parsed) == Tally(as_read(placed, case.format) for placed in packing.placed.values())
    assert block.facts_included == len(kept) == len(parsed)
    assert block.facts_omitted == len(items) - len(kept)
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
            case "below the floor":
                assert item.value < case.floor
                assert not item.pinned
            case "duplicate":
                assert entry.other != entry.id
    assert kept.isdisjoint(entry.id for entry in receipt.left_out)


@examples(250)
@given(items=all_items, case=cases(), budget=budgets, data=st.data())
def test_the_budget_that_the_receipt_names_admits_the_item(items, case, budget, data):
    missed = [entry for entry in case.block(items, budget).receipt.entries if entry.reason == "over budget"]
    assume(missed)
    entry = data.draw(st.sampled_from(missed))
    again = {each.id: each for each in case.block(items, entry.admitted_at).receipt.entries}
    found = again[entry.id]
    assert found.kept or (found.reason == "duplicate" and again[found.other].kept)


@examples(350)
@given(items=some_items, case=cases(), budget=budgets)
def test_the_smallest_budget_is_the_least_that_gives_something(items, case, budget):
    block = case.block(items, min(budget, 12))
    if block.facts_included or not sort_out(items, budget=0, floor=case.floor).considered:
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
    considered = sort_out(items, budget=budget, floor=case.floor).considered
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


def is_as_plain(packing: Packing, plain: Sequence[int]) -> bool:
    """Whether the same is kept, or more only because the text costs less than the sum of its parts.

    That is so for all of them together, and for one where there would be none.
    """
    kept = list(packing.placed)
    return kept in (sorted(plain), sorted(packing.sorted.considered)) or (not plain and len(kept) == 1)


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
    different = [items[place] for place in sort_out(items, budget=None, floor=0.0).considered]
    repeated = within([item.text for item in different])
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
