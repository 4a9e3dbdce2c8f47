"""The assembled text decides what fits, not the sum of the parts; what is left out stays available."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from satchel.fitting.listing import INDENT, Assemble, FittedPortions, Portion, fit_portions, join_portions


def plain(frame: str = "") -> Assemble:
    return lambda shown, whole: frame + "".join(portion.text for portion in shown)


def footed(shown: Sequence[Portion], whole: bool) -> str:
    return join_portions(shown) + ("" if whole else "(more)\n")


def fitted(texts: Sequence[str], budget: int | None, frame: str = "") -> FittedPortions:
    return fit_portions([Portion(text) for text in texts], budget=budget, count=len, assemble=plain(frame))


def shown(found: FittedPortions) -> list[str]:
    return [portion.text for portion in found.shown]


def test_without_a_budget_everything_is_kept():
    assert shown(fitted(["aaa", "bb"], None)) == ["aaa", "bb"]


def test_what_does_not_fit_is_skipped_and_smaller_portions_still_come():
    found = fitted(["a" * 10, "b" * 50, "c" * 5], 20)
    assert (found.text, found.rest) == ("a" * 10 + "c" * 5, (Portion("b" * 50),))


def test_in_turn_nothing_comes_after_the_first_that_does_not_fit():
    texts = ["a" * 10, "b" * 50, "c" * 5]
    found = fit_portions(list(map(Portion, texts)), budget=20, count=len, assemble=plain(), in_turn=True)
    assert (found.text, len(found.rest)) == ("a" * 10, 2)


def test_a_first_portion_that_is_too_large_does_not_empty_the_answer():
    assert shown(fitted(["a" * 100, "b"], 10)) == ["b"]


def test_the_frame_counts_too():
    found = fitted(["aaaa", "bbbb"], 9, frame="<<>>")
    assert (shown(found), len(found.text)) == (["aaaa"], 8)


def test_a_whole_that_costs_more_than_its_parts_is_cut_until_it_fits():
    portions = [Portion("aa"), Portion("bb"), Portion("cc")]
    count = lambda text: len(text) + text.count("ab") * 3  # noqa: E731
    assert fit_portions(portions, budget=6, count=count, assemble=plain()).text == "aa"


def test_nothing_fits_names_the_smallest_budget_that_would():
    found = fitted(["a" * 30, "b" * 20], 10)
    assert (found.shown, found.text, found.smallest_budget) == ((), "", 20)


def test_an_empty_frame_that_fits_is_still_given():
    found = fitted(["a" * 30], 10, frame="{}")
    assert (found.shown, found.text, found.smallest_budget) == ((), "{}", 32)


def test_no_portions_and_no_room_give_no_text():
    assert fitted([], 1, frame="{}") == FittedPortions("", (), ())


def test_the_lowest_rank_is_taken_first_and_shown_in_its_place():
    portions = [Portion("old\n", rank=2), Portion("focus\n", rank=0), Portion("new\n", rank=1)]
    assert fit_portions(portions, budget=10, count=len, assemble=plain()).text == "focus\nnew\n"


def test_a_heading_stands_only_over_what_is_shown():
    portions = [
        Portion("a\n", section="## One"),
        Portion("b" * 50, section="## Two"),
        Portion("c\n", section="## Two"),
    ]
    assert fit_portions(portions, budget=40, count=len, assemble=footed).text == "## One\na\n\n## Two\nc\n(more)\n"
    assert fit_portions(portions[:2], budget=30, count=len, assemble=footed).text == "## One\na\n(more)\n"


def split(text: str, budget: int, **fields: Any) -> FittedPortions:
    return fit_portions([Portion(text, splits=True, **fields)], budget=budget, count=len, assemble=footed)


def test_what_can_be_split_shows_its_beginning_and_the_rest_goes_on_from_the_very_character():
    text = INDENT + "One sentence stands here. Another one follows it. And so on, for ever.\n"
    found = split(text, 50)
    (first,), (rest,) = found.shown, found.rest
    assert len(found.text) <= 50
    assert first.text.endswith(" …\n")
    assert first.text.removesuffix(" …\n") + rest.text.removeprefix(INDENT) == text


def test_the_rest_of_what_has_a_name_stands_under_it():
    found = split(f"m1 A heading\n{INDENT}One sentence. Another one. A third one.\n", 50, name="m1")
    assert found.shown[0].text == f"m1 A heading\n{INDENT}One sentence. …\n"
    assert found.rest[0].text == f"m1 (continued)\n{INDENT} Another one. A third one.\n"
    again = fit_portions(found.rest, budget=45, count=len, assemble=footed)
    assert again.shown[0].text == f"m1 (continued)\n{INDENT} Another one. …\n"
    assert again.rest[0].text == f"m1 (continued)\n{INDENT} A third one.\n"


def test_a_line_at_the_margin_is_never_cut():
    text = f"m1 A heading\n→ another one\n→ and yet another\n{INDENT}Some words.\n"
    shown_at = {budget: split(text, budget) for budget in range(20, len(text))}
    beginnings = {found.shown[0].text if found.shown else "" for found in shown_at.values()}
    whole_lines = {"m1 A heading\n→ another one …\n", "m1 A heading\n→ another one\n→ and yet another …\n"}
    assert {each for each in beginnings if INDENT not in each} == {"", *whole_lines}
    assert all(each.startswith(text[:46]) for each in beginnings if INDENT in each)
    rests = {found.rest[0].text for found in shown_at.values() if found.shown and INDENT not in found.shown[0].text}
    assert rests == {f"→ and yet another\n{INDENT}Some words.\n", f"{INDENT}Some words.\n"}


def test_a_heading_alone_is_no_beginning():
    text = f"m1 A long heading of many words\n{INDENT}Some words.\n"
    least = len(f"m1 A long heading of many words\n{INDENT}S …\n(more)\n")
    assert split(text, least - 1).smallest_budget == least
    assert shown(split(text, least)) == [f"m1 A long heading of many words\n{INDENT}S …\n"]
    assert split("m1 A long heading of many words\n", 20).shown == ()


def test_what_costs_less_whole_than_cut_needs_no_more_than_that():
    text = f"m1\n{INDENT}abc\n"
    assert len(text) < len(f"m1\n{INDENT}a …\n(more)\n")
    assert split(text, 3).smallest_budget == len(text)


def test_where_the_best_cannot_be_split_in_the_room_that_is_left_another_one_is():
    heading = "m1 a heading that is much too long for what is left here\n"
    portions = [
        Portion(f"{heading}{INDENT}words\n", splits=True),
        Portion(f"m2\n{INDENT}Some words. Others. More of them.\n", rank=1, splits=True),
    ]
    found = fit_portions(portions, budget=40, count=len, assemble=footed)
    assert shown(found) == [f"m2\n{INDENT}Some words. Others. …\n"]


def test_in_turn_only_the_next_one_is_split_or_named():
    portions = [Portion(f"m1 of old\n{INDENT}words\n"), Portion("m2\n", rank=1)]
    found = fit_portions(portions, budget=10, count=len, assemble=footed, in_turn=True)
    assert (found.shown, found.smallest_budget) == ((), len(f"m1 of old\n{INDENT}words\n(more)\n"))
    assert fit_portions(portions, budget=10, count=len, assemble=footed).shown == (portions[1],)


@st.composite
def entries(draw) -> list[Portion]:
    """Portions as they are made of memories: a heading at the margin, indented text."""
    made = []
    for place in range(draw(st.integers(0, 8))):
        lines = draw(st.text(st.sampled_from("ab é.\n"), max_size=60)).split("\n")
        text = f"m{place} heading\n" + "".join(f"{INDENT}{line}".rstrip() + "\n" for line in lines)
        made.append(Portion(text, "", draw(st.integers(0, 3)), draw(st.booleans()), f"m{place}"))
    return made


@given(entries(), st.integers(0, 200), st.booleans())
def test_between_what_is_shown_and_what_is_left_nothing_is_lost(portions, budget, in_turn):
    found = fit_portions(portions, budget=budget, count=len, assemble=footed, in_turn=in_turn)
    rests = {portion.name: portion.text for portion in found.rest}
    texts = {portion.name: portion.text for portion in found.shown}
    for portion in portions:
        if portion.name not in rests:
            assert texts[portion.name] == portion.text
        elif portion.name not in texts:
            assert rests[portion.name] == portion.text
        else:
            assert portion.splits
            head, tail = f"{portion.name} heading\n", f"{portion.name} (continued)\n{INDENT}"
            beginning, end = texts[portion.name].removesuffix(" …\n"), rests[portion.name].removeprefix(tail)
            assert beginning + end == portion.text
            assert len(beginning) > len(head)
            assert end.strip()
    assert sum(name in texts for name in rests) <= 1, "one is cut at most"


@given(
    st.lists(st.tuples(st.text(max_size=30), st.booleans(), st.integers(0, 3)), max_size=12),
    st.integers(0, 120),
    st.text(max_size=10),
    st.booleans(),
)
def test_the_budget_binds_and_what_is_shown_stays_in_order(made, budget, frame, in_turn):
    portions = [Portion(f"{place}{text}", "", rank, splits) for place, (text, splits, rank) in enumerate(made)]
    found = fit_portions(portions, budget=budget, count=len, assemble=plain(frame), in_turn=in_turn)
    assert len(found.text) <= budget
    if found.shown:
        assert found.text == plain(frame)(found.shown, False)
        places = [[int(each.text[0]) for each in some if each.text[:1].isdigit()] for some in (found.shown,)]
        assert all(numbers == sorted(numbers) for numbers in places if len(portions) < 10)
    elif portions:
        assert found.smallest_budget is not None
        assert found.smallest_budget > budget
        enough = found.smallest_budget
        assert fit_portions(portions, budget=enough, count=len, assemble=plain(frame), in_turn=in_turn).shown
