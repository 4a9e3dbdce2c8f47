"""Halves of surrogate pairs, as JSON escapes and file names bring them; UTF-8 has none."""

__all__ = ["repair_surrogates"]


def repair_surrogates(text: str) -> str:
    """The text with surrogate pairs joined into their character and lone halves as U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
