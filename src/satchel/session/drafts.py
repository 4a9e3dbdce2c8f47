"""What is entered of a text or a result: its size, its shape, what is said of it in fewer words."""

from collections.abc import Callable, Mapping
from typing import Any

from satchel.session.contents import Said
from satchel.session.delivery import Parcel
from satchel.session.digests import digest, headline
from satchel.session.notes import digest_line, stub_line
from satchel.session.records import Measure, measure
from satchel.session.sampling import about_tokens
from satchel.session.shapes import shape_of
from satchel.store.ledger import Role

__all__ = ["fields_of_result", "fields_of_text", "parcel_of"]

Count = Callable[[str], int]


def parcel_of(whole: Said, tool: str, handle: str, secret: bytes, count: Count) -> Parcel:
    """A result, looked at once before pages of it are made."""
    if isinstance(whole, bytes):
        return Parcel("", handle, "text", Measure(len(whole), "bytes"), 0, len(whole), secret)
    shape = shape_of(whole, tool=tool)
    size = len(whole.encode("utf-8", "surrogatepass"))
    return Parcel(whole, handle, shape, measure(whole, shape), about_tokens(whole, count), size, secret)


def fields_of_result(
    parcel: Parcel, whole: Said, tool: str, arguments: Mapping[str, Any] | None, *, error: bool, count: Count
) -> dict[str, Any]:
    """What is entered of a result besides its page."""
    if isinstance(whole, bytes):
        short = line = f"binary output of {len(whole):,} bytes"
    else:
        short = digest(whole, tool=tool, arguments=arguments, shape=parcel.shape, error=error)
        line = headline(whole, tool=tool, arguments=arguments, shape=parcel.shape, error=error)
    stub = stub_line(parcel.handle, tool, line, size=parcel.size, tokens=parcel.total_tokens)
    return {
        "media": "bytes" if isinstance(whole, bytes) else "text",
        "size": parcel.size,
        "shape": parcel.shape,
        "total_tokens": parcel.total_tokens,
        "digest": short,
        "digest_tokens": count(digest_line(parcel.handle, tool, short)),
        "stub": stub,
        "stub_tokens": count(stub),
    }


def fields_of_text(text: str, role: Role, handle: str, count: Count, *, tool: str = "") -> dict[str, Any]:
    """What is entered of a text that nobody pages through."""
    tokens = count(text)
    size = len(text.encode("utf-8", "surrogatepass"))
    line = headline(text, tool=tool or None, arguments=None, shape="text")
    stub = stub_line(handle, tool or role, line, size=size, tokens=tokens)
    return {
        "handle": handle,
        "tool": tool,
        "size": size,
        "stop": len(text),
        "tokens": tokens,
        "total_tokens": tokens,
        "stub": stub,
        "stub_tokens": count(stub),
    }
