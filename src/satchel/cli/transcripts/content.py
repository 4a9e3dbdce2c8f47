"""The content of a message, whichever provider's, as pieces: text, tool calls and their results."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from satchel.fitting.as_json import as_json

__all__ = ["Piece", "call_piece", "pieces", "result_piece", "string"]

TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal", "thinking": "thinking"}
CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
RESULT = "tool_result"
PICTURES = ("image", "image_url", "input_image", "document", "file", "input_file", "input_audio", "audio")
# Cannot be read back, and how long it is says little about its tokens.
SEALED = "redacted_thinking"


class Piece(NamedTuple):
    kind: Literal["text", "call", "result"]
    text: str
    images: int = 0
    tool: str | None = None
    call_id: str | None = None


def pieces(content: object) -> list[Piece]:
    """A piece for each block of a content; a string is one block."""
    blocks = content if isinstance(content, list) else [content]
    return [piece for block in blocks if (piece := _piece(block)) is not None]


def call_piece(tool: object, arguments: object, call_id: object) -> Piece:
    name = string(tool)
    given = arguments if isinstance(arguments, str) else as_json(arguments)
    return Piece("call", f"{name} {given}", 0, name or None, string(call_id) or None)


def result_piece(content: object, call_id: object, tool: object = None) -> Piece:
    inner = pieces(content)
    text = "\n".join(piece.text for piece in inner if piece.text)
    images = sum(piece.images for piece in inner)
    return Piece("result", text, images, string(tool) or None, string(call_id) or None)


def string(value: object) -> str:
    """The value if it is a text, and nothing otherwise: recordings hold whatever was sent."""
    return value if isinstance(value, str) else ""


def _piece(block: object) -> Piece | None:
    if isinstance(block, str):
        return _text(block)
    if not isinstance(block, dict):
        return None
    kind = string(block.get("type"))
    if kind in TEXTS:
        return _text(string(block.get(TEXTS[kind])))
    if kind in CALLS:
        return call_piece(block.get("name"), block.get("input"), block.get("id"))
    if kind.endswith(RESULT):
        return result_piece(block.get("content"), block.get("tool_use_id"))
    if kind in PICTURES:
        return _picture(block)
    return None if kind == SEALED else _text(as_json(block))


def _picture(block: dict[str, Any]) -> Piece:
    """An image, or a document, which counts as one unless it holds plain text."""
    texts = list(_plain(block.get("source")))
    return Piece("text", "\n".join(texts), 0 if texts else 1)


def _plain(source: object) -> Iterator[str]:
    if isinstance(source, dict) and source.get("type") == "text":
        yield string(source.get("data"))
    elif isinstance(source, dict) and source.get("type") == "content":
        yield from (piece.text for piece in pieces(source.get("content")) if piece.text)


def _text(text: str) -> Piece | None:
    return Piece("text", text) if text else None
