"""Find entities in a text by their form: names, identifiers, paths, addresses, titles."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from satchel.model.patterns import lazy_pattern
from satchel.text.terms import QUESTION_WORDS

__all__ = ["MAX_ENTITIES", "entities", "query_entities"]

MAX_ENTITIES = 64
_MAX_RUN = 8
_MAX_TOKEN = 300
# Limits: the beginning of a long text names what matters.
_MAX_TEXT = 200_000
_MAX_UNUSUAL = 4_000

# Words that often start a sentence and are no names.
_SENTENCE_STARTERS = """
after again ago although always anyway before besides btw can't congrats congratulations currently earlier
eventually every everyone everything finally first firstly for from good great happy hello hopefully however
i'd i'll i'm i've last lately later like lol look lots many maybe meanwhile more most much my next nice nobody
nothing now often oh okay once one other otherwise our perhaps really recently same see several since sometimes
soon sorry still sure take thank that's their then therefore though today together tomorrow tonight totally two
unfortunately unless until usually well what's whatever when's where's whenever who's will without wow yeah yep
yes yesterday yet
add ask avoid call change check compare count create delete describe do don't draft ensure explain fetch find
fix get help keep list make mention name note prefer put read recall remember remind remove rename replace
return run search see set start stop summarise summarize suppose try update use want write
"""
_TIMES = """
monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thurs fri sat sun
january february march april may june july august september october november december
jan feb mar apr jun jul aug sep sept oct nov dec am pm utc gmt
"""
_NOT_NAMES = QUESTION_WORDS | frozenset(_SENTENCE_STARTERS.split())
_DATES = frozenset(_TIMES.split())
# Words before a colon that are not a speaker.
_LABEL_LIST = (
    "answer cause context error example fact hint info question reason result status summary tip todo warning"
)
_LABELS = frozenset(_LABEL_LIST.split())
# Verbs after the name of a person: "Caroline said".
_PERSON_VERB_LIST = """
said says asked asks told tells thinks thought wants wanted likes liked loves loved hates hated lives lived
moved wrote writes replied answered mentioned went visited bought prefers preferred knows knew plans planned
hopes hoped feels felt works worked joined met came suggested reported reviewed merged approved decided
"""
_PERSON_VERBS = frozenset(_PERSON_VERB_LIST.split())
_WITHIN_NAMES = frozenset(["of", "the", "de", "la", "le", "van", "von", "der", "den", "da", "di", "du", "del", "&"])
_TITLES = frozenset(["dr", "mr", "mrs", "ms", "prof", "st", "rev", "capt", "lt", "sgt", "gen", "sen", "gov"])

# No repetition is followed by something that it could also match, so all patterns take linear time.
_TOKEN = lazy_pattern(r"[^\s\"“”„«»`<>\[\]{}()|,;=—]++")
# Words in lower case, each with a space after it.
_PLAIN_WORDS = lazy_pattern(r"(?:[a-z]++ )++")
# Each alternative starts with its quote, so that the search skips to the next one.
_QUOTED = lazy_pattern(r"`([^`\n]{1,200})`|\"([^\"\n]{2,120})\"|“([^“”\n]{2,120})”|'(?<!\w')([^'\n]{2,120})'(?!\w)")
_OPENING = frozenset('\n"“”„«»[{|>—')
_SENTENCE_ENDS = frozenset(".!?:…")
_BEFORE = "'’‘*_~-–:.!?…¿¡"
_AFTER = "'’‘*~-–:.!?…/\\"

_URL = r"(?:https?://|ftp://|www\.)([^\s/?#]+)([^\s?#]*).*"
_EMAIL = r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"
_HANDLE = r"@[A-Za-z0-9_][\w.-]*"
_ISSUE = r"#\d{1,9}"
_HASHTAG = r"#[^\W\d_][\w-]*"
_TICKET = r"[A-Z][A-Z0-9]{1,9}-\d{1,9}"
_VERSION = r"(?:[vV]\d{1,6}(?:\.\d{1,6}){0,3}|\d{1,6}(?:\.\d{1,6}){2,3})(?:[-+.]?[A-Za-z][\w.+-]{0,20})?"
_WINDOWS = r"(?:[A-Za-z]:[\\/]|\\\\)?[\w.@+~-]+(?:[\\/][\w.@+~-]+)*"
_POSIX = r"(?:~|\.{1,2})?/?[\w.@+-]+(?:/[\w.@+-]+)*"
_LINE_NUMBER = r"(?::\d{1,7}){1,2}"
_DOTTED = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+"
_KEBAB = r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+"
_FLAG = r"--[a-z][a-z0-9]*(?:-[a-z0-9]+)*"


class _Word(NamedTuple):
    """A capitalised word with its position, and evidence for whether it is a name.

    `opens` means that it starts a sentence, which capitalises any word; `confirmed` that it is a name nevertheless.
    """

    start: int
    text: str
    opens: bool
    confirmed: bool
    abbreviated: bool


class _Found(NamedTuple):
    """A name and its position. `doubtful` is a word that may be capitalised only because it starts a sentence."""

    start: int
    name: str
    doubtful: str | None = None


def entities(text: str) -> tuple[str, ...]:
    """Return the entities of a text, in order: names in lower case; identifiers, paths and addresses as written.

    A capitalised word at the start of a sentence counts as a name only if it occurs again with a capital, or if it
    speaks or owns something.
    """
    return _find_names(text, trusting=False)


def query_entities(query: str) -> tuple[str, ...]:
    """Return the entities of a question. The first word may be a name, unless it is a question word or command."""
    return _find_names(query, trusting=True)


def _find_names(text: str, *, trusting: bool) -> tuple[str, ...]:
    text = text[:_MAX_TEXT]
    lowered: set[str] = set()
    capitals: dict[str, int] = {}
    found, titles = _quoted(text)
    found += (one for one in _scanned(text, lowered, capitals) if one.start not in titles)
    found.sort(key=lambda one: one.start)
    names = (
        one.name
        for one in found
        if one.doubtful is None or trusting or (capitals[one.doubtful] > 1 and one.doubtful not in lowered)
    )
    return tuple(dict.fromkeys(names))[:MAX_ENTITIES]


def _quoted(text: str) -> tuple[list[_Found], set[int]]:
    """Return code and titles in quotes, and the positions inside titles, whose words are not names."""
    found: list[_Found] = []
    inside: set[int] = set()
    for match in _QUOTED.finditer(text):
        code, *titles = match.groups()
        if code is not None:
            name = code.strip().removesuffix("()")
        else:
            title = " ".join(next(filter(None, titles)).split()).rstrip(",.;:")
            name = title.casefold() if _is_title(title) else ""
            inside.update(range(*match.span()) if name else ())
        if name:
            found.append(_Found(match.start(), name))
            if len(found) == MAX_ENTITIES:
                break
    return found, inside


def _is_title(quoted: str) -> bool:
    words = quoted.split()
    if not words or len(words) > _MAX_RUN or not words[0][0].isupper():
        return False
    capitals = sum(1 for word in words if word[0].isupper() or word[0].isdigit())
    return words[-1][0].isupper() and 2 * capitals >= len(words) and words[0].casefold() not in _NOT_NAMES - {"the"}


def _scanned(text: str, lowered: set[str], capitals: dict[str, int]) -> Iterator[_Found]:
    run: list[_Word] = []
    distinct: set[str] = set()
    before, ended, unusual, position = 0, True, 0, 0
    while (match := _TOKEN.search(text, position)) is not None:
        raw, (start, end) = match[0], match.span()
        if not run and (words := _PLAIN_WORDS.match(text, start)) is not None:
            # Most of a text: what is below would do the same with each of the words.
            lowered.update(words[0].split())
            position, ended = words.end(), False
            before = position - 1
            continue
        gap = text[before:start]
        before = position = end
        if raw.islower() and raw.isalpha() and not text.startswith("()", end):
            ended = False
            if not (run and gap == " " and raw in _WITHIN_NAMES):
                lowered.add(raw)
                if run:
                    yield from _finish_run(run, distinct, next_word=raw if gap == " " else "")
            elif not _continues(text, end):
                yield from _finish_run(run, distinct, next_word="")
            else:
                run.append(_Word(start, raw, opens=False, confirmed=False, abbreviated=False))
            continue
        unusual += 1
        if unusual > _MAX_UNUSUAL or len(distinct) >= MAX_ENTITIES:
            break
        token = raw.lstrip(_BEFORE) if not raw.startswith(("--", "./", "../", "__", "~/")) else raw
        word = token.rstrip(_AFTER)
        if not word:
            ended = ended or "\n" in gap or raw[0] in ".!?…"
            yield from _finish_run(run, distinct, next_word="")
            continue
        opens = ended or not _OPENING.isdisjoint(gap)
        tail = token[len(word) :]
        abbreviated = tail == "." and (word.casefold() in _TITLES or (len(word) == 1 and word.isupper()))
        ended = not abbreviated and not _SENTENCE_ENDS.isdisjoint(tail)
        is_owner = word.endswith(("'s", "’s"))
        plain = word[:-2] if is_owner else word
        if run and (gap != " " or opens):
            yield from _finish_run(run, distinct, next_word="")
        name = _special_form(plain, called=text.startswith("()", end)) if len(plain) <= _MAX_TOKEN else ""
        if name is not None:
            yield from _finish_run(run, distinct, next_word="")
            if name:
                distinct.add(name)
                yield _Found(start, name)
        elif plain[0].isupper():
            folded = plain.casefold()
            capitals[folded] = capitals.get(folded, 0) + 1
            confirmed = is_owner or (opens and tail == ":" and folded not in _LABELS) or _is_marked(plain)
            if len(run) <= _MAX_RUN:
                run.append(_Word(start, plain, opens, confirmed, abbreviated))
            if (tail and not abbreviated) or is_owner:
                yield from _finish_run(run, distinct, next_word="")
        else:
            lowered.add(plain)
            yield from _finish_run(run, distinct, next_word="")
    yield from _finish_run(run, distinct, next_word="")


def _continues(text: str, end: int) -> bool:
    """Return whether a name continues after a word such as "of": with a capital, or "the" and a capital."""
    following = text[end + 1 : end + 6].removeprefix("the ")
    return text[end : end + 1] == " " and following[:1].isupper()


def _finish_run(run: list[_Word], distinct: set[str], *, next_word: str) -> Sequence[_Found]:
    """Return the name that a run of capitalised words forms, if any, and clear the run."""
    if not run:
        return ()
    words = run[:]
    run.clear()
    while words and (words[0].text.casefold() in _NOT_NAMES or (len(words) > 1 and _is_adverb(words[0]))):
        words.pop(0)
    while words and (words[-1].text in _WITHIN_NAMES or words[-1].text.casefold() in _NOT_NAMES):
        words.pop()
    if not words or len(words) > _MAX_RUN or all(word.text.casefold() in _DATES for word in words):
        return ()
    first = words[0]
    if len(words) == 1 and len(first.text) == 1:
        return ()
    certain = len(words) > 1 or not first.opens or first.confirmed or next_word in _PERSON_VERBS
    name = _Found(first.start, _joined(words), None if certain else first.text.casefold())
    if certain:
        distinct.add(name.name)
    # "Met Caroline" or "New York": the first word of a sentence may or may not belong to the name.
    if first.opens and len(words) > 1 and words[1].text[0].isupper() and not (first.confirmed or first.abbreviated):
        return name, _Found(words[1].start, _joined(words[1:]))
    return (name,)


def _joined(words: list[_Word]) -> str:
    return " ".join(_folded(word) for word in words)


def _is_adverb(word: _Word) -> bool:
    return word.opens and word.text.endswith(("ly", "ed", "ing"))


def _is_marked(word: str) -> bool:
    """Return whether a word has capitals or digits inside, as in PostgreSQL, LGBTQ and H264."""
    rest = word[1:]
    return not (rest.isalpha() and rest.islower()) and any(char.isupper() or char.isdigit() for char in rest)


def _folded(word: _Word) -> str:
    folded = word.text.casefold()
    return f"{folded}." if folded in _TITLES or word.abbreviated else folded


def _special_form(word: str, *, called: bool) -> str | None:
    """Return the normal form of a URL, path, identifier and the like; None for a plain word, empty for noise."""
    if not called and word.isalpha() and (word.istitle() or word.isupper()):
        # Most words that are asked about.
        return None
    if "://" in word or word.startswith("www."):
        if match := _fits(_URL, word):
            return match[1].lower().rpartition("@")[2].removeprefix("www.") + match[2].rstrip("/.,")
        return ""
    if "@" in word:
        return word.casefold() if _fits(_HANDLE, word) or _fits(_EMAIL, word) else ""
    if word[0] == "#":
        return word.casefold() if _fits(_ISSUE, word) or _fits(_HASHTAG, word) else ""
    if word[0] == "-":
        return word if _fits(_FLAG, word) else ""
    if "/" in word or "\\" in word:
        return _path(word)
    return _identifier(word, called=called)


def _identifier(word: str, *, called: bool) -> str | None:
    if ":" in word:
        word = _compiled(_LINE_NUMBER + r"\Z").sub("", word)
    if not word.isascii():
        return None
    if word[0].isdigit() or word[:1] in "vV":
        if _fits(_VERSION, word):
            return "v" + word.lower().removeprefix("v") if word.count(".") < 3 else word
        if word[0].isdigit():
            return ""
    if "." in word:
        return _dotted(word)
    if "-" in word and _fits(_TICKET, word):
        return word.casefold()
    if "-" in word and not word.isupper() and any(map(str.isdigit, word)):
        return word.casefold() if _fits(_KEBAB, word) else ""
    if "_" in word.strip("_") or (word.startswith("__") and word.strip("_")):
        return word if word.replace("_", "a").isalnum() else ""
    if word[0].islower() and word.isalnum() and not word.islower():
        return word
    if word.isalnum() and not word.isalpha():
        return word.casefold() if word[0].isalpha() and not word[0].isupper() else None
    return word if called and word.isidentifier() else None


def _dotted(word: str) -> str | None:
    """Return the form of `os.path` or `README.md`; not of the end of a sentence without a space after it."""
    if not _fits(_DOTTED, word):
        return "" if not word.replace(".", "").isalpha() else None
    parts = word.split(".")
    if all(len(part) == 1 for part in parts):
        return word.replace(".", "").casefold() if word.isupper() else ""
    return "" if len(parts) == 2 and parts[0].islower() and parts[1].istitle() else word


def _path(word: str) -> str:
    """Return a path without its line number; empty for "and/or", "24/7" and dates."""
    path = _compiled(_LINE_NUMBER + r"\Z").sub("", word)
    if "\\" in path:
        return path if _fits(_WINDOWS, path) else ""
    if not (_fits(_POSIX, path) or (path[1:3] == ":/" and _fits(_WINDOWS, path))):
        return ""
    parts = path.split("/")
    rooted = path[0] in "/~." or path[1:2] == ":"
    extended = "." in parts[-1][1:-1] and any(map(str.isalpha, parts[-1]))
    deep = len(parts) > 2 and not all(part.isdigit() for part in parts)
    return path if rooted or extended or deep else ""


def _fits(pattern: str, word: str) -> re.Match[str] | None:
    return _compiled(pattern).fullmatch(word)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
