"""Rows of vectors: brought to length 1, and kept at zero for texts without a word."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from satchel.model.surrogates import repair_surrogates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

__all__ = ["unit_rows", "written_rows"]


def unit_rows(rows: "Vectors") -> "Vectors":
    """The rows, changed in place to length 1; a row of zeros stays."""
    import numpy as np

    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0] = 1
    rows /= lengths[:, None]
    return rows


def written_rows(texts: Sequence[str], embed: Callable[[list[str]], "Vectors"], *, dimensions: int) -> "Vectors":
    """Unit rows from a model that sees only the texts with something in them, as text it can read."""
    import numpy as np

    rows = np.zeros((len(texts), dimensions), np.float32)
    written = [place for place, text in enumerate(texts) if text.strip()]
    if written:
        rows[written] = embed([repair_surrogates(texts[place]) for place in written])
    return unit_rows(rows)
