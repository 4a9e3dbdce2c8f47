"""Mask secrets in text. All text passes through `redact` before it is stored.

Secrets are found by their format, by the text around them, and by the name they are assigned to.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

from satchel.model.checks import repair_surrogates

__all__ = [
    "ACROSS_WORDS",
    "HINTS",
    "SHAPES",
    "WITHIN_WORDS",
    "Context",
    "Redacted",
    "Shape",
    "find_assignments",
    "find_context",
    "find_shape",
    "has_head",
    "is_attribute",
    "is_call",
    "is_mixed_case",
    "is_name",
    "is_opaque",
    "is_phrase",
    "is_placeholder",
    "is_reference",
    "masked_labels",
    "masked_line",
    "redact",
    "without_masks",
]


# What a value looks like: a placeholder, a reference, code, or a secret.


_WORD = (
    r"none|null|nil|undefined|true|false|yes|no|on|off|required|optional|nullable|string|str|bytes"
    r"|int|integer|number|bool|boolean|any|object|text|varchar|empty|blank|unset|missing|invalid"
    r"|expired|valid|wrong|incorrect|changed|reset|rotated|redacted|masked|hidden|removed|unknown"
    r"|placeholder|todo|tbd|n/a|na|default|example|dummy|disabled|enabled|basic|bearer|oauth2?|x-oauth-basic"
    r"|bcrypt|argon2(?:id)?|scrypt|md5|sha1|sha256|sha512|base64|utf-?8|hmac|rs256|hs256"
)
# A quoted sentence about passwords contains one of these words; a passphrase hardly ever does.
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
_SPECIAL_CHARACTERS = frozenset("@#$%^&*!+=~|")


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder: `<your-key>`, `${TOKEN}`, `None`, `required`."""
    lowered = value.lower()
    word = lowered.strip(".,;:")
    return not word or lowered.endswith(_PLACEHOLDER_ENDS) or _fits(_WORD, word) or _fits(_PLACEHOLDER, word)


def is_reference(value: str) -> bool:
    """Return whether a value refers to something: a path, a URL, an email address, a digest, a date."""
    return _fits(_REFERENCE, value)


def is_call(value: str) -> bool:
    """Return whether a value starts with a call, an index or an expression in brackets."""
    return _fits(_CALL, value)


def is_attribute(value: str) -> bool:
    """Return whether a value consists of names joined by dots."""
    return _fits(_ATTRIBUTE, value)


def is_name(value: str, *, numbered: bool) -> bool:
    """Return whether a value could be a variable name; with `numbered`, also one such as `next_token2`."""
    return _fits(_NAME, value) or (numbered and _fits(_NUMBERED_NAME, value))


def is_opaque(value: str) -> bool:
    """Return whether a value mixes letters with digits or special characters as words and names do not."""
    letters = any(char.isalpha() for char in value)
    digits = any(char.isdigit() for char in value)
    return letters and (digits or not _SPECIAL_CHARACTERS.isdisjoint(value[:-1])) and not _fits(_COMPOUND, value)


def is_mixed_case(value: str) -> bool:
    """Return whether a value has capitals inside, as base64 has, but not a word at the start of a sentence."""
    return len(value) >= 8 and value[1:] != value[1:].lower() and value != value.upper()


def is_phrase(value: str) -> bool:
    """Return whether several words could be a passphrase, not a sentence about one."""
    return _value_pattern(_PROSE).search(value.lower()) is None


def _fits(pattern: str, value: str) -> bool:
    return _value_pattern(pattern).fullmatch(value) is not None


@cache
def _value_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.DOTALL)


# Secrets with a known format: a fixed head and a body of a known alphabet.


class Shape(NamedTuple):
    """A format of tokens: one of the heads, directly followed by the body."""

    label: str
    heads: tuple[str, ...]
    body: str


# If a body has a fixed length, a longer run is not a token. Otherwise the whole run is masked, so that no part of a
# token remains.
_END = r"(?![A-Za-z0-9])"

SHAPES = (
    Shape("anthropic-key", ("sk-ant-",), r"[\w-]{16,}"),
    Shape("openai-key", ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"), r"[\w-]{16,}"),
    Shape("openrouter-key", ("sk-or-v1-",), r"[\w-]{20,}"),
    Shape("langfuse-key", ("sk-lf-",), r"[0-9a-f-]{36}" + _END),
    Shape("openai-key", ("sk-",), r"[A-Za-z0-9]{20}[\w-]*"),
    Shape("aws-access-key", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16}" + _END),
    Shape("aws-bedrock-key", ("ABSK",), r"[A-Za-z0-9+/]{100,}={0,2}"),
    Shape("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{36}\w*"),
    Shape("github-token", ("github_pat_",), r"\w{36,}"),
    Shape(
        "gitlab-token",
        ("glpat-", "gldt-", "glrt-", "glft-", "glptt-", "glcbt-", "glimt-", "gloas-", "glsoat-"),
        r"[\w-]{20}[\w.-]*",
    ),
    Shape("gitlab-token", ("glagent-", "glffct-", "GR1348941"), r"[\w-]{20,}"),
    Shape("slack-token", ("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xoxo-"), r"[\w-]{11,}"),
    Shape("slack-token", ("xoxe-", "xoxe.xoxb-", "xoxe.xoxp-", "xoxc-", "xoxd-"), r"[\w%-]{11,}"),
    Shape("satchel-token", ("satchel_",), r"[0-9a-f]{10}_[\w-]{43}(?![\w-])"),
    Shape("slack-token", ("xapp-",), r"[0-9]-[\w-]{10,}"),
    Shape("stripe-key", ("sk_live_", "rk_live_", "sk_test_", "rk_test_"), r"\w{10,}"),
    Shape("stripe-webhook-secret", ("whsec_",), r"[A-Za-z0-9+/]{20,}={0,2}"),
    Shape("google-key", ("AIza",), r"[\w-]{35}(?![\w-])"),
    Shape("google-oauth-token", ("ya29.",), r"[\w-]{20}[\w.-]*"),
    Shape("google-oauth-secret", ("GOCSPX-",), r"[\w-]{20,}"),
    Shape("google-refresh-token", ("1//0",), r"[\w-]{40,}"),
    # The first part is the base64 of a decimal id, which limits the characters at each position.
    Shape(
        "discord-token",
        ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
        r"[AEIMQUYcgk][w-z0-5](?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){4}[\w-]{3,8}"
        r"\.[\w-]{6}\.[\w-]{27,}",
    ),
    Shape("npm-token", ("npm_",), r"[A-Za-z0-9]{36,}"),
    Shape("pypi-token", ("pypi-",), r"AgE[\w-]{40,}"),
    Shape("rubygems-token", ("rubygems_",), r"[a-f0-9]{48}" + _END),
    Shape("huggingface-token", ("hf_", "api_org_"), r"[A-Za-z0-9]{30,}"),
    Shape("sendgrid-key", ("SG.",), r"[\w-]{16,32}\.[\w-]{16,}"),
    Shape("twilio-key", ("SK",), r"[0-9a-f]{32}" + _END),
    Shape("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"[a-f0-9]{64}" + _END),
    Shape("databricks-token", ("dapi", "dose"), r"[a-f0-9]{32}(?:-[0-9])?" + _END),
    Shape("groq-key", ("gsk_",), r"[A-Za-z0-9]{40,}"),
    Shape("xai-key", ("xai-",), r"[A-Za-z0-9]{40,}"),
    Shape("perplexity-key", ("pplx-",), r"[A-Za-z0-9]{40,}"),
    Shape("replicate-token", ("r8_",), r"[A-Za-z0-9]{37,}"),
    Shape("tavily-key", ("tvly-",), r"[A-Za-z0-9][\w-]{19,}"),
    Shape("langsmith-key", ("lsv2_pt_", "lsv2_sk_"), r"\w{32,}"),
    Shape("supabase-key", ("sbp_",), r"[a-f0-9]{40}" + _END),
    Shape("supabase-key", ("sb_secret_",), r"[\w-]{20,}"),
    Shape("linear-key", ("lin_api_", "lin_oauth_"), r"[A-Za-z0-9]{32,}"),
    Shape("notion-key", ("ntn_",), r"[A-Za-z0-9]{40,}"),
    Shape("notion-key", ("secret_",), r"[A-Za-z0-9]{43}" + _END),
    Shape("vault-token", ("hvs.", "hvb.", "hvr."), r"[\w-]{20,}"),
    Shape("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"[a-fA-F0-9]{32}" + _END),
    Shape("square-token", ("sq0atp-", "sq0csp-"), r"[\w-]{22,}"),
    Shape("sentry-token", ("sntrys_", "sntryu_"), r"[\w+/=-]{40,}"),
    Shape("grafana-token", ("glsa_", "glc_"), r"[A-Za-z0-9+/]{32}[\w+/=]*"),
    Shape("newrelic-key", ("NRAK-", "NRII-"), r"[A-Za-z0-9-]{27,}"),
    Shape("dynatrace-token", ("dt0c01.",), r"[A-Z0-9]{24}\.[A-Z0-9]{64}" + _END),
    Shape("postman-key", ("PMAK-",), r"[a-f0-9]{24}-[a-f0-9]{34}" + _END),
    Shape("atlassian-token", ("ATATT3", "ATCTT3", "ATBB"), r"[\w=-]{24,}"),
    Shape("doppler-token", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), r"[\w.-]{40,}"),
    Shape("pulumi-token", ("pul-",), r"[a-f0-9]{40}" + _END),
    Shape("planetscale-token", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), r"[\w=.-]{32,}"),
    Shape("flyio-token", ("fm1r_", "fm2_", "fo1_"), r"[\w+/=-]{40,}"),
    Shape("heroku-key", ("HRKU-",), r"[\w-]{36,}"),
    Shape("airtable-token", ("pat",), r"[A-Za-z0-9]{14}\.[a-f0-9]{64}" + _END),
    Shape("mailgun-key", ("key-",), r"[0-9a-f]{32}" + _END),
    Shape("brevo-key", ("xkeysib-",), r"[a-f0-9]{64}-[A-Za-z0-9]{16}" + _END),
    Shape("1password-token", ("ops_eyJ",), r"[A-Za-z0-9+/_-]{100,}={0,2}"),
    Shape("age-key", ("AGE-SECRET-KEY-1",), r"[A-Z0-9]{58}" + _END),
    Shape("artifactory-key", ("AKCp",), r"[A-Za-z0-9]{60,}"),
    Shape("alibaba-key", ("LTAI",), r"[A-Za-z0-9]{16,24}" + _END),
)


def find_shape(text: str, head: str, body: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the tokens with this head and body."""
    for match in _shape_pattern(head, body).finditer(text):
        yield match.span()


def has_head(words: str) -> bool:
    """Return whether any head occurs where a token can start; `words` must start with a space."""
    return _any_head().search(words) is not None


@cache
def _shape_pattern(head: str, body: str) -> re.Pattern[str]:
    # The left edge is checked after the head, because `re` searches for a pattern that starts with a literal at
    # memchr speed. A letter before the head is allowed if it ends an escape sequence, as in "\nghp_" inside JSON or
    # "%3Dghp_" inside a URL.
    literal = re.escape(head)
    edge = (
        rf"(?:(?<![A-Za-z0-9]{literal})|(?<=\\[nrt]{literal})"
        rf"|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{literal}))"
    )
    return re.compile(f"{literal}{edge}{body}", re.ASCII)


@cache
def _any_head() -> re.Pattern[str]:
    heads = sorted(head for shape in SHAPES for head in shape.heads)
    by_letter = "|".join(
        re.escape(letter) + "(?:" + "|".join(re.escape(head[1:]) for head in group) + ")"
        for letter, group in groupby(heads, key=itemgetter(0))
    )
    return re.compile(rf"(?:[^A-Za-z0-9]|\\[nrt]|%[0-9A-Fa-f][0-9A-Fa-f])(?:{by_letter})")


# Secrets found by the text around them: URLs, headers, PEM blocks, command lines.


class Context(NamedTuple):
    """A pattern whose group is masked. It is tried only if the lower-cased text contains the hint.

    `accepts` may reject a value, such as a placeholder.
    """

    label: str
    hint: str
    pattern: str
    accepts: Callable[[str], bool] | None = None


def _is_not_placeholder(value: str) -> bool:
    return not is_placeholder(value)


def _looks_generated(value: str) -> bool:
    return not is_placeholder(value) and (is_opaque(value) or is_mixed_case(value))


# Every repetition is bounded, or possessive over a class that excludes the beginning of the pattern, so all
# patterns take linear time.

WITHIN_WORDS = (
    Context("jwt", ".eyj", r"(?-i:(?<![\w-])([\w-]{10,}+\.eyJ[\w-]{6,}+(?:\.[\w-]*+)?))"),
    Context("terraform-token", ".atlasv1.", r"([a-z0-9]{14}\.atlasv1\.[\w=-]{40,}+)"),
    Context("azure-client-secret", "q~", r"([\w~.]{3}[0-9]Q~[\w~.-]{31,}+)"),
    Context("azure-key", "accesskey=", r"SharedAccessKey=([a-z0-9+/]{20,}+={0,2})"),
    Context("azure-key", "accountkey=", r"AccountKey=([a-z0-9+/]{20,}+={0,2})"),
    Context("url-signature", "sig=", r"[?&]sig=([a-z0-9%+/]{20,}+={0,2})"),
    Context("url-signature", "-signature=", r"[?&]X-(?:Amz|Goog)-Signature=([a-f0-9]{20,}+)"),
    Context("telegram-token", ":aa", r"(?-i:(?<![0-9])([0-9]{6,16}:AA[\w-]{33})(?![\w-]))"),
    Context(
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+-]{20,}+)",
    ),
    Context("discord-webhook", "/webhooks/", r"/api/webhooks/[0-9]{10,24}/([\w-]{40,}+)"),
    Context("teams-webhook", "/webhookb2/", r"\.office\.com/webhookb2/([\w@/-]{40,}+)"),
)

ACROSS_WORDS = (
    Context(
        "private-key",
        "-----begin",
        r"(-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?:[^-]|-(?!----))*+-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        # Without an END line: everything up to a blank line or a quote, if it starts like a key.
        r"|(?:\s|\\[nr]|[\w-]{1,24}:[^\n]{0,128}\n){0,16}[a-z0-9+/=]{16}"
        r"(?:[^\n\"'`-]|-(?!----)|\n(?![ \t]{0,8}\n))*+))",
    ),
    Context(
        "aws-secret-key",
        "secret",
        r"(?:secret[_ -]?access[_ -]?key|aws[_-]?secret(?:[_-]?key)?)[\"'\]\s:=>,\\]{1,8}"
        r"(?:is[\s:]{1,4})?[\"']?([a-z0-9/+]{40})(?![a-z0-9/+=])",
    ),
    Context(
        "url-password",
        "@",
        r"://[^\s/?#:@\"'<>`\[]*+:([^\s/?#\"'<>`@]*+(?:@[^\s/?#\"'<>`@]*+)*)@",
        _is_not_placeholder,
    ),
    Context("url-token", "@", r"://([\w-]{20,}+)(?::[^\s/?#@\"'<>`]*+)?@", is_opaque),
    Context(
        "authorization",
        "authorization",
        r"authorization[\"'\]\\]{0,4}[ \t]{0,4}[:=,][ \t]{0,4}\\?[\"'`]?"
        r"(?:bearer|basic|token|bot|apikey|digest|negotiate)[ \t]{1,4}([\w.~+/=:-]{6,}+)",
        _looks_generated,
    ),
    Context(
        "authorization",
        "authorization",
        r"authorization[\"'\]\\]{0,4}[ \t]{0,4}[:=,][ \t]{0,4}\\?[\"'`]?([\w.~+/=:-]{20,}+)",
        _looks_generated,
    ),
    Context("authorization", "bearer ", r"(?<![a-z0-9])bearer[ \t]{1,4}([\w.~+/=-]{16,}+)", is_opaque),
    Context(
        "password",
        "curl",
        r"\s(?:-u|--user|--proxy-user)[ =]?[\"']?[\w.@-]{1,64}:((?![0-9]+(?:\s|\Z))[^\s\"']{3,}+)",
        _is_not_placeholder,
    ),
    Context(
        "password",
        "machine",
        r"machine\s{1,8}\S{1,128}\s{1,8}login\s{1,8}\S{1,128}\s{1,8}password\s{1,8}(\S++)",
        _is_not_placeholder,
    ),
    Context(
        "password",
        "</",
        r"<(?:[\w.:-]{0,24}password|passphrase|(?:client[_-]?)?secret|api[_-]?key|token)>"
        r"([^<>\s]{4,256})</",
        _is_not_placeholder,
    ),
)


def find_context(text: str, context: Context) -> Iterator[tuple[int, int]]:
    """Yield the spans of the secrets that a context finds."""
    for match in _context_pattern(context.pattern).finditer(text):
        if context.accepts is None or context.accepts(match[1]):
            yield match.span(1)


@cache
def _context_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.IGNORECASE)


# Secrets assigned to a name: `password = "…"`, `API_KEY=…`, `"client_secret": "…"`, `--token …`.


HINTS = ("pass", "pwd", "secret", "key", "token")

# Searched in lower-cased text. Only these suffixes may follow the name: `token_count`, `password_file` and
# `max_tokens` do not hold secrets. The alternatives start with letters, not groups, because only then can `re` skip
# to the places where one can start.
_ASSIGNMENT = r"""
(?P<noun>passw(?:or)?d|passphrase|pwd|pass|key|secret|token)
(?: [_-]? (?: [0-9]{1,3} | prod(?:uction)? | dev | test | staging | live | base | value | raw ) )?
(?P<close> \\{0,2} ["'`]? ) \]?
(?: [ \t]{0,4} :? [ \t]{0,4} (?: str | string | bytes ) [ \t]{0,4} (?= = ) )?
(?P<sep> [ \t]{0,8} (?: := | => | ={1,3} | :(?!:) | , ) [ \t]{0,8}
       | [ \t] (?: is | was ) [: \t]{1,3}
       | [ \t]{1,4} )
"""
_KINDS = {"key": "api-key", "secret": "secret", "token": "token"}

# `key` and `pass` are secrets only after one of these words. `token` after one of _NOT_BEFORE_TOKEN is a piece of
# text or a page of results.
_BEFORE_KEY = ("api", "access", "secret", "private", "encryption", "signing", "master", "account")
_BEFORE_PASS = ("db", "user", "smtp", "sql", "postgres", "pg", "ftp", "admin", "root", "redis", "mail")
_NOT_BEFORE_TOKEN = (
    *("pad", "eos", "bos", "unk", "cls", "sep", "mask", "stop", "start", "end", "special"),
    *("page", "next", "continuation"),
)
# `https://x-access-token:…@host` is a URL with a user of that name, not an assignment.
_USER_OF_URL = r"://[^\s/?#]*\Z"
_FLAG = r"(?<![\w-])--[\w-]*\Z"

_QUOTED = (
    r"[bBrRuU]{0,2}(?:"
    r'"(?P<double>(?:[^"\\\n]|\\.)*+)"|'
    r"'(?P<single>(?:[^'\\\n]|\\.)*+)'|"
    r"`(?P<back>[^`\n]*+)`|"
    r"\\{1,3}[\"'](?P<escaped>[^\"'\\\n]*+)\\)"
)
# Passwords may contain closing punctuation, so it ends a value only before a space, a quote and the like.
_UNQUOTED = (
    r"[\"'`]?(?P<plain>(?:[^\s\"'`&;,)\]}<\\]"
    r"|[&;,)\]}](?![&;,)\]}:]{0,8}(?:\s|\Z|[\"'`<\\])|[\w.% \[\]-]{1,64}[=:])"
    r"|<(?![/a-zA-Z!])|\\(?![nrt\"']))*+)"
)
_CHECKED_LENGTH = 64


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
    """Yield the spans and labels of values that are assigned to names of secrets."""
    done = 0
    for match in _assignment_pattern(_ASSIGNMENT, re.VERBOSE).finditer(_lowered(text)):
        if match.start() < done:
            continue
        name = _name(text, match)
        value = name and _value(text, match.end())
        if not name or not value or not _may_assign(name, value, close=match["close"]):
            continue
        if _is_secret(name, value, text[value.end : value.end + 2]):
            done = value.end if value.quoted else _value_end(text, value)
            yield value.start, done, name.kind


def _lowered(text: str) -> str:
    lowered = text.lower()
    # İ is the only character whose lower case is longer; positions must stay the same.
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
        or ("://" in before and _assignment_pattern(_USER_OF_URL).search(before))
    ):
        return None
    return _Name(
        _KINDS.get(noun, "password"),
        match["sep"],
        upper=text[start:end].isupper(),
        flag="--" in before and _assignment_pattern(_FLAG).search(before) is not None,
    )


def _value(text: str, start: int) -> _Value | None:
    if match := _assignment_pattern(_QUOTED).match(text, start):
        group = match.lastgroup or ""
        return _Value(*match.span(group), match[group], quoted=True)
    # Only the beginning is checked, so that rejecting a value takes the same time however long the line is.
    if match := _assignment_pattern(_UNQUOTED).match(text, start, start + _CHECKED_LENGTH):
        return _Value(*match.span("plain"), match["plain"], quoted=False)
    return None


def _value_end(text: str, value: _Value) -> int:
    match = _assignment_pattern(_UNQUOTED).match(text, value.start)
    return match.end() if match else value.end


def _may_assign(name: _Name, value: _Value, *, close: str) -> bool:
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
def _assignment_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.DOTALL | flags)


# Masking.


class Redacted(NamedTuple):
    """A text with masked secrets, and the label of each mask, in order."""

    text: str
    masked: tuple[str, ...]


class _Span(NamedTuple):
    start: int
    end: int
    label: str


class _Piece(NamedTuple):
    """A piece of text to search, or with a label a secret to mask."""

    text: str
    label: str | None = None


_Finder = Callable[[str], Iterator[_Span]]

_PRIVATE = re.compile(r"<private(?:[\s/](?:[^<>\[]|\[(?!masked:))*+)?>|</private\s*>", re.ASCII | re.IGNORECASE)
_MASK = re.compile(r"(\[masked:[a-z0-9-]{1,40}\])")


def _by_shape(label: str, head: str, body: str, text: str) -> Iterator[_Span]:
    return (_Span(*span, label) for span in find_shape(text, head, body))


def _by_context(context: Context, text: str) -> Iterator[_Span]:
    return (_Span(*span, context.label) for span in find_context(text, context))


def _by_assignment(text: str) -> Iterator[_Span]:
    return (_Span(*span) for span in find_assignments(text))


def _by_hint(finders: Iterable[tuple[str, _Finder]]) -> tuple[tuple[str, tuple[_Finder, ...]], ...]:
    grouped: dict[str, list[_Finder]] = {}
    for hint, find in finders:
        grouped.setdefault(hint, []).append(find)
    return tuple((hint, tuple(group)) for hint, group in grouped.items())


# Finders by hint: a finder runs only if its hint occurs in the text. Most texts contain none. A token is one long
# word, so its hints are searched in long words only.
_SHORTEST_TOKEN = 16
_HEADS = _by_hint(
    (head, partial(_by_shape, shape.label, head, shape.body)) for shape in SHAPES for head in shape.heads
)
_WITHIN_WORDS = _by_hint((context.hint, partial(_by_context, context)) for context in WITHIN_WORDS)
_ACROSS_WORDS = _by_hint(
    [(context.hint, partial(_by_context, context)) for context in ACROSS_WORDS]
    + [(hint, _by_assignment) for hint in HINTS]
)


def redact(text: str) -> Redacted:
    """Replace every secret in a text, and every `<private>` block, by `[masked:LABEL]`.

    The result is stable: redacting it again changes nothing. A text without secrets is returned unchanged.
    """
    if not _has_private(text) and not _spans(text):
        return Redacted(text, ())

    done: list[str] = []
    masked: list[str] = []
    todo = [piece for part in _without_private(text) for piece in _around_masks(part)]
    todo.reverse()
    while todo:
        piece = todo.pop()
        if piece.label is not None:
            done.append(f"[masked:{piece.label}]")
            masked.append(piece.label)
        elif spans := _merged(_spans(piece.text)):
            # The text between two masks is searched again by itself. A second call would search the same pieces, so
            # it finds nothing new.
            todo += reversed(list(_cut(piece.text, spans)))
        else:
            done.append(piece.text)
    return Redacted("".join(done), tuple(masked))


def masked_line(message: str) -> str:
    """Return a message on one line, with secrets masked, for logs and error messages."""
    return redact(" ".join(repair_surrogates(message).split())).text


def masked_labels(*texts: str | None) -> tuple[str, ...]:
    """Return the labels of the masks in these texts, in order."""
    return tuple(mask[8:-1] for text in texts if text for mask in _MASK.findall(text))


def without_masks(text: str) -> str:
    """Return a text without its masks."""
    return _MASK.sub("", text)


def _finders(text: str) -> list[_Finder]:
    groups: list[tuple[_Finder, ...]] = []
    if long := [word for word in text.split() if len(word) >= _SHORTEST_TOKEN]:
        words = " " + " ".join(long)
        if has_head(words):
            groups += [group for head, group in _HEADS if head in words]
        words = words.lower()
        groups += [group for hint, group in _WITHIN_WORDS if hint in words]
    lowered = text.lower()
    groups += [group for hint, group in _ACROSS_WORDS if hint in lowered]
    return list(dict.fromkeys(chain.from_iterable(groups))) if groups else []


def _has_private(text: str) -> bool:
    return "<" in text and _PRIVATE.search(text) is not None


def _without_private(text: str) -> Iterator[_Piece]:
    spans: list[_Span] = []
    depth = start = 0
    for tag in _PRIVATE.finditer(text):
        if tag[0][1] != "/":
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                spans.append(_Span(start, tag.end(), "private"))
    if depth:
        spans.append(_Span(start, len(text), "private"))
    return _cut(text, spans)


def _around_masks(piece: _Piece) -> Iterator[_Piece]:
    if piece.label is None:
        yield from map(_Piece, _MASK.split(piece.text))
    else:
        yield piece


def _spans(text: str) -> list[_Span]:
    return [span for find in _finders(text) for span in find(text)]


def _merged(spans: list[_Span]) -> list[_Span]:
    """Return the spans in order; overlapping ones become one with the label of the first."""
    merged: list[_Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(span.end, merged[-1].end))
        else:
            merged.append(span)
    return merged


def _cut(text: str, spans: Iterable[_Span]) -> Iterator[_Piece]:
    position = 0
    for span in spans:
        if span.start > position:
            yield _Piece(text[position : span.start])
        yield _Piece(text[span.start : span.end], span.label)
        position = span.end
    if position < len(text):
        yield _Piece(text[position:])
