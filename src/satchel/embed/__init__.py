"""Text into vectors: words that come with the package, a model of your own, or an endpoint."""

from satchel.embed.embedder import Embedder, NoEmbedder, passages_inline
from satchel.embed.registry import DEFAULT_EMBEDDER, resolve_embedder

__all__ = ["DEFAULT_EMBEDDER", "Embedder", "NoEmbedder", "passages_inline", "resolve_embedder"]
