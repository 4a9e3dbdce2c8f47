"""What is chosen is worth its tokens: by value per token, where a group's first also pays its heading."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from satchel.pack import Item, choose

items_of = st.lists(
    st.builds(Item, st.integers(1, 9).map(float), st.integers(0, 12), st.integers(0, 3), st.booleans()),
    max_size=12,
)
costs = st.integers(0, 6)


def spent(items: list[Item], chosen: list[int], *, group_cost: int, base_cost: int) -> int:
    groups = {items[index].group for index in chosen}
    base = base_cost if chosen else 0
    return base + group_cost * len(groups) + sum(items[index].cost for index in chosen)


def one_by_one(items: list[Item], *, budget: int, group_cost: int, base_cost: int) -> list[int]:
    """The same rule without any bookkeeping: look at everything that fits now, take the best, look again."""
    chosen: list[int] = []
    room = budget - base_cost
    while True:
        groups = {items[index].group for index in chosen}
        prices = {
            index: item.cost + (0 if item.group in groups else group_cost)
            for index, item in enumerate(items)
            if index not in chosen
        }
        fitting = [index for index, price in prices.items() if price <= room]
        if not fitting:
            return chosen
        best = min(
            fitting,
            key=lambda index: (
                not items[index].ahead,
                -items[index].value / max(1, prices[index]),
                -items[index].value,
                index,
            ),
        )
        chosen.append(best)
        room -= prices[best]


def test_value_per_token_comes_before_value():
    items = [Item(9, 90, "a"), Item(5, 10, "a"), Item(4, 10, "a")]
    assert choose(items, budget=30, group_cost=0, base_cost=0) == [1, 2]


def test_equal_worth_is_taken_by_value_and_then_in_order():
    items = [Item(1, 10, "a"), Item(1, 10, "a"), Item(2, 20, "a")]
    assert choose(items, budget=100, group_cost=0, base_cost=0) == [2, 0, 1]


def test_what_does_not_fit_is_skipped_and_smaller_ones_still_come():
    items = [Item(100, 50, "a"), Item(1, 5, "a")]
    assert choose(items, budget=20, group_cost=0, base_cost=0) == [1]


def test_a_lone_item_pays_for_its_heading_and_its_neighbours_do_not():
    items = [Item(10, 10, "busy"), Item(9, 10, "lone"), Item(6, 10, "busy")]
    assert choose(items, budget=60, group_cost=10, base_cost=0) == [0, 2, 1]
    assert choose(items, budget=60, group_cost=0, base_cost=0) == [0, 1, 2]
    assert choose(items, budget=30, group_cost=10, base_cost=0) == [0, 2]


def test_the_base_is_paid_once_and_only_if_there_is_something():
    items = [Item(1, 10, "a"), Item(1, 10, "a")]
    assert choose(items, budget=19, group_cost=5, base_cost=5) == []
    assert choose(items, budget=20, group_cost=5, base_cost=5) == [0]
    assert choose(items, budget=30, group_cost=5, base_cost=5) == [0, 1]


def test_what_was_taken_has_paid_and_what_was_refused_stays_out():
    items = [Item(9, 10, "a"), Item(8, 10, "a"), Item(7, 10, "b")]
    assert choose(items, budget=25, group_cost=5, base_cost=5, taken=[0]) == [1, 2]
    assert choose(items, budget=25, group_cost=5, base_cost=5, taken=[0], refused=[1]) == [2]
    assert choose(items, budget=14, group_cost=5, base_cost=5, taken=[0], refused=[1]) == []


def test_what_is_ahead_comes_first_whatever_it_is_worth():
    items = [Item(9, 1, "a"), Item(1, 20, "b", True), Item(2, 30, "c", True)]
    assert choose(items, budget=100, group_cost=1, base_cost=0) == [2, 1, 0]
    assert choose(items, budget=21, group_cost=1, base_cost=0) == [1]


@given(items_of, st.integers(0, 60), costs, costs)
def test_it_never_spends_more_than_the_budget_and_takes_nothing_twice(items, budget, group_cost, base_cost):
    chosen = choose(items, budget=budget, group_cost=group_cost, base_cost=base_cost)
    assert len(set(chosen)) == len(chosen)
    assert spent(items, chosen, group_cost=group_cost, base_cost=base_cost) <= budget


@given(items_of, st.integers(0, 60), costs, costs)
def test_it_takes_what_looking_at_everything_again_each_time_would_take(items, budget, group_cost, base_cost):
    given_costs = {"budget": budget, "group_cost": group_cost, "base_cost": base_cost}
    assert choose(items, **given_costs) == one_by_one(items, **given_costs)


@given(items_of, costs, costs)
def test_with_room_for_all_everything_is_taken(items, group_cost, base_cost):
    chosen = choose(items, budget=10_000, group_cost=group_cost, base_cost=base_cost)
    assert sorted(chosen) == list(range(len(items)))


@given(st.lists(st.integers(1, 9), max_size=12), costs)
def test_of_equal_cost_more_budget_only_adds(values, base_cost):
    items = [Item(float(value), 5, "a") for value in values]
    chosen = [choose(items, budget=budget, group_cost=3, base_cost=base_cost) for budget in range(0, 80, 5)]
    assert all(more[: len(less)] == less for less, more in itertools.pairwise(chosen))


@given(items_of, st.integers(0, 60), costs, costs, st.integers(0, 12))
def test_a_choice_that_goes_on_stays_within_what_is_left(items, budget, group_cost, base_cost, cut):
    whole = choose(items, budget=budget, group_cost=group_cost, base_cost=base_cost)
    first = whole[:cut]
    room = budget - spent(items, first, group_cost=group_cost, base_cost=base_cost)
    more = choose(items, budget=room, group_cost=group_cost, base_cost=base_cost, taken=first)
    assert first + more == whole
