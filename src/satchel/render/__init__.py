"""From memories to text: listings for people, JSON for programs, context blocks for models."""

from satchel.render.formats import FORMATS, LAYOUTS, Format
from satchel.render.layout import Heading, Layout, Parsed, ReadableLayout
from satchel.render.listing import (
    DETAILS,
    INDENT,
    Detail,
    clean,
    entry,
    entry_json,
    indented,
    join_entries,
    join_json,
)
from satchel.render.messages import as_messages
from satchel.render.portable import (
    PackedMemory,
    pack_markdown,
    pack_markdown_around,
    pack_markdown_piece,
    parse_pack_markdown,
)
from satchel.render.portable_json import PACK_VERSION, PackFacts, pack_json, pack_json_around, pack_json_piece
from satchel.render.selfcount import self_counted

__all__ = [
    "DETAILS",
    "FORMATS",
    "INDENT",
    "LAYOUTS",
    "PACK_VERSION",
    "Detail",
    "Format",
    "Heading",
    "Layout",
    "PackFacts",
    "PackedMemory",
    "Parsed",
    "ReadableLayout",
    "as_messages",
    "clean",
    "entry",
    "entry_json",
    "indented",
    "join_entries",
    "join_json",
    "pack_json",
    "pack_json_around",
    "pack_json_piece",
    "pack_markdown",
    "pack_markdown_around",
    "pack_markdown_piece",
    "parse_pack_markdown",
    "self_counted",
]
