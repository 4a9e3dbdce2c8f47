"""Lines that tell of documents."""

from collections.abc import Sequence

from satchel.fitting.portions import Portion
from satchel.server.specs.documents import Unread
from satchel.server.specs.sections import Section
from satchel.server.specs.tree import shown

__all__ = ["few", "named", "number_of", "unread_portions"]

MOST_NAMES = 10


def number_of(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def few(names: Sequence[str]) -> str:
    """The names in one line, of many the first ones and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join([*names[:MOST_NAMES], *([f"and {more:,} more"] if more > 0 else [])])


def named(path: str, section: Section) -> str:
    """A file and the heading in it, as one line."""
    return f"{path}#{shown(section.label)}" if section.titles else path


def unread_portions(unread: Sequence[Unread], *, section: str = "## Not read", rank: int) -> list[Portion]:
    """What was not read and why; of many the first ones and how many more there are."""
    if not unread:
        return []
    lines = [f"{path}: {reason}" for path, reason in unread[:MOST_NAMES]]
    if more := unread[MOST_NAMES:]:
        lines.append(f"and {len(more):,} more, the last of them {more[-1].path}: {more[-1].reason}")
    return [Portion("\n".join(lines) + "\n", section, rank)]
