"""Secrets that are told by what stands around them: URLs, headers, PEM armour, command lines."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from satchel.text.redact.values import is_mixed_case, is_opaque, is_placeholder

__all__ = ["ACROSS_WORDS", "WITHIN_WORDS", "Context", "find_context"]


class Context(NamedTuple):
    """A pattern whose last group is masked, tried where the hint occurs in lower-cased text."""

    label: str
    hint: str
    pattern: str
    holds: Callable[[str], bool] | None = None


def _given(value: str) -> bool:
    return not is_placeholder(value)


def _credential(value: str) -> bool:
    return not is_placeholder(value) and (is_opaque(value) or is_mixed_case(value))


# Every repetition is bounded, or possessive over a class that excludes what begins the pattern:
# no text makes these take more than linear time.

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
        # Cut off before its END: all up to a blank line or a quote, if it begins like a key at all.
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
        _given,
    ),
    Context("url-token", "@", r"://([\w-]{20,}+)(?::[^\s/?#@\"'<>`]*+)?@", is_opaque),
    Context(
        "authorization",
        "authorization",
        r"authorization[\"'\]\\]{0,4}[ \t]{0,4}[:=,][ \t]{0,4}\\?[\"'`]?"
        r"(?:bearer|basic|token|bot|apikey|digest|negotiate)[ \t]{1,4}([\w.~+/=:-]{6,}+)",
        _credential,
    ),
    Context(
        "authorization",
        "authorization",
        r"authorization[\"'\]\\]{0,4}[ \t]{0,4}[:=,][ \t]{0,4}\\?[\"'`]?([\w.~+/=:-]{20,}+)",
        _credential,
    ),
    Context("authorization", "bearer ", r"(?<![a-z0-9])bearer[ \t]{1,4}([\w.~+/=-]{16,}+)", is_opaque),
    Context(
        "password",
        "curl",
        r"\s(?:-u|--user|--proxy-user)[ =]?[\"']?[\w.@-]{1,64}:((?![0-9]+(?:\s|\Z))[^\s\"']{3,}+)",
        _given,
    ),
    Context(
        "password",
        "machine",
        r"machine\s{1,8}\S{1,128}\s{1,8}login\s{1,8}\S{1,128}\s{1,8}password\s{1,8}(\S++)",
        _given,
    ),
    Context(
        "password",
        "</",
        r"<(?:[\w.:-]{0,24}password|passphrase|(?:client[_-]?)?secret|api[_-]?key|token)>"
        r"([^<>\s]{4,256})</",
        _given,
    ),
)


def find_context(text: str, context: Context) -> Iterator[tuple[int, int]]:
    """The spans of the secrets of this kind."""
    for match in _compiled(context.pattern).finditer(text):
        if context.holds is None or context.holds(match[1]):
            yield match.span(1)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.IGNORECASE)
