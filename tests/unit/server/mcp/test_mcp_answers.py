"""Answers stay within their budget, counted on the final text, and the numbers they state are correct."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import satchel
from read_back import footers
from satchel.fitting.listing import Portion
from satchel.server.mcp.answers import Allowance, Footer, fitted, said, with_footer

COUNTERS = [satchel.counter(name) for name in ("o200k_base", "claude", "chars/4")]

words = st.text(st.sampled_from("ab 記🎉\N{ZERO WIDTH JOINER}👧é.\n"), min_size=1, max_size=300)


@st.composite
def listings(draw) -> list[Portion]:
    """Portions as tools make them: a heading at the margin, stored text indented below it."""
    made = []
    for place in range(draw(st.integers(1, 8))):
        lines = draw(words).split("\n") if draw(st.booleans()) else []
        below = "".join(f"    {line}".rstrip() + "\n" for line in lines)
        splits, rank, section = (
            draw(st.booleans()),
            draw(st.integers(0, 3)),
            draw(st.sampled_from(["", "## One", "## Two"])),
        )
        made.append(Portion(f"id{place} [fact] heading\n{below}", section, rank, splits, f"id{place}"))
    return sorted(made, key=lambda portion: portion.section)


@settings(max_examples=150)
@given(listings(), st.integers(0, 400), st.sampled_from(COUNTERS), st.booleans(), st.sampled_from([None, "c0ffee"]))
def test_the_allowance_binds_and_the_footers_are_true(portions, tokens, counter, in_turn, cursor):
    page = fitted(
        portions, Allowance(tokens, True), counter.count, total=len(portions), cursor=cursor, in_turn=in_turn
    )
    answer = page.answer
    assert counter.count(answer.text) <= tokens
    assert answer.data["text"] == answer.text
    assert answer.data["token_count"] == counter.count(answer.text)
    if not answer.text:
        return
    told = footers(answer.text)
    headings = sum(told.body.count(f"{portion.name} [fact] heading\n") for portion in portions)
    assert told.tokens == answer.data["token_count"]
    assert answer.data["included"] == headings
    assert (
        (told.cursor is not None)
        == ("cursor" in answer.data)
        == (cursor is not None and headings > 0 and bool(page.rest))
    )
    if told.budget is None:
        assert not page.rest or headings == 0
    else:
        assert page.rest
        assert (told.used, told.budget, told.shown) == (told.tokens, tokens, headings)
        assert told.total == len(portions)


@settings(max_examples=100)
@given(listings(), st.integers(70, 300), st.booleans())
def test_page_after_page_nothing_is_lost_and_nothing_comes_twice(portions, tokens, in_turn):
    count = COUNTERS[0].count
    texts: dict[str, str] = {}
    rest, budget = tuple(portions), tokens
    for _ in range(1_000):
        page = fitted(rest, Allowance(budget, False), count, total=len(portions), cursor="c0ffee", in_turn=in_turn)
        if "smallest_budget" in page.answer.data:
            budget = page.answer.data["smallest_budget"]
            continue
        budget = tokens
        for heading, text in _told(footers(page.answer.text).body):
            name, _, sort = heading.partition(" ")
            assert (sort == "(continued)") == (name in texts)
            texts[name] = texts.get(name, "").removesuffix(" …" if name in texts else "") + text
        rest = page.rest
        if not rest:
            break
    assert texts == {portion.name: _below(portion.text) for portion in portions}


def _told(body: str) -> list[tuple[str, str]]:
    found: list[list[str]] = []
    for line in body.splitlines():
        if line.startswith("id"):
            found.append([line])
        elif line.startswith("    ") or (not line and found):
            found[-1].append(line)
    return [(lines[0], _unindented(lines[1:])) for lines in found]


def _below(text: str) -> str:
    return _unindented(text.split("\n")[1:])


def _unindented(lines: list[str]) -> str:
    return "\n".join(line[4:] for line in lines).rstrip("\n")


@given(st.integers(0, 60), st.sampled_from(["Nothing matched.\n", "何も見つかりませんでした。\n"]))
def test_a_remark_that_does_not_fit_leaves_its_cost_or_nothing(tokens, remark):
    count = COUNTERS[0].count
    answer = said(remark, Allowance(tokens, True), count)
    assert count(answer.text) <= tokens
    assert remark in answer.text or tokens < 25
    assert answer.text == "" or footers(answer.text).tokens == count(answer.text)
    assert answer.text != "" or tokens < 5


@pytest.mark.parametrize("heading", ["id0 [fact] heading", "id0 [fact] 記憶は予算の中に収まる"])
def test_data_are_left_out_if_text_and_data_together_cost_more_than_the_answer_may(heading: str):
    portions = [Portion(f"{heading}\n")]
    count = COUNTERS[0].count
    answer = fitted(portions, Allowance(1_000, True), count, total=1).answer
    both = count(answer.text) + max(
        count(json.dumps(answer.data, **form))
        for form in (
            {},
            {"ensure_ascii": False},
            {"indent": 2},
            {"separators": (",", ":")},
            {"indent": 2, "ensure_ascii": False},
        )
    )
    assert both > 2 * count(answer.text)
    assert answer._replace(most=both).structured(count) == answer.data
    assert answer._replace(most=both - 1).structured(count) is None


def test_numbers_have_their_thousands_separated_and_count_themselves():
    count = COUNTERS[0].count
    footer = Footer(budget=12_345, shown=1_234, total=1_000_000, whole=False, cursor="c0ffee")
    text, tokens = with_footer("word " * 2_000, footer, count)
    assert tokens == count(text) > 2_000
    assert text.split("\n")[1:] == [
        "➡ The rest: cursor=c0ffee",
        f"⚡ Budget: ~{tokens:,}/12,345 tokens used. 1,234 of 1,000,000 memories shown. "
        "Increase max_tokens or use detail_level=summary for more.",
        f"📏 ~{tokens:,} tokens",
    ]
