"""Characters that are not seen as text: controls, bidirectional overrides, zero-width characters, Unicode tags.

A control such as U+009B makes a terminal move its cursor, an override shows text in another order than it is
stored, and zero-width characters and tags hide text from people that a model reads. Text for people and models is
written without them. JSON escapes them, so that a program gets them back exactly.
"""

import re
from typing import Any

import msgspec

from satchel.model.patterns import lazy_pattern

__all__ = ["json_bytes", "visible"]

_OVERRIDES = "\u202a-\u202e\u2066-\u206f"
_TAGS = "\ufff9-\ufffb\U000e0000-\U000e007f"
_SPACELESS = "\u180e\u200b\u2060-\u2065\ufeff"
_JOINERS = "\u061c\u200c-\u200f"

_REPLACED = lazy_pattern(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_OVERRIDES}{_TAGS}]")
# Persian, Hindi and emoji need joiners and direction marks, but only after a character of their own script.
_REMOVED = lazy_pattern(f"[{_SPACELESS}]|(?<![^\x00-\x7f{_JOINERS}{_SPACELESS}{_OVERRIDES}{_TAGS}])[{_JOINERS}]")
_ESCAPED = lazy_pattern(f"[\x7f-\x9f\u2028\u2029{_OVERRIDES}{_TAGS}{_SPACELESS}{_JOINERS}]")


def visible(text: str) -> str:
    """Return a text with plain newlines and only characters that people see.

    Controls, overrides and tags are replaced by U+FFFD, zero-width characters are removed. Joiners (U+200C,
    U+200D) and direction marks stay after a character that is not ASCII. Tabs stay.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii():
        text = _REMOVED.sub("", text)
    return _REPLACED.sub("\N{REPLACEMENT CHARACTER}", text)


def json_bytes(value: Any) -> bytes:
    """Encode a value as compact JSON. Characters that are not seen as text and lone surrogates are escaped."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A tool's output can hold a lone surrogate, which UTF-8 cannot encode but JSON can escape.
        import json

        encoded = json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    # Outside of strings JSON is ASCII, so every such character stands inside one.
    return _ESCAPED.sub(_escape, encoded.decode()).encode()


def _escape(match: re.Match[str]) -> str:
    import json

    return json.dumps(match.group())[1:-1] if match.group() != "\x7f" else r"\u007f"
