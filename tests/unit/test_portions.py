"""The assembled text decides what fits, not the sum of the parts; what is left out is there for later."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from satchel.portions import Assemble, Portion, Portioned, joined, portioned
from satchel.render import INDENT


def plain(frame: str = "") -> Assemble:
    return lambda shown, whole: frame + "".join(portion.text for portion in shown)


def footed(shown: Sequence[Portion], whole: bool) -> str:
    return joined(shown) + ("" if whole else "(more)\n")


def fitted(texts: Sequence[str], budget: int | None, frame: str = "") -> Portioned:
    return portioned([Portion(text) for text in texts], budget=budget, count=len, assemble=plain(frame))


def shown(found: Portioned) -> list[str]:
    return [portion.text for portion in found.shown]


def test_without_a_budget_everything_is_kept():
    assert shown(fitted(["aaa", "bb"], None)) == ["aaa", "bb"]


def test_what_does_not_fit_is_skipped_and_smaller_portions_still_come():
    found = fitted(["a" * 10, "b" * 50, "c" * 5], 20)
    assert (found.text, found.rest) == ("a" * 10 + "c" * 5, (Portion("b" * 50),))


def test_in_turn_nothing_comes_after_the_first_that_does_not_fit():
    texts = ["a" * 10, "b" * 50, "c" * 5]
    found = portioned(list(map(Portion, texts)), budget=20, count=len, assemble=plain(), in_turn=True)
    assert (found.text, len(found.rest)) == ("a" * 10, 2)


def test_a_first_portion_that_is_too_large_does_not_empty_the_answer():
    assert shown(fitted(["a" * 100, "b"], 10)) == ["b"]


def test_the_frame_counts_too():
    found = fitted(["aaaa", "bbbb"], 9, frame="<<>>")
    assert (shown(found), len(found.text)) == (["aaaa"], 8)


def test_a_whole_that_costs_more_than_its_parts_is_cut_until_it_fits():
    portions = [Portion("aa"), Portion("bb"), Portion("cc")]
    count = lambda text: len(text) + text.count("ab") * 3  # noqa: E731
    assert portioned(portions, budget=6, count=count, assemble=plain()).text == "aa"


def test_nothing_fits_names_the_smallest_budget_that_would():
    found = fitted(["a" * 30, "b" * 20], 10)
    assert (found.shown, found.text, found.smallest_budget) == ((), "", 20)


def test_an_empty_frame_that_fits_is_still_given():
    found = fitted(["a" * 30], 10, frame="{}")
    assert (found.shown, found.text, found.smallest_budget) == ((), "{}", 32)


def test_no_portions_and_no_room_give_no_text():
    assert fitted([], 1, frame="{}") == Portioned("", (), ())


def test_the_lowest_rank_is_taken_first_and_shown_in_its_place():
    portions = [Portion("old\n", rank=2), Portion("focus\n", rank=0), Portion("new\n", rank=1)]
    assert portioned(portions, budget=10, count=len, assemble=plain()).text == "focus\nnew\n"


def test_a_heading_stands_only_over_what_is_shown():
    portions = [Portion("a\n", section="## One"), Portion("b" * 50, section="## Two"), Portion("c\n", section="## Two")]
    assert portioned(portions, budget=40, count=len, assemble=footed).text == "## One\na\n\n## Two\nc\n(more)\n"
    assert portioned(portions[:2], budget=30, count=len, assemble=footed).text == "## One\na\n(more)\n"


def test_what_can_be_split_shows_its_beginning_and_the_rest_goes_on_from_the_very_character():
    text = INDENT + "One sentence stands here. Another one follows it. And so on, for ever.\n"
    found = portioned([Portion(text, splits=True)], budget=50, count=len, assemble=footed)
    (first,), (rest,) = found.shown, found.rest
    assert len(found.text) <= 50
    assert first.text.endswith(" …\n")
    assert first.text.removesuffix(" …\n") + rest.text.removeprefix(INDENT) == text


@given(
    st.lists(st.tuples(st.text(max_size=30), st.booleans(), st.integers(0, 3)), max_size=12),
    st.integers(0, 120),
    st.text(max_size=10),
    st.booleans(),
)
def test_the_budget_binds_and_what_is_shown_stays_in_order(made, budget, frame, in_turn):
    portions = [Portion(f"{place}{text}", "", rank, splits) for place, (text, splits, rank) in enumerate(made)]
    found = portioned(portions, budget=budget, count=len, assemble=plain(frame), in_turn=in_turn)
    assert len(found.text) <= budget
    if found.shown:
        assert found.text == plain(frame)(found.shown, False)
        places = [[int(each.text[0]) for each in some if each.text[:1].isdigit()] for some in (found.shown,)]
        assert all(numbers == sorted(numbers) for numbers in places if len(portions) < 10)
    elif portions:
        assert found.smallest_budget is not None
        assert found.smallest_budget > budget
        enough = found.smallest_budget
        assert portioned(portions, budget=enough, count=len, assemble=plain(frame), in_turn=in_turn).shown
