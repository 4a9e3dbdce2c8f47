"""Secrets given to a name: `password = "…"`, `API_KEY=…`, `"client_secret": "…"`, `--token …`."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from satchel.text.redact.values import (
    is_attribute,
    is_call,
    is_name,
    is_opaque,
    is_phrase,
    is_placeholder,
    is_reference,
)

__all__ = ["HINTS", "find_assignments"]

HINTS = ("pass", "pwd", "secret", "key", "token")

# Searched in lower-cased text. Nothing but these suffixes may follow the name: `token_count`,
# `password_file` and `max_tokens` are about secrets, not secrets. The alternatives begin with
# letters, not groups, because only then does `re` skip to the places where one can begin.
_NAMED = r"""
(?P<noun>passw(?:or)?d|passphrase|pwd|pass|key|secret|token)
(?: [_-]? (?: [0-9]{1,3} | prod(?:uction)? | dev | test | staging | live | base | value | raw ) )?
(?P<close> \\{0,2} ["'`]? ) \]?
(?: [ \t]{0,4} :? [ \t]{0,4} (?: str | string | bytes ) [ \t]{0,4} (?= = ) )?
(?P<sep> [ \t]{0,8} (?: := | => | ={1,3} | :(?!:) | , ) [ \t]{0,8}
       | [ \t] (?: is | was ) [: \t]{1,3}
       | [ \t]{1,4} )
"""
_KINDS = {"key": "api-key", "secret": "secret", "token": "token"}

# `key` and `pass` mean a secret only after one of these; `token` after one of those means a piece
# of text or a page of results.
_BEFORE_KEY = ("api", "access", "secret", "private", "encryption", "signing", "master", "account")
_BEFORE_PASS = ("db", "user", "smtp", "sql", "postgres", "pg", "ftp", "admin", "root", "redis", "mail")
_NOT_BEFORE_TOKEN = (
    *("pad", "eos", "bos", "unk", "cls", "sep", "mask", "stop", "start", "end", "special"),
    *("page", "next", "continuation"),
)
# `https://x-access-token:…@host` is a URL with a user of that name.
_USER_OF_URL = r"://[^\s/?#]*\Z"
_FLAG = r"(?<![\w-])--[\w-]*\Z"

_QUOTED = (
    r"[bBrRuU]{0,2}(?:"
    r'"(?P<double>(?:[^"\\\n]|\\.)*+)"|'
    r"'(?P<single>(?:[^'\\\n]|\\.)*+)'|"
    r"`(?P<back>[^`\n]*+)`|"
    r"\\{1,3}[\"'](?P<escaped>[^\"'\\\n]*+)\\)"
)
# Closing punctuation ends a value only where the value can end; passwords contain it, too.
_UNQUOTED = (
    r"[\"'`]?(?P<plain>(?:[^\s\"'`&;,)\]}<\\]"
    r"|[&;,)\]}](?![&;,)\]}:]{0,8}(?:\s|\Z|[\"'`<\\])|[\w.% \[\]-]{1,64}[=:])"
    r"|<(?![/a-zA-Z!])|\\(?![nrt\"']))*+)"
)
_JUDGED = 64


class _Value(NamedTuple):
    start: int
    end: int
    text: str
    quoted: bool


class _Name(NamedTuple):
    kind: str
    sep: str
    upper: bool
    flag: bool

    @property
    def environment(self) -> bool:
        """Whether this is written as in a shell or an .env file, where values need no quotes."""
        return self.upper and self.sep == "="

    @property
    def assigns(self) -> bool:
        return "=" in self.sep


def find_assignments(text: str) -> Iterator[tuple[int, int, str]]:
    """The spans and labels of the values given to names that hold secrets."""
    done = 0
    for match in _compiled(_NAMED, re.VERBOSE).finditer(_lowered(text)):
        if match.start() < done:
            continue
        name = _name(text, match)
        value = name and _value(text, match.end())
        if not name or not value or not _allowed(name, value, close=match["close"]):
            continue
        if _is_secret(name, value, text[value.end : value.end + 2]):
            done = value.end if value.quoted else _whole(text, value)
            yield value.start, done, name.kind


def _lowered(text: str) -> str:
    lowered = text.lower()
    # İ is the one character whose lower case is longer; positions must stay those of the text.
    return lowered if len(lowered) == len(text) else text.replace("İ", "I").lower()


def _name(text: str, match: re.Match[str]) -> _Name | None:
    noun = match["noun"]
    start, end = match.span("noun")
    before = text[max(0, start - 32) : start]
    word = before.lower().rstrip("_-")
    if (
        (noun == "key" and not word.endswith(_BEFORE_KEY))
        or (noun == "pass" and not word.endswith(_BEFORE_PASS))
        or (noun == "token" and word.endswith(_NOT_BEFORE_TOKEN))
        or (before.endswith(":") and match["sep"] == ":")  # arn:aws:…:secret:name
        or ("://" in before and _compiled(_USER_OF_URL).search(before))
    ):
        return None
    return _Name(
        _KINDS.get(noun, "password"),
        match["sep"],
        upper=text[start:end].isupper(),
        flag="--" in before and _compiled(_FLAG).search(before) is not None,
    )


def _value(text: str, start: int) -> _Value | None:
    if match := _compiled(_QUOTED).match(text, start):
        group = match.lastgroup or ""
        return _Value(*match.span(group), match[group], quoted=True)
    # Judged by its beginning, so that a rejected name costs the same however long the line is.
    if match := _compiled(_UNQUOTED).match(text, start, start + _JUDGED):
        return _Value(*match.span("plain"), match["plain"], quoted=False)
    return None


def _whole(text: str, value: _Value) -> int:
    match = _compiled(_UNQUOTED).match(text, value.start)
    return match.end() if match else value.end


def _allowed(name: _Name, value: _Value, *, close: str) -> bool:
    sign = name.sep.strip()
    if sign == ",":
        return bool(close) and value.quoted and not is_name(value.text, numbered=False)
    return bool(sign) or name.flag


def _is_secret(name: _Name, value: _Value, after: str) -> bool:
    if is_placeholder(value.text) or is_reference(value.text):
        return False
    if value.quoted:
        return (name.sep.strip() != "," or after[1:] == ")") and _is_quoted_secret(name, value.text)
    return _is_unquoted_secret(name, value.text.rstrip(".,;:?"), after)


def _is_quoted_secret(name: _Name, text: str) -> bool:
    if _is_constant(text):
        return False
    if any(char.isspace() for char in text):
        return name.kind == "password" and len(text) >= 8 and is_phrase(text)
    if name.kind in ("password", "secret"):
        return len(text) >= 3
    return len(text) >= 8 and (is_opaque(text) or (name.kind == "api-key" and name.assigns))


def _is_unquoted_secret(name: _Name, text: str, after: str) -> bool:
    generated = name.kind in ("api-key", "token")
    if name.environment:
        long_enough = len(text) >= 8 and not text.isdigit() if generated else len(text) >= 3
        return long_enough and not _is_constant(text) and not is_call(text)
    if is_call(text) or is_attribute(text):
        return False
    if generated:
        least = 8 if name.assigns or name.flag or name.kind == "api-key" else 16
        return len(text) >= least and is_opaque(text) and not is_name(text, numbered=True)
    if name.assigns:
        return len(text) >= 3 and not is_name(text, numbered=False)
    if text.isdigit():
        return len(text) >= 6
    followed_by_flag = name.flag and after == " -" and len(text) >= 6
    return followed_by_flag or (len(text) >= 5 and is_opaque(text))


def _is_constant(text: str) -> bool:
    return "_" in text and text.isupper() and text.replace("_", "").isalpha()


@cache
def _compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.DOTALL | flags)
