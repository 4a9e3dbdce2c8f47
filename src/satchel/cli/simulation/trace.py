"""A session reduced to what its cost depends on: how many tokens each turn adds, and what belongs together."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from satchel.cli.transcripts.assembly import Entry, Transcript
from satchel.text.tokens.counter import Counter

__all__ = ["IMAGE_TOKENS", "Part", "Step", "Trace", "trace_of"]

IMAGE_TOKENS = 1_500
"""What an image or another attachment counts, whatever its size."""


class Part(NamedTuple):
    """An entry of a prompt, as a number of tokens."""

    unit: int
    """Parts of the same unit leave together."""
    tokens: int
    standing: bool = False
    """Whether it is of the system prompt, which never leaves."""


class Step(NamedTuple):
    """A turn: what its prompt holds that the one before did not, the answer to that one included."""

    parts: tuple[Part, ...]
    output: int
    at: datetime | None = None


class Trace(NamedTuple):
    steps: tuple[Step, ...]
    unseen: int = 0
    """The tokens of the system prompt and tool schemas, taken from the usage of the first request."""

    @property
    def timed(self) -> bool:
        return all(step.at is not None for step in self.steps)


def trace_of(transcript: Transcript, counter: Counter) -> Trace:
    """A transcript, each of whose entries is counted once.

    Claude Code records no system prompt. What its provider counted in the first prompt beyond the entries we see is
    that, and the schemas of the tools.
    """
    tokens = _counted(transcript.entries, counter)
    units = _units(transcript.entries)
    prompts: list[list[Part]] = [[] for _ in range(transcript.turns + 1)]
    outputs = [0] * transcript.turns
    standing = False
    for entry, count, unit in zip(transcript.entries, tokens, units, strict=True):
        answered = entry.role == "assistant"
        if answered:
            outputs[entry.turn] += count
        standing = standing or entry.role == "system"
        prompts[entry.turn + answered].append(Part(unit, count, entry.role == "system"))
    unseen = 0
    if transcript.first_prompt is not None and not standing:
        unseen = max(0, transcript.first_prompt - sum(part.tokens for part in prompts[0]))
    if unseen:
        prompts[0].insert(0, Part(-1, unseen, standing=True))
    steps = [
        Step(tuple(parts), output, at)
        for parts, output, at in zip(prompts, outputs, transcript.times, strict=False)
    ]
    return Trace(tuple(steps), unseen)


def _counted(entries: Sequence[Entry], counter: Counter) -> list[int]:
    counts = counter.count_many(entry.text for entry in entries)
    return [count + entry.images * IMAGE_TOKENS for count, entry in zip(counts, entries, strict=True)]


def _units(entries: Sequence[Entry]) -> list[int]:
    """A number for each entry; a tool call and its result have the same one."""
    called: dict[str, int] = {}
    return [
        place if entry.call_id is None else called.setdefault(entry.call_id, place)
        for place, entry in enumerate(entries)
    ]
