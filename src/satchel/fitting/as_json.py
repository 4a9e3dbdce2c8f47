"""Values as JSON text."""

import msgspec

__all__ = ["as_json", "json_inside"]


def as_json(value: object) -> str:
    """Compact, with all but control characters as they are."""
    return msgspec.json.encode(value).decode()


def json_inside(text: str) -> str:
    """What stands between the quotation marks of a JSON string; parts of a text can be joined in it."""
    return as_json(text)[1:-1]
