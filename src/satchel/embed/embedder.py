"""The interface of embedders, and lookup by name."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from satchel.errors import InputError
from satchel.model.checks import repair_surrogates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

__all__ = [
    "DEFAULT_EMBEDDER",
    "Embedder",
    "NoEmbedder",
    "embed_nonblank",
    "passages_inline",
    "resolve_embedder",
    "unit_rows",
]


# Divided by this, a row of zeros stays what it is.
_SHORTEST = 1e-30


def unit_rows(rows: "Vectors") -> "Vectors":
    """Normalize rows to length 1 in place, and return them; a row of zeros stays."""
    import numpy as np

    # Few calls: for one row, each takes longer than the numbers.
    lengths = np.sqrt(np.add.reduce(np.square(rows), 1, keepdims=True))
    rows /= np.maximum(lengths, _SHORTEST, out=lengths)
    return rows


def embed_nonblank(texts: Sequence[str], embed: Callable[[list[str]], "Vectors"], *, dimensions: int) -> "Vectors":
    """Embed the texts that are not blank, and return unit rows for all; blank texts get zeros.

    The model receives valid Unicode: lone surrogates are replaced.
    """
    import numpy as np

    rows = np.zeros((len(texts), dimensions), np.float32)
    written = [place for place, text in enumerate(texts) if text.strip()]
    if written:
        rows[written] = embed([repair_surrogates(texts[place]) for place in written])
    return unit_rows(rows)


class Embedder(Protocol):
    """Turns texts into vectors.

    An embedder is cheap to create, loads its model when first used, and is safe to share between threads.
    """

    @property
    def name(self) -> str:
        """Identifies the vectors: those of equal names can be compared. `resolve_embedder` accepts it."""

    @property
    def dimensions(self) -> int:
        """The length of a vector; 0 if nothing is embedded. May load the model or call the server."""

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one row of float32 for each text, normalized to length 1; zeros if a text has nothing to embed."""


def passages_inline(embedder: Embedder) -> int | None:
    """Return how many passages an embedder may embed during a write; None for any number.

    A slow embedder sets an attribute of this name, which is not part of the protocol. An embedder without it is as
    fast as `static`, or waits for a server.
    """
    limit: int | None = getattr(embedder, "passages_inline", None)
    return limit


class NoEmbedder:
    """Embeds nothing: for stores that are searched by words only."""

    name = "none"
    dimensions = 0

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return an empty row for each text."""
        import numpy as np

        return np.zeros((len(texts), 0), np.float32)

    def __repr__(self) -> str:
        return "<satchel embedder none>"


# Lookup of embedders, by the spec that a user writes or a store records.


DEFAULT_EMBEDDER = "minilm"

_NONE = NoEmbedder()
_CHOICES = "minilm, static, none, sentence-transformers:NAME_OR_PATH or openai:MODEL[@BASE_URL]"


def resolve_embedder(spec: str | Embedder, *, dimensions: int | None = None) -> Embedder:
    """Return the embedder for a spec or a recorded name; an `Embedder` is returned as it is.

    Nothing is loaded and no server is called yet. `dimensions` are those that a store has recorded: an endpoint
    then needs no call to find them out, and must keep to them.
    """
    if not isinstance(spec, str):
        return _checked(spec)
    kind, colon, rest = spec.strip().partition(":")
    rest = rest.strip()
    if kind == "none" and not colon:
        return _NONE
    if kind == "static":
        from satchel.embed.static import STATIC

        if spec.strip() in ("static", STATIC.name):
            return STATIC
    if kind.startswith("minilm"):
        from satchel.embed.minilm import MINILM

        if spec.strip() in ("minilm", MINILM.name):
            return MINILM
    if kind == "sentence-transformers" and rest:
        from satchel.embed.transformers import TransformerEmbedder

        return TransformerEmbedder(rest)
    if kind == "openai" and rest:
        from satchel.embed.endpoint import EndpointEmbedder

        return EndpointEmbedder.from_spec(rest, dimensions=dimensions)
    raise InputError(f"unknown embedder {spec!r}; choose {_CHOICES}")


def _checked(given: Embedder) -> Embedder:
    # Not with isinstance: in Python 3.11 it reads `dimensions`, which may call a server.
    if isinstance(given, type) or not callable(getattr(given, "embed", None)):
        raise InputError(f"embedder {given!r} is neither a name nor an Embedder; choose {_CHOICES}")
    return given
