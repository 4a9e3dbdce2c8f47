"""Secrets assigned to a name: `password = "…"`, `API_KEY=…`, `"client_secret": "…"`, `--token …`, `Passwort: …`."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from satchel.model.patterns import lazy_pattern
from satchel.text.secrets.searched import HintIndex, Searched
from satchel.text.secrets.values import (
    is_attribute,
    is_code,
    is_label,
    is_mixed_case,
    is_name,
    is_opaque,
    is_phrase,
    is_placeholder,
    is_random,
    is_reference,
    is_strong,
    words,
)

__all__ = ["find_assignments"]

# Only these may follow a noun: `token_count`, `password_file` and `max_tokens` do not hold secrets.
_SUFFIX = (
    r"(?:[_-]?(?:[0-9]{1,3}|prod(?:uction)?|dev|test|staging|live|base|value|raw|data|string|text|plain|default|old"
    r"|new|primary|secondary|main|b64|base64|hex)){0,2}"
)
_FILLER = (
    r"(?:[ \t]{1,2}(?:for|of|to|on|at|für|fuer|des|der|zum|zur|vom|von|du|de|del|pour|para|do|da|di"
    r"|per|van|voor|has"
    r"|от|для|к|на|dla|voor"
    r"|provided|nueva|nuevo|novo|nova|neu|nouveau|actual)(?=[ \t:])(?:[^\n.;:=?!\"'`「」()|{}<>\[\]]"
    r"|\.(?=\w)){0,48}?"
    r"|[ \t]?[(\[][^()\[\]\n]{1,32}[)\]])?"
)
_SEPARATOR = (
    r"(?P<close>\\{0,2}[\"'`]?)\]?[*_]{0,2}"
    r"(?:[ \t]{0,4}:[ \t]{0,4}[&?a-z_.<>\[\]|]{1,24}[ \t]{0,4}(?==[ \t\"'`]))?"
    r"(?:[ \t]{0,8}(?P<assign>:=|=>|->|→|={1,3}|＝)[ \t]{0,8}(?:convertto-securestring[ ])?"
    r"|[ \t]{0,8}(?P<colon>：|:(?!:))[*_]{0,2}(?:[ \t]{0,2}[|>]-?\n[ \t]{1,12}|[ \t]{0,8})"
    r"(?!\n)"
    r"|[ \t]{0,2}(?P<line>[:：])[ \t]{0,2}\r?\n[ \t]{0,12}"
    r"|(?P<cell>[ \t]{1,20}\|[ \t]{1,20}|[ \t]{0,8}</t[dh]>\s{0,20}<td[^>\n]{0,40}>[ \t]{0,8})"
    r"|[ \t]{0,8}(?P<comma>,)[ \t]{0,8}"
    r"|(?P<call>\()[ \t]{0,2}(?=[\"'])"
    r"|[ \t]{0,2}(?P<cjk>[はが是为為][：:]?|：)[、 \t]{0,2}"
    rf"|(?P<prose>{_FILLER}(?:[ \t]{{0,4}}[:=：]|[ \t]{{1,4}}(?:(?:is|was|been|now)[ ]set[ ]to"
    rf"|wurde[ ]auf|is|was|lautet|ist|est"
    r"|es|é|è|to)(?=[ :\t])|['’]s(?=[ ])|[ ][–—-](?=[ ]))[: \t]{1,3})"
    r"|(?P<space>[ \t]{1,4})(?=[\"'`]|\S{0,40}[0-9!@#$%^&*]|\S{6,64}[ ]-))"
)
# Three groups of nouns: most texts contain only some of the first. They start with letters, not groups, because
# only then can `re` skip to the places where one can start. A group is searched for if a hint of it occurs.
_NOUNS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("pass", "pwd", "psk", "pw", "pin", "secret", "token", "key"),
        r"pass(?:w(?:or[dt]|d)s?|[ ]?phrase|code)?|p(?:wd|sk|w|in(?:[ -]?code|-nummer)?)|secrets?|tokens?|keys?",
    ),
    (
        (
            *("kennwort", "clave", "contrasena", "mdp", "de passe", "depasse", "de_passe", "senha", "wachtwoord"),
            *("parola", "losenord", "cvv", "cvc", "credential", "community"),
        ),
        r"kennwort|clave|contrasena|mdp|mot[ _-]?de[ _-]?passe|senha|wachtwoord|parola|losenord|cv[vc]2?"
        r"|credentials?"
        r"|community(?:[ _-]?string)?",
    ),
    (
        (
            *("contraseña", "hasło", "lösenord", "şifre", "пароль", "jelszó", "schlüssel", "clé ", "パスワード"),
            *("暗証番号", "密码", "密碼", "비밀번호", "apiキー", "トークン", "シークレット"),
        ),
        r"contraseña|hasło|lösenord|şifre|пароль|jelszó|(?:api|wlan|wifi|wpa2?|geheimer)[ -]?schlüssel"
        r"|clé[ ](?:api|wifi|secrète|privée|d'api)|パスワード|暗証番号|密码|密碼|비밀번호|apiキー|シークレット"
        r"|トークン",
    ),
)
_HINTS = HintIndex(hints for hints, _ in _NOUNS)
_KINDS = (
    (re.compile(r"key|(?:api|geheimer)[ -]?schlüssel|clé|apiキー"), "api-key"),
    (re.compile(r"secret|credential|シークレット"), "secret"),
    (re.compile(r"token|トークン"), "token"),
)

# `key` is a secret after one of these words, `pass` after a user. `token` after one of _NOT_BEFORE_TOKEN is a
# piece of text or a page of results.
_BEFORE_KEY = tuple(
    words(
        "api access secret private encryption signing master account auth client license licence app service"
        " role shared storage webhook jwt crypt hmac deploy session aes rsa decryption cipher wallet stream"
        " product activation hex bearer stripe admin subscription functions fastly wif recovery registration"
        " security wifi wlan"
    )
)
_NOT_BEFORE_KEY = tuple(
    words(
        "public primary foreign sort partition cache object idempotency routing group row publishable hash"
        " range s3 bucket dedup unique index composite pub site host"
    )
)
_BEFORE_PASS = tuple(
    words(
        "db user smtp sql postgres pg ftp admin root redis mail become sudo ssh database default login auth"
        " account rabbitmq mongo ldap proxy vault store http"
    )
)
_NOT_BEFORE_TOKEN = words(
    "pad eos bos unk cls sep mask stop start end special per max min page next continuation sync"
    " cancellation first last prev previous"
)
_LAST_WORD = lazy_pattern(r"(?:[A-Z]?[a-z]+|[A-Z]+)[_\- .]?\Z", re.ASCII)
_STANDALONE = frozenset(("pw", "pin", "psk", "mdp", "cvv", "cvc", "cvv2", "cvc2", "clave", "parola", "senha"))
# `https://x-access-token:…@host` is a URL with a user of that name, not an assignment.
_USER_OF_URL = lazy_pattern(r"://[^\s/?#]*\Z")
_FLAG = lazy_pattern(r"(?<![\w-])--?[\w.-]*\Z", re.ASCII)
# Not indented: that is how arguments of calls are written.
_LINE_START = lazy_pattern(r"(?:^|\n)(?:export[ ]|set[ ])?[\w.\-/:]*\Z", re.ASCII)
# The separators of a query or of a connection string, before a name.
_IN_QUERY = lazy_pattern(r"[&?]\Z|;[ ]?\Z")
_NAMED_USER = lazy_pattern(r"user|login|admin|root|host|smtp|mail", re.IGNORECASE)

_QUOTED = lazy_pattern(
    r"[bBrRuUfFnN@$]{0,2}(?:"
    r'"(?P<double>(?:[^"\\\n]|\\.)*+)"|'
    r"'(?P<single>(?:[^'\\\n]|\\.)*+)'|"
    r"`(?P<back>[^`\n]*+)`|"
    r"\\{1,3}[\"'](?P<escaped>[^\"'\\\n]*+)\\|"
    r"[「『](?P<corner>[^」』\n]{1,128}+)[」』]|[“„«‘](?P<curly>[^“”»’\n]{1,128}+)[”“»’])",
    re.ASCII | re.DOTALL,
)
# Passwords may contain closing punctuation, so it ends a value only before a space, a quote and the like.
_UNQUOTED = lazy_pattern(
    r"(?:[\"'`]|\*{2}|_{2})?(?P<plain>(?:[^\s\"'`&;,)\]}<\\「」『』“”„«»。、）]"
    r"|[&;,)\]}](?![&;,)\]}:]{0,8}(?:\s|\Z|[\"'`<\\])|[\w.% \[\]-]{1,32}[=:])"
    r"|<(?![/a-zA-Z!])|\\(?![nrt\"']))*+)",
    re.ASCII | re.DOTALL,
)
_ASCII_RUN = lazy_pattern(r"[「『\"'“]?(?P<plain>[!-~]*+)", re.ASCII)
_WORDS_AND_NUMBER = lazy_pattern(r"[A-Za-z]{3,16}(?:-[A-Za-z]{3,16}){1,5}-[0-9]{1,6}")
# After a colon, a value without quotes needs a digit or a special character. This rejects most others cheaply.
_PLAUSIBLE = lazy_pattern(r"[bBrRuUfF]{0,2}[\"'`\\「『“„«‘*_@$]|\S{0,63}[0-9@#$%^&*!+=~|-]")
_TOLD = frozenset(("prose", "cjk", "cell"))
_LONG_WORD = lazy_pattern(r"[\"'`\\]{0,3}[\w+/.~-]{16}", re.ASCII)
_CHECKED_LENGTH = 64


class _Value(NamedTuple):
    start: int
    end: int
    text: str
    quoted: bool


class _Name(NamedTuple):
    """A name and how its value is joined to it. What is rarely asked is computed when it is."""

    text: str
    match: re.Match[str]
    before: str
    noun: str
    kind: str
    sep: str
    """The group of the separator: assign, colon, line, cell, comma, call, cjk, prose or space."""
    weak: bool
    """Whether only a value that is clearly random makes this a secret."""

    @property
    def quoted(self) -> bool:
        """Whether the name itself is in quotes."""
        return self.match["close"][-1:] in ('"', "'")

    @property
    def upper(self) -> bool:
        return self.text[slice(*self.match.span("noun"))].isupper()

    @property
    def flag(self) -> bool:
        return "-" in self.before and _FLAG.search(self.before) is not None

    @property
    def environment(self) -> bool:
        """Whether this is written as in a shell, an .env or an .ini file, where values need no quotes."""
        match = self.match
        if self.sep != "assign" or match["assign"] != "=" or match.start("assign") + 1 != match.end():
            return False
        return self.upper or _LINE_START.search(self.before) is not None or self._in_query

    @property
    def _in_query(self) -> bool:
        found = _IN_QUERY.search(self.before)
        return found is not None and (found[0][0] != ";" or self.text[self.match.start()].isupper())


def find_assignments(part: Searched) -> Iterator[tuple[int, int, str]]:
    """Yield the spans and labels of values that are assigned to names of secrets."""
    for number in _HINTS.present(part):
        yield from _find(_pattern(_NOUNS[number][1]), part.text, part.lowered)


@cache
def _pattern(nouns: str) -> re.Pattern[str]:
    return re.compile(f"(?P<noun>{nouns}){_SUFFIX}{_SEPARATOR}", re.ASCII)


def _find(pattern: re.Pattern[str], text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    done = 0
    for match in pattern.finditer(lowered):
        if match.start() < done or (match.lastgroup == "colon" and not _PLAUSIBLE.match(text, match.end())):
            continue
        name = _name(text, match)
        value = name and _value(text, match.end(), ascii_only=name.sep == "cjk" or name.noun[-1] > "\u3000")
        if name and value and value.text and _is_secret(name, value, text[value.end : value.end + 3]):
            done = value.end if value.quoted else _value_end(text, value)
            if name.sep == "prose" and not text[done : done + 1].strip():
                # The end of the sentence.
                done = value.start + len(text[value.start : done].rstrip(".,;:"))
            yield value.start, done, name.kind


def _name(text: str, match: re.Match[str]) -> _Name | None:
    noun, sep = match["noun"], match.lastgroup or ""
    start = match.start()
    before = text[max(0, start - 40) : start]
    word = before.lower().rstrip("_-. ")
    standalone = not before[-1:].isalnum()
    weak = noun.startswith("key") and not word.endswith(_BEFORE_KEY)
    if (
        (noun in _STANDALONE and not standalone)
        or (noun == "pass" and not _may_be_pass(word, before, match, standalone=standalone))
        or (noun.startswith("token") and _last_word(before) in _NOT_BEFORE_TOKEN)
        or (weak and not _may_be_key(word, text, match, standalone=standalone))
        or (sep == "colon" and before.endswith(":"))  # arn:aws:…:secret:name
        or ("://" in before and _USER_OF_URL.search(before))
        or (sep == "cell" and "{{" in before)  # a filter in a template: {{ .Values.password | b64enc }}
    ):
        return None
    return _Name(text, match, before, noun, _kind(noun), sep, weak)


@cache
def _kind(noun: str) -> str:
    return next((kind for known, kind in _KINDS if known.match(noun)), "password")


def _may_be_pass(word: str, before: str, match: re.Match[str], *, standalone: bool) -> bool:
    if word.endswith(_BEFORE_PASS) and before[-1:] != " ":
        return True
    if match["close"] and standalone:
        return True
    return standalone and match.lastgroup in ("colon", "assign") and _NAMED_USER.search(before) is not None


def _last_word(before: str) -> str:
    found = _LAST_WORD.search(before)
    return found[0].rstrip("_- .").lower() if found else ""


def _may_be_key(word: str, text: str, match: re.Match[str], *, standalone: bool) -> bool:
    """Return whether `SOME_KEY` may have a random value; most keys are those of maps, tables and caches."""
    joined = not standalone or text[match.start() - 1 : match.start()] in ("_", "-")
    return joined and not word.endswith(_NOT_BEFORE_KEY) and _LONG_WORD.match(text, match.end()) is not None


def _value(text: str, start: int, *, ascii_only: bool) -> _Value | None:
    if match := _QUOTED.match(text, start):
        group = match.lastgroup or ""
        return _Value(*match.span(group), match[group], quoted=True)
    # Only the beginning is checked, so that rejecting a value takes the same time however long the line is.
    pattern = _ASCII_RUN if ascii_only else _UNQUOTED
    if match := pattern.match(text, start, start + _CHECKED_LENGTH):
        return _Value(*match.span("plain"), match["plain"], quoted=False)
    return None


def _value_end(text: str, value: _Value) -> int:
    if value.end < value.start + len(value.text) or len(value.text) < _CHECKED_LENGTH - 4:
        return value.end
    match = _UNQUOTED.match(text, value.start)
    return max(match.end(), value.end) if match else value.end


def _is_secret(name: _Name, value: _Value, after: str) -> bool:
    text = value.text.rstrip(".,;:?") if not value.quoted else value.text
    if is_placeholder(text) or is_reference(text) or _is_constant(text):
        return False
    if name.weak:
        joined = name.sep in ("assign", "colon") and len(text) >= 16
        return joined and is_random(text) and (value.quoted or not is_code(text))
    if value.quoted:
        return _is_quoted_secret(name, text, after)
    if name.sep == "line":
        return name.kind == "password" and is_strong(text)
    if name.sep in _TOLD:
        return _is_told(name, text)
    return _is_unquoted_secret(name, text, after)


def _is_quoted_secret(name: _Name, text: str, after: str) -> bool:
    if any(char.isspace() for char in text):
        return name.sep != "comma" and name.kind == "password" and len(text) >= 8 and is_phrase(text)
    if name.sep == "comma":
        return (
            name.quoted and after[1:].lstrip()[:1] == ")" and not is_name(text, numbered=False) and len(text) >= 3
        )
    if name.sep in ("call", "space", "line"):
        return len(text) >= (5 if name.kind == "password" else 12) and is_opaque(text)
    if name.sep in _TOLD:
        return _is_told(name, text)
    if is_label(text):
        return False
    if name.kind in ("password", "secret"):
        return len(text) >= 3 and (not name.noun.endswith("s") or is_opaque(text))
    return len(text) >= 8 and (
        is_opaque(text)
        or (name.kind == "api-key" and name.sep == "assign")
        or (len(text) >= 16 and is_mixed_case(text) and not is_name(text, numbered=False))
    )


def _is_told(name: _Name, text: str) -> bool:
    """Return whether a sentence tells this secret: it must not be a word of the sentence."""
    if text.isdigit():
        return len(text) >= _least_digits(name)
    if is_code(text) or not _is_opaque(name, text):
        return False
    return len(text) >= (5 if name.kind == "password" else 12)


def _is_unquoted_secret(name: _Name, text: str, after: str) -> bool:
    if name.sep in ("comma", "call"):
        return False
    generated = name.kind in ("api-key", "token")
    if name.environment:
        long_enough = len(text) >= 8 and not text.isdigit() if generated else len(text) >= 3
        return long_enough and not is_code(text) and (name.upper or not is_attribute(text))
    if is_code(text) or is_attribute(text):
        return False
    if name.sep == "space":
        return _is_argument(name, text, after)
    if generated:
        least = 8 if name.sep == "assign" or name.flag or name.kind == "api-key" else 16
        return len(text) >= least and is_opaque(text) and not is_name(text, numbered=True)
    if name.sep == "assign":
        return len(text) >= 3 and not is_name(text, numbered=False)
    if text.isdigit():
        return len(text) >= _least_digits(name)
    return len(text) >= 5 and _is_opaque(name, text)


def _least_digits(name: _Name) -> int:
    if name.noun.startswith("cv"):
        return 3
    return 4 if name.noun.startswith(("pin", "暗")) else 6


def _is_opaque(name: _Name, text: str) -> bool:
    """Return whether a value is opaque; a password may also be some words and a number, joined by hyphens."""
    return is_opaque(text) or (name.kind == "password" and _WORDS_AND_NUMBER.fullmatch(text) is not None)


def _is_argument(name: _Name, text: str, after: str) -> bool:
    """Return whether the word after a name is its value: an argument of a flag, or clearly a secret."""
    if name.flag:
        followed_by_flag = after[:2] == " -" and len(text) >= 6
        return followed_by_flag or (len(text) >= 5 and is_opaque(text)) or (text.isdigit() and len(text) >= 6)
    if name.upper:
        return len(text) >= 8 and (is_random(text) or is_strong(text))
    if name.kind == "password":
        return is_strong(text)
    return len(text) >= 20 and is_random(text)


def _is_constant(text: str) -> bool:
    return "_" in text and text.isupper() and text.replace("_", "").isalpha()
