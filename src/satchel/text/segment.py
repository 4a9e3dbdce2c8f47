"""Scripts written without spaces, made findable: each of their characters becomes a word of its own."""

import itertools
import re
import unicodedata
from functools import cache

from satchel.model.surrogates import repair_surrogates

__all__ = ["query_terms", "segment"]

# Han, kana, bopomofo, hangul, yi, and Thai, Lao, Khmer, Myanmar. Korean has spaces, but its particles
# stick to the word, so that only its syllables can be found inside one.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029"
    "\u3031-\u3035\u3041-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001b000-\U0001b2ff\U00020000-\U000323af"
)
_PLAIN_TERM = re.compile(r"[A-Za-z0-9]+")


@cache
def _character() -> re.Pattern[str]:
    # Compiled when first needed: it takes as long as importing several modules.
    return re.compile(f"[{_UNSPACED}]")


@cache
def _term() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")


def segment(text: str) -> str | None:
    """The text with spaces around each unspaced character, or None where it has no such character."""
    if text.isascii() or not _character().search(text):
        return None
    return _character().sub(r" \g<0> ", unicodedata.normalize("NFC", text))


def query_terms(query: str) -> tuple[str, ...]:
    """The distinct terms of a query, in order; a pair of unspaced characters is a phrase of two."""
    found: dict[str, None] = {}
    plain = query if query.isascii() else unicodedata.normalize("NFC", repair_surrogates(query))
    for chunk in plain.split():
        if chunk.isascii():
            found.update(dict.fromkeys(map(str.lower, _PLAIN_TERM.findall(chunk))))
        else:
            for match in _term().finditer(chunk):
                found.update(dict.fromkeys(_terms(match.group())))
            # The index may know characters as letters that this Python's Unicode does not, so the
            # chunk also goes to it as it is, to be split there.
            found[(segment(chunk) or chunk).strip().lower()] = None
    return tuple(term for term in found if term)


def _terms(word: str) -> list[str]:
    if not _character().match(word):
        return [word.lower()]
    return [f"{first} {second}" for first, second in itertools.pairwise(word)] or [word]
