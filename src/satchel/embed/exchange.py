"""One POST to a server: bounded in time and size, tried again where that can help, never redirected."""

import http.client
import os
import time
import urllib.error
import urllib.request
from email.message import Message
from typing import IO, Any

import msgspec

from satchel.errors import EmbedderError, InputError

__all__ = ["Exchange"]

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
                return _read(answer, deadline)
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


def _read(answer: http.client.HTTPResponse, deadline: float) -> bytes:
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
