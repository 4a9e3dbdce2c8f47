"""Text into vectors: words that come with the package, a model of your own, or an endpoint."""

from satchel.embed.embedder import Embedder, NoEmbedder
from satchel.embed.registry import DEFAULT_EMBEDDER, resolve_embedder

__all__ = ["DEFAULT_EMBEDDER", "Embedder", "NoEmbedder", "resolve_embedder"]
