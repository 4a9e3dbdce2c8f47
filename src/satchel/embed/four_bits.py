"""Tables of word vectors with four bits for each number: half the size of int8, and nearly as exact.

A number is an integer from -8 to 7, times the factor of its group of 16, which is from 1 to 16, times the scale of
its row. A row of the table has the integers and then the factors. Both are two to a byte: the first half of them in
the low four bits, the second half in the high ones. `bench/encoder_table.py` has the function that makes them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["GROUP", "HIGHEST_FACTOR", "LOWEST", "packed_rows", "packed_width", "unpacked_rows"]

GROUP = 16
LOWEST = -8
HIGHEST_FACTOR = 16


def packed_width(columns: int) -> int:
    """Return the number of bytes of a row."""
    return (columns + columns // GROUP) // 2


def packed_rows(numbers: "NDArray[np.int8]", factors: "NDArray[np.int8]") -> "NDArray[np.uint8]":
    """Return the rows of a table, of the numbers in each row and the factors of their groups."""
    import numpy as np

    halves = (_joined(numbers - np.int8(LOWEST)), _joined(factors - np.int8(1)))
    return np.concatenate(halves, axis=1)


def unpacked_rows(packed: "NDArray[np.uint8]") -> "NDArray[np.int8]":
    """Return the numbers of some rows times their factors, which only the scales of the rows are missing from."""
    import numpy as np

    rows, columns = len(packed), packed.shape[1] * 2 * GROUP // (GROUP + 1)
    numbers, factors = _separate(packed[:, : columns // 2]), _separate(packed[:, columns // 2 :])
    numbers += np.int8(LOWEST)
    factors += np.int8(1)
    grouped = numbers.reshape(rows, columns // GROUP, GROUP)
    grouped *= factors[:, :, None]
    return numbers


def _joined(small: "NDArray[np.int8]") -> "NDArray[np.uint8]":
    import numpy as np

    half = small.shape[1] // 2
    return (small[:, :half] | small[:, half:] << 4).view(np.uint8)


def _separate(joined: "NDArray[np.uint8]") -> "NDArray[np.int8]":
    import numpy as np

    return np.concatenate((joined & 15, joined >> 4), axis=1).view(np.int8)
