"""The portable pack of memories as markdown: to be pasted anywhere, and read back."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from satchel.fitting.guard import BLOCK_OPENINGS, FENCE_OR_HTML, guarded_line, one_line, unguarded_line
from satchel.fitting.listing import clean
from satchel.fitting.selfcount import self_counted
from satchel.model.memory import Memory

__all__ = [
    "MOST",
    "PackedMemory",
    "pack_markdown",
    "pack_markdown_around",
    "pack_markdown_piece",
    "parse_pack_markdown",
]

BETWEEN = "\n---\n\n"
MOST = 9_999_999

_FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})")
_FENCE_OR_HTML = re.compile(rf"{BLOCK_OPENINGS}(?:{FENCE_OR_HTML})")
_WRAPPER = re.compile(r"~{3,}")
_HEADING = re.compile(r"## \[(\w+)\] (.*)")
_FACTS = re.compile(r"\*(\d{4}-\d\d-\d\d) \| importance: ([\d.e-]+)(?: \| tags: (.*))?\*")
_IN_TAG = re.compile(r"\\(?=[\\,]|$)|,")
_TAG = re.compile(r"((?:[^,\\]|\\[\\,]|\\)++)(?:, |$)")


class PackedMemory(NamedTuple):
    """A memory as it reads in a pack."""

    kind: str
    title: str
    day: str
    importance: float
    tags: tuple[str, ...]
    text: str


def pack_markdown(
    memories: Sequence[Memory], *, project: str | None, count: Callable[[str], int]
) -> tuple[str, int]:
    """The whole pack, which states its own number of tokens, and that number."""
    body = "".join(map(pack_markdown_piece, memories)).removesuffix(BETWEEN)
    return self_counted(lambda tokens: _pack_heading(len(memories), project, tokens) + body, count)


def pack_markdown_around(project: str | None) -> str:
    """What stands around the memories of a pack, with numbers as long as any that can come."""
    return _pack_heading(MOST, project, MOST)


def pack_markdown_piece(memory: Memory) -> str:
    """What a memory adds to the pack, with what stands between it and the next one."""
    facts = [memory.at.date().isoformat(), f"importance: {memory.importance}"]
    tags = [_IN_TAG.sub(r"\\\g<0>", tag) for each in memory.tags if (tag := one_line(each))]
    facts += [f"tags: {', '.join(tags)}"] if tags else []
    title = one_line(memory.headline()) or ""
    return f"## [{memory.kind}] {title}\n*{' | '.join(facts)}*\n\n{_contained(memory.text)}\n{BETWEEN}"


def parse_pack_markdown(text: str) -> list[PackedMemory]:
    """The memories of a pack, in order."""
    found: list[PackedMemory] = []
    lines = [*text.split("\n"), ""]
    starts = [place for place in _outside_fences(lines) if _HEADING.fullmatch(lines[place])]
    for start, end in pairwise([*starts, len(lines)]):
        heading, facts = _HEADING.fullmatch(lines[start]), _FACTS.fullmatch(lines[start + 1])
        if heading and facts:
            body = "\n".join(lines[start + 2 : end]).strip().removesuffix("\n---").strip()
            tags = tuple(re.sub(r"\\([\\,])", r"\1", tag) for tag in _TAG.findall(facts[3] or ""))
            found.append(PackedMemory(heading[1], heading[2], facts[1], float(facts[2]), tags, _released(body)))
    return found


def _pack_heading(memories: int, project: str | None, tokens: int) -> str:
    name = one_line(project)
    counted = "1 memory" if memories == 1 else f"{memories} memories"
    return f"# {f'Project Context: {name}' if name else 'Context'} ({counted}, ~{tokens} tokens)\n\n"


def _contained(text: str) -> str:
    """The text, so that nothing in it is a heading or a rule, or swallows what comes after it.

    Lines get a backslash where they need one, except in a block of code that starts and ends at the margin. Where
    there is HTML or any other fence, it is hard to say what markdown will make of the lines after it; then all of
    the text stands in a fence of its own.
    """
    lines = clean(text).strip().split("\n")
    outside = _outside_fences(lines)
    if lines[0].startswith("~~~") or any(_FENCE_OR_HTML.match(lines[place]) for place in outside):
        longest = max((len(run) for run in _WRAPPER.findall("\n".join(lines))), default=2)
        wrapper = "~" * (longest + 1)
        return "\n".join([wrapper, *lines, wrapper])
    for place in outside:
        lines[place] = guarded_line(lines[place])
    return "\n".join(lines)


def _released(body: str) -> str:
    """The text that `_contained` made this of."""
    lines = body.split("\n")
    if _WRAPPER.fullmatch(lines[0]):
        return "\n".join(lines[1:-1])
    for place in _outside_fences(lines):
        lines[place] = unguarded_line(lines[place])
    return "\n".join(lines)


def _outside_fences(lines: Sequence[str]) -> list[int]:
    """The places of all lines that are in no block of code at the margin; one that never ends is none."""
    outside: list[int] = []
    start, closing = 0, None
    for place, line in enumerate(lines):
        if closing:
            closing = None if closing.fullmatch(line) else closing
        elif fence := _FENCE.match(line):
            start, closing = place, re.compile(rf" {{0,3}}{fence[1]}{fence[1][0]}*[ \t]*")
        else:
            outside.append(place)
    return outside + list(range(start, len(lines))) if closing else outside
