"""Questions about the course of things: "in what order did I bring up …", "summarise how the roof job went".

They want a few short pieces from each part of a history rather than the ten memories most like the question.
What a conversation is about is said at its beginning, and after the best of one part comes that of another.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel.recall.features import Sheet
from satchel.text.terms import folded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["asks_for_course", "course"]

# A question stands at the beginning of a text or at its end; what is pasted between them is not read.
HEAD, TAIL = 400, 200

# The log-odds of the first memory of a part, and how much less each one after it has, down to the negative.
OPENING = 1.5
LATER = 0.05
# How much less each further memory of a part is worth: the fifth best half as much as the best.
FURTHER = 0.25
# A pause this long, or so many memories, and another part of the conversation begins.
PAUSE = 6 * 3600e6
LONGEST_PART = 100

# What is asked for stands in one sentence. Texts are folded: no capitals, no accents on Latin letters.
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

# One moment, place, person or number is wanted, whatever else is said of a course.
_ONE_THING = re.compile(
    r"\W*(?:when|where|who|whose|whom|how (?:many|much|long|often|old|far|soon)|wann|wo|wer|wem|wen"
    r"|wie ?(?:viele?|lange|oft)|quand|ou|qui|combien|cuando|donde|quien|cuant[oa]s?)\b|いつ|どこ|誰|だれ"
)


def asks_for_course(text: str) -> bool:
    """Whether a question asks how something went, in which order, or for a summary of it.

    By its words, in English, German, French, Spanish and Japanese. "When did I first …" wants one moment and is
    no such question.
    """
    text = text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} {text[-TAIL:]}"
    asked = folded(text.replace("’", "'")).strip()
    return _ONE_THING.match(asked) is None and _forms().search(asked) is not None


@cache
def _forms() -> re.Pattern[str]:
    # Compiled when first asked for, which takes 20 ms: a search needs none of it.
    return re.compile("|".join((*_ENGLISH, *_GERMAN, *_FRENCH, *_SPANISH, *_JAPANESE)))


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
