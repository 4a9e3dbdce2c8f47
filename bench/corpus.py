"""Made-up memories with the statistics of real ones: Zipf's law over words, lengths of notes."""

import itertools
import random
from collections.abc import Iterator

from satchel.fields import KINDS

__all__ = ["Corpus"]

ONSETS = [
    "b",
    "br",
    "c",
    "cl",
    "d",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "st",
    "t",
    "v",
]
VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ou"]
CODAS = ["", "l", "m", "n", "nd", "r", "rt", "s", "st", "t", "x"]
COMMON = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "for",
    "on",
    "that",
    "with",
    "we",
    "it",
    "as",
    "was",
    "what",
    "from",
]


class Corpus:
    """The same seed gives the same words and memories."""

    def __init__(self, seed: int = 7, words: int = 30_000) -> None:
        self.random = random.Random(seed)
        made: dict[str, None] = dict.fromkeys(COMMON)
        while len(made) < words:
            made["".join(self._syllable() for _ in range(self.random.randint(1, 3)))] = None
        self.words = list(made)
        self.cumulative = list(itertools.accumulate(1 / rank for rank in range(1, words + 1)))

    def text(self, length: int) -> str:
        words = self.random.choices(self.words, cum_weights=self.cumulative, k=length)
        sentences = [words[start : start + 12] for start in range(0, length, 12)]
        return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)

    def query(self) -> str:
        """A question: a few common words and three rarer ones."""
        rare = self.random.choices(self.words[200:8000], k=3)
        return " ".join(["what was", rare[0], "of the", rare[1], "with", rare[2]])

    def memories(self, count: int, projects: int = 20) -> Iterator[dict[str, object]]:
        for number in range(count):
            yield {
                "text": self.text(max(4, int(self.random.lognormvariate(3.4, 0.7)))),
                "title": self.text(4)[:-1],
                "kind": KINDS[number % len(KINDS)],
                "tags": [self.words[100 + number % 50]],
                "project": f"project-{number % projects}",
                "ref": f"n{number}",
            }

    def _syllable(self) -> str:
        return self.random.choice(ONSETS) + self.random.choice(VOWELS) + self.random.choice(CODAS)
