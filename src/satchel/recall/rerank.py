"""Reranking: features that compare the best candidates with each other.

There are two reasons for it. A newer memory overtakes an older one about the same thing, so that current
information ranks before outdated. And a question about a course of events needs a few memories from each part of a
history, not the ten most similar ones.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from satchel.model.memory import Memory
from satchel.model.patterns import lazy_pattern
from satchel.recall.columns import NONE, best_first
from satchel.recall.features import Evidence, Feature
from satchel.recall.question import Question, term_code
from satchel.recall.sheet import Sheet
from satchel.text.terms import QUESTION_WORDS, folded, stem, terms, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["RERANK_FEATURES", "Comparison", "Currency", "Statement", "as_statement", "course", "currency"]


# Which memories overtake which.


# How many of the best candidates are compared with each other. For the first SEARCHED_FOR of them, up to
# NEWER_PER_FIND newer and similar memories are searched among all candidates, because these often share no word
# with the question.
LEADING = 12
SEARCHED_FOR = 4
NEWER_PER_FIND = 3
# Only the beginning of a memory is read: it says what the memory is about.
CHARACTERS_READ = 1_000
# Memories less than this apart (in microseconds) were saved together, and are about several things.
LEAST_GAP = 600e6
MONTH = 30 * 86_400e6
# How many words around a word of change belong to what changed.
REACH = 5
# From this probability on, the hit names the newer memory, if that one also mentions a change of what they share.
MARK_FROM = 0.95
# Below the first probability nothing is overtaken, from the second on with full strength. Taking two things for
# one is worse than ranking an outdated memory first.
LEAST_CERTAINTY, FULL_CERTAINTY = 0.5, 0.9
# To be marked, two memories must share at least this much of the question,
LEAST_SHARED = 0.2
# or two tags and a word of at least this rarity, near a word of change.
LEAST_RARITY = 0.8
# How much more of the question one of them may cover alone if several shared words are near a word of change.
LEEWAY = 1.5
# Added to the statistics of a store, so that they are meaningful in a small one: so many memories, with this mean
# and standard deviation of the cosine of unrelated texts.
ASSUMED_MEMORIES = 50
ASSUMED_COSINE, ASSUMED_DEVIATION = 0.15, 0.12
# The assumed deviation of a candidate's cosine if there are no vectors.
DEVIATIONS_WITHOUT_VECTORS = 2.0

# Added to the log-odds for each unit of a feature; fitted on pairs of notes.
INTERCEPT = -14.0
WEIGHTS = {
    "shared": 6.7,
    "asked": 3.3,
    "sought": 1.08,
    "untagged": 1.2,
    "tags": 2.3,
    "kind": 0.8,
    "changed": 1.0,
    "gap": 3.1,
    "slots": 0.9,
}
# The highest value of the feature "changed". That of "shared" is 1.
MOST_CHANGED = 2

# Words of change: they say that something is no longer as it was. English words match in any form.
_CHANGES = """
moved switched migrated replaced replaces instead anymore now changed upgraded downgraded raised lowered
increased decreased reduced doubled halved cut stopped cancelled canceled closed retired retires leaves leaving
left successor becomes became renamed dropped formerly previously expired postponed extended extension abandoned
discontinued succeeds swapped converted
"""
_FOREIGN_CHANGES = """
jetzt umgestellt gewechselt wechselt ersetzt statt stattdessen neuerdings abgeschafft nunmehr inzwischen
mittlerweile umgezogen gekündigt eingestellt verlegt erhöht gesenkt
maintenant désormais remplace remplacé remplacée passons déménage emménage changé arrête augmente
ahora cambió cambiamos cambia reemplaza reemplazado sustituye pasamos mudamos migramos dejamos deja subió
今は もう 変更 代わ 新し 以降 移行 変わ 切り 引っ やめ 廃止 現在 今後 移り 乗り 越し
"""
_CHANGE_PHRASES = """
no longer|any more|no more|as of|now on|up to|back to|takes over|took over|switched off|shut down|instead of
nicht mehr|ab sofort|kein mehr|au lieu|à partir|ya no|en lugar|en vez|a partir|passe à|pasa a
"""
# Words that most texts have in these languages, or that are often near a word of change.
_COMMON = """
new again since from off over up gone back already goes stays remains takes today updated update
dr mr mrs ms prof frau herr
day days week month year every after before because still without
der die das den dem des ein eine einen einem einer und oder aber nicht ist sind war wird werden wir ich sie er es
auf im am um zu zum zur von vom mit für bei nach aus als auch noch nur wie was wer wo wann unser unsere mein meine
neu neue neuen neuer seit ab mehr wieder
le la les un une des du de et ou mais est sont était nous je il elle on ce cette que qui quoi où quand avec pour par
sur dans en au aux se sa son ses notre nos mon ma mes pas ne nouveau nouvelle depuis plus partir lieu
el los las una unos unas y o pero es son era somos yo ella lo que quien cual cuando donde con para por sobre del al
su sus nuestro nuestra mi mis no se esta están hay nuevo nueva desde ya partir lugar
"""
_TENTATIVE = lazy_pattern(
    r"(?:maybe|perhaps|idea|proposal|we (?:could|might|should)|should we|consider"
    r"|vielleicht|idee|peut-être|quizás?|tal vez)\b",
    re.IGNORECASE,
)
_MEASURE = lazy_pattern(r"([€$£¥])?\s?(\d[\d.,:]*\d|\d)\s?([€$£¥%°円時]|[^\W\d_]+)?")
_DIGIT = lazy_pattern(r"\d")
_WEEKDAYS = """
monday tuesday wednesday thursday friday saturday sunday
mondays tuesdays wednesdays thursdays fridays saturdays sundays
montag dienstag mittwoch donnerstag freitag samstag sonntag
montags dienstags mittwochs donnerstags freitags samstags sonntags
lundi mardi mercredi jeudi vendredi samedi dimanche lundis mardis mercredis jeudis vendredis samedis dimanches
lunes martes miércoles jueves viernes sábado domingo sábados domingos
月曜 火曜 水曜 木曜 金曜 土曜 日曜
"""
# Prepositions that distinguish things of the same name: the deadline of one, the key for another.
_PREPOSITIONS = frozenset(["of", "for", "von", "fur", "de", "du", "des", "del", "para", "pour"])
_NONE: frozenset[str] = frozenset()


# A label after a name: Run A, API v2.
_LABEL = lazy_pattern(r"\b([^\W\d_]{2,}) ([A-HJ-Z]|[vV]\d{1,3})\b(?!['’.])")


# Words that announce an addition, not a replacement.
_IN_ADDITION = lazy_pattern(
    r"\b(?:too|as well|aussi|également|también|además|ebenfalls|außerdem|auch)[.!]|^\W*(?:also|another|besides"
    r"|additionally|in addition|auch|außerdem|aussi|también|además|また)\b",
    re.IGNORECASE,
)
FIRST_LINE = 200


class Currency(msgspec.Struct, frozen=True):
    """For each memory of a sheet, how certain it is that another overtakes it, or that it overtakes another."""

    overtaken: Any
    """The certainty that another memory overtakes it, between 0 and 1."""
    overtakes: Any
    """The certainty that it overtakes another memory, between 0 and 1."""
    lift: Any
    """How much lower its log-odds are than those of the memory that it overtakes, times the certainty."""
    by: dict[int, int]
    """The place of the newer memory for each one that is surely overtaken; the hit names it."""


class Statement:
    """A parsed memory: its terms, those near a word of change, its tags, and the types of values in it."""

    def __init__(self, title: str | None, text: str, tags: tuple[str, ...], kind: str) -> None:
        whole = text.strip()
        self._text = text = f"{title or ''}. {text[:CHARACTERS_READ]}"
        self._words = words(text) if text.isascii() else _paired(words(text))
        all_stems = {word: stem(word) for word in dict.fromkeys([*self._words, *words(" ".join(tags))])}
        common = _common()
        self.stems = {word: base for word, base in all_stems.items() if word not in common and _has_meaning(word)}
        self.terms = frozenset(self.stems.values())
        self.changed = frozenset(
            self.stems[word] for word in _around_changes(self._words, all_stems) if word in self.stems
        )
        self.tags = frozenset(tag.casefold() for tag in tags)
        self.slots = frozenset(_slots(text)) | ({"weekday"} if _weekdays() & all_stems.keys() else set())
        self.kind = kind
        self.done = not (whole.endswith(("?", "？")) or _TENTATIVE.match(whole))

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels by the words before them, such as "v2" by "api"."""
        return {head.casefold(): label.casefold() for head, label in _LABEL.findall(self._text)}

    @cached_property
    def adds(self) -> bool:
        """Whether it says that it adds something."""
        return _IN_ADDITION.search(self._text.partition("\n")[0][:FIRST_LINE]) is not None

    def labelled(self, other: "Statement") -> bool:
        """Return whether it has a label that the other does not have: "API v2", and the other one "API"."""
        return any(
            stem(head) in other.terms and label != other.labels.get(head) for head, label in self.labels.items()
        )

    @cached_property
    def first(self) -> str:
        """The first term, which is usually the subject."""
        return next((self.stems[word] for word in self._words if word in self.stems), "")

    @cached_property
    def beside(self) -> tuple[dict[str, set[str]], dict[str, set[str]], dict[str, set[str]]]:
        """For each term, the terms before it, after it, and after it with a preposition such as "of" or "for"."""
        before: dict[str, set[str]] = {}
        after: dict[str, set[str]] = {}
        behind: dict[str, set[str]] = {}
        last, linked = "", False
        for word in self._words:
            if (term := self.stems.get(word)) is None:
                linked = linked or word in _PREPOSITIONS
                continue
            if last:
                before.setdefault(term, set()).add(last)
                after.setdefault(last, set()).add(term)
                if linked:
                    behind.setdefault(last, set()).add(term)
            # A number is skipped: the term after it also follows the term before it.
            if not term[0].isdigit():
                last, linked = term, False
        return before, after, behind


# Cached, because the same memories are often found again.
as_statement = lru_cache(maxsize=512)(Statement)


def _statement_of(memory: Memory) -> Statement:
    return as_statement(memory.title, memory.text, memory.tags, memory.kind)


def _is_other_subject(older: Statement, newer: Statement, asked: frozenset[str]) -> bool:
    """Return whether the newer memory is about another thing than the question: core pipeline, not web pipeline.

    That is so if a word of the question that only the older one has is next to a word that both have, and the
    newer one has another word in that place. Or if what both mention is distinguished by a preposition, as in "of"
    or "for".
    """
    shared = asked & older.terms & newer.terms
    lost = (asked & older.terms) - newer.terms
    for ours, theirs in zip(older.beside[:2], newer.beside[:2], strict=True):
        for head in shared:
            if ours.get(head, _NONE) & lost and theirs.get(head, _NONE) - older.terms:
                return True
    if any(label != newer.labels.get(head, label) for head, label in older.labels.items()):
        return True
    # Example: Mila wears size 36, Tom wears size 31.
    if older.first in lost and newer.first not in older.terms:
        followed = older.beside[1].get(older.first, _NONE) & newer.beside[1].get(newer.first, _NONE)
        if followed:
            return True
    ours, theirs = older.beside[2], newer.beside[2]
    return any(
        head in ours and head in theirs and not ours[head] & newer.terms and not theirs[head] & older.terms
        for head in shared
    )


def _is_same_subject(older: Statement, newer: Statement, asked: frozenset[str]) -> bool:
    """Return whether two memories are certainly about the same thing: the same words come before shared terms."""
    if newer.adds or older.labelled(newer) or newer.labelled(older):
        return False
    ours, theirs = older.beside[0], newer.beside[0]
    return not any(
        _has_word(ours.get(head, _NONE) - newer.terms) and _has_word(theirs.get(head, _NONE) - older.terms)
        for head in asked & older.terms & newer.terms
    )


def _has_word(found: Iterable[str]) -> bool:
    return any(not term[0].isdigit() for term in found)


def _is_unspaced(word: str) -> bool:
    # Not a pattern: compiling this class of characters takes 2 ms.
    return "\u3040" <= word[:1] <= "\u30ff" or "\u3400" <= word[:1] <= "\u9fff"


def _paired(text_words: Sequence[str]) -> list[str]:
    """Return the words in order; single characters of text without spaces are replaced by pairs of neighbours."""
    if not any(_is_unspaced(word) for word in text_words):
        return list(text_words)
    found = []
    for one, other in itertools.pairwise([*text_words, ""]):
        if not _is_unspaced(one):
            found.append(one)
        elif _is_unspaced(other):
            found.append(one + other)
    return found


def _has_meaning(word: str) -> bool:
    """Return whether a word is not Japanese grammar, which is written in hiragana."""
    return word.isascii() or not any("\u3040" <= sign <= "\u309f" for sign in word)


def _around_changes(text_words: Sequence[str], stems: Mapping[str, str]) -> Iterator[str]:
    english, foreign, phrases = _change_words()
    changes = {word for word in stems if word in foreign or stems[word] in english}
    for place, pair in enumerate(itertools.pairwise([*text_words, ""])):
        if pair[0] in changes or pair in phrases:
            yield from text_words[max(0, place - REACH) : place + REACH + 1]


def _slots(text: str) -> Iterator[str]:
    """Yield the types of values in a text: a time of day, a currency, a unit such as days or GB."""
    for match in _MEASURE.finditer(text) if _DIGIT.search(text) else ():
        before, number, after = match.groups()
        if ":" in number:
            yield "clock"
        elif before or after:
            yield before or after.casefold()


@cache
def _change_words() -> tuple[frozenset[str], frozenset[str], frozenset[tuple[str, ...]]]:
    """Return the words of change: stems of English words, words of other languages, phrases of two words."""
    foreign = map(folded, _FOREIGN_CHANGES.split())
    phrases = (phrase for line in _CHANGE_PHRASES.split("\n") for phrase in line.split("|") if phrase)
    return frozenset(terms(_CHANGES)), frozenset(foreign), frozenset(tuple(words(phrase)) for phrase in phrases)


@cache
def _weekdays() -> frozenset[str]:
    return frozenset(map(folded, _WEEKDAYS.split()))


@cache
def _common() -> frozenset[str]:
    """Return words that do not indicate a shared subject."""
    return frozenset([*words(_COMMON), *QUESTION_WORDS, *words(_CHANGES), *_change_words()[1]])


def currency(
    seen: Evidence, leading: Sequence[int], strength: "Floats", *, then: datetime | None = None
) -> Currency:
    """Return which of the best candidates overtake which; `leading` are their places, best first.

    `strength` are the log-odds of each candidate. If the question is about an earlier moment `then`, later memories
    do not overtake the ones of that time, but are overtaken by them.
    """
    sheet, question = seen.sheet, seen.question
    states = sheet.states
    leading = [place for place in leading if states[place]]
    if not leading:
        return Currency(seen.zeros, seen.zeros, seen.zeros, {})
    rows = _rows(sheet, question)
    compared = seen.derive("statement", _statement_of, _compared(sheet, rows, leading, states))
    places, statements = list(compared), list(compared.values())
    if len(places) < 2:
        return Currency(seen.zeros, seen.zeros, seen.zeros, {})
    at = sheet.at[places]
    gap = at[None, :] - at[:, None]
    columns = _without_terms(seen, rows, places, statements, gap)
    odds = INTERCEPT + sum(WEIGHTS[name] * column for name, column in columns.items())
    most = WEIGHTS["shared"] + WEIGHTS["changed"] * MOST_CHANGED * np.array([bool(s.changed) for s in statements])
    possible = _possible(statements, gap) & (odds + most > 0)
    if not possible.any():
        # Most questions end here: comparing the terms takes longer than everything before.
        return Currency(seen.zeros, seen.zeros, seen.zeros, {})
    columns, plain = _pairs(sheet, columns, statements)
    odds = INTERCEPT + sum(weight * columns[name] for name, weight in WEIGHTS.items())
    # Rounded, because a matrix product may sum two equal rows in a different order.
    sure = np.round(possible / (1 + np.exp(-np.clip(odds, -30, 30))), 4)
    strengths = np.minimum((sure - LEAST_CERTAINTY) / (FULL_CERTAINTY - LEAST_CERTAINTY), 1.0)
    held = np.zeros(len(places), bool) if then is None else at >= then.timestamp() * 1e6
    asked = _asked(question)
    overtaken, overtakes, lift = np.zeros(sheet.size), np.zeros(sheet.size), np.zeros(sheet.size)
    by: dict[int, int] = {}
    marked: dict[int, float] = {}
    for older, newer in np.argwhere(sure > LEAST_CERTAINTY).tolist():
        if statements[newer].terms <= statements[older].terms or _is_other_subject(
            statements[older], statements[newer], asked
        ):
            continue
        loser, winner = (newer, older) if held[newer] else (older, newer)
        value, lost, won = strengths[older, newer], places[loser], places[winner]
        overtaken[lost] = max(overtaken[lost], value)
        overtakes[won] = max(overtakes[won], value)
        lift[won] = max(lift[won], value * (strength[lost] - strength[won]))
        certain = sure[older, newer] >= max(MARK_FROM, marked.get(lost, 0.0))
        mark = certain and plain[older, newer] and not held[newer]
        if mark and _is_same_subject(statements[older], statements[newer], asked):
            marked[lost], by[lost] = sure[older, newer], won
    return Currency(overtaken, overtakes, lift, by)


def _asked(question: Question) -> frozenset[str]:
    return frozenset(stem(word) for term in question.terms for word in _paired(words(term.text)))


def _rows(sheet: Sheet, question: Question) -> "Floats | None":
    """Return a unit vector for each memory; None if the question has no vector."""
    if question.vector is None:
        return None
    if not sheet.has_vectors(len(question.vector)):
        return np.zeros((sheet.size, len(question.vector)), np.float32)
    return sheet.meanings


def _compared(
    sheet: Sheet, rows: "Floats | None", leading: Sequence[int], states: "NDArray[np.bool_]"
) -> list[int]:
    """Return the places of the leading candidates, and of newer memories similar to the first of them."""
    places = dict.fromkeys(leading[:LEADING])
    if rows is not None:
        at = sheet.at
        first = list(leading[:SEARCHED_FOR])
        # A matrix product would wake the threads of BLAS, which takes longer than computing four rows.
        alike = np.einsum("ij,kj->ik", rows[first], rows)
        alike[at[None, :] < at[first][:, None] + LEAST_GAP] = 0
        for row in alike:
            for _ in range(NEWER_PER_FIND):
                place = int(row.argmax())
                if row[place] > 0 and states[place]:
                    places[place] = None
                row[place] = 0
    return list(places)


def _possible(statements: Sequence[Statement], gap: "Floats") -> "Floats":
    """Return which pairs can be updates: the second is later by `LEAST_GAP`, and is not a question or a proposal.

    A procedure does not overtake a fact that mentions it, nor a fact a procedure.
    """
    done = np.array([each.done for each in statements])
    steps = np.array([each.kind == "procedure" for each in statements])
    found: Floats = done[None, :] & (steps[:, None] == steps[None, :]) & (gap >= LEAST_GAP)
    return found


def _without_terms(
    seen: Evidence, rows: "Floats | None", places: Sequence[int], statements: Sequence[Statement], gap: "Floats"
) -> "dict[str, Floats]":
    """Return the features of each pair (row: the older, column: the newer) that do not compare their terms."""
    asked = seen.words.present[:, places].astype(np.float64)
    # The weight is added because a word that every memory has is still a word of the question.
    importance = seen.words.rarity + np.array([term.weight for term in seen.question.terms])
    sought = np.full(len(places), DEVIATIONS_WITHOUT_VECTORS)
    if rows is not None:
        sought = _sought(seen.mean_cosines, places)
    tagged = np.array([bool(each.tags) for each in statements])
    kinds = np.array([each.kind for each in statements])
    return {
        "asked": (asked * importance[:, None]).T @ asked / (importance.sum() or 1.0),
        "sought": np.minimum.outer(sought, sought),
        "untagged": 1.0 - (tagged[:, None] & tagged[None, :]),
        "tags": np.minimum(_common_members([each.tags for each in statements]), 2),
        "kind": (kinds[:, None] == kinds[None, :]).astype(np.float64),
        "gap": np.clip(gap / MONTH, 0, 1),
        "slots": np.minimum(_common_members([each.slots for each in statements]), 2),
    }


def _pairs(
    sheet: Sheet, columns: "Mapping[str, Floats]", statements: Sequence[Statement]
) -> "tuple[dict[str, Floats], Floats]":
    """Return the features of each pair, given those without terms, and which pairs may be marked.

    A pair may be marked if words of change are near shared terms, and if both cover about the same part of the
    question or share two tags.
    """
    # Terms of one memory only are not shared, and numbers and single letters do not indicate a subject.
    counts = Counter(itertools.chain.from_iterable(each.terms for each in statements))
    names = sorted(term for term, count in counts.items() if count > 1 and len(term) > 1 and not term.isdigit())
    rare = _rarity(sheet, names)
    holds = _table([each.terms for each in statements], names)
    changed = np.minimum((holds * rare) @ _table([each.changed for each in statements], names).T, MOST_CHANGED)
    both = columns["asked"]
    # Neither covers much of the question that the other does not.
    alone = np.maximum(both.diagonal()[:, None], both.diagonal()[None, :]) - both
    leeway = np.where(changed > 1, LEEWAY, 1.0)
    asked_of_both = (changed > 0) & (both >= LEAST_SHARED) & (both * leeway >= alone)
    # One shared word is not enough, unless both have a value of the same type.
    asked_of_both &= (holds @ holds.T >= 2) | (columns["slots"] > 0)
    found = {**columns, "shared": _rarest(holds, rare), "changed": changed}
    return found, asked_of_both | ((changed >= LEAST_RARITY) & (columns["tags"] >= 2))


def _rarest(holds: "Floats", rare: "Floats") -> "Floats":
    """Return the rarity of the rarest term that two memories share, for each pair."""
    found: Floats = (holds[:, None] * (holds * rare)).max(axis=2, initial=0.0)
    return found


def _common_members(sets: Sequence[frozenset[str]]) -> "Floats":
    """Return how many members two sets share, for each pair."""
    table = _table(sets, list(frozenset().union(*sets)))
    return table @ table.T


def _table(sets: Sequence[frozenset[str]], names: Sequence[str]) -> "Floats":
    """Return a row for each set, with a 1 for each name that it contains."""
    number = {name: place for place, name in enumerate(names)}
    table = np.zeros((len(sets), len(names)), np.float32)
    for row, members in zip(table, sets, strict=True):
        row[[number[member] for member in members if member in number]] = 1
    return table


def _rarity(sheet: Sheet, names: Sequence[str]) -> "Floats":
    if not names:
        return np.zeros(0, np.float32)
    codes = np.array([term_code(name) for name in names], np.uint32)
    counts = sheet.counts(codes)
    # A term that only two memories have has the rarity 1 in a store of any size.
    found: Floats = np.log((sheet.size + ASSUMED_MEMORIES) / (np.maximum(counts, 2) + 1)) / np.log(
        (sheet.size + ASSUMED_MEMORIES) / 3
    )
    rare: Floats = np.maximum(found, 0).astype(np.float32)
    return rare


def _sought(cosines: "Floats", places: Sequence[int]) -> "Floats":
    """Return the cosine of some memories with the question, as standard deviations from the mean of all."""
    size = len(cosines) + ASSUMED_MEMORIES
    mean = (cosines.sum() + ASSUMED_MEMORIES * ASSUMED_COSINE) / size
    spread = (((cosines - mean) ** 2).sum() + ASSUMED_MEMORIES * ASSUMED_DEVIATION**2) / size
    found: Floats = np.clip((cosines[list(places)] - mean) / np.sqrt(spread), -1, 3)
    return found


# Questions about a course of events need a few memories from each part of a history, not the ten most similar
# ones. The beginning of a part says what it is about. After the best memory of one part comes the best of another.


# The log-odds added to the first memory of a part, and how much less each later one gets, down to -OPENING.
OPENING = 1.5
LATER = 0.05
# How much less each further memory of a part is worth: the fifth best has half the odds of the best.
FURTHER = 0.25
# A new part of a conversation starts after a pause this long (in microseconds), or after so many memories.
PAUSE = 6 * 3600e6
LONGEST_PART = 100


def course(sheet: Sheet, scores: "Floats") -> "Floats":
    """Return the log-odds to add to each memory for a question about a course of events.

    The first memory of a part of a conversation gains the most, later ones less. A memory loses for each better
    one of the same part and role. Memories that are not part of a conversation get 0.
    """
    found = np.zeros(sheet.size)
    replies = sheet.replies
    for part in _parts(sheet):
        places = np.array(part)
        found[places] += np.maximum(OPENING - LATER * np.arange(len(part)), -OPENING)
        for reply in (0, 1):
            same = places[replies[places] == reply]
            best_first = same[np.argsort(-(scores[same] * np.exp(found[same])), kind="stable")]
            found[best_first] -= np.log1p(FURTHER * np.arange(len(same)))
    return found


def _parts(sheet: Sheet) -> list[list[int]]:
    """Return the places of each part of each conversation, in order of time; a long pause starts a new part."""
    parts: list[list[int]] = []
    turns = np.flatnonzero(sheet.spoken & (sheet.columns.beside != NONE))
    for place in turns.tolist():
        last = parts[-1][-1] if parts else None
        goes_on = (
            last is not None
            and sheet.thread[last] == sheet.thread[place]
            and sheet.at[place] - sheet.at[last] < PAUSE
            and len(parts[-1]) < LONGEST_PART
        )
        if goes_on:
            parts[-1].append(place)
        else:
            parts.append([place])
    return parts


# The features of the reranking.


# The most that an overtaking memory can gain: one with much lower odds is probably about something else.
MOST_LIFT = 3.0
# If the newest or oldest is asked for, candidates within these log-odds of the best are ordered by time.
SIMILAR_ODDS = 3.0


class Comparison:
    """The best candidates of a question, with their log-odds and scores so far, for comparison with each other.

    With `surroundings` the result is for a context block: then a question about a course of events gets memories
    from each part.
    """

    def __init__(self, seen: Evidence, odds: "Floats", scores: "Floats", *, surroundings: bool = False) -> None:
        self._seen = seen
        self._odds = odds
        self._scores = scores
        self._surroundings = surroundings

    @cached_property
    def currency(self) -> Currency:
        """Which candidates overtake which.

        None do if the question also needs outdated memories: one about a course of events or about reasons.
        """
        seen, question = self._seen, self._seen.question
        if question.about_course or question.intent.reasons or not seen.sheet.alone.any():
            return Currency(seen.zeros, seen.zeros, seen.zeros, {})
        leading = best_first(self._odds, LEADING).tolist()
        return currency(seen, leading, self._odds, then=question.about_then)

    def lift(self) -> "Floats":
        """What each overtaking memory gains, limited."""
        found: Floats = np.minimum(self.currency.lift, MOST_LIFT)
        return found

    def newer_ones(self) -> "Floats":
        """The logarithm of how many candidates of similar odds are newer.

        Older, if the question asks for the oldest; 0 if it asks for neither.
        """
        order = self._seen.question.intent.order
        if order is None:
            return self._seen.zeros
        at = self._seen.at * (-1 if order == "oldest" else 1)
        group = np.sort(at[self._odds > self._odds.max() - SIMILAR_ODDS])
        found: Floats = np.log1p(len(group) - np.searchsorted(group, at, side="right"))
        return found

    def course(self) -> "Floats":
        """What a question about a course of events adds to each memory."""
        if not self._surroundings or not self._seen.question.about_course:
            return self._seen.zeros
        return course(self._seen.sheet, self._scores)


# Weights set by hand only, because these features are computed from scores.
RERANK_FEATURES: tuple[Feature[Comparison], ...] = (
    Feature("overtaken", "currency", lambda best: best.currency.overtaken, by_hand=-1.5),
    Feature("overtakes", "currency", lambda best: best.currency.overtakes, by_hand=0.3),
    Feature("lift", "currency", Comparison.lift, by_hand=1.0),
    Feature("newer_ones", "time", Comparison.newer_ones, by_hand=-2.0),
    Feature("course", "session", Comparison.course, by_hand=1.0),
)
