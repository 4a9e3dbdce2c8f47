"""Tokens are recognised by their format or context, and similar text is left alone."""

from hypothesis import given
from hypothesis import strategies as st

from invented_secrets import EVERY_TOKEN, IN_CONTEXT, MIXED, PEM_BODY, TOKENS, UPPER, hexadecimal, mixed
from satchel.text.redact import Redacted, redact
from satchel.text.secrets.formats import _LONG_RUN, _LONG_WORD, SHAPES
from satchel.text.secrets.numbers import _CARD
from satchel.text.secrets.numbers import _LONG_RUN as _LONG_RUN_OF_DIGITS
from satchel.text.secrets.searched import searched
from tables import each_row

ORDINARY = [
    "a proxy such as scheme://[user:passwd@]proxy.server:port",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Authorization: Required",
    "bearer authentication is required",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "id 550e8400-e29b-41d4-a716-446655440000",
    "sha256:" + hexadecimal(64),
    '"integrity": "sha512-' + mixed(86) + '=="',
    "data:image/png;base64,iVBORw0KGgo" + MIXED + "/+/" + MIXED,
    "pip install sk-learn and run task-" + mixed(30) + " or risk-" + mixed(30),
    ".sk-folding-cube .sk-cube:before { margin: 0 auto; }",
    "https://unpkg.com/@scope/pkg@1.2.3/index.js",
    "https://medium.com/@someone/a-title-0a1b2c",
    "http://localhost:8080/a@b and https://x.org:443/?mail=a@b.org",
    "git@github.com:org/repo.git or ssh://git@github.com:22/org/repo",
    "mail bob@example.com, cc: anna@example.org",
    "postgres://bob:${PASSWORD}@db/app",
    "postgres://bob@db/app",
    "docker run -u 1000:1000 image && curl https://x.org",
    "it must begin with -----BEGIN PRIVATE KEY----- to be read",
    "-----BEGIN PUBLIC KEY-----\n" + PEM_BODY + "\n-----END PUBLIC KEY-----",
    'eyJ is base64 of {" and a.eyJ.b is nothing',
    "a private matter, <privateer>, std::set<private_t>, </private>",
    "ratio 12:30, at 10:45:AA, 3:4",
    "[masked:github-token] and [masked:private]",
]

NEAR_MISSES = [
    ("ghp_" + mixed(20), "too short"),
    ("AKIA" + UPPER[:17], "too long"),
    ("x" + "AKIA" + UPPER[:16], "inside a word"),
    ("a" + "ghp_" + mixed(36), "inside a word"),
    ("AIza" + mixed(34), "too short"),
    ("SK" + hexadecimal(31), "too short"),
    ("SK" + hexadecimal(33), "too long"),
    ("SG." + mixed(10) + "." + mixed(43), "first part too short"),
    ("hf_" + mixed(12), "too short"),
    ("npm_" + "config_registry_of_the_project", "a name"),
    ("pypi-" + "server-configuration-for-the-whole-office-building", "a name"),
    ("dapi" + mixed(32), "not hexadecimal"),
    ("secret_" + mixed(30), "too short"),
    ("glpat-" + mixed(10), "too short"),
    ("xoxb-" + "short", "too short"),
    ("sk-" + "ant-colony", "a name"),
    ("sk-" + "proj-draft", "a name"),
    ("pat" + mixed(14) + "." + hexadecimal(10), "too short"),
    ("MTIzNDU2Nzg5MDEyMzQ1Njc4" + ".short." + mixed(38), "middle part too short"),
    ("12345:" + "AA" + mixed(33), "id too short"),
]


@each_row(("label", "token"), EVERY_TOKEN)
def test_a_token_is_masked_and_the_words_around_it_stay(label: str, token: str) -> None:
    assert redact(f"use {token} now") == Redacted(f"use [masked:{label}] now", (label,))


@each_row("frame", ["{}", '"{}"', "({})", "x={}\n", "`{}`,", r"\n{}\n", "q%3D{}", "<{}>", "{}."])
@each_row(("label", "token"), EVERY_TOKEN)
def test_a_token_is_masked_whatever_encloses_it(frame: str, label: str, token: str) -> None:
    assert token not in redact(frame.format(token)).text


def test_every_shape_has_a_token_in_these_tests() -> None:
    tested = {head for shape in SHAPES for head in shape.heads for _, token in EVERY_TOKEN if head in token}
    assert all(any(head in tested for head in shape.heads) for shape in SHAPES)
    assert {shape.label for shape in SHAPES} <= set(TOKENS)


@each_row("head", [head for shape in SHAPES for head in shape.heads])
def test_a_head_without_a_body_is_left_alone(head: str) -> None:
    text = f"tokens that begin with {head} or `{head}...` or {head}x, which-is-a-long-word"
    assert redact(text) == Redacted(text, ())


@each_row(("text", "why"), NEAR_MISSES)
def test_what_only_resembles_a_token_is_left_alone(text: str, why: str) -> None:
    assert redact(f"see {text} there") == Redacted(f"see {text} there", ()), why


@each_row(("label", "before", "secret", "after"), IN_CONTEXT)
def test_only_the_secret_is_masked_in_its_context(label: str, before: str, secret: str, after: str) -> None:
    assert redact(before + secret + after) == Redacted(f"{before}[masked:{label}]{after}", (label,))


@each_row("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == Redacted(text, ())


@each_row(
    ("text", "expected"),
    [
        ("a <private>b</private> c", "a [masked:private] c"),
        ("a <PRIVATE>b\nc</Private > d", "a [masked:private] d"),
        ('a <private reason="hr" tags=[1]>b</private> c', "a [masked:private] c"),
        ("a <private>b", "a [masked:private]"),
        ("a <private>b</privat", "a [masked:private]"),
        ("a <private>b<private>c</private>d</private> e", "a [masked:private] e"),
        ("<private>a</private><private>b</private>", "[masked:private][masked:private]"),
        ("<private>a [masked:token] b</private> c", "[masked:private] c"),
    ],
)
def test_private_parts_are_hidden(text: str, expected: str) -> None:
    result = redact(text)
    assert result.text == expected
    assert result.masked == ("private",) * expected.count("private")


@given(st.text(st.sampled_from("aZ9_.$~%/+:=- \t\n\f\x1c\x85\xa0\u2003é|İ\u212a"), max_size=60))
def test_only_a_word_that_is_long_enough_can_be_a_token(text: str) -> None:
    assert _LONG_RUN.within(searched(text)) or _LONG_WORD.search(text) is None


@given(st.lists(st.sampled_from([*"0123456789 -xİ", "4111", "411111", " 1111", "-1111"]), max_size=30).map("".join))
def test_only_enough_digits_in_a_row_can_be_a_card_number(text: str) -> None:
    assert _LONG_RUN_OF_DIGITS.within(searched(text)) or _CARD.search(text) is None
