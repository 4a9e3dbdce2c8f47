"""What a question asks for: its terms, whom it names, which times, and its vector."""

import re
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from satchel.recall.entities import query_entities
from satchel.recall.intent import Intent, function_words, is_grammar, read_intent
from satchel.text.dates.spans import Span, named_times
from satchel.text.parts import CODE_BYTES
from satchel.text.segment import query_terms
from satchel.text.terms import QUESTION_WORDS, stem, term_codes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["QueryTerm", "Question", "is_latin", "read_question", "sought_words"]

# A pasted page is searched by its first words: more terms cost time and hardly change the ranking.
MAX_TERMS = 64

# Words that say how to answer, or that something was said at all, more often than what about.
ASKING = 0.3
SELECTING = 0.15
_ASKED = """
answer answers answered ask asked asking aspect aspects brief briefly bring brought chat chats clear
comprehensive conversation conversations describe described detail detailed details different discuss
discussed discussing discussion discussions everything exactly explain explained far finally first
help highlight item items key kind kinds list listed main many mention mentioned mentions much name
named number only order ordered overall overview point points provide provided question questions
recall remember remind said saying sequence session sessions share shared specific specifically
suggest suggested summarise summarize summary talk talked talking thing things think throughout time
times today told topic topics total type types various walk way ways
"""
_ASKING_WORDS = frozenset(_ASKED.split())

_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|we|us|our|ours)\b", re.IGNORECASE)
_ASKS_WHEN = re.compile(
    r"\bwhen\b|\bhow (?:long|old|recently)\b|\bwh(?:at|ich) (?:date|day|month|year|time)\b", re.IGNORECASE
)
_ASKS_MANY = re.compile(r"\bhow (?:many|much|often|far|big|large|fast)\b|\bnumber of\b|\bcount\b", re.IGNORECASE)

_DIGIT = re.compile(r"\d")
_LAST_LATIN = "\u024f"


class QueryTerm(msgspec.Struct, frozen=True):
    """One term of a question; several codes are a phrase. `weight` is below 1 for a corrected slip."""

    text: str
    codes: tuple[int, ...]
    weight: float = 1.0
    meant: str | None = None
    """The word it stands for, where it is a correction."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question, read once."""

    text: str
    terms: tuple[QueryTerm, ...]
    words: frozenset[str]
    times: tuple[Span, ...]
    first_person: bool
    asks_when: bool
    asks_many: bool
    intent: Intent = Intent()
    """What kind of answer it wants."""
    names: frozenset[str] = frozenset()
    """Words of what it names: people, products, identifiers, numbers."""
    latin: bool = True
    """Whether all of its letters are Latin ones."""
    vector: Any = None
    """A row of float32, or None."""

    @property
    def searchable(self) -> list[str]:
        return [term.text for term in self.terms]


def read_question(text: str, *, now: datetime, vector: Callable[[str], "NDArray[np.float32] | None"]) -> Question:
    words = query_terms(text)
    intent, times = read_intent(text), named_times(text, now)
    dated = frozenset(query_terms(" ".join(span.text for span in times)))
    terms: dict[tuple[int, ...], QueryTerm] = {}
    for word in _telling(words, intent.language):
        codes = as_codes(word)
        if codes and len(terms) < MAX_TERMS:
            terms.setdefault(codes, QueryTerm(word, codes, _weight(word, intent, dated)))
    return Question(
        text=text,
        terms=tuple(terms.values()),
        words=frozenset(words[: 2 * MAX_TERMS]),
        times=times,
        intent=intent,
        names=frozenset(query_terms(" ".join(query_entities(text))))
        | {word for word in words if _DIGIT.search(word)},
        first_person=bool(_FIRST_PERSON.search(text)),
        asks_when=bool(_ASKS_WHEN.search(text)),
        asks_many=bool(_ASKS_MANY.search(text)),
        latin=is_latin(text),
        vector=vector(text) if terms else None,
    )


def is_latin(text: str) -> bool:
    """Whether all letters of a text are Latin ones."""
    return text.isascii() or not any(char > _LAST_LATIN and char.isalpha() for char in text)


def sought_words(query: str) -> tuple[str, ...]:
    """The stems of the words that tell, as they can be looked for in a text."""
    # "happi" is what is left of "happy", which it does not stand in.
    stems = (stem(word).rstrip("i") for word in _telling(query_terms(query)))
    return tuple(dict.fromkeys(each.replace(" ", "").casefold() for each in stems))


def _telling(words: Sequence[str], language: str = "en") -> list[str]:
    """Without the words that every question has, unless there are no others."""
    words = words[: 2 * MAX_TERMS]
    without = QUESTION_WORDS | function_words(language)
    return [word for word in words if word not in without and not is_grammar(word)] or list(words)


def _weight(word: str, intent: Intent, dated: frozenset[str]) -> float:
    """How much a word tells of the subject; those that name a time, a kind or an order select instead."""
    if word in dated:
        return SELECTING
    return ASKING if word in _ASKING_WORDS or word in intent.words else 1.0


def as_codes(text: str) -> tuple[int, ...]:
    codes = term_codes(text)
    return tuple(int.from_bytes(codes[at : at + CODE_BYTES], "little") for at in range(0, len(codes), CODE_BYTES))


def corrected(term: QueryTerm, found: str, weight: float) -> QueryTerm:
    """The term that a misspelt one was taken for; a term of the index is a stem already."""
    # The index stems what it looks for: "databas" is the stem of "database", not of itself.
    word = found if stem(found) == found else found + "e"
    return QueryTerm(word, (term_code(found),), weight, term.text)


def term_code(term: str) -> int:
    """The code of a term of the index."""
    return zlib.crc32(term.encode())


def index_term(term: QueryTerm) -> str:
    """What the index calls it."""
    return stem(term.text)
