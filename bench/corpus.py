"""Synthetic memories with the statistics of real ones: Zipf's law over words, lengths of notes."""

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from satchel.model.memory import KINDS
from satchel.text.terms import QUESTION_WORDS

__all__ = ["EMBEDDER", "PROJECTS", "Asked", "Corpus", "vocabulary"]

# A fast embedder for benchmarks of the store, so that they do not measure the embedder.
EMBEDDER = "static"

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
SPEAKERS = ["Ana", "Bram", "Chloe", "Davor", "Esra", "Femi", "Greta", "Hugo", "Ines", "Jonas", "Kaja", "Luis"]

PROJECTS = 20
# One day of a project: a session of about forty turns, one document, and notes.
DAY = 64
FIRST_DAY = datetime(2024, 1, 2, 9, tzinfo=UTC)
SENTENCE = 12
# The share of a text that is about the day's topic, and how many words a topic has. Some of these words are new, so
# the vocabulary grows with the store, as it does with real names and identifiers.
THEMATIC = 0.25
THEME = 40
COINED = 3
# More frequent words are not used in questions.
TELLING = 100
ASKED_FOR = 4

# Besides the words asked for, only question words of `satchel.text.terms` and words of the texts.
SAID = [
    "What did {speaker} say about the {0} of {1}, and the {2} {3}?",
    "Why was {speaker} for {0} and {1} with the {2} of the {3}?",
    "When did {speaker} have the {0} {1} and that {2} with {3}?",
]
KNOWN = [
    "What do we know about the {0} with {1}, {2} and {3}?",
    "Which {0} was it that had the {1} of {2} and {3}?",
    "Where was the {0} {1} from {month}, with {2} and {3}?",
]


class Asked(NamedTuple):
    """A question, and the `ref` of the memory that contains all its content words."""

    text: str
    misspelt: str
    """The same question with two letters of a word swapped, so that this word is not in the index."""
    ref: str
    project: str


class Corpus:
    """A generator of memories. The same seed gives the same words and memories."""

    def __init__(self, seed: int = 7, words: int | Sequence[str] = 30_000) -> None:
        """Use this many invented words, or the given words, most frequent first."""
        self.seed = seed
        self.random = random.Random(seed)
        made: dict[str, None] = dict.fromkeys(COMMON if isinstance(words, int) else words)
        while isinstance(words, int) and len(made) < words:
            made[_coined(self.random)] = None
        self.words = list(made)
        self.cumulative = list(itertools.accumulate(1 / rank for rank in range(1, len(made) + 1)))

    def text(self, length: int) -> str:
        words = self.random.choices(self.words, cum_weights=self.cumulative, k=length)
        sentences = [words[start : start + 12] for start in range(0, length, 12)]
        return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)

    def query(self) -> str:
        """Return a question: a few common words and three rarer ones."""
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

    def days(self, count: int, projects: int = PROJECTS) -> Iterator[dict[str, object]]:
        """Yield memories of projects, day by day. A larger count only appends to a smaller one."""
        for start in range(0, count, DAY):
            yield from itertools.islice(self._day(start // DAY, projects), count - start)

    def questions(self, count: int, number: int, projects: int = PROJECTS) -> list[Asked]:
        """Return questions about the first `count` memories of `days`, evenly spread; fewer if there are few."""
        return [self._question((2 * place + 1) * count // (2 * number), count, projects) for place in range(number)]

    def _day(self, number: int, projects: int) -> Iterator[dict[str, object]]:
        # Seeded by day, so that a question only needs the day it is about.
        rng = random.Random(f"{self.seed} {number}")
        began = FIRST_DAY + timedelta(days=number // projects, minutes=rng.randrange(240))
        theme = rng.sample(self.words[TELLING:], THEME - COINED) + [_coined(rng) for _ in range(COINED)]
        project = f"project-{number % projects}"
        here = {"project": project, "session": f"{project} {began:%Y-%m-%d}"}
        speakers = rng.sample(SPEAKERS, 2)
        turns = rng.randint(30, 50)
        for place in range(DAY):
            at = began + timedelta(minutes=place)
            known: dict[str, object] = {"ref": f"m{number * DAY + place}", "project": project, "at": at.isoformat()}
            if place < turns:
                speaker, other = speakers[place % 2], speakers[1 - place % 2]
                text = self._about(rng, theme, rng.lognormvariate(2.9, 0.7))
                text = f"{other}, {text}" if rng.random() < 0.2 else text
                yield known | here | {"text": text, "tier": "conversation", "speaker": speaker}
            elif place < DAY - 1:
                known |= {"title": self._about(rng, theme, 4)[:-1], "kind": rng.choice(KINDS)}
                known |= {"tags": rng.choices(self.words[TELLING : TELLING + 50], k=rng.randint(1, 3))}
                yield known | {"text": self._about(rng, theme, rng.lognormvariate(3.4, 0.7))}
            else:
                known |= {"title": f"{self._about(rng, theme, 4)[:-1]} of {at:%B %Y}", "source": f"{number}.md"}
                parts = [self._about(rng, theme, rng.lognormvariate(4.2, 0.5)) for _ in range(rng.randint(3, 9))]
                yield known | {"text": "\n\n".join(parts)}

    def _about(self, rng: random.Random, theme: Sequence[str], length: float) -> str:
        words = rng.choices(self.words, cum_weights=self.cumulative, k=max(4, int(length)))
        words = [rng.choice(theme) if rng.random() < THEMATIC else word for word in words]
        sentences = [words[start : start + SENTENCE] for start in range(0, len(words), SENTENCE)]
        return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)

    def _question(self, near: int, count: int, projects: int) -> Asked:
        """Return a question about the first memory from a position on that has a sentence with enough words."""
        rng = random.Random(f"{self.seed} {near}?")
        common = {*self.words[:TELLING], *QUESTION_WORDS, *map(str.lower, SPEAKERS)}
        for place in itertools.chain(range(near, count), range(near)):
            memory = next(itertools.islice(self._day(place // DAY, projects), place % DAY, None))
            text = str(memory["text"])
            sentence = rng.choice(text.replace(",", "").removesuffix(".").lower().split(". "))
            telling = [word for word in dict.fromkeys(sentence.split()) if word not in common]
            if len(telling) < ASKED_FOR:
                continue
            words = rng.sample(telling, ASKED_FOR)
            asked = rng.choice(SAID if "speaker" in memory else KNOWN)
            fields = {
                "speaker": memory.get("speaker"),
                "month": f"{datetime.fromisoformat(str(memory['at'])):%B %Y}",
            }
            longest = max(words, key=len)
            swapped = [_slipped(word) if word == longest else word for word in words]
            return Asked(
                asked.format(*words, **fields),
                asked.format(*swapped, **fields),
                str(memory["ref"]),
                str(memory["project"]),
            )
        raise ValueError(f"none of {count} memories has {ASKED_FOR} words to ask for")


def vocabulary() -> list[str]:
    """Return about 24,000 words, most of them English: the words that are one token in cl100k_base, in its order,
    which is roughly the order of frequency."""
    from splintr import Tokenizer

    decode = Tokenizer.from_pretrained("cl100k_base").decode
    pieces = (_decoded(decode, token) for token in range(100_256))
    words = (piece[1:] for piece in pieces if re.fullmatch(" [a-z]{3,}", piece))
    return list(dict.fromkeys([*COMMON, *words]))


def _decoded(decode: Callable[[list[int]], str], token: int) -> str:
    try:
        return decode([token])
    except ValueError:
        # Part of a character.
        return ""


def _coined(rng: random.Random) -> str:
    syllables = range(rng.randint(1, 3))
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in syllables)


def _slipped(word: str) -> str:
    """Swap two letters near the end of a word; if they are the same, double one."""
    swapped = word[:-3] + word[-2] + word[-3] + word[-1:]
    return swapped if swapped != word else word[:-1] + word[-2:]
