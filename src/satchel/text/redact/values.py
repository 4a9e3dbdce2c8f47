"""What a value looks like: a secret, a stand-in for one, or a piece of code."""

import re
from functools import cache

__all__ = [
    "is_attribute",
    "is_call",
    "is_mixed_case",
    "is_name",
    "is_opaque",
    "is_phrase",
    "is_placeholder",
    "is_reference",
]

_WORD = (
    r"none|null|nil|undefined|true|false|yes|no|on|off|required|optional|nullable|string|str|bytes"
    r"|int|integer|number|bool|boolean|any|object|text|varchar|empty|blank|unset|missing|invalid"
    r"|expired|valid|wrong|incorrect|changed|reset|rotated|redacted|masked|hidden|removed|unknown"
    r"|placeholder|todo|tbd|n/a|na|default|example|dummy|disabled|enabled|basic|bearer|oauth2?|x-oauth-basic"
    r"|bcrypt|argon2(?:id)?|scrypt|md5|sha1|sha256|sha512|base64|utf-?8|hmac|rs256|hs256"
)
# A quoted sentence about passwords contains one of these; a passphrase hardly ever does.
_PROSE = (
    r"\b(?:an?|and|are|at|be|can|cannot|change|characters|confirm|current|do|enter|for|forgot|has"
    r"|have|incorrect|invalid|is|it|least|length|long|match|minimum|must|new|not?|of|or|passwords?"
    r"|please|required|reset|should|show|the|too?|user|was|with|wrong|your?)\b"
)
_PLACEHOLDER = (
    r"\$[a-z_]+|\$\{.*|\$\(.*|\{.*|<.*|%\(.*|%[a-z_]+%|%[sdrv]|\[.*"
    r"|[*x•.…_?#-]+|\.{3}.*|(?:your|my|the|some|insert|replace|enter|put)[-_ ].*"
)
_PLACEHOLDER_ENDS = ("-here", "_here", "-placeholder", "_placeholder", "...", "…")
_CALL = r"\(.*|[&*!@]?[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[\w$]+)*(?:[(\[]|->|::).*"
_NAME = r"[&*!@]?[A-Za-z_$][A-Za-z_$]*"
_ATTRIBUTE = r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+"
_NUMBERED_NAME = r"[A-Za-z]+(?:_[A-Za-z]+)*_?[0-9]{0,2}"
_REFERENCE = (
    r"[~.]{0,2}(?:/[\w.@-]+){2,}/?|[~.]{1,2}/[\w.-]*|[A-Za-z]:[\\/].*|[a-z][a-z0-9+.-]*://.*"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:sha[0-9]+|md5)[-:].*|[0-9]{4}-[0-9]{2}-[0-9]{2}.*"
)
_COMPOUND = r"(?:[A-Za-z]+|[0-9]+)(?:[-/](?:[A-Za-z]+|[0-9]+))+"
_SIGNS = frozenset("@#$%^&*!+=~|")


def is_placeholder(value: str) -> bool:
    """Whether this stands where a secret would: `<your-key>`, `${TOKEN}`, `None`, `required`."""
    lowered = value.lower()
    word = lowered.strip(".,;:")
    return not word or lowered.endswith(_PLACEHOLDER_ENDS) or _fits(_WORD, word) or _fits(_PLACEHOLDER, word)


def is_reference(value: str) -> bool:
    """Whether this points elsewhere: a path, a URL, an address, a digest, a date."""
    return _fits(_REFERENCE, value)


def is_call(value: str) -> bool:
    """Whether this begins a call, an index or an expression in brackets."""
    return _fits(_CALL, value)


def is_attribute(value: str) -> bool:
    """Whether these are names joined by dots."""
    return _fits(_ATTRIBUTE, value)


def is_name(value: str, *, numbered: bool) -> bool:
    """Whether this could be a variable; `numbered` also takes names such as `next_token2`."""
    return _fits(_NAME, value) or (numbered and _fits(_NUMBERED_NAME, value))


def is_opaque(value: str) -> bool:
    """Whether letters mix with digits or signs as they do not in words, compounds and names."""
    letters = any(char.isalpha() for char in value)
    digits = any(char.isdigit() for char in value)
    return letters and (digits or not _SIGNS.isdisjoint(value[:-1])) and not _fits(_COMPOUND, value)


def is_mixed_case(value: str) -> bool:
    """Whether capitals stand inside, as in base64 but not in a word that begins a sentence."""
    return len(value) >= 8 and value[1:] != value[1:].lower() and value != value.upper()


def is_phrase(value: str) -> bool:
    """Whether several words could be a passphrase rather than a sentence about one."""
    return _compiled(_PROSE).search(value.lower()) is None


def _fits(pattern: str, value: str) -> bool:
    return _compiled(pattern).fullmatch(value) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.DOTALL)
