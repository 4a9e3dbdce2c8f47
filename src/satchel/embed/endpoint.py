"""An OpenAI-compatible endpoint: OpenAI itself, Ollama, vLLM, llama.cpp, LM Studio and their like."""

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from satchel.embed.exchange import Exchange
from satchel.embed.vectors import written_rows
from satchel.errors import EmbedderError, InputError

if TYPE_CHECKING:
    from satchel.embed.vectors import Vectors

__all__ = ["EndpointEmbedder"]

_OPENAI = "https://api.openai.com/v1"
_BATCH = 128
_SPEC = re.compile(r"(?P<model>@?[^@\s]+)(?:@(?P<base>[^\s]+))?")


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Embedding]


_read = msgspec.json.Decoder(_Answer).decode


class EndpointEmbedder:
    """Embeds by asking a server, in batches; every failure is an `EmbedderError` of one line."""

    def __init__(self, model: str, base: str = _OPENAI, *, dimensions: int | None = None) -> None:
        self._base = _checked_base(base)
        self._model = model
        self._dimensions = dimensions
        self.name = f"openai:{model}@{self._base}"

    @classmethod
    def from_spec(cls, spec: str, *, dimensions: int | None = None) -> "EndpointEmbedder":
        """From `MODEL` or `MODEL@BASE_URL`; without an address that of OPENAI_BASE_URL, or OpenAI's own."""
        match = _SPEC.fullmatch(spec)
        if match is None:
            raise InputError(f"embedder openai:{_hidden(spec)} is not openai:MODEL or openai:MODEL@BASE_URL")
        return cls(match["model"], match["base"] or _usual_base(), dimensions=dimensions)

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; asks the server unless it was given or is known by now."""
        if self._dimensions is None:
            self._ask(["dimensions"])
        assert self._dimensions is not None
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row for each text; zeros for a blank one, which is never sent."""
        return written_rows(texts, self._ask_in_batches, dimensions=self.dimensions)

    def _ask_in_batches(self, texts: list[str]) -> "Vectors":
        import numpy as np

        return np.concatenate([self._ask(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)])

    def _ask(self, texts: list[str]) -> "Vectors":
        exchange = Exchange(f"{self._base}/embeddings", key=_key_for(self._base))
        asked = {"model": self._model, "input": texts, "encoding_format": "float"}
        answered = exchange.post(msgspec.json.encode(asked))
        try:
            embeddings = _read(answered).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EmbedderError(f"{exchange.url} did not answer with embeddings: {error}") from error
        return self._in_order(embeddings, texts)

    def _in_order(self, embeddings: list[_Embedding], texts: list[str]) -> "Vectors":
        import numpy as np

        if len(embeddings) != len(texts):
            raise EmbedderError(f"{self._base} gave {len(embeddings)} vectors for {len(texts)} texts")
        embeddings.sort(key=lambda embedding: embedding.index)
        if [embedding.index for embedding in embeddings] != list(range(len(texts))):
            raise EmbedderError(f"{self._base} gave vectors whose indexes are not 0 to {len(texts) - 1}")
        if self._dimensions is None:
            self._dimensions = _counted(embeddings[0], self.name)
        for embedding in embeddings:
            if len(embedding.embedding) != self._dimensions:
                raise EmbedderError(
                    f"{self.name} gave a vector of {len(embedding.embedding)} numbers where "
                    f"{self._dimensions} were expected"
                )
        with np.errstate(over="ignore"):  # becomes infinite, which is refused
            vectors = np.array([embedding.embedding for embedding in embeddings], np.float32)
        if not np.isfinite(vectors).all():
            raise EmbedderError(f"{self.name} gave a vector with a number that is not finite")
        return vectors

    def __repr__(self) -> str:
        return f"<satchel embedder {self.name}>"


def _counted(embedding: _Embedding, name: str) -> int:
    if not embedding.embedding:
        raise EmbedderError(f"{name} gave a vector without numbers")
    return len(embedding.embedding)


def _usual_base() -> str:
    return os.environ.get("OPENAI_BASE_URL", "").strip() or _OPENAI


def _key_for(base: str) -> str | None:
    """The key to send. OpenAI's goes only where the environment says it belongs.

    An address can come out of a store that someone else made; it must not collect keys.
    """
    key = os.environ.get("SATCHEL_EMBED_API_KEY", "").strip()
    if not key and base in (_OPENAI, _checked_base(_usual_base())):
        key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):  # http.client would refuse it, and show it
        raise InputError("the API key in the environment has characters that no header can carry")
    return key or None


def _checked_base(base: str) -> str:
    """The address in one spelling, so that equal places have equal names."""
    try:
        parts = urlsplit(base)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise InputError(f"base address {_hidden(base)} is not of the form http://HOST[:PORT]/v1 or https://…")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InputError(
            f"base address {_hidden(base)} carries credentials or a query; give the key in SATCHEL_EMBED_API_KEY"
        )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _hidden(address: str) -> str:
    """An address as it may be shown: nothing of who logs in, nor of a query."""
    return re.sub(r"//[^/]*@|[?#].*", lambda found: "//…@" if found[0].startswith("//") else "?…", address)
