import numpy as np
import pytest
from bench.encoder_table import quantized_and_packed

from satchel.embed.packed_table import FOUR_BITS, GROUP, SIX_BITS, Packing


@pytest.mark.parametrize("columns", [64, 256, 384])
@pytest.mark.parametrize("packing", [FOUR_BITS, SIX_BITS])
def test_every_number_and_factor_comes_back(packing: Packing, columns: int):
    random = np.random.default_rng(columns)
    lowest, highest_factor = packing.lowest, packing.highest_factor
    numbers = random.integers(lowest, -lowest, (200, columns), np.int8)
    factors = random.integers(1, highest_factor + 1, (200, columns // GROUP), np.int8)
    numbers[0], factors[0] = lowest, highest_factor
    numbers[1], factors[1] = -lowest - 1, highest_factor
    packed = packing.packed(numbers, factors)
    assert packed.shape == (200, packing.width(columns))
    products = numbers.astype(int) * np.repeat(factors, GROUP, axis=1)
    np.testing.assert_array_equal(packing.unpacked(packed, columns), products)


# With one scale for the row and no factors, the means are 0.28 and 0.07.
@pytest.mark.parametrize(("packing", "mean", "most"), [(FOUR_BITS, 0.09, 0.15), (SIX_BITS, 0.025, 0.05)])
def test_quantized_rows_are_near_the_originals_whatever_their_size(packing: Packing, mean: float, most: float):
    random = np.random.default_rng(1)
    rows = random.normal(size=(100, 256)).astype(np.float32) * np.logspace(-4, 3, 100, dtype=np.float32)[:, None]
    # Groups of very different size: each has its own factor.
    rows[:, :GROUP] *= 8
    rows[7] = 0
    packed, scales = quantized_and_packed(rows, packing)
    again = packing.unpacked(packed, 256) * scales[:, None]
    assert not again[7].any()
    errors, sizes = np.linalg.norm(again - rows, axis=1), np.linalg.norm(rows, axis=1)
    shares = np.delete(errors, 7) / np.delete(sizes, 7)
    assert shares.mean() < mean
    assert shares.max() < most
