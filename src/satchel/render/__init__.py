"""From memories to text: listings for people, JSON for programs, context blocks for models."""

from satchel.render.listing import DETAILS, Detail, clean, entry, entry_json, join_entries, join_json
from satchel.render.markdown import (
    CONTEXT_TITLE,
    bullet,
    bullet_opening,
    context_heading,
    context_markdown,
    group_of,
)

__all__ = [
    "CONTEXT_TITLE",
    "DETAILS",
    "Detail",
    "bullet",
    "bullet_opening",
    "clean",
    "context_heading",
    "context_markdown",
    "entry",
    "entry_json",
    "group_of",
    "join_entries",
    "join_json",
]
