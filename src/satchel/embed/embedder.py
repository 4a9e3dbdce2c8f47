"""What every embedder offers, the one that embeds nothing, and rows of vectors of length 1."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from satchel.model.surrogates import repair_surrogates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

__all__ = ["Embedder", "NoEmbedder", "passages_inline", "unit_rows", "written_rows"]


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


# What every embedder offers, and the one that embeds nothing.


class Embedder(Protocol):
    """Turns texts into vectors; cheap to make, loaded when first used, safe to share between threads."""

    @property
    def name(self) -> str:
        """All that decides the vectors: those of equal names may be compared. As a spec it gives the same again."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; 0 means that nothing is embedded. May load the model or ask the server."""

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row of float32 for each text, of length 1; a row of zeros where a text has nothing to embed."""


def passages_inline(embedder: Embedder) -> int | None:
    """How many passages an embedder makes vectors for while a write waits; None for any number.

    An embedder that takes its time says so by an attribute of this name, which is no part of the
    protocol: those without it are as quick as `static`, or wait for a server.
    """
    limit: int | None = getattr(embedder, "passages_inline", None)
    return limit


class NoEmbedder:
    """Embeds nothing: for stores that are searched by their words alone."""

    name = "none"
    dimensions = 0

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """A row without numbers for each text."""
        import numpy as np

        return np.zeros((len(texts), 0), np.float32)

    def __repr__(self) -> str:
        return "<satchel embedder none>"
