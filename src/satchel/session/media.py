"""What a part of a tool's answer costs that is not text, by fixed rules.

| part | tokens |
|---|---|
| image | width × height / 750, after scaling to at most 1,568 px on the long side; at most 1,600 |
| audio | 32 for each second; without a WAV header, a second is taken to have 8,000 bytes |
| link to a resource, unknown part | those of its JSON |
| embedded text | those of the text and its address |
| embedded bytes | by their kind if an image or audio, else one for each character of their base64 |

Images follow platform.claude.com/docs, "Vision", for the models that scale to 1,568 px; an image whose size cannot
be read counts 1,600. Audio follows ai.google.dev/gemini-api/docs/audio; 8,000 bytes are a second of speech at 64
kbit/s. Some clients paste embedded bytes as the base64 they are, which has 1.1 to 1.5 characters to a token.
"""

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from satchel.session.headers import image_size, wav_seconds

__all__ = ["part_tokens", "wholly_text"]

Count = Callable[[str], int]

_LONG_SIDE = 1568
_PIXELS_OF_TOKEN = 750
_MOST_OF_IMAGE = 1600
_AUDIO_TOKENS = 32
_AUDIO_BYTES = 8000
_HEADER_BYTES = 512 * 1024  # a JPEG's size stands behind its colour profile and its thumbnail
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def wholly_text(part: Any) -> bool:
    """Whether the part is text and nothing else, so that it can be cut and joined."""
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def part_tokens(part: Mapping[str, Any], *, count: Count | None = None) -> int:
    """The tokens of one part of an MCP tool's answer; whatever is in it, there is a number.

    Text is counted by `count`; without one, three characters are a token.
    """
    count = _by_length if count is None else count
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and wholly_text(part):
        return count(part["text"])
    if kind == "image":
        return _image(part.get("data"))
    if kind == "audio":
        return _audio(part.get("data"))
    if kind == "resource" and isinstance(part.get("resource"), Mapping):
        return _resource(part["resource"], count)
    return count(_json(part))


def _resource(resource: Mapping[str, Any], count: Count) -> int:
    address, mime = resource.get("uri"), resource.get("mimeType")
    name = count(address) if isinstance(address, str) else 0
    if isinstance(resource.get("text"), str):
        return name + count(resource["text"])
    blob = resource.get("blob")
    if not isinstance(blob, str):
        return count(_json(resource))
    kind = mime.partition("/")[0].lower() if isinstance(mime, str) else ""
    rule = {"image": _image, "audio": _audio}.get(kind, len)
    return name + rule(blob)


def _image(data: object) -> int:
    size = image_size(_beginning(data))
    if size is None:
        return _MOST_OF_IMAGE
    scale = min(1.0, _LONG_SIDE / max(size))
    return min(_MOST_OF_IMAGE, math.ceil(size[0] * scale * size[1] * scale / _PIXELS_OF_TOKEN))


def _audio(data: object) -> int:
    length = len(data) * 3 // 4 if isinstance(data, str) else 0
    seconds = wav_seconds(_beginning(data), length)
    return math.ceil((length / _AUDIO_BYTES if seconds is None else seconds) * _AUDIO_TOKENS)


def _beginning(data: object) -> bytes:
    """The first bytes of base64 text, as far as they can be read."""
    if not isinstance(data, str):
        return b""
    text = data[: _HEADER_BYTES * 4 // 3]
    if text.startswith("data:"):
        text = text.partition(",")[2]
    plain = text.encode("ascii", "ignore").translate(_URL_SAFE, b" \t\r\n=")
    try:
        return base64.b64decode(plain[: len(plain) // 4 * 4], validate=True)
    except ValueError:
        return b""


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return " " * 3 * _MOST_OF_IMAGE


def _by_length(text: str) -> int:
    return -(-len(text) // 3)
