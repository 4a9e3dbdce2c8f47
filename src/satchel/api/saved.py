"""What is said of a memory that was just saved: which others are about the same thing."""

import contextlib
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from satchel.api.satchel import Satchel
from satchel.errors import SatchelError
from satchel.fitting.listing import clean
from satchel.model.memory import Hit, Memory

__all__ = ["WIDTH", "Similar", "similar_after_save", "similar_ones"]

# How many characters of a memory are shown.
WIDTH = 80


class Similar(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is about the same thing as another, in one line."""

    id: str
    at: datetime
    headline: str
    """Its title or first words, without control characters."""
    score: float
    """How alike they are, from 0.5 to 1."""


def similar_ones(hits: Iterable[Hit]) -> tuple[Similar, ...]:
    return tuple(
        Similar(id=hit.memory.id, at=hit.memory.at, headline=_headline(hit.memory), score=hit.score) for hit in hits
    )


def similar_after_save(view: Satchel, memory: Memory, *, but: Sequence[str] = ()) -> tuple[Similar, ...]:
    """The memories that this one may replace; for what was said in a conversation none.

    Those whose ids start with one of `but` are left out. It follows a write that has succeeded, and never makes
    it look as if it had failed.
    """
    if memory.tier == "conversation":
        return ()
    with contextlib.suppress(SatchelError):
        found = similar_ones(view.similar(memory.id))
        return tuple(each for each in found if not each.id.startswith(tuple(but)))
    return ()


def _headline(memory: Memory) -> str:
    line = " ".join(clean(memory.headline(WIDTH)).split())
    return line if len(line) <= WIDTH else line[: WIDTH - 1].rstrip() + "…"
