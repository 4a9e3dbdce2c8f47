"""An OpenAI-compatible endpoint: OpenAI itself, Ollama, vLLM, llama.cpp, LM Studio."""

import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from email.message import Message
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from satchel.embed.embedder import written_rows
from satchel.errors import EmbedderError, InputError

if TYPE_CHECKING:
    from satchel.embed.embedder import Vectors

__all__ = ["EndpointEmbedder", "Exchange"]


_TIMEOUT = 30.0
_PAUSES = (0.2, 0.8)
_LONGEST_PAUSE = 5.0
_MOST_BYTES = 256 << 20
_WORTH_ANOTHER_TRY = frozenset({429, 500, 502, 503, 504})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect as the error it then is: what follows one would carry the key elsewhere."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


class _TryAgainError(Exception):
    """A failure that may pass, with the seconds the server asked to wait."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class Exchange:
    """Posts JSON to an address, with a key that no message of an error shows."""

    def __init__(self, url: str, *, key: str | None) -> None:
        self.url = url
        self._key = key
        self._timeout = _timeout()
        self._opener = urllib.request.build_opener(_NoRedirect)

    def post(self, body: bytes) -> bytes:
        """The body of the answer."""
        for pause in (*_PAUSES, None):
            try:
                return self._post_once(body)
            except _TryAgainError as failure:
                if pause is None:
                    raise EmbedderError(str(failure)) from failure
                time.sleep(min(max(pause, failure.wait), _LONGEST_PAUSE))
        raise AssertionError("unreachable")

    def _post_once(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "satchel"}
        request = urllib.request.Request(self.url, body, headers)
        if self._key:
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        deadline = time.monotonic() + self._timeout
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return _read_body(answer, deadline)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._failed(error) from error

    def _refused(self, error: urllib.error.HTTPError) -> Exception:
        said = self._without_key(_first_line(error))
        message = f"{self.url} answered {error.code}{f': {said}' if said else ''}"
        if error.code in _WORTH_ANOTHER_TRY:
            return _TryAgainError(message, _asked_to_wait(error.headers))
        if 300 <= error.code < 400:
            return EmbedderError(
                f"{self.url} answered {error.code}: redirects are not followed; give its own address"
            )
        if error.code in (401, 403) and not self._key:
            message += "; no key was sent, set SATCHEL_EMBED_API_KEY"
        return EmbedderError(message)

    def _failed(self, error: OSError | http.client.HTTPException | ValueError) -> Exception:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, TimeoutError):
            return EmbedderError(
                f"{self.url} did not answer within {self._timeout:g} s; SATCHEL_EMBED_TIMEOUT sets how long to wait"
            )
        said = self._without_key(" ".join(str(cause).split())) or type(cause).__name__
        if isinstance(cause, ConnectionResetError | BrokenPipeError | http.client.IncompleteRead):
            return _TryAgainError(f"{self.url} broke the connection off: {said}")
        return EmbedderError(f"{self.url} cannot be asked: {said}")

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text


def _read_body(answer: http.client.HTTPResponse, deadline: float) -> bytes:
    """The whole body. Each read has the timeout to itself, so a trickle is stopped by the deadline."""
    chunks: list[bytes] = []
    size = 0
    while chunk := answer.read1(1 << 20):
        size += len(chunk)
        if size > _MOST_BYTES:
            raise ValueError(f"the answer is longer than {_MOST_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError
        chunks.append(chunk)
    # `read1` takes a body that ends too early for a whole one.
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(chunks)


def _first_line(error: urllib.error.HTTPError) -> str:
    """What the server says is wrong: the message in its JSON, or the first line of whatever it sent."""
    try:
        sent = error.read(1 << 16).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        sent = ""
    try:
        said = msgspec.json.decode(sent)
    except msgspec.DecodeError:
        said = sent
    for field in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(field):
            said = said[field]
    lines = [line.strip() for line in str(said or error.reason).splitlines() if line.strip()]
    return lines[0][:300] if lines else ""


def _asked_to_wait(headers: Message) -> float:
    try:
        return float(headers.get("Retry-After", "0"))
    except ValueError:  # a date; the usual pause will do
        return 0.0


def _timeout() -> float:
    given = os.environ.get("SATCHEL_EMBED_TIMEOUT", "").strip()
    try:
        seconds = float(given) if given else _TIMEOUT
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise InputError(f"SATCHEL_EMBED_TIMEOUT {given!r} is not a number of seconds from above 0 to 3600")
    return seconds


# An OpenAI-compatible endpoint: OpenAI itself, Ollama, vLLM, llama.cpp, LM Studio and their like.


_OPENAI = "https://api.openai.com/v1"
_BATCH = 128
_SPEC = re.compile(r"(?P<model>@?[^@\s]+)(?:@(?P<base>[^\s]+))?")


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Embedding]


_read_vectors = msgspec.json.Decoder(_Answer).decode


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
            embeddings = _read_vectors(answered).data
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
