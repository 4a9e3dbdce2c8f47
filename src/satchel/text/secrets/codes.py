"""Codes that people write down: of doors and safes, for recovery, of authenticator apps, and of BitLocker."""

import re
from collections.abc import Iterator
from functools import cache

from satchel.text.secrets.searched import HintIndex, Searched

__all__ = ["find_codes"]

_Found = Iterator[tuple[int, int, str]]


def find_codes(part: Searched) -> _Found:
    """Yield the spans and labels of codes in sentences and lists."""
    for number in _HINTS.present(part):
        yield from _FINDERS[number][1](part.text, part.lowered)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# Codes of things with a lock. Many other things have a code, so the sentence must name the thing.

_CODE_HINTS = (
    *("code", "combination", "combo", "kombination", "combinazione", "combinaison", "combinación", "combinação"),
    *("código", "codice", "codigo", "kod ", "код", "コード", "暗証", "密码", "puk", "pin"),
)
_CODE = (
    r"(?:code|combination|combo|kombination|combinazione|combinaison|combinación|combinação|código|codigo|codice"
    r"|pin|kod|код|コード|番号|密码)"
    r"[^\n.;:=：!?0-9]{0,48}?"
    r"(?:[ ](?:is|ist|lautet|est|es|è|é|are|was|to|jest|це|это)[ ]{1,2}|[ \t]{0,2}[:=：][ \t]{0,2}|"
    r"[ ][–—-]{1,2}[ ]"
    r"|[はが是为])"
    r"[\"'`*「]{0,3}([#*]?[0-9]{3,10}[#*]?|[0-9]{1,2}(?:[ /-]{1,3}[0-9]{1,2}){2,5}|(?="
    r"[a-z]{0,7}[0-9])[0-9a-z]{4,8})"
    r"(?![\w%]|[.,/:-][0-9])"
)
_LOCKED = (
    r"alarm|(?<![a-z])(?:door|gate|safe|garage|entry|lock|vault|locker|luggage|bike|mailbox|voicemail"
    r"|sim"
    r"|house|apartment|shed|tür|tor|coffre|porte|portail|porta|portão|cofre|caja|candado"
    r"|dver|intercom|entrance)(?![a-z])"
    r"|keypad|lockbox|key[ ]?box|padlock|haustür|hoftor|tresor|schloss|schließfach|safe-|-safe|garage"
    r"|digicode|cadenas|immeuble|puerta|fuerte|cancello|cassaforte|lucchetto|sejf|domofon|drzwi|двер|домофон|сейф"
    r"|сигнализац|金庫|玄関|ドア|门禁|门锁|保险|handy|puk"
)
_PUK = r"\bpuk[12]?(?:[ -]?code)?(?:[ ](?:is|ist|est|es|lautet))?[ \t:=]{1,3}([0-9]{8})(?![0-9])"


def _find_lock_codes(text: str, lowered: str) -> _Found:
    for match in _compiled(_CODE).finditer(lowered):
        start, end = match.span(1)
        sentence = _compiled(r"[.;!?\n]\s").split(lowered[max(0, match.start() - 32) : start])[-1]
        if _compiled(_LOCKED).search(sentence):
            yield start, end, "code"
    if "puk" in lowered:
        for match in _compiled(_PUK).finditer(lowered):
            yield *match.span(1), "code"


# Codes for recovery, one or a list of them.

_RECOVERY_HINTS = (
    *("recovery", "backup code", "backup-code", "rescue code", "emergency code", "scratch code", "2fa code"),
    *("wiederherstell", "ersatzcode", "backup-codes", "notfallcode", "secours", "récupération", "respaldo"),
    *("recupera", "backup_codes", "recupero", "バックアップコード", "リカバリーコード", "恢复代码", "备用"),
)
_RECOVERY = (
    r"(?:(?:recovery|backup|rescue|emergency|scratch|2fa|wiederherstellungs|ersatz|notfall)[ _-]?(?:codes?|keys?)"
    r"|wiederherstellungsschlüssel|codes?[ ]de[ ](?:secours|récupération|sauvegarde)"
    r"|códigos?[ ]de[ ](?:respaldo|recuperación|recuperação)|codic[ei][ ]di[ ](?:recupero|backup)"
    r"|(?:バックアップ|リカバリー)コード|恢复代码|备用验?证?码)(?![a-z])"
)
# On the same line, a code needs a separator or a hyphen before or in it.
_LEAD = r"[^\n:=：]{0,80}(?:[:=：]|[ ](?:is|are|ist|lautet|est|es)(?=[ ]))[\"'`\[ \t]{0,4}"
_LIST_LEAD = r"[^\n]{0,80}(?:\r?\n[ \t]{0,8}){1,3}(?:[^\n0-9]{10,80}\n\s{0,8})?"
_ITEM = (
    r"(?:[*•>☐□✓-][ \t]{1,2})?(?:[0-9]{1,2}[.)][ \t]{1,3})?[\"'`]?"
    r"((?=[a-z -]{0,24}[0-9])[a-z0-9]{4,12}(?:-[a-z0-9]{4,12}){1,7}|[0-9]{4}[ ][0-9]{4}|[0-9]{6,10}"
    r"|(?=[a-z]{0,11}[0-9])(?=[0-9]{0,11}[a-z])[a-z0-9]{8,16})[\"'`]?(?![\w-])"
)
_BETWEEN = r"[ \t,;|]{0,8}(?:\r?\n[ \t]{0,8})?"
_MOST_CODES = 40


def _find_recovery_codes(text: str, lowered: str) -> _Found:
    item, between = _compiled(_ITEM), _compiled(_BETWEEN)
    for announced in _compiled(_RECOVERY).finditer(lowered):
        for lead in (_LEAD, _LIST_LEAD):
            begun = _compiled(lead).match(lowered, announced.end())
            position = begun.end() if begun else len(text)
            for _ in range(_MOST_CODES):
                found = item.match(lowered, position)
                if not found:
                    break
                yield *found.span(1), "recovery-code"
                gap = between.match(lowered, found.end())
                position = gap.end() if gap else found.end()
    for match in _compiled(r"(?<![0-9-])[0-9]{6}(?:-[0-9]{6}){7}(?![0-9-])").finditer(lowered):
        yield *match.span(), "recovery-key"


# Seeds of authenticator apps: base32, often in groups of four.

_SEED_HINTS = (
    "authenticator",
    "totp",
    "otp ",
    "otp:",
    "2fa",
    "mfa",
    "two-factor",
    "setup key",
    "base32",
    "scan the",
)
_SEED = (
    r"(?:authenticator|totp|\botp|2fa|mfa|two-factor|(?:setup|manual|secret)[ ](?:entry[ ])?key|base32"
    r"|scan[ ]the[ ]\w+)"
    r"[^\n:=]{0,60}[:=][ \t]{0,4}[\"'`]?([a-z2-7]{4}(?:[ -]?[a-z2-7]{4}){3,15}={0,6})(?![\w-])"
)
_BASE32_DIGITS = re.compile(r"[2-7]")


def _find_totp_seeds(text: str, lowered: str) -> _Found:
    for match in _compiled(_SEED).finditer(lowered):
        seed = text[slice(*match.span(1))]
        digits = len(_BASE32_DIGITS.findall(seed))
        if digits >= 2 or (digits and seed.isupper()):
            yield *match.span(1), "totp-secret"


_FINDERS = (
    (_CODE_HINTS, _find_lock_codes),
    (_RECOVERY_HINTS, _find_recovery_codes),
    (_SEED_HINTS, _find_totp_seeds),
)
_HINTS = HintIndex(hints for hints, _ in _FINDERS)
