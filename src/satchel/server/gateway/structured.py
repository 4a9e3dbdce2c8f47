"""Structured content of a tool result: what it says beyond the text, and what it costs if a client shows both."""

import json
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from satchel.fitting.listing import as_json
from satchel.server.jsonrpc import Message

__all__ = ["examine_structured", "most_tokens"]

REPEATED = "(the text above)"
# A shorter member costs hardly more than the words that would replace it.
_WORTH_REPLACING = 100
_MOST_WRAPPERS = 16
_TEXT_BLOCK = {"type", "text", "annotations", "_meta"}
_COMPARED_FIRST = 64

_decode: Callable[[str], Any] = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode


def most_tokens(structured: Any, *, count: Callable[[str], int]) -> int:
    """Return the tokens of structured content in the longer of two forms: compact, or indented and in ASCII.

    Clients that show it to a model choose the form.
    """
    return max(count(as_json(structured)), count(json.dumps(structured, indent=2)))


class Examined(NamedTuple):
    """How structured content relates to the text of its result."""

    beyond: Any
    """What it says beyond the text; None if nothing."""
    is_structure: bool
    """Whether it is more than the text in a wrapper, such as the value of a JSON text."""


def examine_structured(structured: Any, content: Sequence[Message], texts: Sequence[str]) -> Examined:
    """Compare structured content with the parts of a result and their texts.

    Servers repeat the text as `{"content": text}`, as a list of the texts, as the value of a JSON text, and in
    other wrappers; white space may differ. If only some members of an object repeat the text, they are replaced by
    a few words in what it says beyond the text.
    """
    said = _Said(content, texts)
    if structured in ({}, []) or (repeated := said.repeated_by(structured)) is _Repeated.AS_TEXT:
        return Examined(None, False)
    if repeated is _Repeated.AS_VALUE:
        return Examined(None, True)
    if not isinstance(structured, dict):
        return Examined(structured, True)
    beyond = {
        name: REPEATED if len(as_json(value)) > _WORTH_REPLACING and said.repeated_by(value) else value
        for name, value in structured.items()
    }
    return Examined(beyond, True)


class _Repeated(Enum):
    AS_TEXT = "text"
    """The text itself, or the parts."""
    AS_VALUE = "value"
    """The array or object that the text is JSON of."""


class _Said:
    """What the parts of a result say, in the forms that structured content may repeat."""

    def __init__(self, content: Sequence[Message], texts: Sequence[str]) -> None:
        self._parts = _canonical(content)
        self._texts = texts
        self._forms = [*texts, *({"\n".join(texts), "".join(texts)} if len(texts) > 1 else ())]
        self._values = {encoded for text in self._forms if (encoded := _canonical_text(text)) is not None}

    def repeated_by(self, value: Any) -> _Repeated | None:
        """Say how a value, or what is inside its wrappers of one member, repeats the parts; None if it does not."""
        for _ in range(_MOST_WRAPPERS):
            value = _plain(value)
            if (repeated := self._repeated(value)) is not None:
                return repeated
            if not isinstance(value, dict | list) or len(value) != 1:
                return None
            (value,) = value.values() if isinstance(value, dict) else value
        return None

    def _repeated(self, value: Any) -> _Repeated | None:
        if isinstance(value, str):
            same = any(_is_same_text(text, value) for text in self._forms)
            return _Repeated.AS_TEXT if same or self._has(_canonical_text(value)) else None
        if (
            isinstance(value, list)
            and len(value) == len(self._texts) > 1
            and all(map(_is_same, self._texts, value))
        ):
            return _Repeated.AS_TEXT
        encoded = _canonical(value)
        if encoded is not None and encoded == self._parts:
            return _Repeated.AS_TEXT
        if not self._has(encoded):
            return None
        return _Repeated.AS_VALUE if isinstance(value, dict | list) else _Repeated.AS_TEXT

    def _has(self, encoded: bytes | None) -> bool:
        return encoded is not None and encoded in self._values


def _plain(value: Any) -> Any:
    """Return the text of a text block; another value as it is."""
    is_block = isinstance(value, dict) and value.get("type") == "text" and value.keys() <= _TEXT_BLOCK
    return value["text"] if is_block and isinstance(value.get("text"), str) else value


def _is_same(text: str, value: Any) -> bool:
    value = _plain(value)
    if isinstance(value, str) and _is_same_text(text, value):
        return True
    encoded = _canonical_text(value) if isinstance(value, str) else _canonical(value)
    return encoded is not None and encoded == _canonical_text(text)


def _is_same_text(one: str, other: str) -> bool:
    """Whether two texts differ at most in their white space."""
    if one == other:
        return True
    starts = [text[:_COMPARED_FIRST].split() for text in (one.lstrip(), other.lstrip())]
    # Of a long text, the last word may be cut off.
    alike = all(a == b for a, b in zip(*(start[:-1] for start in starts), strict=False))
    return alike and one.split() == other.split()


def _canonical_text(text: str) -> bytes | None:
    """Return the JSON value of a text in one form, or None if it is not JSON."""
    try:
        return _canonical(_decode(text))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def _canonical(value: Any) -> bytes | None:
    try:
        return _encode(value)
    except (UnicodeEncodeError, RecursionError):
        return None
