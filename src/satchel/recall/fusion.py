"""One score from all that speaks for a memory: how likely it is that it is needed.

The weights of what was fitted are in `weights.json`, with the script that fits them in its first lines.
What the data at hand cannot teach is weighed by hand: what a memory's keeper said of it, its age, its use.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["FILE", "HAND_SET", "Fitted", "Weights", "family", "fuse", "log_odds", "shares", "weights"]

FILE = Path(__file__).with_name("weights.json")

# Added to the log-odds for each unit of a column.
HAND_SET = {
    "importance": 1.5,
    "doubt": -2.0,
    "contradicted": -1.0,
    "recent": 0.5,
    "used": 0.05,
    "pinned": 1.0,
    "linked": 2.5,
    "overtaken": -1.0,
    "overtakes": 1.0,
    "lift": 1.0,
    "course": 1.0,
}

# What is shown together in an explanation.
PARTS = {
    "words": ("text", "passage", "cover", "passage_cover"),
    "surroundings": (
        "before", "after", "before2", "after2", "near", "around", "around_cover", "far", "far_cover", "answer",
    ),
    "session": ("thread", "thread_best", "thread_cover", "thread_meaning", "course"),
    "meaning": ("meaning", "passage_meaning", "around_meaning", "far_meaning", "before_meaning", "after_meaning"),
    "speaker": ("named", "other", "reply", "reply_to_me"),
    "shape": ("length", "asks", "time_told", "number_told", "number_wanted", "opening"),
    "time": ("time_wanted", "early", "dated", "recent", "overtaken", "overtakes", "lift"),
    "graph": ("linked", "entities"),
    "trust": ("importance", "doubt", "contradicted", "used", "pinned"),
}  # fmt: skip
_PART_OF = {column: part for part, columns in PARTS.items() for column in columns}


class Weights(msgspec.Struct, frozen=True):
    """The intercept and the weight of each column that was fitted."""

    intercept: float
    columns: dict[str, float]


class Fitted(msgspec.Struct, frozen=True):
    """The file of weights: one set for each family of embedders, since their numbers differ in scale."""

    about: str
    families: dict[str, Weights]


# Made here: where two threads read a type of msgspec's for the first time at once, the process dies.
_read = msgspec.json.Decoder(Fitted).decode


def family(embedder: str) -> str:
    """Whose weights serve an embedder of this name."""
    return embedder if embedder == "none" else "static" if embedder.startswith("static") else "dense"


@cache
def weights(family: str) -> Weights:
    """The weights of a family; those of the default embedder where it has none of its own."""
    families = _read(FILE.read_bytes()).families
    return families.get(family) or families["static"]


def fuse(columns: Mapping[str, "Floats"], chosen: Weights) -> "Floats":
    """The probability of each memory."""
    found: Floats = 1 / (1 + np.exp(-np.clip(log_odds(columns, chosen), -30, 30)))
    return found


def log_odds(columns: Mapping[str, "Floats"], chosen: Weights) -> "Floats":
    """The intercept and what each column adds."""
    size = len(next(iter(columns.values())))
    total = np.full(size, chosen.intercept)
    for name, weight in (chosen.columns | HAND_SET).items():
        total += weight * columns[name]
    return total


def shares(
    columns: Mapping[str, "Floats"], place: int, chosen: Weights, *, threaded: bool = True
) -> dict[str, float]:
    """What each part adds to one memory's log-odds, beside what the average candidate has of it.

    A memory that is not `threaded` is a session of its own and its own surroundings: what counts there are
    its words.
    """
    found: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    for name, weight in (chosen.columns | HAND_SET).items():
        found[part_of(name)] += float(weight * (columns[name][place] - columns[name].mean()))
    if not threaded:
        for alone in ("session", "surroundings"):
            found["words"] += found[alone]
            found[alone] = 0.0
    return {part: round(value, 3) for part, value in found.items()}


def part_of(column: str) -> str:
    """The part of an explanation that a column is shown under."""
    return _PART_OF[re.split(r"[/*]", column, maxsplit=1)[0]]
