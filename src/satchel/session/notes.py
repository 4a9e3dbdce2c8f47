"""The lines below a page that say what it is a part of and costs, and the lines that stand for what has left."""

from collections.abc import Callable

from satchel.fitting.selfcount import self_counted

__all__ = ["binary_note", "digest_line", "kilobytes", "noted", "stub_line"]

Count = Callable[[str], int]


def noted(
    content: str, lines: list[str], left: Callable[[int], int], count: Count, *, tokens: int = 0, extra: int = 0
) -> tuple[str, str, int]:
    """The content, of about so many tokens, with its note; the note alone; the tokens of both, which it states.

    `left` says what a session has left after a number of tokens, `extra` are those of parts beside the text.
    """
    beside = f" and ~{extra:,} for what is not text" if extra else ""
    above = content if not content or content.endswith("\n") else f"{content}\n"

    def note(stated: int) -> str:
        return "\n".join([*lines, f"📏 ~{stated:,} tokens{beside}; ~{left(stated) // 1000}k left"])

    guess = tokens + count(note(tokens))
    text, counted = self_counted(lambda stated: above + note(stated), count, guess=guess)
    return text, text[len(above) :], counted


def binary_note(size: int, handle: str) -> str:
    return f"[binary output, {size:,} bytes that are not UTF-8 text: kept whole, handle={handle}]"


def stub_line(handle: str, named: str, headline: str, *, size: int, tokens: int) -> str:
    """What stays of an entry that was evicted: its handle, one line, its size."""
    return f"[{handle} {named}: {headline} · {kilobytes(size)}, ~{tokens:,} tokens]"


def digest_line(handle: str, tool: str, digest: str) -> str:
    return f"[{handle}] {tool}: {digest}"


def kilobytes(size: int) -> str:
    return f"{size:,} bytes" if size < 1_000 else f"{size / 1_000:,.1f} KB"
