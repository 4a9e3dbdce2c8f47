"""Embeddings from an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, LM Studio."""

import os
import re
import ssl
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from satchel.embed.embedder import embed_nonblank
from satchel.errors import EmbedderError, InputError
from satchel.model.extras import needs_extra
from satchel.model.patterns import lazy_pattern

if TYPE_CHECKING:
    import httpx2

    from satchel.embed.embedder import Vectors

__all__ = ["EndpointEmbedder", "Exchange"]

_OPENAI = "https://api.openai.com/v1"
_BATCH = 128
_SPEC = lazy_pattern(r"(?P<model>@?[^@\s]+)(?:@(?P<base>[^\s]+))?")


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Embedding]


_read_vectors = msgspec.json.Decoder(_Answer).decode


class EndpointEmbedder:
    """Embeds with requests to a server, in batches. Every failure is an `EmbedderError` with a one-line message."""

    def __init__(self, model: str, base: str = _OPENAI, *, dimensions: int | None = None) -> None:
        self._base = _checked_base(base)
        self._model = model
        self._dimensions = dimensions
        self.name = f"openai:{model}@{self._base}"

    @classmethod
    def from_spec(cls, spec: str, *, dimensions: int | None = None) -> "EndpointEmbedder":
        """Create from `MODEL` or `MODEL@BASE_URL`. The default URL is $OPENAI_BASE_URL, then that of OpenAI."""
        match = _SPEC.fullmatch(spec)
        if match is None:
            raise InputError(
                f"embedder openai:{_without_credentials(spec)} is not openai:MODEL or openai:MODEL@BASE_URL"
            )
        return cls(match["model"], match["base"] or _default_base(), dimensions=dimensions)

    @property
    def dimensions(self) -> int:
        """The length of a vector. Sends a request unless it was given or is known from an earlier one."""
        if self._dimensions is None:
            self._request(["dimensions"])
        assert self._dimensions is not None
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one row for each text; zeros for a blank text, which is not sent."""
        return embed_nonblank(texts, self._request_in_batches, dimensions=self.dimensions)

    def _request_in_batches(self, texts: list[str]) -> "Vectors":
        import numpy as np

        return np.concatenate(
            [self._request(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        )

    def _request(self, texts: list[str]) -> "Vectors":
        exchange = Exchange(f"{self._base}/embeddings", key=_key_for(self._base))
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        answer = exchange.post(msgspec.json.encode(body))
        try:
            embeddings = _read_vectors(answer).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EmbedderError(f"{exchange.url} did not answer with embeddings: {error}") from error
        return self._in_order(embeddings, texts)

    def _in_order(self, embeddings: list[_Embedding], texts: list[str]) -> "Vectors":
        import numpy as np

        if len(embeddings) != len(texts):
            raise EmbedderError(f"{self._base} returned {len(embeddings)} vectors for {len(texts)} texts")
        embeddings.sort(key=lambda embedding: embedding.index)
        if [embedding.index for embedding in embeddings] != list(range(len(texts))):
            raise EmbedderError(f"{self._base} returned vectors whose indexes are not 0 to {len(texts) - 1}")
        if self._dimensions is None:
            self._dimensions = _dimensions_of(embeddings[0], self.name)
        for embedding in embeddings:
            if len(embedding.embedding) != self._dimensions:
                raise EmbedderError(
                    f"{self.name} returned a vector of {len(embedding.embedding)} numbers, "
                    f"expected {self._dimensions}"
                )
        with np.errstate(over="ignore"):  # an overflow becomes infinite, which is an error below
            vectors = np.array([embedding.embedding for embedding in embeddings], np.float32)
        if not np.isfinite(vectors).all():
            raise EmbedderError(f"{self.name} returned a vector with a number that is not finite")
        return vectors

    def __repr__(self) -> str:
        return f"<satchel embedder {self.name}>"


def _dimensions_of(embedding: _Embedding, name: str) -> int:
    if not embedding.embedding:
        raise EmbedderError(f"{name} returned an empty vector")
    return len(embedding.embedding)


def _default_base() -> str:
    return os.environ.get("OPENAI_BASE_URL", "").strip() or _OPENAI


def _key_for(base: str) -> str | None:
    """Return the API key to send. OPENAI_API_KEY is sent only to OpenAI and to $OPENAI_BASE_URL.

    The URL may come from a store that someone else created, and must not be able to collect keys.
    """
    key = os.environ.get("SATCHEL_EMBED_API_KEY", "").strip()
    if not key and base in (_OPENAI, _checked_base(_default_base())):
        key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):  # the error of the HTTP library would show it
        raise InputError("the API key in the environment has characters that an HTTP header cannot contain")
    return key or None


def _checked_base(base: str) -> str:
    """Return a base URL in normal form, so that equal endpoints have equal names."""
    try:
        parts = urlsplit(base)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise InputError(
            f"base URL {_without_credentials(base)} is not of the form http://HOST[:PORT]/v1 or https://…"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InputError(
            f"base URL {_without_credentials(base)} contains credentials or a query; "
            "set the key in SATCHEL_EMBED_API_KEY"
        )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _without_credentials(address: str) -> str:
    """Return a URL for messages, with credentials and the query replaced by an ellipsis."""
    return re.sub(r"//[^/]*@|[?#].*", lambda found: "//…@" if found[0].startswith("//") else "?…", address)


# HTTP requests.


_TIMEOUT = 30.0
_RETRY_PAUSES = (0.2, 0.8)
_LONGEST_PAUSE = 5.0
_MOST_BYTES = 256 << 20
_MOST_ERROR_BYTES = 1 << 16
_TRANSIENT_STATUS = frozenset({429, 500, 502, 503, 504})
# Without compression, the size limit applies to what is received.
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "satchel",
}


class _TransientError(Exception):
    """A failure worth a retry, with the seconds that the server asked to wait."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class Exchange:
    """Posts JSON to a URL and returns the body of the response.

    Transient failures are retried after a pause. Redirects are not followed, because they would send the key
    elsewhere, and no error message contains the key.
    """

    def __init__(self, url: str, *, key: str | None) -> None:
        self.url = url
        self._key = key
        self._timeout = _timeout()

    def post(self, body: bytes) -> bytes:
        """Return the body of the response; raise an `EmbedderError` if there is none in time."""
        for pause in (*_RETRY_PAUSES, None):
            try:
                return self._post_once(body)
            except _TransientError as failure:
                if pause is None:
                    raise EmbedderError(str(failure)) from failure
                time.sleep(min(max(pause, failure.wait), _LONGEST_PAUSE))
        raise AssertionError("unreachable")

    def _post_once(self, body: bytes) -> bytes:
        # Imported here: loading it takes longer than most commands.
        with needs_extra("serve", "an embedder behind a URL", raises=EmbedderError):
            import httpx2

        headers = _HEADERS | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        deadline = time.monotonic() + self._timeout
        try:
            with (
                # With the certificates of the system.
                httpx2.Client(
                    timeout=self._timeout,
                    verify=ssl.create_default_context(),
                    proxy=_proxy_for(self.url),
                    trust_env=False,
                ) as client,
                client.stream("POST", self.url, content=body, headers=headers) as answer,
            ):
                if not answer.is_success:
                    raise self._error_for(answer, _start_of_body(answer, deadline))
                return _read_body(answer, deadline)
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise EmbedderError(
                f"{self.url} did not answer within {self._timeout:g} s; SATCHEL_EMBED_TIMEOUT sets how long to wait"
            ) from error
        except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError) as error:
            raise _TransientError(f"{self.url} closed the connection: {self._error_text(error)}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, ImportError, OSError, ValueError) as error:
            raise EmbedderError(f"request to {self.url} failed: {self._error_text(error)}") from error

    def _error_for(self, answer: "httpx2.Response", body: bytes) -> Exception:
        code = answer.status_code
        reason = self._without_key(_first_line(body, answer.reason_phrase))
        message = f"{self.url} answered {code}{f': {reason}' if reason else ''}"
        if code in _TRANSIENT_STATUS:
            return _TransientError(message, _seconds_to_wait(answer.headers.get("Retry-After", "0")))
        if 300 <= code < 400:
            return EmbedderError(f"{self.url} answered {code}: redirects are not followed; use the final URL")
        if code in (401, 403) and not self._key:
            message += "; no key was sent, set SATCHEL_EMBED_API_KEY"
        return EmbedderError(message)

    def _error_text(self, error: Exception) -> str:
        return self._without_key(" ".join(str(error).split())) or type(error).__name__

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text


def _proxy_for(url: str) -> str | None:
    """Return the proxy of `http_proxy` or `https_proxy`, unless `no_proxy` excludes the host.

    The HTTP library would also read `all_proxy`, and fail if that is a SOCKS proxy.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _read_body(answer: "httpx2.Response", deadline: float) -> bytes:
    """Read the whole body. The timeout applies to each read, so the deadline stops a slow trickle."""
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
    """Read the beginning of the body of an error, as far as it arrives in time."""
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
    """Return the server's error message: from its JSON, or the first line of the body."""
    sent = body.decode("utf-8", "replace")
    try:
        message = msgspec.json.decode(sent)
    except msgspec.DecodeError:
        message = sent
    for field in ("error", "message", "detail"):
        if isinstance(message, dict) and message.get(field):
            message = message[field]
    lines = [line.strip() for line in str(message or reason).splitlines() if line.strip()]
    return lines[0][:300] if lines else ""


def _seconds_to_wait(retry_after: str) -> float:
    try:
        return float(retry_after)
    except ValueError:  # a date: use the default pause
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
