"""Secrets that can be told by their own shape: a fixed head and a body of a known alphabet."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

__all__ = ["SHAPES", "Shape", "find_shape", "has_head"]


class Shape(NamedTuple):
    """One kind of token: any of the heads, directly followed by the body."""

    label: str
    heads: tuple[str, ...]
    body: str


# Where a body has a fixed length, a longer run is something else; where it is open, the whole run
# is taken, so that a token never leaves a tail behind.
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
    # The first part is the base64 of a decimal id, which fixes its alphabet digit by digit.
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
    """The spans of the tokens that begin with this head."""
    for match in _compiled(head, body).finditer(text):
        yield match.span()


def has_head(words: str) -> bool:
    """Whether any head stands where a token can begin, in words that follow a space."""
    return _any_head().search(words) is not None


@cache
def _compiled(head: str, body: str) -> re.Pattern[str]:
    # The left edge is tested behind the head: a pattern that begins with a literal is searched for
    # at memchr speed. A letter before the head is an edge all the same when it ends an escape, as
    # in "\nghp_" within JSON or "%3Dghp_" within a URL.
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
