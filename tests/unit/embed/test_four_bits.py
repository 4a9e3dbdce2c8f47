import numpy as np
import pytest
from bench.encoder_table import quantized_to_four_bits

from satchel.embed.four_bits import GROUP, packed_rows, packed_width, unpacked_rows


@pytest.mark.parametrize("columns", [32, 256, 384])
def test_every_number_and_factor_comes_back(columns: int):
    random = np.random.default_rng(columns)
    numbers = random.integers(-8, 8, (50, columns), np.int8)
    factors = random.integers(1, 17, (50, columns // GROUP), np.int8)
    packed = packed_rows(numbers, factors)
    assert packed.shape == (50, packed_width(columns))
    np.testing.assert_array_equal(unpacked_rows(packed), numbers * np.repeat(factors, GROUP, axis=1))


def test_quantized_rows_are_near_the_originals_whatever_their_size():
    random = np.random.default_rng(1)
    rows = random.normal(size=(100, 256)).astype(np.float32) * np.logspace(-4, 3, 100, dtype=np.float32)[:, None]
    # Groups of very different size: each has its own factor.
    rows[:, :GROUP] *= 8
    rows[7] = 0
    packed, scales = quantized_to_four_bits(rows)
    again = unpacked_rows(packed) * scales[:, None]
    assert not again[7].any()
    errors, sizes = np.linalg.norm(again - rows, axis=1), np.linalg.norm(rows, axis=1)
    # With one scale for the row and no factors, the mean is 0.28.
    shares = np.delete(errors, 7) / np.delete(sizes, 7)
    assert shares.mean() < 0.09
    assert shares.max() < 0.15
