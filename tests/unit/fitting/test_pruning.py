"""Which candidates are considered: none that are superseded, irrelevant or duplicates."""

from satchel.fitting.packing import ALWAYS_CONSIDERED, Verdict, prune
from satchel.model.packing import Item


def item(name: str, text: str | None = None, **fields: object) -> Item:
    return Item(id=name, text=text or f"Text of {name}.", **fields)


def test_what_is_left_comes_with_the_pinned_first_and_then_by_rank():
    items = [item("a"), item("b", pinned=True), item("c"), item("d", pinned=True)]
    assert prune(items, budget=100) == ([1, 3, 0, 2], {})


def test_what_is_superseded_by_another_candidate_is_left_out():
    items = [item("old", superseded_by="new"), item("new"), item("lost", superseded_by="elsewhere")]
    assert prune(items, budget=100) == ([1, 2], {0: Verdict("superseded", 1)})


def test_what_is_not_relevant_is_left_out_unless_it_is_pinned():
    items = [item("a"), item("b", relevant=False), item("c", relevant=False, pinned=True)]
    found = prune(items, budget=100)
    assert found == ([2, 0], {1: Verdict("not relevant")})
    assert (found.irrelevant, found.wanted) == (1, 2)


def test_what_repeats_another_is_left_out_and_names_it():
    items = [item("a", "We use Go."), item("b", "We use Go."), item("c", "we use the go"), item("d", "We use C.")]
    assert prune(items, budget=100) == (
        [0, 3],
        {1: Verdict("duplicate", 0), 2: Verdict("duplicate", 0)},
    )


def test_of_two_that_say_the_same_the_pinned_one_stays():
    items = [item("a", "We use Go."), item("b", "we use go!", pinned=True)]
    assert prune(items, budget=100) == ([1], {0: Verdict("duplicate", 1)})


def test_what_was_superseded_is_no_reason_to_leave_out_its_repetition():
    items = [item("a", "We use Go.", superseded_by="c"), item("b", "We use Go."), item("c")]
    assert prune(items, budget=100).considered == [1, 2]


def test_of_very_many_the_most_promising_are_looked_at_and_the_best_in_any_case():
    long = [item(f"long{n}", f"long{n} " * 500, value=0.9) for n in range(ALWAYS_CONSIDERED)]
    poor = [item(f"poor{n}", f"poor{n} " * 500, value=0.01) for n in range(500)]
    short = [item(f"short{n}", value=0.5) for n in range(100)]
    pinned = item("pinned", "pinned " * 900, value=0.001, pinned=True)
    items = [*long, *poor, *short, pinned]
    found = prune(items, budget=50)
    names = {items[place].id for place in found.considered}
    assert {each.id for each in (*long[:-1], *short, pinned)} <= names
    assert set(found.verdicts.values()) == {Verdict("over budget")}
    assert len(found.considered) + len(found.verdicts) == len(items)
    assert len(found.considered) < 400


def test_without_a_budget_all_are_looked_at():
    items = [item(f"n{number}", f"n{number} " * 200) for number in range(600)]
    assert len(prune(items, budget=None).considered) == 600
    assert len(prune(items, budget=100).considered) < 600


def test_a_larger_budget_looks_at_all_that_a_smaller_one_did():
    items = [
        item(f"n{number}", f"n{number} " * (number % 90 + 1), value=1 / (number % 13 + 1)) for number in range(900)
    ]
    looked_at = [set(prune(items, budget=budget).considered) for budget in (0, 50, 500, 5_000)]
    assert looked_at[0] < looked_at[1] < looked_at[2] < looked_at[3]


def test_nothing_gives_nothing():
    assert prune([], budget=0) == ([], {})
