"""The context block as markdown: what was said on one day of one session stands under its date.

Every line that starts at the margin is ours. The further lines of a stored text are indented, so that they
belong to its bullet and can be neither a heading nor a bullet of their own.
"""

from collections.abc import Callable, Hashable, Sequence
from datetime import date

from satchel.memory import Memory
from satchel.render.listing import clean

__all__ = ["CONTEXT_TITLE", "bullet", "bullet_opening", "context_heading", "context_markdown", "group_of"]

CONTEXT_TITLE = "## Memory Context\n"
BULLET = "- "
INDENT = "  "


def bullet(memory: Memory) -> str:
    """The whole text of a memory as one item of a list."""
    first, *others = clean(memory.text).strip().split("\n")
    before = bullet_opening(memory)
    # A bullet before nothing but dashes would be a rule across the page, and end the list.
    if before == BULLET and not first.strip("- \t"):
        first = "\\" + first
    lines = [before + first, *(INDENT + line if line.strip() else "" for line in others)]
    return "\n".join(lines) + "\n"


def context_markdown(memories: Sequence[Memory], *, line: Callable[[Memory], str] = bullet) -> str:
    """The block for these memories, in the order of time; nothing at all for none."""
    groups: dict[Hashable, list[Memory]] = {}
    for memory in sorted(memories, key=lambda each: (each.at, each.id)):
        groups.setdefault(group_of(memory), []).append(memory)
    parts = [CONTEXT_TITLE] if groups else []
    for members in groups.values():
        parts.append(context_heading(members[0].at.date()))
        parts += map(line, members)
    return "".join(parts)


def group_of(memory: Memory) -> Hashable:
    """What shares a heading: a day of a session, or a day of all that is in none."""
    scope = memory.scope
    return memory.at.date(), (scope.project, scope.user, scope.agent, scope.session) if scope.session else None


def context_heading(day: date) -> str:
    # After a blank line, which costs nothing, since without it markdown takes this for a part of the bullet
    # above. "### 2023-05-08" costs 9 tokens, this 7.
    return f"\n{day.isoformat()}:\n"


def bullet_opening(memory: Memory) -> str:
    """What stands before the text: the bullet, the title in bold, who said it."""
    title = f"**{_one_line(memory.title)}**: " if memory.title else ""
    speaker = f"{_one_line(memory.speaker)}: " if memory.speaker else ""
    return f"{BULLET}{title}{speaker}"


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())
