"""What every embedder offers, and how one is chosen by its name."""

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
    "passages_inline",
    "resolve_embedder",
    "unit_rows",
    "written_rows",
]


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


# From a spec to an embedder, the way a store records it and a user writes it.


DEFAULT_EMBEDDER = "minilm"

_NONE = NoEmbedder()
_CHOICES = "minilm, static, none, sentence-transformers:NAME_OR_PATH or openai:MODEL[@BASE_URL]"


def resolve_embedder(spec: str | Embedder, *, dimensions: int | None = None) -> Embedder:
    """The embedder of this spec or recorded name; an embedder is given back as it is.

    Nothing is loaded or asked yet. `dimensions`, where a store has them recorded, spares an
    endpoint the call that would find them out, and holds it to them.
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
    # Not by isinstance: Python 3.11 would read `dimensions`, for which some ask a server.
    if isinstance(given, type) or not callable(getattr(given, "embed", None)):
        raise InputError(f"embedder {given!r} is neither a spec nor an Embedder; choose {_CHOICES}")
    return given
