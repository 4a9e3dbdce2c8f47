"""Items as a JSON array, one on each line, for programs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from satchel.fitting.as_json import as_json
from satchel.fitting.layout import Heading, Parsed
from satchel.fitting.sections import in_order
from satchel.model.item import Item, Placed

__all__ = ["RAW", "Raw"]


class _Entry(msgspec.Struct):
    id: str
    text: str
    tier: str
    kind: str | None = None
    confidence: float | None = None
    title: str | None = None
    speaker: str | None = None
    at: datetime | None = None
    overtaken_by: str | None = None


_read = msgspec.json.Decoder(list[_Entry]).decode


class Raw:
    """The layout of it: no headings, text as it is stored, and only fields that say something."""

    name = "raw"
    around = "[\n]\n"

    def section(self, item: Item) -> Heading:
        return Heading(None, "")

    def group(self, item: Item) -> Heading:
        return Heading(None, "")

    def lines(self, placed: Placed) -> str:
        return _entry(placed) + ",\n"

    def block(self, placed: Sequence[Placed]) -> str:
        if not placed:
            return "[]\n"
        return "[\n" + ",\n".join(map(_entry, in_order(placed))) + "\n]\n"

    def parse(self, text: str) -> list[Parsed]:
        return [
            Parsed(
                entry.text,
                title=entry.title,
                speaker=entry.speaker,
                tier=entry.tier,
                day=entry.at.date().isoformat() if entry.at else None,
                id=entry.id,
                kind=entry.kind,
                confidence=entry.confidence,
                older=entry.overtaken_by is not None,
            )
            for entry in _read(text)
        ]


def _entry(placed: Placed) -> str:
    item = placed.item
    fields: dict[str, Any] = {
        "id": item.id,
        "text": placed.text,
        "kind": item.kind,
        "confidence": item.confidence,
        "title": item.title if placed.text else item.headline(),
        "speaker": item.speaker,
        "at": item.at,
        "overtaken_by": item.overtaken_by,
        "level": None if placed.level == "full" else placed.level,
        # Last, since after a known word an end without a comma is sure to cost no more than one with it.
        "tier": item.tier,
    }
    return as_json({name: value for name, value in fields.items() if value is not None})


RAW = Raw()
