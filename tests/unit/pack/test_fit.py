"""The assembled text decides what fits, not the sum of the parts."""

from hypothesis import given
from hypothesis import strategies as st

from satchel.pack import fit


def joined(parts: list[str], frame: str = ""):
    return lambda kept: frame + "".join(parts[index] for index in kept)


def test_without_a_budget_everything_is_kept():
    parts = ["aaa", "bb"]
    assert fit(parts, budget=None, count=len, assemble=joined(parts)).kept == (0, 1)


def test_what_does_not_fit_is_skipped_and_smaller_parts_still_come():
    parts = ["a" * 10, "b" * 50, "c" * 5]
    found = fit(parts, budget=20, count=len, assemble=joined(parts))
    assert (found.kept, found.text) == ((0, 2), "a" * 10 + "c" * 5)


def test_a_first_part_that_is_too_large_does_not_empty_the_result():
    parts = ["a" * 100, "b"]
    assert fit(parts, budget=10, count=len, assemble=joined(parts)).kept == (1,)


def test_the_frame_counts_too():
    parts = ["aaaa", "bbbb"]
    found = fit(parts, budget=9, count=len, assemble=joined(parts, frame="<<>>"))
    assert (found.kept, len(found.text)) == ((0,), 8)


def test_a_whole_that_costs_more_than_its_parts_is_cut_until_it_fits():
    parts = ["aa", "bb", "cc"]
    found = fit(parts, budget=6, count=lambda text: len(text) + text.count("ab") * 3, assemble=joined(parts))
    assert found.text == "aa"


def test_nothing_fits_names_the_smallest_budget_that_would():
    parts = ["a" * 30, "b" * 20]
    found = fit(parts, budget=10, count=len, assemble=joined(parts))
    assert (found.kept, found.text, found.smallest_budget) == ((), "", 20)


def test_an_empty_frame_that_fits_is_still_given():
    parts = ["a" * 30]
    found = fit(parts, budget=10, count=len, assemble=joined(parts, frame="{}"))
    assert (found.kept, found.text, found.smallest_budget) == ((), "{}", 32)


@given(st.lists(st.text(max_size=30), max_size=12), st.integers(0, 120), st.text(max_size=10))
def test_the_budget_binds_and_what_is_kept_stays_in_order(parts, budget, frame):
    found = fit(parts, budget=budget, count=len, assemble=joined(parts, frame))
    assert len(found.text) <= budget
    assert list(found.kept) == sorted(set(found.kept))
    if found.kept:
        assert found.text == joined(parts, frame)(found.kept)
    elif parts:
        assert found.smallest_budget is not None
        assert fit(parts, budget=found.smallest_budget, count=len, assemble=joined(parts, frame)).kept
