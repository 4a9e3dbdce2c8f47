"""Words of the index that a misspelt word may have meant."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from satchel.terms import query_words, stem

__all__ = ["Vocabulary", "near_terms"]

_SAME_START = {1: 0.7, 2: 0.4}
# A slip in the first letter is rare: two slips that change it are taken for another word.
_OTHER_START = 0.6
_LONGEST = 64


class Vocabulary:
    """The terms of an index, grouped for `near_terms`: worth building once for many words.

    Terms with digits and those of one or two letters are left out: too many are near them.
    """

    def __init__(self, terms: Iterable[str]) -> None:
        self._groups: dict[tuple[str, int], list[str]] = defaultdict(list)
        self._terms = {term for term in terms if 2 < len(term) <= _LONGEST and term.isalpha()}
        for term in self._terms:
            self._groups[term[0], len(term)].append(term)
        self._starts = sorted({start for start, _ in self._groups})

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms)

    def like(self, word: str, slips: int) -> list[str]:
        """The terms with the word's first letter and about its length."""
        lengths = range(len(word) - slips, len(word) + slips + 1)
        return [term for length in lengths for term in self._groups.get((word[0], length), ())]

    def differing_in_first_letter(self, word: str) -> set[str]:
        """The terms that become the word by one slip in its first letter."""
        changed = {start + word[1:] for start in self._starts} | {start + word for start in self._starts}
        changed |= {word[1:], word[1] + word[0] + word[2:]}
        return {term for term in changed & self._terms if term[0] != word[0]}


def near_terms(word: str, vocabulary: Iterable[str], *, limit: int = 3) -> list[tuple[str, float]]:
    """The terms at one or two slips from a word or from its stem, nearest first, each with its weight.

    A slip is a letter too many, missing, wrong, or swapped with its neighbour. The term that is the
    word itself is not among them.
    """
    words = query_words(word) if len(word) <= _LONGEST else []
    if len(words) != 1 or not words[0].isalpha():
        return []
    known = vocabulary if isinstance(vocabulary, Vocabulary) else Vocabulary(vocabulary)
    forms = dict.fromkeys((words[0], stem(words[0])))
    weights: dict[str, float] = {}
    for form in forms:
        for term, weight in _near(form, known):
            weights[term] = max(weight, weights.get(term, 0))
    for form in forms:
        weights.pop(form, None)
    best = sorted(weights.items(), key=lambda found: (-found[1], abs(len(found[0]) - len(words[0])), found[0]))
    return best[: max(0, limit)]


def _near(word: str, vocabulary: Vocabulary) -> Iterator[tuple[str, float]]:
    if not (slips := _slips(word)):
        return
    # Imported when first needed: most queries are spelt well.
    from rapidfuzz import process
    from rapidfuzz.distance import DamerauLevenshtein

    found = process.extract(
        word,
        vocabulary.like(word, slips),
        scorer=DamerauLevenshtein.distance,
        score_cutoff=slips,
        limit=None,
    )
    for term, distance, _ in found:
        if 0 < distance <= _slips(term):
            yield term, _SAME_START[int(distance)]
    for term in vocabulary.differing_in_first_letter(word):
        yield term, _OTHER_START


def _slips(word: str) -> int:
    """How many slips may lie between a word of this length and another before they are two words."""
    if len(word) <= 2:
        return 0
    return 1 if len(word) <= 4 else 2
