"""The engine assembles final texts, counts them, and returns only what is within the budget."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from satchel.fitting.engine import Assembly, Attempt, budget_that_holds, largest, with_less_room

pieces = st.lists(st.text("ab ", min_size=1, max_size=8), max_size=8)


def bracketed(chosen: Mapping[int, str]) -> str:
    """The joints cost something, so that a text costs more than its parts."""
    return "<" + "--".join(chosen.values()) + ">"


@given(number=st.integers(0, 200), most=st.integers(0, 250))
def test_the_largest_number_that_fits_is_found_in_few_tries(number, most):
    tried = []
    found = largest(number, lambda each: bool(tried.append(each)) or each <= most)
    assert found == min(number, most)
    assert 0 not in tried
    assert len(tried) <= number.bit_length()


@given(number=st.integers(1, 200), most=st.integers(0, 250), guess=st.integers(0, 250))
def test_a_guess_changes_the_tries_and_not_what_is_found(number, most, guess):
    found = largest(number, lambda each: each <= most, next_try=lambda low, high: min(max(low, guess), high))
    assert found == min(number, most)


@given(texts=pieces, budget=st.integers(0, 40))
def test_what_an_assembly_takes_is_within_its_budget_and_in_order(texts, budget):
    assembly = Assembly(bracketed, budget=budget, count=len)
    worst_last = dict(reversed(list(enumerate(texts))))
    assembly.take_most(dict(worst_last))
    kept = list(assembly.chosen)
    assert kept == sorted(kept)
    assert assembly.token_count == len(assembly.text) <= budget
    # What stays are the first ones of the mapping, as many as fit.
    assert set(kept) == set(list(worst_last)[: len(kept)])
    more = dict(list(worst_last.items())[: len(kept) + 1])
    assert len(more) == len(kept) or assembly.cost(more) > budget


@given(texts=pieces, budget=st.integers(0, 40))
def test_a_choice_that_does_not_fit_leaves_what_was_taken(texts, budget):
    assembly = Assembly(bracketed, budget=budget, count=len)
    assembly.take_most(dict(enumerate(texts)))
    before = assembly.chosen, assembly.text, assembly.token_count
    too_much = assembly.chosen | {99: "x" * 50}
    assert not assembly.take(too_much)
    assert assembly.over == assembly.cost(too_much) - budget
    assert before == (assembly.chosen, assembly.text, assembly.token_count)


def test_what_stands_beside_is_never_dropped():
    assembly = Assembly(bracketed, budget=9, count=len)
    assert assembly.take({1: "b"})
    assembly.take_most({0: "a", 2: "c", 3: "d"}, beside=assembly.chosen)
    assert assembly.text == "<a--b--c>"
    assembly.take_most({4: "e"}, beside=assembly.chosen)
    assert assembly.text == "<a--b--c>"


@given(texts=pieces, budget=st.integers(0, 12))
def test_the_least_is_taken_or_its_cost_is_told(texts, budget):
    assembly = Assembly(bracketed, budget=budget, count=len)
    needed = assembly.take_least(enumerate(texts))
    least = min(map(len, texts), default=None)
    if least is None:
        assert (needed, assembly.chosen) == (None, {})
    elif least + 2 <= budget:
        assert needed is None
        assert len(assembly.text) == least + 2
    else:
        assert needed == least + 2
        assert not assembly.chosen


def test_with_less_room_shrinks_by_what_was_over_until_it_fits_or_gives_up():
    rooms = []

    def attempt(room: int) -> Attempt[int] | None:
        rooms.append(room)
        return Attempt(room, over=room + 3 - 10) if room > 0 else None

    assert with_less_room(12, attempt) == 7
    assert rooms == [12, 7]
    assert with_less_room(12, lambda room: Attempt(room, over=5) if room > 0 else None) is None
    assert with_less_room(12, lambda room: Attempt(room, over=1), tries=4) is None


def test_the_next_room_is_less_than_what_was_used():
    rooms = []
    with_less_room(100, lambda room: rooms.append(room) or (Attempt(0, over=2, used=40) if room > 39 else None))
    assert rooms == [100, 38]


def test_a_budget_that_is_stated_is_found_with_its_own_length():
    def cost(budget: int) -> int:
        return len(f"{'x' * 97} {budget}")

    assert budget_that_holds(cost, 99) == 101
    assert cost(101) <= 101
    assert budget_that_holds(cost, 500) == 500
