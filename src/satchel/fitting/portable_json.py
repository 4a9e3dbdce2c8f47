"""The portable pack of memories as one JSON object, a memory on each line."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from satchel.fitting.as_json import as_json
from satchel.fitting.portable import MOST
from satchel.fitting.selfcount import self_counted
from satchel.model.memory import Memory, compact

__all__ = ["PACK_VERSION", "PackFacts", "pack_json", "pack_json_around", "pack_json_piece"]

PACK_VERSION = 1

_ALWAYS = ("id", "text", "kind")
_WHERE_TELLING = (
    "title", "tags", "importance", "confidence", "pinned", "at", "speaker", "source", "ref", "topic_key",
    "valid_from", "invalid_at", "project", "user", "agent", "session",
)  # fmt: skip


class PackFacts(NamedTuple):
    """What a pack says of itself."""

    project: str | None
    counter: str
    token_budget: int | None


def pack_json(memories: Sequence[Memory], facts: PackFacts, *, count: Callable[[str], int]) -> tuple[str, int]:
    """The whole pack, which states its own number of tokens, and that number."""
    body = "".join(map(pack_json_piece, memories)).removesuffix(",\n")
    return self_counted(lambda tokens: _whole(facts, tokens, body), count)


def pack_json_around(facts: PackFacts) -> str:
    """What stands around the memories of a pack, with a number as long as any that can come."""
    return _whole(facts, MOST, "\n")


def _whole(facts: PackFacts, tokens: int, body: str) -> str:
    told = {"satchel": "context-pack", "version": PACK_VERSION, **facts._asdict(), "token_count": tokens}
    listed = f"\n{body}\n" if body else ""
    return f'{as_json(told)[:-1]},"memories":[{listed}]}}\n'


def pack_json_piece(memory: Memory) -> str:
    """What a memory adds to the pack: its line, without what only its keeper needs."""
    fields = {name: getattr(memory, name) for name in _ALWAYS}
    telling = compact(memory) | compact(memory.scope)
    fields |= {name: telling[name] for name in _WHERE_TELLING if name in telling}
    # Last, since after a known word an end without a comma is sure to cost no more than one with it.
    return as_json(fields | {"tier": memory.tier}) + ",\n"
