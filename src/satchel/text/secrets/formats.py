"""Secrets with a known format: a fixed head and a body of a known alphabet."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from satchel.text.secrets.searched import Run, Searched

__all__ = ["SHAPES", "Shape", "find_formats"]


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
    Shape("docker-token", ("dckr_pat_", "dckr_oat_"), r"[\w-]{20,}"),
    Shape("tailscale-key", ("tskey-",), r"(?:auth|api|client|scim|webhook)-[\w-]{16,}"),
    Shape("circleci-token", ("CCIPAT_", "CCIPRJ_"), r"\w{20,}"),
    Shape("buildkite-token", ("bkua_", "bkct_", "bkaj_"), r"[\w.-]{30,}"),
    Shape("figma-token", ("figd_", "figo_", "figu_", "figdr_"), r"[\w-]{20,}"),
    Shape("trello-token", ("ATTA",), r"[0-9a-fA-F]{60,}"),
    Shape("dropbox-token", ("sl.",), r"(?:u\.)?[\w-]{60,}"),
    Shape("facebook-token", ("EAAC", "EAAM", "EAAB", "EAAG", "EAAJ"), r"[A-Za-z0-9]{60,}"),
    Shape("square-token", ("EAAA",), r"[\w-]{56,}"),
    Shape("braintree-token", ("access_token$",), r"(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    Shape("cloudflare-origin-key", ("v1.0-",), r"[0-9a-f]{24}-[0-9a-f]{100,}"),
    Shape("1password-key", ("A3-",), r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
    Shape("sonar-token", ("squ_", "sqa_", "sqp_"), r"[0-9a-f]{40}" + _END),
    Shape("clojars-token", ("CLOJARS_",), r"[0-9a-z]{50,}"),
    Shape("nuget-key", ("oy2",), r"[a-z0-9]{43}" + _END),
    Shape("adobe-secret", ("p8e-", "p8-"), r"[A-Za-z0-9]{32}" + _END),
    Shape("authress-key", ("authress_",), r"[\w.=+/-]{40,}"),
    Shape("contentful-token", ("CFPAT-",), r"[\w-]{40,}"),
    Shape("duffel-token", ("duffel_live_", "duffel_test_"), r"[\w=-]{40,}"),
    Shape("easypost-key", ("EZAK", "EZTK"), r"[A-Za-z0-9]{54}" + _END),
    Shape("flutterwave-key", ("FLWSECK",), r"(?:_TEST)?-[0-9a-zA-Z]{12,}(?:-X)?"),
    Shape("frameio-token", ("fio-u-",), r"[\w=-]{60,}"),
    Shape("harness-token", ("pat.", "sat."), r"[\w-]{22}\.[a-zA-Z0-9]{24}\.[a-zA-Z0-9]{20}"),
    Shape("infracost-key", ("ico-",), r"[A-Za-z0-9]{32}" + _END),
    Shape("42-secret", ("s-s4t2ud-", "s-s4t2af-"), r"[0-9a-f]{64}" + _END),
    Shape("maxmind-key", ("mmk_",), r"[A-Za-z0-9]{30,}"),
    Shape("octopus-key", ("API-",), r"[A-Z0-9]{26,}" + _END),
    Shape("openshift-token", ("sha256~",), r"[\w-]{43}"),
    Shape("plaid-token", ("access-",), r"(?:sandbox|development|production)-[0-9a-f-]{36}"),
    Shape("prefect-key", ("pnu_", "pnb_"), r"[A-Za-z0-9]{36}"),
    Shape("readme-key", ("rdme_",), r"[a-z0-9]{60,}"),
    Shape("scalingo-token", ("tk-us-",), r"[\w-]{40,}"),
    Shape("shippo-token", ("shippo_live_", "shippo_test_"), r"[0-9a-f]{40}"),
    Shape("typeform-token", ("tfp_",), r"[\w.=-]{40,}"),
    Shape("yandex-key", ("AQVN", "t1.9eu", "y0_"), r"[\w.=-]{36,}"),
    Shape("pinecone-key", ("pcsk_",), r"\w{40,}"),
    Shape("nvidia-key", ("nvapi-",), r"[\w-]{40,}"),
    Shape(
        "ai-key", ("jina_", "fw_", "e2b_", "csk-", "fc-", "pa-", "apify_api_", "KGAT_"), r"(?=\D{0,20}\d)[\w-]{30,}"
    ),
    Shape("netlify-token", ("nfp_", "nfo_", "nfc_"), r"[A-Za-z0-9]{36,}"),
    Shape("vercel-token", ("vcp_", "vci_", "vca_", "vcr_", "vck_"), r"[A-Za-z0-9]{24,}"),
    Shape("render-key", ("rnd_",), r"[A-Za-z0-9]{24,}"),
    Shape("neon-key", ("napi_", "xau_"), r"[a-z0-9A-Z]{30,}"),
    Shape("resend-key", ("re_",), r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    Shape("posthog-key", ("phx_", "phs_"), r"[A-Za-z0-9]{40,}"),
    Shape("sourcegraph-token", ("sgp_", "slk_"), r"[0-9a-f_]{40,}|[a-f0-9]{64}"),
    Shape("mailersend-token", ("mlsn.",), r"[0-9a-f]{40,}"),
    Shape("clickup-token", ("pk_",), r"[0-9]{6,10}_[A-Z0-9]{32}" + _END),
    Shape("hubspot-token", ("pat-na1-", "pat-na2-", "pat-eu1-"), r"[0-9a-f-]{36}"),
    Shape("razorpay-key", ("rzp_live_", "rzp_test_"), r"[A-Za-z0-9]{14,}"),
    Shape("launchdarkly-key", ("sdk-", "api-"), r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}" + _END),
    Shape("mapbox-token", ("sk.eyJ", "tk.eyJ"), r"[\w-]{30,}\.[\w-]{16,}"),
    Shape("wallet-key", ("xprv", "yprv", "zprv", "tprv", "uprv", "vprv"), r"[1-9A-HJ-NP-Za-km-z]{100,112}" + _END),
    Shape("wallet-key", ("5",), r"[HJK][1-9A-HJ-NP-Za-km-z]{49}" + _END),
    Shape("wallet-key", ("K", "L"), r"[1-9A-HJ-NP-Za-km-z]{51}" + _END),
    Shape("jwt", ("eyJ",), r"(?<![_-]eyJ)[\w-]{7,}+\.eyJ[\w-]{6,}(?:\.[\w-]*)?"),
    Shape("asana-token", ("0/", "1/", "2/"), r"[0-9]{16}(?:/[0-9]{16})?:[0-9a-f]{32}" + _END),
    Shape("grafana-key", ("eyJrIjoi",), r"[A-Za-z0-9]{60,}={0,2}"),
)


# Of every token at least.
_BODY = r"[A-Za-z0-9][\w.$~%/+:=-]{15}"
_LONG_WORD = re.compile(_BODY, re.ASCII)
_LONG_RUN = Run(r"\w.$~%/+:=-", 16)


def find_formats(part: Searched) -> Iterator[tuple[int, int, str]]:
    """Yield the spans and labels of the tokens in a text."""
    text = part.text
    if not _LONG_RUN.within(part) or not _LONG_WORD.search(text):
        return
    pattern, labels = _every_shape()
    # A token may be the very first word, and each must have a character before it.
    for match in pattern.finditer(f" {text}"):
        if "xxxxxx" in match[0] or "XXXXXX" in match[0]:
            continue  # a placeholder such as sk_live_xxxxxxxx
        yield match.end(1) - 1, match.end() - 1, labels[(match.lastindex or 0) - 2]


@cache
def _every_shape() -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return one pattern for all shapes, and the label of each of its groups from the second on.

    It starts with the character before a token, which is no letter or digit, because `re` skips quickly to these.
    A letter before a token is allowed if it ends an escape sequence, as in "\\nghp_" inside JSON or "%3Dghp_"
    inside a URL. The first group is empty and marks where the token starts. Another empty group after each body
    tells which shape it is.
    """
    labels: list[str] = []
    heads = [(head, shape) for shape in SHAPES for head in shape.heads]
    edge = rf"[^A-Za-z0-9](?={_BODY})(?:(?<=\\)[nrt]|(?<=%)[0-9A-Fa-f][0-9A-Fa-f])?"
    return re.compile(f"{edge}(){_trie(heads, 0, labels)}", re.ASCII), tuple(labels)


def _trie(heads: Sequence[tuple[str, Shape]], depth: int, labels: list[str]) -> str:
    """Return a pattern that compares each letter of the heads once, and then the bodies in"
    " the order of the table."""
    branches = []
    for letter, group in _by_letter(heads, depth).items():
        if letter:
            branches.append(re.escape(letter) + _trie(group, depth + 1, labels))
        else:
            labels += [shape.label for _, shape in group]
            branches += [f"(?:{shape.body})()" for _, shape in group]
    return f"(?:{'|'.join(branches)})" if len(branches) > 1 else branches[0]


def _by_letter(heads: Sequence[tuple[str, Shape]], depth: int) -> dict[str, list[tuple[str, Shape]]]:
    """Group heads by their letter at a depth; complete ones come last, so that longer heads are tried first."""
    groups: dict[str, list[tuple[str, Shape]]] = {}
    for head, shape in heads:
        groups.setdefault(head[depth : depth + 1], []).append((head, shape))
    return {letter: groups[letter] for letter in sorted(groups, reverse=True)}
