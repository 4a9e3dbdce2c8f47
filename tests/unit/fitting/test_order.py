"""Order by value per token, for any budget; the first item under a heading pays for it."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from satchel.fitting.choice import ATTENTION, NOTHING, Offer, Option, Step, by_value_per_token, whole


def offer(item: int, *options: tuple[int, int], section: int = 0, group: int = 0) -> Offer:
    return Offer(item, [Option(cost, value) for cost, value in options], section, group)


def order(*offers: Offer, sections: tuple[int, ...] = (0,), groups: tuple[int, ...] = (0,)) -> list[Step]:
    return list(by_value_per_token(offers, sections=sections, groups=groups))


def taken(steps: list[Step]) -> list[tuple[int, int]]:
    return [(step.item, step.level) for step in steps]


def test_value_per_token_comes_before_value():
    assert taken(order(offer(0, (90, 90)), offer(1, (10, 50)), offer(2, (10, 40)))) == [(1, 0), (2, 0), (0, 0)]


def test_a_line_takes_attention_beside_its_tokens_so_that_one_word_does_not_win():
    """By tokens alone the word would be worth 10 a token and the sentence 9."""
    assert taken(order(offer(0, (1, 10)), offer(1, (20, 180)))) == [(1, 0), (0, 0)]


def test_equals_come_by_value_and_then_in_order():
    same = offer(0, (17, 20)), offer(1, (17, 20)), offer(2, (37, 40))
    assert taken(order(*same)) == [(2, 0), (0, 0), (1, 0)]


def test_the_first_under_a_heading_pays_for_it_and_its_neighbours_come_cheaper():
    offers = [offer(0, (10, 100)), offer(1, (10, 90), group=1), offer(2, (10, 60))]
    assert taken(order(*offers, groups=(0, 0))) == [(0, 0), (1, 0), (2, 0)]
    assert taken(order(*offers, groups=(10, 10))) == [(0, 0), (2, 0), (1, 0)]


def test_opening_a_section_makes_all_that_stand_in_it_cheaper():
    offers = [
        offer(0, (10, 100), section=0, group=0),
        offer(1, (10, 90), section=1, group=1),
        offer(2, (10, 80), section=0, group=2),
    ]
    assert taken(order(*offers, sections=(20, 20), groups=(0, 0, 0))) == [(0, 0), (2, 0), (1, 0)]


def test_an_item_is_raised_step_by_step_where_each_step_is_worth_less_for_a_token():
    steps = order(offer(7, (5, 50), (20, 100), (100, 120)), offer(8, (10, 30)))
    assert [(s.item, s.before, s.level, s.cost, s.value) for s in steps] == [
        (7, NOTHING, 0, 5, 50),
        (7, 0, 1, 15, 50),
        (8, NOTHING, 0, 10, 30),
        (7, 1, 2, 80, 20),
    ]


def test_a_level_that_is_a_bad_bargain_is_skipped():
    assert taken(order(offer(0, (10, 5), (20, 100)))) == [(0, 1)]
    assert taken(order(offer(0, (10, 50), (20, 50), (30, 60)))) == [(0, 0), (0, 2)]


def test_a_part_that_costs_more_than_the_whole_is_not_offered():
    assert taken(order(offer(0, (30, 50), (20, 100)))) == [(0, 1)]


def test_whole_takes_the_last_level_at_once():
    assert whole(offer(3, (5, 50), (20, 100), section=1, group=2)) == Step(3, 1, NOTHING, 20, 0, 100, 1, 2)


options = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 99)), min_size=1, max_size=4)
offers_of = st.lists(st.tuples(options, st.integers(0, 1), st.integers(0, 1)), max_size=8).map(
    lambda drawn: [
        offer(item, *levels, section=section, group=2 * section + group)
        for item, (levels, section, group) in enumerate(drawn)
    ]
)


@given(offers_of, st.integers(0, 20), st.integers(0, 20))
def test_every_item_is_taken_once_and_raised_from_where_it_is(offers, section, group):
    steps = order(*offers, sections=(section,) * 2, groups=(group,) * 4)
    assert {step.item for step in steps} == {each.item for each in offers}
    levels: dict[int, int] = {}
    for step in steps:
        assert step.before == levels.get(step.item, NOTHING)
        levels[step.item] = step.level
    for each in offers:
        assert each.options[levels[each.item]].value == max(option.value for option in each.options)


@given(offers_of)
def test_without_headings_the_steps_fall_in_worth(offers):
    steps = order(*offers, sections=(0, 0), groups=(0, 0, 0, 0))
    worth = [step.value / max(1, step.cost + ATTENTION * step.first) for step in steps if step.first]
    assert all(more >= less for more, less in itertools.pairwise(worth))
