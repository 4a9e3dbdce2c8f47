"""What every counter of tokens offers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

__all__ = ["Counter"]


class Counter(ABC):
    """Turns text into a number of tokens; cheap to make, safe to share between threads."""

    __slots__ = ("name",)

    exact = False
    """Whether `count` is the model's own number rather than a bound or a guess."""

    binds = True
    """Whether the real number stays within `count`, so that a budget held against it means something."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def count(self, text: str) -> int:
        """The number a budget is held against: exact, or an upper bound."""

    def estimate(self, text: str) -> int:
        """The best guess; the same as `count` unless a counter knows better."""
        return self.count(text)

    def count_many(self, texts: Iterable[str]) -> list[int]:
        """One count for each text, in order."""
        return [self.count(text) for text in texts]

    def __repr__(self) -> str:
        return f"<satchel counter {self.name}>"
