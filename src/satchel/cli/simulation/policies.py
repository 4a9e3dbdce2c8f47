"""Rules that say which units leave a prompt before it is sent."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from satchel.session.eviction import LOW, Unit, over_watermark

__all__ = ["STUB_TOKENS", "KeepAll", "KeepLast", "OldestUntilItFits", "Policy", "Watermarks"]

STUB_TOKENS = 20
"""About what a handle, a line and a size take."""

_STANDING = -1


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def stub(self) -> int:
        """The tokens left in the place of a unit that goes."""
        ...

    @property
    def limit(self) -> int | None:
        """The tokens that a prompt should not exceed."""
        ...

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        """The keys of the units that go, of those still there; `standing` are the tokens of all that cannot."""
        ...


class KeepAll(NamedTuple):
    name: str = "keep all"
    stub: int = 0
    limit: int | None = None

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        return ()


class KeepLast(NamedTuple):
    """Whatever the last turns brought, and nothing else."""

    turns: int
    stub: int = 0
    limit: int | None = None

    @property
    def name(self) -> str:
        return f"keep the last {self.turns:,} turns" if self.turns > 1 else "keep the last turn"

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        gone = []
        # Least recently used first.
        for unit in units.values():
            if unit.used > turn - self.turns:
                break
            gone.append(unit.key)
        return gone


class Watermarks(NamedTuple):
    """Over the limit, down to a part of it."""

    limit: int
    low: float = LOW
    stub: int = STUB_TOKENS

    @property
    def name(self) -> str:
        return f"watermarks, down to {self.low:.4g}"

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        return _over(units, standing, total, turn, limit=self.limit, low=self.low)


class OldestUntilItFits(NamedTuple):
    """As little as will do, whenever a prompt is over the limit."""

    limit: int
    stub: int = 0
    name: str = "oldest until it fits"

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        return _over(units, standing, total, turn, limit=self.limit, low=1.0)


def _over(
    units: Mapping[int, Unit], standing: int, total: int, turn: int, *, limit: int, low: float
) -> Sequence[int]:
    if total <= limit:
        return ()
    # What is new this turn has not been read by the model yet.
    there = [unit._replace(kept=True) if unit.used == turn else unit for unit in units.values()]
    return over_watermark([Unit(_STANDING, standing, 0, -1, True), *there], limit=limit, low=low)
