"""Numbers from callers are checked, and the message contains the value."""

import pytest

import satchel
from satchel.model.checks import MAX_BUDGET, check_budget, check_limit, check_weight
from tables import each_row


@pytest.mark.parametrize(("given", "expected"), [(None, None), (0, 0), (7, 7), ("800", 800), (MAX_BUDGET,) * 2])
def test_a_whole_number_is_a_budget_and_none_means_no_cap(given, expected):
    assert check_budget(given) == expected


@each_row("given", [-1, 1.5, 2.0, "1.5", "-3", "many", "", "1e3", True, float("nan"), [], MAX_BUDGET + 1, "9" * 40])
def test_any_other_budget_is_refused_with_its_value(given):
    with pytest.raises(satchel.BudgetError) as refusal:
        check_budget(given)
    assert str(given) in str(refusal.value) or repr(given) in str(refusal.value)


@pytest.mark.parametrize("given", [0, -1, 10_001, 1.5, "x", None, True])
def test_a_limit_outside_its_range_is_refused(given):
    with pytest.raises(satchel.InputError, match="limit"):
        check_limit(given)


def test_zero_is_a_limit_where_it_makes_sense():
    assert check_limit("0", name="before", least=0) == 0


@each_row("given", [-0.1, 1.1, float("nan"), float("inf"), 10**400, -(10**400), "0.5", None, True])
def test_a_weight_outside_zero_to_one_is_refused(given):
    with pytest.raises(satchel.InputError, match="importance"):
        check_weight(given, name="importance")


def test_whole_numbers_are_weights_too():
    assert [check_weight(given, name="importance") for given in (0, 1, 0.25)] == [0.0, 1.0, 0.25]
