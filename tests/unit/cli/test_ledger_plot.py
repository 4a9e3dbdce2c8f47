"""The plot of a ledger is a valid SVG file that contains every number, for any session."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.cli.plots.ledger_plot import Point, ledger_plot

SVG = "{http://www.w3.org/2000/svg}"
CATEGORIES = ("system", "history", "tool_results", "user", "response_reserve")
TOP, BOTTOM, LEFT, RIGHT = 104, 404, 80, 884


def point(turn: int, *tokens: int, evicted: int = 0) -> Point:
    return Point(turn, dict(zip(CATEGORIES, tokens, strict=False)), evicted)


def drawn(picture: str) -> ET.Element:
    """The picture as XML, of which nothing lies beyond the sheet."""
    root = ET.fromstring(picture)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for box in root.iter(f"{SVG}rect"):
        x, y, wide, high = (float(box.get(name, "0")) for name in ("x", "y", "width", "height"))
        assert min(x, y, wide, high) >= 0
        assert x + wide <= width + 0.01
        assert y + high <= height
    for words in root.iter(f"{SVG}text"):
        assert 0 <= float(words.get("x", "-1")) <= width
        assert 0 <= float(words.get("y", "-1")) <= height
    return root


def words(picture: str) -> list[str]:
    return [each.text or "" for each in drawn(picture).iter(f"{SVG}text")]


def areas(picture: str) -> list[tuple[str, list[float]]]:
    """The colour of each area, and the heights of its outline."""
    found = []
    for path in drawn(picture).iter(f"{SVG}path"):
        way = path.attrib["d"]
        if "V" in way:
            found.append((path.attrib["fill"], [float(y) for y in re.findall(r"V([\d.]+)", way)]))
    return found


def tooltips(picture: str) -> list[str]:
    return [each.text or "" for each in drawn(picture).iter(f"{SVG}title")][1:]


def eviction_labels(picture: str) -> list[tuple[float, str]]:
    texts = drawn(picture).iter(f"{SVG}text")
    marks = [each for each in texts if each.get("y") == "91" and each.text != "evicted"]
    return sorted((float(each.attrib["x"]), each.text or "") for each in marks)


def test_areas_are_stacked_by_category_and_as_high_as_their_tokens():
    picture = ledger_plot([point(1, 100, 0, 300), point(2, 100, 0, 500)], title="Session a", limit=1_000)
    (grey, system), (orange, results) = areas(picture)
    assert grey != orange
    per_token = (BOTTOM - system[0]) / 100
    assert per_token == pytest.approx((BOTTOM - TOP) / 1_080, rel=0.01)
    # Along the tops first, then along the bottoms back.
    assert results == pytest.approx([BOTTOM - tokens * per_token for tokens in (400, 600, 100, 100)], abs=0.05)


def test_the_heading_tells_the_peak_and_what_was_evicted():
    points = [point(1, 8_000), point(2, 8_000, 400, 61_000), point(3, 8_000, 900, 20_000, evicted=7)]
    shown = words(ledger_plot(points, title="Session fix-login", limit=100_000))
    assert "Session fix-login" in shown
    assert "3 turns, at most 69,400 of 100,000 tokens, on turn 2; 7 evicted on 1 turn" in shown
    assert "budget 100,000" in shown


def test_the_legend_tells_what_each_category_has_and_had():
    shown = words(ledger_plot([point(1, 5, 0, 900), point(2, 5, 0, 70)], title="t", limit=1_000))
    place = shown.index("tool results")
    assert shown[place + 1 : place + 3] == ["70 now", "900 at most"]
    assert {"system", "history", "user", "response reserve"} <= set(shown)


def test_each_turn_tells_its_numbers_to_whoever_points_at_it():
    told = tooltips(ledger_plot([point(4, 10, 0, 30, evicted=2)], title="t", limit=0))
    assert "turn 4\nsystem 10\ntool results 30\n2 evicted\n40 tokens" in told


def test_evictions_are_marked_with_their_number_above_their_turn():
    points = [point(turn, 10, evicted=turn if turn % 10 == 0 else 0) for turn in range(1, 41)]
    labels = eviction_labels(ledger_plot(points, title="t", limit=100))
    assert [label for _, label in labels] == ["10", "20", "30", "40"]
    places = [x for x, _ in labels]
    assert places == sorted(places)
    assert places[1] - places[0] == pytest.approx(10 * 804 / 40)


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.sampled_from([0, 0, 1, 35, 4_000])), max_size=900),
    st.integers(0, 10**7),
)
@example([(900, 35)] * 2_000, 1_000)
@example([(900, 4_000)] * 60, 1_000)
def test_whatever_happened_numbers_add_up_and_do_not_overlap(rows: list[tuple[int, int]], limit: int):
    points = [point(turn, 10, tokens, evicted=evicted) for turn, (tokens, evicted) in enumerate(rows, 1)]
    labels = eviction_labels(ledger_plot(points, title="t", limit=limit))
    assert sum(int(label.replace(",", "")) for _, label in labels) == sum(evicted for _, evicted in rows)
    ends = [(x - len(label) * 3.2, x + len(label) * 3.2) for x, label in labels]
    assert all(before[1] <= after[0] for before, after in pairwise(ends))


@pytest.mark.parametrize("count", [1, 2, 7, 60, 412, 2_000])
def test_turns_are_numbered_at_their_places_as_far_as_there_is_room(count: int):
    picture = ledger_plot([point(turn, 10) for turn in range(1, count + 1)], title="t", limit=100)
    texts = [each for each in drawn(picture).iter(f"{SVG}text") if each.get("y") == "423"]
    ticks = [(float(each.attrib["x"]), each.text or "") for each in texts]
    assert ticks[0][1] == "1"
    assert len(ticks) == {1: 1, 2: 2, 7: 4}.get(count, len(ticks)) <= 14
    wide = min(40.0, (RIGHT - LEFT) / count)
    for x, label in ticks:
        assert x == pytest.approx(LEFT + (int(label.replace(",", "")) - 0.5) * wide, abs=3)
    assert all(after - before > 20 for (before, _), (after, _) in pairwise(ticks))


def test_a_session_over_its_budget_is_drawn_within_the_plot():
    picture = ledger_plot([point(1, 10, 50), point(2, 10, 9_000)], title="t", limit=1_000)
    heights = [y for _, outline in areas(picture) for y in outline]
    assert TOP < min(heights) < TOP + 30
    assert max(heights) <= BOTTOM


def test_numbers_at_the_edges_stay_over_the_plot():
    points = [point(turn, 10, evicted=1_234_567 if turn in (1, 400) else 0) for turn in range(1, 401)]
    (first, label), (last, _) = eviction_labels(ledger_plot(points, title="t", limit=100))
    assert first - len(label) * 3.2 >= LEFT
    assert last + len(label) * 3.2 <= RIGHT


def test_2000_turns_become_few_columns_that_keep_the_peak():
    points = [point(turn, 10, 500 if turn == 1_233 else 1) for turn in range(1, 2_001)]
    picture = ledger_plot(points, title="t", limit=600)
    told = tooltips(picture)
    assert len(told) <= 412
    [peak] = [each for each in told if "510 tokens" in each]
    assert peak.startswith("turns 1,231 to 1,235, at turn 1,233")
    assert len(picture) < 300_000
    assert "2,000 turns, at most 510 of 600 tokens, on turn 1,233; nothing evicted" in words(picture)


@pytest.mark.parametrize("points", [[], [Point(1, {})], [point(1, 0, 0), point(2, 0, 0)], [point(1, -5)]])
def test_nothing_at_all_can_be_drawn(points: list[Point]):
    for limit in (0, 1, 100_000):
        assert areas(ledger_plot(points, title="", limit=limit)) == []


def test_other_categories_and_any_title_are_drawn_as_text():
    points = [Point(1, {"system": 5, "<odd> & new": 7})]
    picture = ledger_plot(points, title="a <b> & \x00 'c' \ud800", limit=10)
    assert "<odd> & new" in words(picture)
    assert [fill for fill, _ in areas(picture)] == ["#8c959f", "#cc79a7"]


def test_the_same_session_gives_the_same_bytes():
    points = [point(turn, 10, turn * 7, evicted=turn % 3) for turn in range(50)]
    assert ledger_plot(points, title="t", limit=300) == ledger_plot(points, title="t", limit=300)
