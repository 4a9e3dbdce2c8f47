"""Parse a question: its terms, the names, times and kinds in it, what it asks for, and correction of typos."""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from satchel.model.patterns import lazy_pattern
from satchel.recall.entities import query_entities
from satchel.text.dates import Span, named_times
from satchel.text.passages import CODE_BYTES
from satchel.text.terms import QUESTION_WORDS, folded, query_terms, query_words, stem, term_codes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Intent",
    "Order",
    "QueryTerm",
    "Question",
    "about_then",
    "asks_for_course",
    "first_letter_variants",
    "function_words",
    "is_grammar",
    "is_latin",
    "near_terms",
    "read_intent",
    "read_question",
    "sought_words",
]


# Correction of typos.


_WEIGHT_AT_DISTANCE = {1: 0.7, 2: 0.4}
# Typos in the first letter are rare, so a term with another first letter must be at distance 1.
_OTHER_START_WEIGHT = 0.6
_LONGEST = 64
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def near_terms(word: str, vocabulary: Iterable[str], *, limit: int = 3) -> list[tuple[str, float]]:
    """Return the terms within edit distance 2 of a word or its stem, nearest first, each with a weight.

    A swap of two neighbouring letters counts as one edit. Short words allow a distance of 1 only. The word itself
    is not returned, nor are terms with digits and very short terms.
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


def first_letter_variants(word: str) -> list[str]:
    """Return the forms of a word or its stem at edit distance 1 that have another first letter."""
    found: dict[str, None] = {}
    for form in _forms(word):
        if _max_distance(form):
            found |= dict.fromkeys([form[1:], form[1] + form[0] + form[2:]])
            found |= dict.fromkeys(letter + rest for letter in _LETTERS for rest in (form, form[1:]))
    return [each for each in found if each[0] != word[0]]


def _forms(word: str) -> list[str]:
    words = query_words(word) if len(word) <= _LONGEST else []
    if len(words) != 1 or not words[0].isalpha():
        return []
    return list(dict.fromkeys((words[0], stem(words[0]))))


def _near(word: str, terms: Sequence[str]) -> Iterator[tuple[str, float]]:
    most = _max_distance(word)
    for term, distance in _edit_distances(word, terms, most) if most else ():
        if not 0 < distance <= min(most, _max_distance(term)):
            continue
        if term[0] == word[0]:
            yield term, _WEIGHT_AT_DISTANCE[distance]
        elif distance == 1:
            yield term, _OTHER_START_WEIGHT


def _edit_distances(word: str, terms: Sequence[str], most: int) -> list[tuple[str, int]]:
    """Return how many letters must be inserted, removed, replaced or swapped to turn the word into each term.

    Terms that are certainly further away than `most` are left out.
    """
    import numpy as np

    terms = [term for term in terms if abs(len(term) - len(word)) <= most]
    if not terms:
        return []
    letters = np.array(terms).view(np.uint32).reshape(len(terms), -1)
    # Each letter that the word does not have is an edit. Shorter terms end in zeros.
    known = np.zeros(256, np.bool_)
    known[[0, 255, *(min(ord(letter), 255) for letter in word)]] = True
    possible = np.flatnonzero((~known[np.minimum(letters, 255)]).sum(axis=1) <= most)
    letters = letters[possible].T
    # Row j of each table has the distance of the word's first letters to the first j letters of every term.
    steps = np.arange(len(letters) + 1, dtype=np.int16)[:, None]
    before = table = np.broadcast_to(steps, (len(letters) + 1, len(possible)))
    last = None
    for count, letter in enumerate(map(ord, word), start=1):
        same = letters == letter
        current = table + 1
        np.minimum(current[1:], table[:-1] + ~same, out=current[1:])
        if last is not None:
            np.minimum(current[2:], before[:-2] + 1, out=current[2:], where=same[:-1] & last[1:])
        current[0] = count
        current = np.minimum.accumulate(current - steps, axis=0) + steps
        before, table, last = table, current, same
    return [(term, int(table[len(term), column])) for column, term in enumerate(terms[row] for row in possible)]


def _max_distance(word: str) -> int:
    """Return the largest edit distance at which a word of this length is corrected."""
    if len(word) <= 2:
        return 0
    return 1 if len(word) <= 4 else 2


# Intent: which kinds of memories a question asks for, the newest or the oldest, reasons; and its language.
#
# Everything here is a table of words for English, German, French, Spanish and Japanese. In a table, `_` is a space
# and `*` any ending. A question can name a kind ("open todos", "what did we decide") or only suggest one ("how do
# I …" suggests a procedure).


Order = Literal["newest", "oldest"]

# Only the beginning of a long text is read.
MAX_QUERY = 2_000

# Kinds that a question names. A noun marked with `=` counts only at the end of a phrase: "the error rate" does not
# ask for errors.
_NAMED = {
    "todo": """
        todo= todos to-do= to-dos to_do_list tasks open_task action_item= action_items do_next still_to_do
        left_to_do remains_to_be_done aufgaben offene_punkte noch_zu_tun noch_zu_erledigen tâches reste_à_faire
        choses_à_faire tareas pendientes por_hacer タスク やること すべきこと 未完了""",
    "decision": """
        decision= decisions decide decided did_we_agree agreed_on entscheidung entscheidungen entschieden
        beschlossen beschluss beschlüsse décision décisions décidé* décidons decisión decisiones decidimos
        decidió decidido acordamos acordado 決定 決めた 決まった""",
    "preference": """
        preference= preferences prefer prefers preferred dislikes likes favourite favourites favorite favorites
        vorlieben bevorzug* préférences préfèr* préférée preferencias prefiere* 好み 好き""",
    "lesson": """
        lesson= lessons learned learnt did_we_learn did_i_learn takeaways lehren gelernt erkenntnisse leçons
        appris lecciones aprendimos aprendido 教訓 学んだ""",
    "error": """
        error= errors error_codes error_messages incident= incidents outage= outages failures bugs crashes
        fehler fehlermeldung* störungen vorfall vorfälle ausfall ausfälle erreurs pannes incidente incidentes
        errores fallos エラー 障害 不具合 故障""",
    "fix": "fixes bugfixes behebungen correctifs arreglos 修正",
    "procedure": """
        procedure= procedures steps_to the_steps instructions runbook= runbooks recipe= recipes checklist=
        checklists anleitung anleitungen schritte rezept rezepte procédure étapes recette recettes procedimiento
        pasos receta recetas 手順 レシピ""",
    "summary": """
        summaries summarised summarized did_i_summarise did_i_summarize zusammengefasst zusammenfassungen
        résumés resúmenes 要約した""",
}
# Kinds that the wording of a question suggests.
_SUGGESTED = {
    "procedure": """
        how_do_i how_do_we how_can_i how_can_we how_should_i how_should_we how_am_i how_are_we how_to how_did_i
        how_does_it walk_me_through supposed_to wie_mache* wie_kann wie_geht wie_soll wie_richte wie_setze
        comment_faire comment_puis comment_est-ce cómo_se cómo_puedo cómo_hago どうやって やり方 方法""",
    "decision": """
        why reason reasons on_what_grounds warum wieso weshalb grund gründe pourquoi por_qué なぜ 理由""",
    "error": """
        problem problems wrong broke broken trouble fail* problem* störung panne problème problèmes problema
        problemas fallo 問題""",
    "fix": """
        fix fixed solve solved solves repair repaired stop stopped remedy helped closed gelöst
        behoben résolu 解決 直し""",
    "fact": "who whom wer wen wem qui quién quiénes 誰",
}
_REASONS = _SUGGESTED["decision"]

_A_TIME = (
    "minute|hour|day|night|week|month|quarter|year|spring|summer|autumn|fall|winter|few|couple|[0-9]+|t[wh]\\w+"
)
_NEWEST = """
        most_recent most_recently latest newest last_time last_one last_thing last_word last_we_heard zuletzt
        neueste* jüngste* dernièrement plus_récent* más_reciente más_recientes 最新 一番新しい 直近 最後に"""
# "Our last decision", but not "last week", which is a time.
_LAST = lazy_pattern(
    rf"""
    \b(?:the|our|my|your|his|her|their|its|whose|\w+['’]s?)\slast\s(?!(?:{_A_TIME})s?\b)
    |\bletzte[nrsm]?\s(?!woche|monat|jahr|quartal|nacht|tag|sommer|winter|herbst|frühjahr|\w+\s(?:tage|wochen|monate))
    |\bderni(?:er|ère)s?\s(?!semaine|mois|année|an\b|jour)
    |\búltim[oa]s?\s(?!semana|mes\b|meses|año|día|\w+\s(?:semanas|meses))
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LAST_WORDS = ("last", "letzte", "derni", "ltim")
_OLDEST = """
        originally at_first initially earliest oldest the_very_first in_the_beginning to_begin_with
        the_first_time ursprünglich* anfangs älteste* à_l'origine au_début initialement originalmente
        al_principio inicialmente 最初 当初 もともと"""
# Words that ask what happened in a period, not what was true then.
_EVENTS = """
        happen happened happening new added note noted wrote_down written_down saved run_into ran_into came_up
        anything everything did_i did_we done went_in made put_on missed passiert neues geschehen notiert
        gemacht passé nouveau nouveautés noté pasó pasado nuevo anotado 起きた あった 出来事"""

# Stop words by language; those of English are in `satchel.text.terms`.
_FUNCTION_WORDS = {
    "de": """
        der die das den dem des ein eine einen einem einer eines kein keine keinen ich du er sie es wir ihr mich
        mir dich dir uns euch ihm ihn ihnen mein meine meinen meinem meiner dein deine unser unsere unseren
        unserer unserem euer eure sein seine seinen ihre ihren ihrem ist sind war waren bin bist wird werden
        wurde wurden worden habe hat haben hatte hatten hast kann können konnte muss müssen musste soll sollen
        sollte will wollen wollte darf dürfen was wann wo wer wen wem wessen welche welcher welches welchen
        welchem warum wieso weshalb wie wieviel viel viele ob und oder aber denn weil dass wenn als auch noch
        nur schon sehr so zu zum zur in im an am auf aus bei beim mit nach von vom vor für über unter um durch
        gegen ohne bis seit ab nicht nichts da dort hier etwas man mal bitte gibt machen macht gemacht""",
    "fr": """
        le la les l un une des du de d au aux ce cet cette ces je j tu il elle on nous vous ils elles me m te t
        se s lui leur leurs y en mon ma mes ton ta tes son sa ses notre nos votre vos est sont était étaient été
        être suis es sommes ai as a avons avez ont avait avaient avoir fait faire faut peut peuvent pouvait doit
        doivent que qu qui quoi quel quelle quels quelles quand où comment pourquoi combien et ou mais donc or
        ni car si dans sur sous avec sans pour par vers chez entre depuis pendant avant après ne n pas plus rien
        ici là très aussi déjà encore tout tous toute toutes c ça cela""",
    "es": """
        el la los las lo un una unos unas de del al a y e o u pero si no ni que qué quien quién quiénes cual
        cuál cuáles cuando cuándo donde dónde como cómo cuanto cuánto cuánta cuántos cuántas por para con sin en
        sobre entre desde hasta hacia yo tú él ella nosotros ustedes ellos ellas me te se nos le les mi mis tu
        tus su sus nuestro nuestra nuestros nuestras es son era eran fue fueron ser está están estaba estar hay
        había ha han he hemos haber tiene tienen tenemos tengo hace hacer hizo puede pueden podemos debe deben
        este esta estos estas ese esa esto eso ya muy más también aún todo todos toda todas""",
}
_KANA = lazy_pattern(r"[\u3041-\u30ff]")
# Pairs of Japanese characters that are grammar or question words: two hiragana, or one of these.
_GRAMMAR = lazy_pattern(r"[\u3041-\u3096]{2}|何.|.何|いつ|どこ|誰.|私.")
_WORD = lazy_pattern(r"[^\W\d_]+")
# Words that start with a later character are Japanese, which has no spaces between words.
_UNSPACED = "\u3000"
_PHRASE_ENDS = (
    r"(?=\s*(?:$|[^\w\s]|(?:about|with|on|in|at|from|for|of|to|concerning|regarding|around|we|i|you|they|did|do|was"
    r"|were|is|are|have|has|had|that|which|and|or|since|before|after|during|until|by)\b))"
)


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of answer a question asks for, and which of its words say so."""

    language: str = "en"
    kinds: tuple[str, ...] = ()
    """Kinds that it names."""
    likely: tuple[str, ...] = ()
    """Kinds that its wording suggests."""
    order: Order | None = None
    """Whether it asks for the newest or the oldest."""
    reasons: bool = False
    """Whether it asks for reasons."""
    events: bool = False
    """Whether it asks what happened in a period, not what was true then."""
    words: frozenset[str] = frozenset()
    """The words that express the intent; the others are the subject."""


def read_intent(text: str) -> Intent:
    """Return the intent of a question by the word tables above; without a match, its fields have their defaults."""
    text = " ".join(text[:MAX_QUERY].split()).lower()
    matched: set[str] = set()
    kinds = tuple(kind for kind, table in _NAMED.items() if _matches(table, text, matched))
    likely = tuple(kind for kind, table in _SUGGESTED.items() if kind not in kinds and _matches(table, text))
    newest = _matches(_NEWEST, text, matched) or (_has_any(_LAST_WORDS, text) and _has_match(_LAST, text, matched))
    oldest = _matches(_OLDEST, text, matched)
    return Intent(
        language=_language(text),
        kinds=kinds,
        likely=likely,
        order="newest" if newest else "oldest" if oldest else None,
        reasons=_matches(_REASONS, text),
        events=bool(kinds) or _matches(_EVENTS, text),
        words=frozenset(matched),
    )


def function_words(language: str) -> frozenset[str]:
    """Return the stop words of a language."""
    return _tables().get(language, frozenset())


def is_grammar(term: str) -> bool:
    """Return whether a term of two unspaced characters is Japanese grammar, not a subject."""
    return _GRAMMAR.fullmatch(term.replace(" ", "")) is not None


def _matches(table: str, text: str, matched: set[str] | None = None) -> bool:
    """Return whether an entry of a table occurs in a text of lower case; the words of all are added to `matched`.

    Compiling all tables takes 8 ms, and most questions have words of one or two.
    """
    if text.isascii() and not _has_any(_longest_words(table), text):
        return False
    pattern = _compiled(table)
    return pattern.search(text) is not None if matched is None else _has_match(pattern, text, matched)


def _has_match(pattern: re.Pattern[str], text: str, matched: set[str]) -> bool:
    """Return whether a pattern occurs in the text; the words of its matches are added to `matched`."""
    matches = [match[0] for match in pattern.finditer(text)]
    matched.update(word for match in matches for word in _WORD.findall(match))
    return bool(matches)


def _language(text: str) -> str:
    """Return the language with the most stop words in the text; English unless another has more, and at least 2."""
    if _KANA.search(text):
        return "ja"
    words = {word.lower() for word in _WORD.findall(text)}
    counts = {language: len(words & known) for language, known in _tables().items()}
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] > max(1, counts["en"]) else "en"


@cache
def _tables() -> dict[str, frozenset[str]]:
    return {"en": QUESTION_WORDS} | {name: frozenset(words.split()) for name, words in _FUNCTION_WORDS.items()}


def _has_any(words: Iterable[str], text: str) -> bool:
    return any(map(text.__contains__, words))


@cache
def _longest_words(table: str) -> tuple[str, ...]:
    """Return a word of each entry, which a text that matches the entry has."""
    return tuple({max(entry.rstrip("=*").split("_"), key=len).lower() for entry in table.split()})


@cache
def _compiled(table: str) -> re.Pattern[str]:
    spaced, unspaced = [], []
    for entry in table.split():
        pattern = re.escape(entry.rstrip("=*")).replace("_", r"\s")
        if entry[0] > _UNSPACED:
            unspaced.append(pattern)
        else:
            spaced.append(pattern + {"*": r"\w*", "=": rf"\b{_PHRASE_ENDS}"}.get(entry[-1], r"\b"))
    # With one \b before all of them, only those that begin with the letter at hand are tried.
    return re.compile("|".join([rf"\b(?:{'|'.join(spaced)})", *unspaced]))


# Questions about a course of events: "in what order did I bring up …", "summarise how the roof job went".


# Only the beginning and the end of a long text are read: between them is what was pasted.
HEAD, TAIL = 400, 200

# Patterns stay inside one sentence. Texts are folded: lower case, no accents on Latin letters.
_NEAR, _FAR = r"[^?!]{0,50}", r"[^?!]{0,120}"
_ENGLISH = (
    r"\b(?:what|which) (?:order|sequence) (?:did|do|have|has|had|were|was)\b",
    r"\b(?:order|sequence) (?:in which|of (?:events|topics|things|how))\b|\blist in order\b",
    r"\bin (?:chronological|time) order\b|\bchronologically\b|\b(?:timeline|chronology) of\b",
    r"^(?:please|now|ok|okay|so|and|then)?\W*(?:summari[sz]e|recap|sum up)\b",
    r"\b(?:(?:can|could|would|will) you|please|me) (?:\w+ly |please |also |just )*(?:summari[sz]e|recap|sum up)\b",
    r"\b(?:give|show|tell|provide|write|want|need|like)(?: me| us)? (?:with )?(?:a|an|the|your) "
    r"(?:[\w-]+ ){0,3}(?:summary|recap|overview|history|story|rundown) (?:of|on|about|covering)\b",
    r"\b(?:walk|talk|take) (?:me|us) through (?:how (?!to\b)|what (?:has|have|happened|we|i)\b"
    r"|(?:the|my|our) (?:\w+ )?(?:order|history|story|course|evolution|development|progress|journey)\b)",
    rf"\bhow (?:has|have|had|did)\b{_FAR}\b(?:develop|evolv|progress|unfold|chang|mov|shift|grow|grew)\w*{_NEAR}"
    r"\b(?:over (?:time|the (?:past|last|course|years?|months?|weeks?))|so far|until"
    r"|(?:throughout|across|through|during) (?:our|all)\b)",
    rf"\bhow (?:has|have)\b{_FAR}\b(?:developed|evolved|progressed|unfolded|changed)\b",
    rf"\bhow did\b{_FAR}\b(?:evolve|unfold|come about|come to (?:be|have))\b",
    rf"\bhow did\b{_FAR}\bgo\b[^?!]{{0,12}}\bfrom\b",
    r"\bwhat(?: has|s|'s| have) (?:all )?happened (?:with|to|so far|since|between)\b",
    rf"\bwhat(?: has|s|'s| have)\b{_FAR}\b(?:happened|done|tried|discussed|covered)\b{_NEAR}\bso far\b",
    r"(?:^|\b(?:is|was|s) )(?:the )?(?:whole |full |entire )?(?:story|history|evolution) (?:of|behind|with)\b",
    rf"\b(?:story|history|way) of\b{_FAR}\bfrom\b{_NEAR}\b(?:to|until|beginning|start)\b",
    r"\b(?:catch|bring|get) (?:me|us) up (?:on|to (?:date|speed))\b",
)
_GERMAN = (
    r"\bwelcher reihenfolge\b|\breihenfolge, in (?:der|welcher)\b|\bder reihe nach\b|\bchronologisch",
    rf"\bfass(?:e|t|en)?\b{_FAR}\bzusammen\b|\b(?:kannst|konntest|konnen|konnten|bitte)\b{_FAR}\bzusammenfassen\b",
    rf"\b(?:gib|gebt|geben|schreib|mach|mochte|brauche|hatte)\b{_NEAR}\b(?:zusammenfassung|uberblick|ruckblick|chronik)\b",
    rf"\bwie (?:hat|haben|hatten?)\b{_NEAR}\bsich\b{_FAR}\b(?:entwickel|verander|geander|gewandel)",
    rf"\bwie (?:ist|sind|war)\b{_FAR}\b(?:gelaufen|verlaufen|gegangen)\b{_NEAR}\b(?:von|vom|bis)\b",
    rf"\bwas ist\b{_FAR}\b(?:bisher|bislang|bis jetzt|seither|seitdem|mit)\b{_FAR}\b(?:passiert|geschehen)\b",
    r"(?:^|\b(?:erzahl|schilder|beschreib|zeig)\w*(?: mir| uns)? )(?:den|der|die) (?:ganzen? )?"
    r"(?:geschichte|verlauf|hergang|ablauf|entwicklung) (?:von|vom|der|des|mit|hinter|mein|unser)",
    r"\bbring\w* (?:mich|uns) auf den\b",
)
_FRENCH = (
    r"\bquel ordre\b|\bl'ordre dans lequel\b|\bordre chronologique\b|\bchronologie d",
    r"(?:^|\b(?:tu|vous|me|nous|plait),? )(?:resume|recapitule|retrace)[zrs]?(?:[- ](?:moi|nous))?,?"
    r" (?:l[ae']s?|ce|comment|tout|mon|ma|mes|notre|nos)\b",
    r"\b(?:fais|faites|faire|donner?|donnez|voudrais|veux|besoin)\b[^?!]{0,12}\b(?:un|d'un) "
    r"(?:\w+ )?(?:resume|recapitulatif|apercu|bilan)\b",
    rf"\bcomment\b{_NEAR}\b(?:ai?|as|ont|avons|avait|est|sont)\b{_NEAR}\b(?:evolue|change|progresse|developpe)e?s?\b",
    r"\b(?:que|qu'est-ce qui|ce qui) s'est(?:-il)? passe (?:avec|depuis|jusqu|entre)",
    r"(?:^|\b(?:raconte|donne|decri)\w*(?:[- ](?:moi|nous))? )l'(?:histoire|historique|evolution) d",
)
_SPANISH = (
    r"\b(?:que|cual) orden\b|\bel orden en (?:el )?que\b|\borden cronologico\b|\bcronologia d",
    r"\b(?:resumeme|resumime|resumenos|recapitula|recapitulame)\b",
    r"(?:^|\b(?:puedes|podrias|puede|favor),? )(?:resum(?:e|a|ir|irme)|recapitular)"
    r" (?:el|la|lo|los|las|como|que|todo|toda|mi|mis|nuestr[oa]s?)\b",
    r"\b(?:dame|darme|danos|haz|hazme|hacer|hacerme|quiero|necesito|quisiera) un (?:\w+ )?"
    r"(?:resumen|repaso|recuento)\b",
    rf"\bcomo (?:se )?(?:ha|han|habia|habian)\b{_NEAR}\b(?:evolucion|cambi|progres|desarroll|transcurri)ad?o",
    r"\bque (?:ha|han) (?:pasado|ocurrido|sucedido) (?:con|desde|hasta|entre)\b",
    r"(?:^|\b(?:cuenta|da|explica|muestra)(?:me|nos) )(?:toda )?(?:la|el) (?:historia|historial|evolucion) d",
    r"\bpon(?:me|nos) al (?:dia|corriente)\b",
)
_JAPANESE = (
    r"どの(?:ような)?順|順番に(?:教|挙|並|列|リスト|話)|時系列|年表",
    r"(?:まとめ|要約し|整理し|振り返っ)て(?:く|ほし|欲し|もら|いただ|頂|み|教|$|[。？?!！])",
    r"(?:まとめ|要約|概要|あらすじ)を(?:教|くだ|下|お願|作|見|出)",
    r"どのように(?:変わ|変化|発展|進ん|進展|推移|展開)|どう(?:変わっ|変化し|発展し|進ん|進展し|推移し|展開し)",
    r"(?:経緯|経過|推移|変遷|いきさつ|一部始終|道のり|流れ)(?:を|は|に?ついて|$|[。？?!！])",
)

# Questions that start like this ask for one moment, place, person or number.
_ASKS_ONE_THING = lazy_pattern(
    r"\W*(?:when|where|who|whose|whom|how (?:many|much|long|often|old|far|soon)|wann|wo|wer|wem|wen"
    r"|wie ?(?:viele?|lange|oft)|quand|ou|qui|combien|cuando|donde|quien|cuant[oa]s?)\b|いつ|どこ|誰|だれ"
)


# What a text must have so that one of the patterns of a language can match.
_COURSE_WORDS = {
    _ENGLISH: (
        "order", "sequence", "chronolog", "timeline", "summar", "recap", "sum up", "overview", "history", "story",
        "rundown", "through", "how ", "happened", "so far", "evolution", "way of", " up ",
    ),
    _GERMAN: (
        "reihe", "chronologisch", "zusammen", "uberblick", "ruckblick", "chronik", "sich", "laufen", "gegangen",
        "passiert", "geschehen", "geschichte", "verlauf", "hergang", "ablauf", "entwicklung", "auf den",
    ),
    _FRENCH: (
        "ordre", "chronologie", "resume", "recapitul", "retrace", "apercu", "bilan", "comment", "passe", "histori",
        "histoire", "evolution",
    ),
    _SPANISH: (
        "orden", "cronolog", "resum", "recapitul", "repaso", "recuento", "como ", "que ha", "histori", "evolucion",
        "pon",
    ),
}  # fmt: skip


def asks_for_course(text: str) -> bool:
    """Return whether a question asks how something went, in which order, or for a summary of it.

    This is decided by patterns for English, German, French, Spanish and Japanese. "When did I first …" asks for one
    moment, so it does not count.
    """
    text = text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} {text[-TAIL:]}"
    asked = folded(text.replace("’", "'")).strip()
    return _ASKS_ONE_THING.match(asked) is None and any(
        _any_of(forms).search(asked) is not None for forms in _course_forms(asked)
    )


def _course_forms(asked: str) -> Iterator[tuple[str, ...]]:
    """Yield the patterns that may match. Compiling those of all languages takes 4 ms."""
    yield from (forms for forms, words in _COURSE_WORDS.items() if _has_any(words, asked))
    if not asked.isascii():
        yield _JAPANESE


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


# Questions about the past. _FIRST asks for the very first state. _THEN is enough by itself. _BEFORE counts only
# together with a past tense, because "what must I do before a release?" is about now.
_FIRST = lazy_pattern(
    r"\b(?:original(?:ly)?|at first|initial(?:ly)?|in the beginning|oldest|earliest"
    r"|ursprünglich\w*|anfangs|à l['’]origine|au début|initialement|originalmente|al principio|inicialmente)\b"
    r"|もともと|元々|当初|最初は",
    re.IGNORECASE,
)
_THEN = lazy_pattern(
    r"\b(?:used to|back (?:then|in)|at th(?:e|at) time|previous(?:ly)?|former(?:ly)?|in the past|in those days"
    r"|before (?:that|then)|damals|früher\w*|vorher|zuvor|ehemals|autrefois|jadis|à l['’]époque|auparavant"
    r"|précédemment|antiguamente|en aquel entonces|anteriormente|solía\w*)\b|以前|前は|昔|当時|かつて",
    re.IGNORECASE,
)
_BEFORE = lazy_pattern(r"\b(?:before(?! and after)|until|prior to|vor|bevor|avant|antes)\b", re.IGNORECASE)
_PAST = lazy_pattern(
    r"\b(?:did|was|were|had|used|war|waren|hatten?|lief|liefen|nutzten|benutzten|verwendeten|wurden?|haben|habe"
    r"|étions|avions|\w+ait|\w{3,}aient|\w{3,}ions|era|eran|fue|había|\w{2,}(?:ábamos|aban?|íamos|ían?))\b",
    re.IGNORECASE,
)
_NOW = lazy_pattern(
    r"\b(?:now|currently|today|still|these days|nowadays|at the moment|at present|presently"
    r"|jetzt|derzeit|aktuell\w*|heute|momentan|maintenant|actuellement|aujourd['’]hui|encore|toujours"
    r"|ahora|actualmente|hoy|todavía|aún)\b|今|現在|まだ",
    re.IGNORECASE,
)
_AT_FIRST = datetime(1, 1, 2, tzinfo=UTC)


def about_then(text: str, times: Sequence[Span], now: datetime) -> datetime | None:
    """Return the moment that a question is about; None if it is about now.

    It is the end of a past time that the question names. If the question asks how something was before, or at
    first, it is the beginning of time, so that any older memory counts. A past tense alone ("what did we choose?")
    does not count, and a time that may be in the future ("this winter", "on Sunday") counts only together with
    one.
    """
    if _FIRST.search(text):
        return _AT_FIRST
    asks_then = _THEN.search(text) is not None
    past = asks_then or _PAST.search(text) is not None
    ends = [span.end for span in times if span.precise == "exact" or past]
    if ends:
        return max(ends) if max(ends) < now - timedelta(days=1) else None
    if asks_then or (past and _BEFORE.search(text)):
        return None if _NOW.search(text) else _AT_FIRST
    return None


# The parsed question.


# More terms cost time and hardly change the ranking.
MAX_TERMS = 64

# The weight of words that usually say how to answer ("list", "mention"), and of words that name a time. Other words
# have the weight 1.
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

_FIRST_PERSON = lazy_pattern(r"\b(?:i|me|my|mine|we|us|our|ours)\b", re.IGNORECASE)
_ASKS_WHEN = lazy_pattern(
    r"\bwhen\b|\bhow (?:long|old|recently)\b|\bwh(?:at|ich) (?:date|day|month|year|time)\b", re.IGNORECASE
)
_ASKS_MANY = lazy_pattern(r"\bhow (?:many|much|often|far|big|large|fast)\b|\bnumber of\b|\bcount\b", re.IGNORECASE)

_DIGIT = lazy_pattern(r"\d")
_LAST_LATIN = "\u024f"


class QueryTerm(msgspec.Struct, frozen=True):
    """One term of a question; several codes are a phrase. `weight` is below 1 for a corrected typo."""

    text: str
    codes: tuple[int, ...]
    weight: float = 1.0
    meant: str | None = None
    """If this is a correction: the word as it was written."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed question."""

    text: str
    terms: tuple[QueryTerm, ...]
    words: frozenset[str]
    times: tuple[Span, ...]
    first_person: bool
    asks_when: bool
    asks_many: bool
    asked_at: datetime
    about_then: datetime | None = None
    """The moment that it is about; None if that is now."""
    about_course: bool = False
    """Whether it asks how something went, in which order, or for a summary of it."""
    sought: tuple[str, ...] = ()
    """The stems of its content words. They select the best sentence of a passage."""
    intent: Intent = Intent()
    """What kind of answer it asks for."""
    names: frozenset[str] = frozenset()
    """The words of names in it: people, products, identifiers, numbers."""
    latin: bool = True
    """Whether all its letters are Latin."""
    vector: Any = None
    """Its embedding: a row of float32, or None."""

    @property
    def searchable(self) -> list[str]:
        """The texts of its terms, for a full-text search."""
        return [term.text for term in self.terms]


def read_question(text: str, *, now: datetime, vector: "NDArray[np.float32] | None" = None) -> Question:
    """Parse a question asked at the moment `now`; `vector` is its embedding, if there is one."""
    words = query_terms(text)
    intent, times = read_intent(text), named_times(text, now)
    dated = frozenset(query_terms(" ".join(span.text for span in times)))
    terms: dict[tuple[int, ...], QueryTerm] = {}
    for word in _content_words(words, intent.language):
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
        asked_at=now,
        about_then=about_then(text, times, now),
        about_course=asks_for_course(text),
        sought=_sought(words),
        latin=is_latin(text),
        vector=vector,
    )


def is_latin(text: str) -> bool:
    """Return whether all letters of a text are Latin."""
    return text.isascii() or not any(char > _LAST_LATIN and char.isalpha() for char in text)


def sought_words(query: str) -> tuple[str, ...]:
    """Return the stems of a query's content words, to search for in a text."""
    return _sought(query_terms(query))


def _sought(words: Sequence[str]) -> tuple[str, ...]:
    # The stem of "happy" is "happi", which is not a part of "happy".
    stems = (stem(word).rstrip("i") for word in _content_words(words))
    return tuple(dict.fromkeys(each.replace(" ", "").casefold() for each in stems))


def _content_words(words: Sequence[str], language: str = "en") -> list[str]:
    """Return the words that are no stop words; all words if there are only stop words."""
    words = words[: 2 * MAX_TERMS]
    foreign = function_words(language)
    found = (word for word in words if word not in QUESTION_WORDS and word not in foreign)
    return [word for word in found if word.isascii() or not is_grammar(word)] or list(words)


def _weight(word: str, intent: Intent, dated: frozenset[str]) -> float:
    """Return the weight of a word; words that name a time, a kind or an order have less than 1."""
    if word in dated:
        return SELECTING
    return ASKING if word in _ASKING_WORDS or word in intent.words else 1.0


def as_codes(text: str) -> tuple[int, ...]:
    """Return the codes of the terms of a text, as integers."""
    codes = term_codes(text)
    return tuple(int.from_bytes(codes[at : at + CODE_BYTES], "little") for at in range(0, len(codes), CODE_BYTES))


def corrected(term: QueryTerm, found: str, weight: float) -> QueryTerm:
    """Return the term of the index that replaces a misspelt one. A term of the index is a stem already."""
    # A full-text search stems its terms: "databas" is the stem of "database", but not of "databas".
    word = found if stem(found) == found else found + "e"
    return QueryTerm(word, (term_code(found),), weight, term.text)


def term_code(term: str) -> int:
    """Return the code of an index term."""
    return zlib.crc32(term.encode())


def index_term(term: QueryTerm) -> str:
    """Return the index term of a query term: its stem."""
    return stem(term.text)
