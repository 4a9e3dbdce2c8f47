"""Eviction removes the least recently used units in one batch, and never what must stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import InputError
from satchel.session.ledger import Unit, keys_to_evict

UNITS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 60), st.integers(0, 20), st.sampled_from([False, False, True])),
    max_size=25,
).map(lambda rows: [Unit(key, *row) for key, row in enumerate(rows)])


def unit(key: int, tokens: int = 100, *, stub: int = 10, used: int | None = None, kept: bool = False) -> Unit:
    return Unit(key, tokens, stub, key if used is None else used, kept)


def left(units: list[Unit], evicted: list[int]) -> int:
    return sum(each.stub if each.key in evicted else each.tokens for each in units)


def test_nothing_goes_up_to_the_limit():
    assert keys_to_evict([unit(1), unit(2)], limit=200) == []


def test_one_token_over_the_limit_clears_down_to_the_low_watermark():
    units = [unit(key) for key in range(10)] + [unit(10, 1)]
    evicted = keys_to_evict(units, limit=1_000)
    assert evicted == [0, 1, 2, 3]
    assert left(units, evicted) == 641


def test_a_depth_can_be_chosen():
    units = [unit(key, stub=0) for key in range(11)]
    assert len(keys_to_evict(units, limit=1_000, low=1.0)) == 1
    assert len(keys_to_evict(units, limit=1_000, low=0.3)) == 8


def test_the_least_recently_used_goes_first_whatever_its_place():
    units = [unit(1, used=9), unit(2, used=3), unit(3, used=7)]
    assert keys_to_evict(units, limit=250, low=0.5) == [2, 3]


def test_what_is_kept_or_has_a_stub_as_large_as_itself_stays():
    units = [unit(1, kept=True), unit(2, 10, stub=10), unit(3, 11, stub=10)]
    assert keys_to_evict(units, limit=50) == [3]


@pytest.mark.parametrize("low", [-0.1, 1.5, float("nan")])
def test_a_watermark_that_is_no_part_of_the_limit_is_refused(low: float):
    with pytest.raises(InputError, match="low watermark"):
        keys_to_evict([], limit=10, low=low)


@given(UNITS, st.integers(0, 4_000), st.floats(0, 1))
def test_a_batch_is_as_small_as_reaches_the_mark_and_takes_the_oldest(units: list[Unit], limit: int, low: float):
    evicted = keys_to_evict(units, limit=limit, low=low)
    if left(units, []) <= limit:
        assert evicted == []
        return
    by_key = {each.key: each for each in units}
    gone = [by_key[key] for key in evicted]
    free = [each for each in units if not each.kept and each.stub < each.tokens]
    assert len(set(evicted)) == len(evicted)
    assert set(gone) <= set(free)
    assert [each.used for each in gone] == sorted(each.used for each in gone)
    # Whatever is older than the last one to go has gone as well.
    assert all(each in gone for each in free if gone and each.used < gone[-1].used)
    assert left(units, evicted) <= low * limit or len(gone) == len(free)
    if gone:
        assert left(units, evicted[:-1]) > low * limit
