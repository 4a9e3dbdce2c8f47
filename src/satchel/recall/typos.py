"""Words of the index that a misspelt word may have meant."""

from collections.abc import Iterable, Iterator

from satchel.text.terms import query_words, stem

__all__ = ["first_letter_slips", "near_terms"]

_SAME_START = {1: 0.7, 2: 0.4}
# A slip in the first letter is rare: two slips that change it are taken for another word.
_OTHER_START = 0.6
_LONGEST = 64
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def near_terms(word: str, vocabulary: Iterable[str], *, limit: int = 3) -> list[tuple[str, float]]:
    """The terms at one or two slips from a word or from its stem, nearest first, each with its weight.

    A slip is a letter too many, missing, wrong, or swapped with its neighbour. The term that is the
    word itself is not among them. Terms with digits and very short ones are near too much to count.
    """
    forms = _forms(word)
    terms = [term for term in vocabulary if 2 < len(term) <= _LONGEST and term.isalpha()]
    weights: dict[str, float] = {}
    for form in forms:
        for term, weight in _near(form, terms):
            weights[term] = max(weight, weights.get(term, 0))
    for form in forms:
        weights.pop(form, None)
    best = sorted(weights.items(), key=lambda found: (-found[1], abs(len(found[0]) - len(word)), found[0]))
    return best[: max(0, limit)]


def first_letter_slips(word: str) -> list[str]:
    """What a word or its stem becomes by one slip in its first letter."""
    found: dict[str, None] = {}
    for form in _forms(word):
        if _slips(form):
            found |= dict.fromkeys([form[1:], form[1] + form[0] + form[2:]])
            found |= dict.fromkeys(letter + rest for letter in _LETTERS for rest in (form, form[1:]))
    return [each for each in found if each[0] != word[0]]


def _forms(word: str) -> list[str]:
    words = query_words(word) if len(word) <= _LONGEST else []
    if len(words) != 1 or not words[0].isalpha():
        return []
    return list(dict.fromkeys((words[0], stem(words[0]))))


def _near(word: str, terms: list[str]) -> Iterator[tuple[str, float]]:
    if not (slips := _slips(word)):
        return
    # Imported when first needed: most queries are spelt well.
    from rapidfuzz import process
    from rapidfuzz.distance import DamerauLevenshtein

    found = process.extract(word, terms, scorer=DamerauLevenshtein.distance, score_cutoff=slips, limit=None)
    for term, distance, _ in found:
        if not 0 < distance <= _slips(term):
            continue
        if term[0] == word[0]:
            yield term, _SAME_START[int(distance)]
        elif distance == 1:
            yield term, _OTHER_START


def _slips(word: str) -> int:
    """How many slips may lie between a word of this length and another before they are two words."""
    if len(word) <= 2:
        return 0
    return 1 if len(word) <= 4 else 2
