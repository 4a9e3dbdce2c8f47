"""From a spec to an embedder, the way a store records it and a user writes it."""

from satchel.embed.embedder import Embedder, NoEmbedder
from satchel.embed.static import STATIC
from satchel.errors import InputError

__all__ = ["DEFAULT_EMBEDDER", "resolve_embedder"]

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
