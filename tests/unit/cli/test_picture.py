"""The plot of a pack is a valid SVG file that shows each number of its receipt, for any headlines."""

import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.cli.plots.pack_plot import pack_picture
from satchel.cli.plots.svg import fit_width
from satchel.model.memory import TIERS
from satchel.model.packing import Level, Receipt, ReceiptEntry

SVG = "{http://www.w3.org/2000/svg}"
BAR = {"y": "96", "height": "40"}


def entry(number: int, cost: int, **fields) -> ReceiptEntry:
    given = {"id": f"m{number}", "headline": f"Headline {number}", "tier": "knowledge", "value": 0.5}
    return ReceiptEntry(cost=cost, **given | fields)


def kept(number: int, cost: int, **fields) -> ReceiptEntry:
    return entry(number, cost, **{"level": "full"} | fields)


def left_out(number: int, cost: int, **fields) -> ReceiptEntry:
    return entry(number, cost, **{"reason": "over budget", "admitted_at": 9_000 + number} | fields)


def receipt(*entries: ReceiptEntry, budget: int | None = 2_000, overhead: int = 40) -> Receipt:
    used = sum(each.cost for each in entries if each.kept) + overhead
    books = {"counter": "o200k_base", "policy": "value", "format": "markdown"}
    return Receipt(budget=budget, token_count=used, entries=entries, **books)


def drawn(picture: str) -> ET.Element:
    """The picture as XML, none of whose boxes goes beyond the sheet or has a negative side."""
    root = ET.fromstring(picture)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for box in root.iter(f"{SVG}rect"):
        x, y, wide, high = (float(box.get(name, "0")) for name in ("x", "y", "width", "height"))
        assert min(x, y, wide, high) >= 0
        assert x + wide <= width
        assert y + high <= height
    for words in root.iter(f"{SVG}text"):
        assert 0 <= float(words.get("x", "-1")) <= width
        assert 0 <= float(words.get("y", "-1")) <= height
    return root


def words(picture: str) -> list[str]:
    return [each.text or "" for each in drawn(picture).iter(f"{SVG}text")]


def segments(picture: str) -> list[tuple[str, float, float]]:
    """The tooltip, the start and the width of each part of the bar."""
    found = []
    for box in drawn(picture).iter(f"{SVG}rect"):
        if BAR.items() <= box.attrib.items():
            tooltip = box.findtext(f"{SVG}title")
            assert tooltip
            found.append((tooltip, float(box.attrib["x"]), float(box.attrib["width"])))
    return found


def test_the_bar_holds_each_kept_memory_by_tier_then_the_overhead_then_the_rest():
    picture = pack_picture(
        receipt(kept(1, 300), kept(2, 700, tier="working", level="excerpt"), kept(3, 150, tier="conversation"))
    )
    parts = segments(picture)
    assert [tooltip for tooltip, _, _ in parts] == [
        "Headline 2\nworking, kept as excerpt, 700 tokens",
        "Headline 3\nconversation, kept as full, 150 tokens",
        "Headline 1\nknowledge, kept as full, 300 tokens",
        "headings and wrapper\n40 tokens",
        "unused\n810 tokens",
    ]
    for (_, _, width), tokens in zip(parts, (700, 150, 300, 40, 810), strict=True):
        assert width == pytest.approx(872 * tokens / 2_000, abs=1.01)
    for (_, start, width), (_, following, _) in pairwise(parts):
        assert 0 < following - start - width <= 1.01


def test_lines_that_cost_more_apart_than_together_leave_the_rest_its_length():
    entries = (kept(1, 600), kept(2, 600))
    books = {"counter": "c", "policy": "p", "format": "f"}
    parts = segments(pack_picture(Receipt(budget=2_000, token_count=1_000, entries=entries, **books)))
    assert parts[-1][0] == "unused\n1,000 tokens"
    assert parts[-1][1] == pytest.approx(24 + 436, abs=0.01)


def test_the_legend_counts_memories_and_tokens_of_each_tier():
    said = words(pack_picture(receipt(kept(1, 1_200), kept(2, 34), kept(3, 1, tier="working"), budget=5_000)))
    assert "1,275 of 5,000 tokens used (25.5%): 3 memories kept, 0 left out" in said
    start = said.index("working")
    assert said[start : start + 9] == [
        "working", "1 token", "1 memory",
        "conversation", "0 tokens", "0 memories",
        "knowledge", "1,234 tokens", "2 memories",
    ]  # fmt: skip
    assert said[said.index("headings and wrapper") + 1] == "40 tokens"
    assert said[said.index("unused") + 1] == "3,725 tokens"


def test_without_a_budget_the_bar_is_as_long_as_what_was_used():
    picture = pack_picture(receipt(kept(1, 300), kept(2, 100), budget=None))
    parts = segments(picture)
    assert [tooltip.splitlines()[0] for tooltip, _, _ in parts] == [
        "Headline 1",
        "Headline 2",
        "headings and wrapper",
    ]
    assert parts[-1][1] + parts[-1][2] == pytest.approx(896, abs=1.01)
    said = words(picture)
    assert "440 tokens used: 2 memories kept, 0 left out" in said
    assert "unused" not in said
    assert "Nothing was left out." in said


def test_the_kept_stand_largest_first_and_the_rest_is_summed_up():
    said = words(pack_picture(receipt(*(kept(number, 10 + number) for number in range(60)), budget=9_000)))
    listed = [each for each in said if each.startswith("Headline")]
    assert listed == [f"Headline {number}" for number in range(59, 34, -1)]
    assert f"and 35 more, {sum(range(10, 45)):,} tokens" in said


def test_what_was_left_out_says_why_and_what_it_would_take():
    said = words(
        pack_picture(
            receipt(
                kept(1, 300),
                left_out(2, 50_000),
                left_out(3, 80, reason="duplicate", other="m1", admitted_at=None),
                left_out(4, 80, reason="superseded", other="gone", admitted_at=None),
                left_out(5, 80, reason="not relevant", admitted_at=None),
            )
        )
    )
    rows = said[said.index("Headline 2") :]
    assert rows[:4] == ["Headline 2", "over budget", "50,000", "9,002"]
    assert [rows[place] for place in (5, 9, 13)] == [
        "duplicate of Headline 1",
        "superseded by gone",
        "not relevant",
    ]
    assert [rows[place] for place in (7, 11, 15)] == ["–", "–", "–"]


def test_of_many_left_out_the_best_are_listed():
    said = words(pack_picture(receipt(kept(0, 5), *(left_out(number, 80) for number in range(1, 201)))))
    assert "and 180 more" in said
    assert [each for each in said if each.startswith("Headline")][1:] == [f"Headline {n}" for n in range(1, 21)]


def test_only_a_cost_far_beyond_the_scale_is_broken_off():
    broken = pack_picture(receipt(kept(1, 100), left_out(2, 300), left_out(3, 50_000)))
    whole = pack_picture(receipt(kept(1, 100), left_out(2, 300), left_out(3, 500)))
    marks = [sum(1 for _ in drawn(each).iter(f"{SVG}path")) for each in (broken, whole)]
    assert marks[0] == marks[1] + 2
    small_bars = [
        float(box.attrib["width"])
        for box in drawn(broken).iter(f"{SVG}rect")
        if box.attrib.get("x", "") in ("662", "662.5")
    ]
    assert small_bars == [pytest.approx(136 / 3, abs=0.01), 135, 135]


@pytest.mark.parametrize(
    ("entries", "budget", "remark"),
    [
        ((), 2_000, "Nothing was found."),
        ((), 0, "Nothing was found."),
        ((), None, "Nothing was found."),
        ((left_out(2, 80), left_out(1, 300)), 5, "Nothing fits; 9,001 tokens would hold one."),
        ((left_out(1, 80),), 0, "Nothing fits; 9,001 tokens would hold one."),
        ((left_out(1, 80, reason="not relevant", admitted_at=None),), 5, "Nothing was kept."),
    ],
)
def test_a_pack_of_nothing_says_so(entries, budget, remark):
    assert remark in words(pack_picture(receipt(*entries, budget=budget, overhead=0)))


def test_the_title_is_the_one_given():
    assert words(pack_picture(receipt(kept(1, 5)), title="Notes <& more>"))[0] == "Notes <& more>"


def test_nothing_in_it_runs_or_is_fetched():
    picture = pack_picture(receipt(kept(1, 5, headline="<script>x()</script><image href='http://x'/>")))
    assert {each.tag.removeprefix(SVG) for each in drawn(picture).iter()} == {
        "svg", "title", "g", "defs", "pattern", "path", "rect", "text",
    }  # fmt: skip
    assert not any("href" in name for each in drawn(picture).iter() for name in each.attrib)


def test_control_characters_and_halves_of_pairs_are_replaced():
    said = words(pack_picture(receipt(kept(1, 5, headline="a\x00b\x1b[2J\nc \ud800 \uffff d"))))
    assert "a\ufffdb\ufffd[2J c \ufffd \ufffd d" in said


def test_wide_characters_take_the_room_of_two():
    narrow, wide = fit_width("word " * 100, 300), fit_width("東京都" * 100, 300)
    assert narrow.endswith("…")
    assert wide.endswith("…")
    assert 20 <= len(wide) <= 25
    assert 40 <= len(narrow) <= 50
    assert fit_width("東京都", 300) == "東京都"
    assert fit_width("", 300) == ""


headlines = st.one_of(
    st.text(max_size=300),
    st.text(alphabet=st.characters(categories=("Cc", "Cf", "Cs", "Co", "Cn", "So", "Mn")), max_size=100),
    st.sampled_from(["]]>", "&amp;", "<!--", "'\"", "🚀👨‍👩‍👧‍👦✅" * 20, "M" * 500, "مرحبا " * 50]),
)
entries = st.builds(
    ReceiptEntry,
    id=headlines,
    headline=headlines,
    tier=st.sampled_from(TIERS),
    value=st.floats(0, 1),
    cost=st.integers(0, 100_000),
    level=st.sampled_from([None, *get_args(Level)]),
    reason=st.sampled_from(["over budget", "duplicate", "superseded", "not relevant", None]),
    other=st.none() | headlines,
    admitted_at=st.none() | st.integers(0, 10**9),
)
receipts = st.builds(
    Receipt,
    budget=st.none() | st.integers(0, 200_000),
    counter=headlines,
    policy=headlines,
    format=headlines,
    token_count=st.integers(0, 200_000),
    entries=st.lists(entries, max_size=60).map(tuple),
)


@given(receipts, st.none() | headlines)
def test_any_receipt_makes_a_valid_picture_and_always_the_same(any_receipt, title):
    picture = pack_picture(any_receipt, title=title)
    drawn(picture)
    picture.encode("utf-8")
    assert pack_picture(any_receipt, title=title) == picture
