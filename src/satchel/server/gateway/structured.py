"""Structured content of a tool result: what it says beyond the text, and what it costs if a client shows both."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from satchel.fitting.listing import as_json
from satchel.server.jsonrpc import Message

__all__ = ["most_tokens", "said_beyond"]

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


def said_beyond(structured: Any, content: Sequence[Message], texts: Sequence[str]) -> Any:
    """Return what structured content says beyond the parts of a result and their texts; None if nothing.

    Servers repeat the text as `{"content": text}`, as a list of the texts, as the value of a JSON text, and in
    other wrappers; white space may differ. If only some members of an object repeat the text, they are replaced by
    a few words, and the object is returned.
    """
    said = _Said(content, texts)
    if structured in ({}, []) or said.is_repeated_by(structured):
        return None
    if not isinstance(structured, dict):
        return structured
    return {
        name: REPEATED if len(as_json(value)) > _WORTH_REPLACING and said.is_repeated_by(value) else value
        for name, value in structured.items()
    }


class _Said:
    """What the parts of a result say, in the forms that structured content may repeat."""

    def __init__(self, content: Sequence[Message], texts: Sequence[str]) -> None:
        self._parts = _canonical(content)
        self._texts = texts
        self._forms = [*texts, *({"\n".join(texts), "".join(texts)} if len(texts) > 1 else ())]
        self._values = {encoded for text in self._forms if (encoded := _canonical_text(text)) is not None}

    def is_repeated_by(self, value: Any) -> bool:
        """Whether a value, or what is inside its wrappers of one member, is what the parts say."""
        for _ in range(_MOST_WRAPPERS):
            value = _plain(value)
            if self._is_said(value):
                return True
            if not isinstance(value, dict | list) or len(value) != 1:
                return False
            (value,) = value.values() if isinstance(value, dict) else value
        return False

    def _is_said(self, value: Any) -> bool:
        if isinstance(value, str):
            return any(_is_same_text(text, value) for text in self._forms) or self._is_said_as_json(value)
        if (
            isinstance(value, list)
            and len(value) == len(self._texts) > 1
            and all(map(_is_same, self._texts, value))
        ):
            return True
        encoded = _canonical(value)
        return encoded is not None and (encoded in self._values or encoded == self._parts)

    def _is_said_as_json(self, text: str) -> bool:
        return bool(self._values) and _canonical_text(text) in self._values


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
