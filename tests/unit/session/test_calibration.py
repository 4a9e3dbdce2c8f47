"""Calibration of a counter with the token counts that providers report."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.errors import InputError
from satchel.session.account import Calibration, reported_tokens


def observed(pairs: list[tuple[int, int]], *, start: Calibration | None = None) -> Calibration:
    calibration = start or Calibration()
    for counted, reported in pairs:
        calibration = calibration.with_observation(counted, reported)
    return calibration


def test_one_observation_tells_the_overhead_and_no_slope() -> None:
    calibration = Calibration().with_observation(10_000, 13_000)
    assert (calibration.slope, calibration.overhead) == (1.0, 3_000)


def test_an_overhead_is_never_below_nothing() -> None:
    assert Calibration().with_observation(10_000, 9_000).overhead == 0


@pytest.mark.parametrize("pairs", [[(100, 500), (400, 4_000)], [(100_000, 110_000), (105_000, 180_000)]])
def test_prompts_of_nearly_one_size_leave_the_slope_as_it_was(pairs: list[tuple[int, int]]) -> None:
    assert observed(pairs * 3, start=Calibration(slope=1.2)).slope == 1.2


def test_two_prompts_that_differ_enough_tell_the_slope() -> None:
    calibration = observed([(1_000, 1_700), (11_000, 13_700)])
    assert calibration.slope == pytest.approx(1.2)
    assert calibration.overhead == 500


@settings(max_examples=30, deadline=None)
@given(
    slope=st.floats(0.5, 3.0),
    overhead=st.integers(0, 20_000),
    counts=st.lists(st.integers(0, 200_000), min_size=3, max_size=40, unique=True),
)
def test_exact_lines_are_recovered(slope: float, overhead: int, counts: list[int]) -> None:
    counts = [*counts, 300_000, 400_000]
    calibration = observed([(count, round(slope * count) + overhead) for count in counts])
    assert calibration.slope == pytest.approx(slope, rel=0.005)
    assert calibration.overhead == pytest.approx(overhead, abs=0.005 * 400_000)


@settings(max_examples=30, deadline=None)
@given(place=st.integers(0, 9), wild=st.integers(0, 1_000_000))
def test_one_wild_report_among_ten_hardly_moves_it(place: int, wild: int) -> None:
    pairs = [(count, round(1.3 * count) + 4_000) for count in range(10_000, 110_000, 10_000)]
    pairs[place] = (pairs[place][0], wild)
    calibration = observed(pairs)
    assert calibration.slope == pytest.approx(1.3, rel=0.03)
    assert calibration.overhead == pytest.approx(4_000, abs=1_500)


def test_slopes_stay_within_what_counters_can_differ() -> None:
    assert observed([(1_000, 1_000), (10_000, 100_000)]).slope == 3.0
    assert observed([(1_000, 9_000), (10_000, 1_000)]).slope == 0.5


def test_only_the_last_observations_are_kept_and_count() -> None:
    old = [(count, 2 * count) for count in range(1_000, 41_000, 1_000)]
    new = [(count, count + 500) for count in range(1_000, 33_000, 1_000)]
    calibration = observed(old + new)
    assert calibration.seen == tuple(new)
    assert (calibration.slope, calibration.overhead) == (1.0, 500)


def test_the_order_of_observations_does_not_matter() -> None:
    pairs = [(1_000, 1_900), (5_000, 6_000), (9_000, 12_500), (20_000, 24_000)]
    first, second = observed(pairs), observed(pairs[::-1])
    assert (first.slope, first.overhead) == (second.slope, second.overhead)


def test_correcting_rounds_up_and_fitting_rounds_down() -> None:
    calibration = Calibration(slope=1.1)
    assert calibration.corrected(100_000) == 110_000
    assert calibration.corrected(1) == 2
    assert calibration.within(110_000) == 100_000
    assert calibration.within(10) == 9
    assert calibration.within(-5) == 0


def test_a_counter_that_counts_too_much_does_not_enlarge_a_budget() -> None:
    calibration = Calibration(slope=0.5)
    assert calibration.within(1_000) == 1_000
    assert calibration.corrected(1_000) == 500


@settings(max_examples=100, deadline=None)
@given(slope=st.floats(0.5, 3.0), tokens=st.integers(0, 100_000_000))
def test_what_fits_is_no_more_than_the_room_after_correction(slope: float, tokens: int) -> None:
    calibration = Calibration(slope=slope)
    assert calibration.corrected(calibration.within(tokens)) <= tokens


def test_a_calibration_comes_back_from_json_as_it_was() -> None:
    calibration = observed([(1_000, 1_700), (11_000, 13_700)])
    assert msgspec.json.decode(msgspec.json.encode(calibration), type=Calibration) == calibration


class _Dumped:
    def model_dump(self) -> dict[str, Any]:
        return {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": None}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 20,
                "cache_read_input_tokens": 30,
                "output_tokens": 9,
            },
            60,
        ),
        ({"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40}}, 50),
        ({"input_tokens": 50, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 9}, 50),
        ({"promptTokenCount": 70, "cachedContentTokenCount": 60, "totalTokenCount": 90}, 70),
        ({"prompt_token_count": 71}, 71),
        (SimpleNamespace(prompt_tokens=8, completion_tokens=1), 8),
        (_Dumped(), 12),
    ],
)
def test_the_prompts_tokens_are_read_from_each_providers_usage(usage: Any, tokens: int) -> None:
    assert reported_tokens(usage) == tokens


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        ({"tokens": 5}, "only ['tokens']"),
        ({}, "usage has none of prompt_tokens"),
        (5, "usage 5 is neither a mapping nor an object"),
        (None, "usage None is neither"),
        ({"prompt_tokens": "many"}, "usage's prompt_tokens 'many' is not a number of tokens"),
        ({"prompt_tokens": -5}, "usage's prompt_tokens -5 is negative"),
    ],
)
def test_a_usage_that_is_none_is_refused_with_its_keys(usage: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        reported_tokens(usage)
    assert words in str(caught.value)


def test_an_observation_must_be_numbers() -> None:
    with pytest.raises(InputError, match="counted '5' is not"):
        Calibration().with_observation("5", 5)  # type: ignore[arg-type]
