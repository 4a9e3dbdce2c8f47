"""Choices for many budgets at once: each column as if computed alone, headings paid once, the best never worse."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from satchel.fitting.choice import NOTHING, Step, Table, rooms_up_to, tabulate


def step(
    item: int, cost: int, value: int = 1, *, level: int = 0, before: int = NOTHING, section: int = 0, group: int = 0
) -> Step:
    return Step(item, level, before, cost, cost, value, section, group)


def table(
    steps: list[Step],
    rooms: list[int],
    sections: tuple[int, ...] = (0,),
    groups: tuple[int, ...] = (0,),
    stop: bool = False,
) -> Table:
    return tabulate(steps, rooms, cost=lambda step: step.cost, sections=sections, groups=groups, stop=stop)


def items(found: Table, column: int) -> list[int]:
    return [each.item for each in found.chosen(column)]


def test_what_does_not_fit_is_skipped_and_smaller_steps_still_come():
    assert items(table([step(0, 50), step(1, 5)], [20]), 0) == [1]


def test_stopping_takes_nothing_after_the_first_that_does_not_fit():
    steps = [step(0, 5), step(1, 50), step(2, 5)]
    assert items(table(steps, [20]), 0) == [0, 2]
    assert items(table(steps, [20], stop=True), 0) == [0]
    assert items(table(steps, [60], stop=True), 0) == [0, 1, 2]


def test_a_heading_is_paid_once_by_the_first_under_it():
    steps = [step(0, 5, section=0, group=0), step(1, 5, section=0, group=0), step(2, 5, section=0, group=1)]
    columns = table(steps, [16, 17, 21, 22, 24, 25], sections=(10,), groups=(2, 3))
    assert [items(columns, column) for column in range(6)] == [[], [0], [0], [0, 1], [0, 1], [0, 1]]
    assert items(table(steps, [30], sections=(10,), groups=(2, 3)), 0) == [0, 1, 2]


def test_a_heading_is_not_paid_by_what_was_skipped():
    steps = [step(0, 90), step(1, 5)]
    assert items(table(steps, [15], sections=(10,)), 0) == [1]
    assert items(table(steps, [14], sections=(10,)), 0) == []


def test_an_item_is_raised_only_where_it_was_taken():
    steps = [step(0, 10, 5), step(0, 20, 7, level=1, before=0)]
    found = table(steps, [9, 10, 29, 30])
    assert [[each.level for each in found.chosen(column)] for column in range(4)] == [[], [0], [0], [0, 1]]
    assert found.values.tolist() == [0, 5, 5, 12]


def test_a_raise_from_a_level_that_did_not_fit_is_not_taken():
    steps = [step(0, 10), step(0, 50, level=1, before=0), step(0, 5, level=2, before=1)]
    assert [each.level for each in table(steps, [20]).chosen(0)] == [0]


def test_a_step_that_turns_out_dearer_than_it_looked_is_not_taken():
    guessed = [step(0, 10)._replace(at_least=5), step(1, 10)]
    found = tabulate(guessed, [15], cost=lambda each: 16 if each.item == 0 else 10, sections=[0], groups=[0])
    assert items(found, 0) == [1]


def test_the_exact_cost_is_asked_for_only_where_there_may_be_room():
    asked = []

    def cost(each: Step) -> int:
        asked.append(each.item)
        return each.cost

    tabulate([step(0, 500), step(1, 5)], [20], cost=cost, sections=[0], groups=[0])
    assert asked == [1]


def test_the_best_column_is_the_last_of_equals():
    assert Table([], [3, 5, 4, 5, 2]).best().tolist() == [0, 1, 1, 3, 3]


def test_the_rooms_of_a_budget_are_among_those_of_a_larger_one():
    rooms = [rooms_up_to(most) for most in (0, 1, 63, 64, 500, 513, 5_000, 70_000, 2_000_000)]
    assert rooms[0] == [0]
    for smaller, larger in itertools.pairwise(rooms):
        assert larger[: len(smaller)] == smaller
    assert all(len(each) < 2_000 for each in rooms)
    assert all(each == sorted(set(each)) for each in rooms)


def test_a_room_that_is_looked_at_is_not_far_below_any_budget():
    for most in (40, 100, 1_000, 5_000, 100_000):
        assert most - rooms_up_to(most)[-1] <= most / 16


step_lists = st.lists(
    st.builds(step, st.integers(0, 9), st.integers(0, 30), st.integers(1, 9), group=st.integers(0, 2)),
    max_size=10,
    unique_by=lambda each: each.item,
)


def one_room(steps: list[Step], room: int, groups: tuple[int, ...], stop: bool) -> list[int]:
    opened, kept = set(), []
    for each in steps:
        price = each.cost + (0 if each.group in opened else groups[each.group])
        if price <= room:
            room -= price
            opened.add(each.group)
            kept.append(each.item)
        elif stop:
            break
    return kept


@given(step_lists, st.booleans())
def test_each_column_is_as_if_it_were_alone(steps, stop):
    groups, rooms = (4, 0, 7), list(range(0, 90, 7))
    found = table(steps, rooms, groups=groups, stop=stop)
    for column, room in enumerate(rooms):
        assert items(found, column) == one_room(steps, room, groups, stop)
        assert found.values[column] == sum(each.value for each in found.chosen(column))


@given(step_lists)
def test_the_best_never_falls_as_the_room_grows(steps):
    found = table(steps, list(range(100)), groups=(4, 0, 7))
    best = [int(found.values[column]) for column in found.best()]
    assert best == sorted(best)
    assert best[-1] == max(found.values)
