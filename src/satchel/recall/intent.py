"""What kind of answer a question wants: kinds of memories, the newest or the oldest, and the language it is asked in.

Everything here is a table of words for five languages. A question may ask for a kind by its name ("open todos",
"what did we decide") or only suggest one ("how do I …" suggests a procedure).
"""

import re
from functools import cache
from typing import Literal

import msgspec

__all__ = ["Intent", "Order", "function_words", "read_intent"]

Order = Literal["newest", "oldest"]

MAX_QUERY = 2_000

# Words that carry no subject, by language. English ones are in `satchel.terms.QUESTION_WORDS`.
_FUNCTION_WORDS = {
    "de": """
        der die das den dem des ein eine einen einem einer eines kein keine keinen ich du er sie es wir ihr mich mir dich dir
        uns euch ihm ihn ihnen mein meine meinen meinem meiner dein deine unser unsere unseren unserer unserem euer eure
        sein seine seinen ihre ihren ihrem ist sind war waren bin bist wird werden wurde wurden worden habe hat haben hatte
        hatten hast kann können konnte muss müssen musste soll sollen sollte will wollen wollte darf dürfen was wann wo wer
        wen wem wessen welche welcher welches welchen welchem warum wieso weshalb wie wieviel viel viele ob und oder aber
        denn weil dass wenn als auch noch nur schon sehr so zu zum zur in im an am auf aus bei beim mit nach von vom vor
        für über unter um durch gegen ohne bis seit ab nicht nichts da dort hier etwas man mal bitte es gibt machen macht
        gemacht""",
    "fr": """
        le la les l un une des du de d au aux ce cet cette ces je j tu il elle on nous vous ils elles me m te t se s lui leur
        leurs y en mon ma mes ton ta tes son sa ses notre nos votre vos est sont était étaient été être suis es sommes ai as
        a avons avez ont avait avaient avoir fait faire faut peut peuvent pouvait doit doivent que qu qui quoi quel quelle
        quels quelles quand où comment pourquoi combien et ou mais donc or ni car si dans sur sous avec sans pour par vers
        chez entre depuis pendant avant après ne n pas plus rien ici là très aussi déjà encore tout tous toute toutes c
        ça cela est-ce""",
    "es": """
        el la los las lo un una unos unas de del al a y e o u pero si no ni que qué quien quién quiénes cual cuál cuáles cuando
        cuándo donde dónde como cómo cuanto cuánto cuánta cuántos cuántas por para con sin en sobre entre desde hasta hacia
        yo tú él ella nosotros ustedes ellos ellas me te se nos le les mi mis tu tus su sus nuestro nuestra nuestros nuestras
        es son era eran fue fueron ser está están estaba estar hay había ha han he hemos haber tiene tienen tenemos tengo hace
        hacer hizo puede pueden podemos debe deben este esta estos estas ese esa esto eso ya muy más también aún todo todos
        toda todas""",
}  # fmt: skip
_JAPANESE = re.compile(r"[\u3041-\u30ff]")
# Grammar between the words of a Japanese question: its pairs of characters say nothing of the subject.
_JAPANESE_GRAMMAR = re.compile(
    r"[ぁ-ん]{2,}|(?:何|誰|いつ|どこ|なぜ|どの|どれ|どう|です|ます|でし|まし|した|たか|すか|私|我々)"
)
_WORD = re.compile(r"[^\W\d_]+")

# Kinds that are asked for by name, and kinds that a way of asking suggests.
_NAMED = {
    "todo": r"""
        to-?\s?do(?:s|'s)?\b(?!\swith)|\btasks?\b|action\sitems?|what\s(?:should|do)\s(?:i|we)\s(?:do|have\sto\sdo|need\sto\sdo)\snext
        |(?:left|still|remains)\sto\s(?:do|be\sdone)|what(?:'s|\sis)\snext\b
        |\baufgaben?\b|offene(?:n|r)?\spunkte|noch\szu\s(?:tun|erledigen)|\berledigen\b
        |\btâches?\b|(?:reste|choses)\sà\sfaire|\bà\sfaire\b|\btareas?\b|\bpendientes?\b|por\shacer
        |タスク|やること|すべきこと|未完了|残作業""",
    "decision": r"""
        \bdecisions?\b|\bdecid(?:e|ed|es|ing)\b|\bagreed\b|\bchose\b|\bsettled\son\b
        |\bentscheidung(?:en)?\b|\bentschieden\b|\bentschied\b|\bbeschlossen\b|\bbeschl[uü]ss?e?\b
        |\bdécisions?\b|\bdécid(?:é|ée|és|ées|ons|er|a)\b|\bdecisi(?:ón|ones)\b|\bdecid(?:ido|ió|imos|ir)\b|\bacord(?:ado|amos|ó)\b
        |決定|決め|決まっ""",
    "preference": r"""
        \bpreferences?\b|\bprefer(?:s|red)?\b|\bdislikes?\b|\bfavou?rites?\b|\blikes\b|(?:do|does)\s\w+\slike\b|\bcares?\sabout\b
        |\bvorlieben?\b|\bbevorzug\w+|\bpräferenz\w*|\bpréférences?\b|\bpréfèr\w+|\bpréfér\w+
        |\bpreferencias?\b|\bprefier\w+|\bgustos?\b|好み|好き|嫌い""",
    "lesson": r"""
        \blessons?\b|\b(?:did|have|had)\s(?:i|we|they)\slearn(?:ed|t)?\b|\blearn(?:ed|t)\b|\btake-?aways?\b
        |\blehren?\b|\bgelernt\b|\berkenntniss?e?\b|\bleçons?\b|\bapprise?s?\b|\blecci(?:ón|ones)\b|\baprend(?:ido|imos|ió)\b
        |教訓|学ん""",
    "error": r"""
        \berrors?\b|\bincidents?\b|\boutages?\b|\bfailures?\b|\bbugs?\b|\bexceptions?\b|\bcrash(?:es)?\b
        |\bfehler\w*|\bstörung(?:en)?\b|\bvorf[aä]ll(?:e|en)?\b|\bausf[aä]ll(?:e|en)?\b|\berreurs?\b|\bpannes?\b
        |\berror(?:es)?\b|\bfallos?\b|\bincidentes?\b|\baver[ií]as?\b|エラー|障害|不具合|故障""",
    "fix": r"\bfix(?:es|ed)?\b|\bbehoben\b|\bbehebung(?:en)?\b|\bcorrectifs?\b|\bcorrections?\b|\barreglos?\b|修正|直し",
    "procedure": r"""
        \bprocedures?\b|\bsteps\b|\binstructions?\b|\brunbooks?\b|\brecipes?\b|\bchecklists?\b|\banleitung(?:en)?\b|\bschritte\b|\brezepte?\b
        |\bprocédures?\b|\bétapes\b|\brecettes?\b|\bprocedimientos?\b|\bpasos\b|\brecetas?\b|手順|やり方|レシピ""",
    "pattern": r"\bpatterns?\b|\bmuster\b|\bpatrones\b|パターン",
    "prompt": r"\bprompts?\b|プロンプト",
    "summary": r"\bsummaries\b|\bsummari[sz]ed?\b|\bsummary\b|\bzusammen(?:fassung(?:en)?|gefasst)\b|\brésum(?:é|és|er)\b|\bresum(?:en|ido|ir)\b|要約|まとめ",
}  # fmt: skip
_SUGGESTED = {
    "procedure": r"""
        \bhow\s(?:do|can|should|would|am|are|does|did)\s(?:i|we|you|one|it)\b|\bhow\sto\b|\bwalk\sme\sthrough\b|\bsupposed\sto\b
        |\bwie\s(?:mache|macht|kann|bekomme|geht|soll|muss|richte|setze)\b|\bcomment\s(?:faire|est-ce|puis|on|je|dois)\b
        |\bcómo\s(?:se|puedo|podemos|hago|hacemos|debo)\b|どうやって|方法|どのように""",
    "decision": r"\bwhy\b|\breasons?\b|\bon\swhat\sgrounds\b|\bwarum\b|\bwieso\b|\bgrund\b|\bgründe\b|\bpourquoi\b|\bpor\squé\b|なぜ|理由",
    "error": r"\bproblems?\b|\bwrong\b|\bbroke\b|\bbroken\b|\btrouble\b|\bfail(?:s|ed|ing)?\b|\bprobleme?\b|\bproblèmes?\b|\bproblemas?\b|問題",
    "fix": r"\bsolve[ds]?\b|\brepair(?:ed)?\b|\bstopp?(?:ed)?\b|\bremedy\b|\bhelped\b|\bclosed\b|\bgelöst\b|\brésolu\b|\bsolucion\w*|解決",
    "fact": r"\bwho(?:m)?\b|\bwer\b|\bwen\b|\bwem\b|\bqui\b|\bquién(?:es)?\b|誰",
}  # fmt: skip

_NEWEST = r"""
    \bmost\srecent(?:ly)?\b|\blatest\b|\bnewest\b
    |\b(?:the|our|my|your|his|her|their|its|'s|’s|whose)\slast\s(?!(?:\w+\s)?(?:minute|hour|day|night|week|month|quarter|year|spring|summer|autumn|fall|winter)s?\b)
    |\blast\s(?:time|one|thing|word)\b|\blast\swe\sheard\b|\b(?:zu)?letzte[nrsm]?\s(?!woche|monat|jahr|quartal|nacht|sommer|winter|herbst)|\bzuletzt\b|\bneueste[nrsm]?\b
    |\bjüngste[nrsm]?\b|\bderni(?:er|ère|ers|ères)\s(?!(?:semaine|mois|année|an)s?\b)|\bdernièrement\b|\bplus\srécente?s?\b
    |\búltim[oa]s?\s(?!(?:semana|mes|año|día)s?\b)|\bmás\srecientes?\b|最新|最近の|一番新しい|直近|最後"""  # fmt: skip
_OLDEST = r"""
    \boriginally\b|\bat\sfirst\b|\binitially\b|\bearliest\b|\boldest\b|\bthe\svery\sfirst\b|\bin\sthe\sbeginning\b|\bto\sbegin\swith\b
    |\b(?:the|our|my)\sfirst\b|\bursprünglich\w*|\banfangs\b|\bzuerst\b|\bälteste[nrsm]?\b|\bà\sl['’]origine\b|\bau\sdébut\b
    |\binitialement\b|\boriginalmente\b|\bal\sprincipio\b|\binicialmente\b|最初|当初|もともと|元々"""  # fmt: skip
_OPEN = r"""
    \bopen\b|\bstill\b|\bpending\b|\boutstanding\b|\bunfinished\b|\bleft\b|\bnext\b|\boffene?[nrsm]?\b|\bnoch\b|\bausstehend\w*
    |\bouvert(?:e|es|s)?\b|\breste\b|\bencore\b|\babiert[oa]s?\b|\bpendientes?\b|未完了|残"""
# What happened in a time, rather than what held then.
_EVENTS = r"""
    \bhappen(?:s|ed|ing)?\b|\bnew\b|\badded\b|\bnoted?\b|\bwr(?:ite|ote|itten)\sdown\b|\bsaved?\b|\brun\sinto\b|\bran\sinto\b|\bcame\sup\b
    |\banything\b|\beverything\b|\bwhat\sdid\s(?:i|we)\b|\bdone\b|\bwent\sin\b|\bmade\b|\bput\son\b|\bmiss(?:ed)?\b
    |\bpassiert\b|\bneues?\b|\bgeschehen\b|\bnotiert\b|\bpassé\b|\bnouveau(?:x|tés?)?\b|\bnoté\b|\bpas(?:ó|ado)\b|\bnuevo\b|\banotado\b|\banot(?:é|amos)\b
    |起き|あった|新しい|出来事"""  # fmt: skip


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of answer a question wants, and which of its words say so."""

    language: str = "en"
    kinds: tuple[str, ...] = ()
    """Asked for by name."""
    likely: tuple[str, ...] = ()
    """Suggested by the way of asking."""
    order: Order | None = None
    open: bool = False
    """Only what is not done yet."""
    reasons: bool = False
    """Why something is or was so."""
    events: bool = False
    """What happened in a time, rather than what held then."""
    words: frozenset[str] = frozenset()
    """The words that say all this; the others are the subject."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE)


def read_intent(text: str) -> Intent:
    """Read a question by the tables; without a match everything is left open."""
    text = " ".join(text[:MAX_QUERY].split())
    said: set[str] = set()
    kinds = tuple(kind for kind, pattern in _NAMED.items() if _found(pattern, text, said))
    likely = tuple(
        kind for kind, pattern in _SUGGESTED.items() if kind not in kinds and _found(pattern, text, None)
    )
    newest, oldest = _found(_NEWEST, text, said), _found(_OLDEST, text, said)
    return Intent(
        language=_language(text),
        kinds=kinds,
        likely=likely,
        order="newest" if newest else "oldest" if oldest else None,
        open=_found(_OPEN, text, said if "todo" in kinds else None),
        reasons="decision" in likely or _found(_SUGGESTED["decision"], text, None),
        events=_found(_EVENTS, text, None) or bool(kinds),
        words=frozenset(said),
    )


def _found(pattern: str, text: str, said: set[str] | None) -> bool:
    found = False
    for match in _compiled(pattern).finditer(text):
        found = True
        if said is None:
            break
        said.update(word.lower() for word in _WORD.findall(match[0]))
    return found


def _language(text: str) -> str:
    """The language whose function words a question has; English where none has more than one."""
    if _JAPANESE.search(text):
        return "ja"
    words = {word.lower() for word in _WORD.findall(text)}
    counts = {language: len(words & known) for language, known in _tables().items()}
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] > 1 and counts[best] > counts["en"] else "en"


@cache
def _tables() -> dict[str, frozenset[str]]:
    from satchel.terms import QUESTION_WORDS

    return {"en": QUESTION_WORDS} | {name: frozenset(words.split()) for name, words in _FUNCTION_WORDS.items()}


def function_words(language: str) -> frozenset[str]:
    """Words of a language that carry no subject, beside the English ones."""
    return _tables().get(language, frozenset())


def is_grammar(pair: str) -> bool:
    """Whether two characters of a Japanese question are grammar."""
    return _JAPANESE_GRAMMAR.fullmatch(pair.replace(" ", "")) is not None
