"""From memories to text: listings for people and JSON for programs."""

from satchel.render.listing import DETAILS, Detail, clean, entry, entry_json, join_entries, join_json

__all__ = ["DETAILS", "Detail", "clean", "entry", "entry_json", "join_entries", "join_json"]
