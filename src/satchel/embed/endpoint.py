"""An OpenAI-compatible endpoint: OpenAI itself, Ollama, vLLM, llama.cpp, LM Studio."""

import os
import re
import ssl
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from satchel.embed.embedder import written_rows
from satchel.errors import EmbedderError, InputError

if TYPE_CHECKING:
    import httpx2

    from satchel.embed.embedder import Vectors

__all__ = ["EndpointEmbedder", "Exchange"]

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
    if not (key.isascii() and key.isprintable()):  # the HTTP library would refuse it, and show it
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


# The exchange over HTTP


_TIMEOUT = 30.0
_PAUSES = (0.2, 0.8)
_LONGEST_PAUSE = 5.0
_MOST_BYTES = 256 << 20
_MOST_ERROR_BYTES = 1 << 16
_WORTH_ANOTHER_TRY = frozenset({429, 500, 502, 503, 504})
# Nothing is compressed, so that the size of an answer is the size of what was sent.
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "satchel",
}


class _TryAgainError(Exception):
    """A failure that may pass, with the seconds the server asked to wait."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class Exchange:
    """Posts JSON to an address and returns the body of the answer.

    Failures that may pass are tried again after a pause. Redirects are not followed, since they would carry the
    key elsewhere, and no error message shows the key.
    """

    def __init__(self, url: str, *, key: str | None) -> None:
        self.url = url
        self._key = key
        self._timeout = _timeout()

    def post(self, body: bytes) -> bytes:
        """The body of the answer; an `EmbedderError` of one line if there is none in time."""
        for pause in (*_PAUSES, None):
            try:
                return self._post_once(body)
            except _TryAgainError as failure:
                if pause is None:
                    raise EmbedderError(str(failure)) from failure
                time.sleep(min(max(pause, failure.wait), _LONGEST_PAUSE))
        raise AssertionError("unreachable")

    def _post_once(self, body: bytes) -> bytes:
        # Loading it takes longer than most commands do.
        import httpx2

        headers = _HEADERS | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        deadline = time.monotonic() + self._timeout
        try:
            with (
                # The certificates of the system, as every other program of this machine trusts them.
                httpx2.Client(
                    timeout=self._timeout,
                    verify=ssl.create_default_context(),
                    proxy=_proxy_for(self.url),
                    trust_env=False,
                ) as client,
                client.stream("POST", self.url, content=body, headers=headers) as answer,
            ):
                if not answer.is_success:
                    raise self._refused(answer, _start_of_body(answer, deadline))
                return _read_body(answer, deadline)
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise EmbedderError(
                f"{self.url} did not answer within {self._timeout:g} s; SATCHEL_EMBED_TIMEOUT sets how long to wait"
            ) from error
        except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError) as error:
            raise _TryAgainError(f"{self.url} broke the connection off: {self._said(error)}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, ImportError, OSError, ValueError) as error:
            raise EmbedderError(f"{self.url} cannot be asked: {self._said(error)}") from error

    def _refused(self, answer: "httpx2.Response", body: bytes) -> Exception:
        code = answer.status_code
        said = self._without_key(_first_line(body, answer.reason_phrase))
        message = f"{self.url} answered {code}{f': {said}' if said else ''}"
        if code in _WORTH_ANOTHER_TRY:
            return _TryAgainError(message, _asked_to_wait(answer.headers.get("Retry-After", "0")))
        if 300 <= code < 400:
            return EmbedderError(f"{self.url} answered {code}: redirects are not followed; give its own address")
        if code in (401, 403) and not self._key:
            message += "; no key was sent, set SATCHEL_EMBED_API_KEY"
        return EmbedderError(message)

    def _said(self, error: Exception) -> str:
        return self._without_key(" ".join(str(error).split())) or type(error).__name__

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text


def _proxy_for(url: str) -> str | None:
    """The proxy that `http_proxy` or `https_proxy` names, unless `no_proxy` excepts the host.

    The HTTP library would read `all_proxy` as well, and refuse to work at all if that is a SOCKS proxy.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _read_body(answer: "httpx2.Response", deadline: float) -> bytes:
    """The whole body. Each read has the timeout to itself, so a trickle is stopped by the deadline."""
    chunks: list[bytes] = []
    size = 0
    for chunk in answer.iter_raw():
        size += len(chunk)
        if size > _MOST_BYTES:
            raise ValueError(f"the answer is longer than {_MOST_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError
        chunks.append(chunk)
    return b"".join(chunks)


def _start_of_body(answer: "httpx2.Response", deadline: float) -> bytes:
    """As much of the body of an error as comes in time and is worth reading."""
    import httpx2

    start = b""
    try:
        for chunk in answer.iter_raw():
            start += chunk
            if len(start) >= _MOST_ERROR_BYTES or time.monotonic() > deadline:
                break
    except httpx2.TransportError:
        return b""
    return start[:_MOST_ERROR_BYTES]


def _first_line(body: bytes, reason: str) -> str:
    """What the server says is wrong: the message in its JSON, or the first line of whatever it sent."""
    sent = body.decode("utf-8", "replace")
    try:
        said = msgspec.json.decode(sent)
    except msgspec.DecodeError:
        said = sent
    for field in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(field):
            said = said[field]
    lines = [line.strip() for line in str(said or reason).splitlines() if line.strip()]
    return lines[0][:300] if lines else ""


def _asked_to_wait(retry_after: str) -> float:
    try:
        return float(retry_after)
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
