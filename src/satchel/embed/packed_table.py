"""Tables of word vectors with four or six bits for each number: smaller than int8, and nearly as exact.

A number is a small integer, times the factor of its group of 16, times the scale of its row. An integer times its
factor always fits int8. A row of the table has the integers and then the factors, several to a byte: the first ones
in the lowest bits, the last ones in the highest. `bench/encoder_table.py` has the function that makes them.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FOUR_BITS", "GROUP", "SIX_BITS", "Packing"]

GROUP = 16


class Packing(NamedTuple):
    """How the rows of a table are packed: `bits` for each integer, the rest of eight bits for each factor."""

    bits: int

    @property
    def lowest(self) -> int:
        """The lowest integer; the highest is -lowest - 1."""
        return -(1 << self.bits - 1)

    @property
    def highest_factor(self) -> int:
        """The highest factor; the lowest is 1."""
        return 1 << 8 - self.bits

    def width(self, columns: int) -> int:
        """Return the number of bytes of a row."""
        return (columns * self.bits + columns // GROUP * (8 - self.bits)) // 8

    def packed(self, integers: "NDArray[np.int8]", factors: "NDArray[np.int8]") -> "NDArray[np.uint8]":
        """Return the rows of a table, of the integers in each row and the factors of their groups."""
        import numpy as np

        numbers: NDArray[np.uint8] = (integers - np.int8(self.lowest)).view(np.uint8)
        parts = [_joined(numbers & np.uint8(15), 4)]
        if self.bits == 6:
            parts.append(_joined(numbers >> np.uint8(4), 2))
        parts.append(_joined((factors - np.int8(1)).view(np.uint8), 8 - self.bits))
        return np.concatenate(parts, axis=1)

    def unpacked(self, rows: "NDArray[np.uint8]", columns: int) -> "NDArray[np.int8]":
        """Return the integers of some rows times their factors. Only the scales of the rows are missing."""
        import numpy as np

        low = columns // 2
        high = low + (columns // 4 if self.bits == 6 else 0)
        integers = _separate(rows[:, :low], 4)
        if self.bits == 6:
            integers |= _separate(rows[:, low:high], 2) << 4
        numbers = integers.view(np.int8)
        numbers += np.int8(self.lowest)
        factors = _separate(rows[:, high:], 8 - self.bits).view(np.int8)
        factors += np.int8(1)
        grouped = numbers.reshape(len(rows), -1, GROUP)
        grouped *= factors[:, :, None]
        return numbers


FOUR_BITS, SIX_BITS = Packing(4), Packing(6)


def _joined(small: "NDArray[np.uint8]", bits: int) -> "NDArray[np.uint8]":
    """Return rows of numbers of four or two bits, two or four of them to a byte."""
    import numpy as np

    parts = np.split(small, 8 // bits, axis=1)
    joined = parts[0].copy()
    for place, part in enumerate(parts[1:], 1):
        joined |= part << place * bits
    return joined


def _separate(joined: "NDArray[np.uint8]", bits: int) -> "NDArray[np.uint8]":
    import numpy as np

    last = (1 << bits) - 1
    return np.concatenate([joined >> shift & last for shift in range(0, 8, bits)], axis=1)
