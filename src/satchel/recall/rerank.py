"""A second look at the best candidates, which compares them with each other.

Two things need it. Current stands before outdated: a newer memory overtakes an older one about the same thing. And
a question about the course of things wants a few pieces from each part of a history, not the ten most like it.
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

from satchel.recall.features import Evidence, Feature, Lexical, Sheet
from satchel.recall.question import Question, term_code
from satchel.store.contract import SearchStore, Trace
from satchel.text.terms import QUESTION_WORDS, stem, terms, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["SECOND_LOOK", "Comparison", "Currency", "Told", "as_told", "course", "currency"]


# How many of the best finds are compared with each other. For the first of them, what is newer and most like them
# is looked for among all candidates: it often shares no word with the question.
LEADING = 12
SOUGHT_FOR = 4
BROUGHT = 3
# How much of a memory is read: what it is about stands at its beginning.
READ = 1_000
# What is less than this apart was saved together, and tells several things rather than one anew.
LEAST_GAP = 600e6
MONTH = 30 * 86_400e6
# How many words around a word of change belong to what changed.
REACH = 5
# From this strength on a reader is told; what overtakes has also to speak of a change of what they share.
MARKED = 0.95
# Below the first probability nothing is overtaken, from the second on with full strength: taking two things for
# one is worse than leaving an old one first.
FAINT, CERTAIN = 0.5, 0.9
# How much of a question two have in common at least, where a reader is told.
ANSWERED = 0.2
# How rare a shared word is at least that a change is told of, where two have not the question in common but tags.
NAMED = 0.8
# How much more of the question one of them may answer alone, where a change is told of more than one such word.
LEEWAY = 1.5
# What a store is taken to hold beside what it does hold, so that a small one tells rare words from common ones too:
# so many memories, and so many pairs of unrelated ones at this cosine and spread.
UNSEEN = 50
UNRELATED, SPREAD = 0.15, 0.12
# How many spreads above that a find is taken to be where there are no vectors.
UNKNOWN = 2.0

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

# Words by which a text says that something is no longer as it was; the English ones in any form.
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
# What most texts have, in those languages, or what often stands beside a change.
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
# What can overtake or be overtaken: not a todo, which changes nothing yet, nor an error, a lesson or a prompt.
_STATED = frozenset(["fact", "decision", "preference", "observation", "summary", "procedure", "pattern", "fix"])
_UNDONE = re.compile(
    r"(?:maybe|perhaps|idea|proposal|we (?:could|might|should)|should we|consider"
    r"|vielleicht|idee|peut-être|quizás?|tal vez)\b",
    re.IGNORECASE,
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_MEASURE = re.compile(r"([€$£¥])?\s?(\d[\d.,:]*\d|\d)\s?([€$£¥%°円時]|[^\W\d_]+)?")
_WEEKDAYS = """
monday tuesday wednesday thursday friday saturday sunday
mondays tuesdays wednesdays thursdays fridays saturdays sundays
montag dienstag mittwoch donnerstag freitag samstag sonntag
montags dienstags mittwochs donnerstags freitags samstags sonntags
lundi mardi mercredi jeudi vendredi samedi dimanche lundis mardis mercredis jeudis vendredis samedis dimanches
lunes martes miércoles jueves viernes sábado domingo sábados domingos
月曜 火曜 水曜 木曜 金曜 土曜 日曜
"""
# Words that tell one thing from another of the same name: the deadline of the one, the key for the other.
_LINKING = frozenset(["of", "for", "von", "fur", "de", "du", "des", "del", "para", "pour"])
_NONE: frozenset[str] = frozenset()


# Run A, API v2.
_LABEL = re.compile(r"\b([^\W\d_]{2,}) ([A-HJ-Z]|[vV]\d{1,3})\b(?!['’.])")


# What is told beside something else, not instead of it.
_ADDS = re.compile(
    r"\b(?:too|as well|aussi|également|también|además|ebenfalls|außerdem|auch)[.!]|^\W*(?:also|another|besides"
    r"|additionally|in addition|auch|außerdem|aussi|también|además|また)\b",
    re.IGNORECASE,
)
FIRST_LINE = 200


class Currency(msgspec.Struct, frozen=True):
    """For each memory of a sheet, how surely another one overtakes it, and whether it overtakes one."""

    overtaken: Any
    """Between 0 and 1."""
    overtakes: Any
    """Between 0 and 1."""
    lift: Any
    """How much less it was found than what it overtakes, times how surely it does."""
    by: dict[int, int]
    """For what is surely overtaken the place of what does so, for a reader to be told."""


class Told:
    """One memory, read: its terms, those near a word of change, its tags and what it gives a value of."""

    def __init__(self, title: str | None, text: str, tags: tuple[str, ...], kind: str) -> None:
        whole = text.strip()
        text = f"{title or ''}. {text[:READ]}"
        self._words = words(text) if text.isascii() else _paired(words(text))
        said = {word: stem(word) for word in dict.fromkeys([*self._words, *words(" ".join(tags))])}
        common = _common()
        self.stems = {word: base for word, base in said.items() if word not in common and _telling(word)}
        self.terms = frozenset(self.stems.values())
        self.changed = frozenset(
            self.stems[word] for word in _around_changes(self._words, said) if word in self.stems
        )
        self.tags = frozenset(tag.casefold() for tag in tags)
        self.slots = frozenset(_slots(text)) | ({"weekday"} if _weekdays() & said.keys() else set())
        self.labels = {head.casefold(): label.casefold() for head, label in _LABEL.findall(text)}
        self.kind = kind
        self.adds = _ADDS.search(text.partition("\n")[0][:FIRST_LINE]) is not None
        self.done = not (whole.endswith(("?", "？")) or _UNDONE.match(whole))

    def labelled(self, other: "Told") -> bool:
        """Whether it speaks of an API v2 where the other one has an API without."""
        return any(
            stem(head) in other.terms and label != other.labels.get(head) for head, label in self.labels.items()
        )

    @cached_property
    def first(self) -> str:
        """The first term: mostly what it is about."""
        return next((self.stems[word] for word in self._words if word in self.stems), "")

    @cached_property
    def beside(self) -> tuple[dict[str, set[str]], dict[str, set[str]], dict[str, set[str]]]:
        """What stands before, after, and in an "of" or "for" behind each term."""
        before: dict[str, set[str]] = {}
        after: dict[str, set[str]] = {}
        behind: dict[str, set[str]] = {}
        last, linked = "", False
        for word in self._words:
            if (term := self.stems.get(word)) is None:
                linked = linked or word in _LINKING
                continue
            if last:
                before.setdefault(term, set()).add(last)
                after.setdefault(last, set()).add(term)
                if linked:
                    behind.setdefault(last, set()).add(term)
            # What stands behind a number also stands behind what it counts.
            if not term[0].isdigit():
                last, linked = term, False
        return before, after, behind


# Found again and again, the same memories are read once.
as_told = lru_cache(maxsize=512)(Told)


def _is_another(older: Told, newer: Told, asked: frozenset[str]) -> bool:
    """Whether the newer one has another thing in the place of what the question names: web pipeline, core pipeline.

    A word of the question that only the older one has stands there beside one that both have, and beside that one
    the newer has a word of its own. Or what both speak of is told apart by an "of" or "for" behind it.
    """
    shared = asked & older.terms & newer.terms
    lost = (asked & older.terms) - newer.terms
    for ours, theirs in zip(older.beside[:2], newer.beside[:2], strict=True):
        for head in shared:
            if ours.get(head, _NONE) & lost and theirs.get(head, _NONE) - older.terms:
                return True
    if any(label != newer.labels.get(head, label) for head, label in older.labels.items()):
        return True
    # Mila wears size 36, Tom wears size 31.
    if older.first in lost and newer.first not in older.terms:
        followed = older.beside[1].get(older.first, _NONE) & newer.beside[1].get(newer.first, _NONE)
        if followed:
            return True
    ours, theirs = older.beside[2], newer.beside[2]
    return any(
        head in ours and head in theirs and not ours[head] & newer.terms and not theirs[head] & older.terms
        for head in shared
    )


def _same(older: Told, newer: Told, asked: frozenset[str]) -> bool:
    """Whether the two are surely of the same thing: no other word stands before what both speak of."""
    if newer.adds or older.labelled(newer) or newer.labelled(older):
        return False
    ours, theirs = older.beside[0], newer.beside[0]
    return not any(
        _wordy(ours.get(head, _NONE) - newer.terms) and _wordy(theirs.get(head, _NONE) - older.terms)
        for head in asked & older.terms & newer.terms
    )


def _wordy(found: Iterable[str]) -> bool:
    return any(not term[0].isdigit() for term in found)


def _paired(said: Sequence[str]) -> list[str]:
    """Terms in order; of text without spaces, whose terms are single characters, each pair of neighbours."""
    if not any(_UNSPACED.match(word) for word in said):
        return list(said)
    found = []
    for one, other in itertools.pairwise([*said, ""]):
        if not _UNSPACED.match(one):
            found.append(one)
        elif _UNSPACED.match(other):
            found.append(one + other)
    return found


def _telling(word: str) -> bool:
    """Japanese grammar is written in hiragana, what a text is about mostly is not."""
    return word.isascii() or not any("\u3040" <= sign <= "\u309f" for sign in word)


def _around_changes(said: Sequence[str], stems: Mapping[str, str]) -> Iterator[str]:
    english, foreign, phrases = _change_words()
    changes = {word for word in stems if word in foreign or stems[word] in english}
    for place, pair in enumerate(itertools.pairwise([*said, ""])):
        if pair[0] in changes or pair in phrases:
            yield from said[max(0, place - REACH) : place + REACH + 1]


def _slots(text: str) -> Iterator[str]:
    """What sorts of value a text gives: a time of day, a price, days, gigabytes."""
    for match in _MEASURE.finditer(text):
        before, number, after = match.groups()
        if ":" in number:
            yield "clock"
        elif before or after:
            yield before or after.casefold()


@cache
def _change_words() -> tuple[frozenset[str], frozenset[str], frozenset[tuple[str, ...]]]:
    """English words by their stems, those of other languages as they are, phrases of two words."""
    foreign = (word for line in _FOREIGN_CHANGES.split() for word in _paired(words(line)))
    phrases = (phrase for line in _CHANGE_PHRASES.split("\n") for phrase in line.split("|") if phrase)
    return frozenset(terms(_CHANGES)), frozenset(foreign), frozenset(tuple(words(phrase)) for phrase in phrases)


@cache
def _weekdays() -> frozenset[str]:
    return frozenset(word for line in _WEEKDAYS.split() for word in _paired(words(line)))


@cache
def _common() -> frozenset[str]:
    """Words that no two texts share for being about the same."""
    return frozenset([*words(_COMMON), *QUESTION_WORDS, *words(_CHANGES), *_change_words()[1]])


def currency(
    store: SearchStore,
    sheet: Sheet,
    question: Question,
    lexical: Lexical,
    leading: Sequence[int],
    strength: "Floats",
    *,
    then: datetime | None = None,
) -> Currency:
    """What overtakes what among the best finds, which come best first.

    `strength` is how well each memory of the sheet was found. Where the question is about `then`, what came after
    that moment does not overtake what held, but is overtaken by it.
    """
    overtaken, overtakes, lift = np.zeros(sheet.size), np.zeros(sheet.size), np.zeros(sheet.size)
    by: dict[int, int] = {}
    nothing = Currency(overtaken, overtakes, lift, by)
    leading = [place for place in leading if _states(sheet.traces[place])]
    if not leading:
        return nothing
    rows = _rows(sheet, question)
    places, told = _read(store, sheet, _compared(sheet, rows, leading))
    if len(places) < 2:
        return nothing
    at = np.array([sheet.traces[place].at for place in places], np.float64)
    gap = at[None, :] - at[:, None]
    columns, plain = _pairs(sheet, question, lexical, rows, places, told, gap)
    odds = INTERCEPT + sum(weight * columns[name] for name, weight in WEIGHTS.items())
    # Rounded, since a product of matrices may sum two equal rows in another order.
    sure = np.round(_possible(told, gap) / (1 + np.exp(-np.clip(odds, -30, 30))), 4)
    strengths = np.minimum((sure - FAINT) / (CERTAIN - FAINT), 1.0)
    held = np.zeros(len(places), bool) if then is None else at >= then.timestamp() * 1e6
    asked = _asked(question)
    marked = np.zeros(sheet.size)
    for older, newer in zip(*np.nonzero(sure > FAINT), strict=True):
        if told[newer].terms <= told[older].terms or _is_another(told[older], told[newer], asked):
            continue
        loser, winner = (newer, older) if held[newer] else (older, newer)
        value, lost, won = strengths[older, newer], places[loser], places[winner]
        overtaken[lost] = max(overtaken[lost], value)
        overtakes[won] = max(overtakes[won], value)
        lift[won] = max(lift[won], value * (strength[lost] - strength[won]))
        told_surely = sure[older, newer] >= max(MARKED, marked[lost])
        tell = told_surely and plain[older, newer] and not held[newer]
        if tell and _same(told[older], told[newer], asked):
            marked[lost], by[lost] = sure[older, newer], won
    return Currency(overtaken, overtakes, lift, by)


def _asked(question: Question) -> frozenset[str]:
    return frozenset(stem(word) for term in question.terms for word in _paired(words(term.text)))


def _read(store: SearchStore, sheet: Sheet, places: Sequence[int]) -> tuple[list[int], list[Told]]:
    told = store.memories([sheet.traces[place].key for place in places])
    found = {}
    for place in places:
        memory = told.get(sheet.traces[place].key)
        # A number may be used again after a purge, by a memory of another scope.
        if memory is not None and memory.id == sheet.traces[place].id:
            found[place] = as_told(memory.title, memory.text, memory.tags, memory.kind)
    return list(found), list(found.values())


def _states(trace: Trace) -> bool:
    """Whether it says how something is. In a conversation everything is said anew, and nothing is overtaken."""
    return trace.kind in _STATED and trace.tier != "conversation"


def _rows(sheet: Sheet, question: Question) -> "Floats | None":
    """A unit vector for each memory, where there are any."""
    if question.vector is None:
        return None
    return sheet.meanings(len(question.vector))


def _compared(sheet: Sheet, rows: "Floats | None", leading: Sequence[int]) -> list[int]:
    """The leading ones, and what is newer and most like the first of them."""
    places = dict.fromkeys(leading[:LEADING])
    if rows is not None:
        at = np.array([trace.at for trace in sheet.traces], np.float64)
        first = list(leading[:SOUGHT_FOR])
        alike = rows[first] @ rows.T
        alike[at[None, :] < at[first][:, None] + LEAST_GAP] = 0
        for row in alike:
            best = np.argsort(-row, kind="stable")[:BROUGHT]
            found = (int(place) for place in best if row[place] > 0)
            places |= dict.fromkeys(place for place in found if _states(sheet.traces[place]))
    return list(places)


def _possible(told: Sequence[Told], gap: "Floats") -> "Floats":
    """Whether a pair can be an update at all: the newer one is newer, and of something done.

    A procedure is not outdated by a fact that mentions it, nor a fact by a procedure.
    """
    done = np.array([each.done for each in told])
    steps = np.array([each.kind == "procedure" for each in told])
    found: Floats = done[None, :] & (steps[:, None] == steps[None, :]) & (gap >= LEAST_GAP)
    return found


def _pairs(
    sheet: Sheet,
    question: Question,
    lexical: Lexical,
    rows: "Floats | None",
    places: Sequence[int],
    told: Sequence[Told],
    gap: "Floats",
) -> "tuple[dict[str, Floats], Floats]":
    """The features of each pair, a row for the older and a column for the newer; and which may be marked.

    These speak of a change of what they share, and have most of what either has of the question, or two tags.
    """
    # What only one of them says is not shared, and that two give the same number does not make them of one thing.
    counts = Counter(term for each in told for term in each.terms)
    names = sorted(term for term, count in counts.items() if count > 1 and len(term) > 1 and not term.isdigit())
    rare = _rarity(sheet, names)
    holds = _table([each.terms for each in told], names)
    changed = np.minimum((holds * rare) @ _table([each.changed for each in told], names).T, 2)
    asked = (lexical.memories[:, places] > 0).astype(np.float64)
    # In a store where every memory has a word, it still is what the question asks for.
    telling = lexical.rarity + np.array([term.weight for term in question.terms])
    both = (asked * telling[:, None]).T @ asked / (telling.sum() or 1.0)
    sought = _sought(question, rows, places)
    tagged = np.array([bool(each.tags) for each in told])
    kinds = np.array([each.kind for each in told])
    columns = {
        "shared": _rarest(holds, rare),
        "asked": both,
        "sought": np.minimum.outer(sought, sought),
        "untagged": 1.0 - (tagged[:, None] & tagged[None, :]),
        "tags": np.minimum(_common_members([each.tags for each in told]), 2),
        "kind": (kinds[:, None] == kinds[None, :]).astype(np.float64),
        "changed": changed,
        "gap": np.clip(gap / MONTH, 0, 1),
        "slots": np.minimum(_common_members([each.slots for each in told]), 2),
    }
    # Neither answers much that the other does not.
    alone = np.maximum(both.diagonal()[:, None], both.diagonal()[None, :]) - both
    leeway = np.where(changed > 1, LEEWAY, 1.0)
    asked_of_both = (changed > 0) & (both >= ANSWERED) & (both * leeway >= alone)
    # One word in common is not enough, unless each gives the same sort of value for it.
    asked_of_both &= (holds @ holds.T >= 2) | (columns["slots"] > 0)
    return columns, asked_of_both | ((changed >= NAMED) & (columns["tags"] >= 2))


def _rarest(holds: "Floats", rare: "Floats") -> "Floats":
    """How rare the rarest term is that two have in common."""
    found: Floats = np.stack([(holds * (row * rare)).max(axis=1, initial=0.0) for row in holds])
    return found


def _common_members(sets: Sequence[frozenset[str]]) -> "Floats":
    """How many members each two sets have in common."""
    table = _table(sets, list(frozenset().union(*sets)))
    return table @ table.T


def _table(sets: Sequence[frozenset[str]], names: Sequence[str]) -> "Floats":
    """A row for each set, with a 1 for each of the names it has."""
    number = {name: place for place, name in enumerate(names)}
    table = np.zeros((len(sets), len(names)), np.float32)
    for row, members in zip(table, sets, strict=True):
        row[[number[member] for member in members if member in number]] = 1
    return table


def _rarity(sheet: Sheet, names: Sequence[str]) -> "Floats":
    if not names:
        return np.zeros(0, np.float32)
    codes = np.array([term_code(name) for name in names], np.uint32)
    order = np.argsort(codes, kind="stable")
    at = np.minimum(np.searchsorted(codes[order], sheet.codes), len(codes) - 1)
    counts = np.zeros(len(codes))
    counts[order] = np.bincount(at[codes[order][at] == sheet.codes], minlength=len(codes))
    # What only two memories have counts 1 in a store of any size.
    found: Floats = np.log((sheet.size + UNSEEN) / (np.maximum(counts, 2) + 1)) / np.log((sheet.size + UNSEEN) / 3)
    rare: Floats = np.maximum(found, 0).astype(np.float32)
    return rare


def _sought(question: Question, rows: "Floats | None", places: Sequence[int]) -> "Floats":
    """How near each is to the question, in spreads from what an unrelated one is."""
    if rows is None:
        return np.full(len(places), UNKNOWN)
    cosines = np.einsum("ij,j->i", rows, question.vector)
    mean = (cosines.sum() + UNSEEN * UNRELATED) / (len(cosines) + UNSEEN)
    spread = (((cosines - mean) ** 2).sum() + UNSEEN * SPREAD**2) / (len(cosines) + UNSEEN)
    found: Floats = np.clip((cosines[list(places)] - mean) / np.sqrt(spread), -1, 3)
    return found


# Questions about the course of things want a few short pieces from each part of a history rather than the ten
# memories most like the question. What a conversation is about is said at its beginning, and after the best of one
# part comes that of another.

# The log-odds of the first memory of a part, and how much less each one after it has, down to the negative.
OPENING = 1.5
LATER = 0.05
# How much less each further memory of a part is worth: the fifth best half as much as the best.
FURTHER = 0.25
# A pause this long, or so many memories, and another part of the conversation begins.
PAUSE = 6 * 3600e6
LONGEST_PART = 100


def course(sheet: Sheet, scores: "Floats") -> "Floats":
    """What speaks for each memory in such a question, beside its own score, as log-odds.

    A memory that opens a part of a conversation gains, those after it less and less; and the better memories
    there are in its part and in the same role, the less it brings. What was not said in a conversation is left
    as it is.
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
    """The places of each part of each conversation, in time order; a pause begins another part."""
    parts: list[list[int]] = []
    for place, trace in enumerate(sheet.traces):
        if trace.tier != "conversation" or trace.thread is None:
            continue
        last = parts[-1][-1] if parts else None
        goes_on = (
            last is not None
            and sheet.thread[last] == sheet.thread[place]
            and trace.at - sheet.traces[last].at < PAUSE
            and len(parts[-1]) < LONGEST_PART
        )
        if goes_on:
            parts[-1].append(place)
        else:
            parts.append([place])
    return parts


# The second look as a whole.


# By how much what overtakes a find can gain at most: what was hardly found itself is probably about something else.
MOST_LIFT = 3.0
# Finds within these log-odds of the best are put in order of time where the newest or oldest is asked for.
ABOUT_AS_GOOD = 3.0


class Comparison:
    """The best candidates of a question, to be compared with each other by their log-odds and scores so far.

    With `surroundings` the answer is a context, for which a question about the course of things is told in parts.
    """

    def __init__(self, seen: Evidence, odds: "Floats", scores: "Floats", *, surroundings: bool = False) -> None:
        self._seen = seen
        self._odds = odds
        self._scores = scores
        self._surroundings = surroundings

    @cached_property
    def currency(self) -> Currency:
        """What overtakes what; nothing where the question needs the outdated too.

        That is so for a question about the course of things or about reasons.
        """
        sheet, question = self._seen.sheet, self._seen.question
        if question.about_course or question.intent.reasons or not sheet.alone.any():
            return Currency(np.zeros(sheet.size), np.zeros(sheet.size), np.zeros(sheet.size), {})
        leading = [int(place) for place in np.argsort(-self._odds, kind="stable")[:LEADING]]
        return currency(
            self._seen.store, sheet, question, self._seen.words, leading, self._odds, then=question.about_then
        )

    def lift(self) -> "Floats":
        found: Floats = np.minimum(self.currency.lift, MOST_LIFT)
        return found

    def newer_ones(self) -> "Floats":
        """The logarithm of how many of the finds that are about as good are newer.

        Or older, if the oldest is wanted; 0 where the question asks for neither.
        """
        order = self._seen.question.intent.order
        if order is None:
            return np.zeros(self._seen.sheet.size)
        at = self._seen.at * (-1 if order == "oldest" else 1)
        group = np.sort(at[self._odds > self._odds.max() - ABOUT_AS_GOOD])
        found: Floats = np.log1p(len(group) - np.searchsorted(group, at, side="right"))
        return found

    def course(self) -> "Floats":
        if not self._surroundings or not self._seen.question.about_course:
            return np.zeros(self._seen.sheet.size)
        return course(self._seen.sheet, self._scores)


# Weighed by hand only: what they compare has scores already.
SECOND_LOOK: tuple[Feature[Comparison], ...] = (
    Feature("overtaken", "currency", lambda best: best.currency.overtaken, by_hand=-1.5),
    Feature("overtakes", "currency", lambda best: best.currency.overtakes, by_hand=0.3),
    Feature("lift", "currency", Comparison.lift, by_hand=1.0),
    Feature("newer_ones", "time", Comparison.newer_ones, by_hand=-2.0),
    Feature("course", "session", Comparison.course, by_hand=1.0),
)
