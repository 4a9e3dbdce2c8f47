"""Budgets: defaults, scaling, and invalid combinations."""

import msgspec
import pytest

from satchel.errors import BudgetError, InputError
from satchel.session.budget import TIERS, WINDOW_OF_MODEL, Budget, context_window
from tables import each_row

_DECODER = msgspec.json.Decoder(Budget)


def test_the_defaults_share_out_a_hundred_thousand_tokens() -> None:
    budget = Budget()
    assert budget.tiers() == {
        "system": 8_000,
        "history": 12_000,
        "tool_results": 40_000,
        "user": 10_000,
        "response_reserve": 30_000,
    }
    assert (budget.total, budget.per_call, budget.warn_below, budget.critical_below, budget.low) == (
        100_000,
        8_000,
        20_000,
        10_000,
        0.7,
    )


def test_a_total_alone_scales_every_tier_and_the_calls_share() -> None:
    budget = Budget(total=200_000)
    assert [getattr(budget, tier) for tier in TIERS] == [16_000, 24_000, 80_000, 20_000, 60_000]
    assert budget.per_call == 16_000


def test_warnings_keep_their_distance_in_large_budgets_and_shrink_with_small_ones() -> None:
    large, small = Budget(total=1_000_000), Budget(total=50_000)
    assert (large.warn_below, large.critical_below) == (20_000, 10_000)
    assert (small.warn_below, small.critical_below) == (10_000, 5_000)


@pytest.mark.parametrize("total", [1, 2, 9, 77_777, 1_000_003, 100_000_000])
def test_tiers_never_take_more_than_the_total(total: int) -> None:
    budget = Budget(total=total)
    assert sum(budget.tiers().values()) <= total
    assert 0 <= budget.critical_below <= budget.warn_below <= total
    assert budget.per_call <= budget.tool_results


def test_tiers_that_are_not_given_share_what_the_given_ones_leave() -> None:
    budget = Budget(tool_results=60_000)
    assert [budget.system, budget.history, budget.user, budget.response] == [5_333, 8_000, 6_666, 20_000]


def test_a_small_tier_gives_nothing_to_the_others() -> None:
    assert Budget(tool_results=10_000).response == 30_000


def test_a_call_gets_no_more_than_the_tier_of_tool_results() -> None:
    assert Budget(tool_results=5_000).per_call == 5_000


def test_all_tiers_given_may_fill_the_total_exactly() -> None:
    budget = Budget(total=15, system=1, history=2, tool_results=3, user=4, response=5)
    assert sum(budget.tiers().values()) == 15


def test_one_threshold_given_bounds_the_other() -> None:
    assert Budget(warn_below=4_000).critical_below == 4_000
    assert Budget(critical_below=30_000).warn_below == 30_000


@each_row(
    ("numbers", "words"),
    [
        ({"total": 0}, "total is 0"),
        ({"total": -1}, "total -1 is negative"),
        ({"total": 2.5}, "total 2.5 is not a whole number of tokens"),
        ({"history": "many"}, "history 'many' is not a whole number of tokens"),
        ({"user": True}, "user True is not a whole number"),
        ({"total": 10**9}, "total 1000000000 is out of range"),
        (
            {"system": 60_000, "user": 50_000},
            "system, user take 110,000 tokens together, more than the total of 100,000",
        ),
        ({"per_call": 50_000}, "per_call 50,000 is more than the 40,000 tokens of tool_results"),
        ({"warn_below": 5, "critical_below": 6}, "critical_below 6 is above warn_below 5"),
        ({"total": 100, "warn_below": 101}, "warn_below 101 is above the total of 100"),
        ({"low": 1}, "low 1 is not a number between 0 and 1"),
        ({"low": 0.0}, "low 0.0 is not"),
        ({"low": float("nan")}, "low nan is not"),
        ({"low": "0.5"}, "low '0.5' is not"),
    ],
)
def test_numbers_that_cannot_be_are_refused_by_name(numbers: dict[str, object], words: str) -> None:
    with pytest.raises(BudgetError) as caught:
        Budget(**numbers)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_budget_comes_back_from_json_as_it_was() -> None:
    for budget in (Budget(), Budget(total=77_777, history=1, low=0.5), Budget(total=3)):
        assert _DECODER.decode(msgspec.json.encode(budget)) == budget


def test_json_of_a_total_alone_is_filled_in() -> None:
    assert _DECODER.decode(b'{"total": 50000}') == Budget(total=50_000)


def test_numbers_given_as_text_are_numbers_afterwards() -> None:
    assert Budget(total="50000") == Budget(total=50_000)  # type: ignore[arg-type]


def test_nothing_given_is_the_default() -> None:
    assert Budget(total=None, history=None) == Budget()  # type: ignore[arg-type]


def test_a_model_gives_half_its_window() -> None:
    assert Budget.for_model("claude-sonnet-4-5") == Budget(total=100_000)
    assert Budget.for_model("openai/gpt-4o-mini").total == 64_000


@each_row(
    ("name", "window"),
    [
        ("claude-opus-4-20250514", 200_000),
        ("us.anthropic.claude-opus-4-6-v1:0", 1_000_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("gpt-4-1106-preview", 128_000),
        ("gpt-4.1-nano", 1_047_576),
        ("gpt-4-0613", 8_192),
        ("GPT_5 mini", 400_000),
        ("o3-mini", 200_000),
        ("models/gemini-2.5-flash", 1_048_576),
        ("meta.llama3-1-70b-instruct-v1:0", 131_072),
        ("llama3:8b", 8_192),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 262_144),
        ("deepseek-reasoner", 128_000),
    ],
)
def test_windows_are_found_by_the_longest_beginning_of_the_name(name: str, window: int) -> None:
    assert context_window(name) == window


def test_every_listed_name_finds_its_own_window() -> None:
    assert {name: context_window(name) for name in WINDOW_OF_MODEL} == WINDOW_OF_MODEL


def test_an_unknown_model_is_refused_with_near_names() -> None:
    with pytest.raises(InputError, match=r"model 'gtp-5'; did you mean gpt-5"):
        context_window("gtp-5")
    with pytest.raises(InputError, match=r"model 'zzz'; give the total"):
        Budget.for_model("zzz")
    with pytest.raises(InputError, match="model 3 is not a string"):
        context_window(3)  # type: ignore[arg-type]
