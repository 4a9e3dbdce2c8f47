"""Prices in units of a plain input token."""

import math
from reprlib import repr as shortened

import msgspec

from satchel.errors import InputError

__all__ = ["Prices"]

BASE = 1.0


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """What a token costs; a cache that lasts 0 minutes is none, and then a token of a prompt costs 1."""

    read: float = 0.1
    write: float = 1.25
    output: float = 5.0
    cache_minutes: float | None = None
    """How long a prompt stays in the cache after it was last read; without a number it stays."""

    def __post_init__(self) -> None:
        for name, value in (
            ("read price", self.read),
            ("write price", self.write),
            ("output price", self.output),
            ("cache minutes", self.cache_minutes),
        ):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} {shortened(value)} is not usable; give a number from 0 upwards")

    @property
    def caching(self) -> bool:
        return self.cache_minutes != 0

    def cost(self, *, read: int, written: int, output: int) -> float:
        write = self.write if self.caching else BASE
        return read * self.read + written * write + output * self.output
