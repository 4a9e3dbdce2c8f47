"""Halves of surrogate pairs, as JSON escapes and file names bring them; UTF-8 has none."""

from typing import Any

__all__ = ["repair_surrogates", "repaired_value"]


def repair_surrogates(text: str) -> str:
    """The text with surrogate pairs joined into their character and lone halves as U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def repaired_value(value: Any) -> Any:
    """The same in every text of a value that was read from JSON."""
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, list):
        return [repaired_value(each) for each in value]
    if isinstance(value, dict):
        return {repair_surrogates(name): repaired_value(each) for name, each in value.items()}
    return value
