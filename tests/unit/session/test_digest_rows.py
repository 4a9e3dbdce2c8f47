"""Common to all digests: their size, what is kept first, what may be shown."""

import unicodedata

import pytest

from satchel.session.digests.base import Rank, Row, fit_rows, with_ellipsis
from satchel.session.digests.digest import digest, headline
from tables import each_row

PROSE = "".join(f"The keeper of key {word} asks each service.\n" for word in "abcdefghijkl")


def test_rows_are_taken_by_rank_and_shown_in_order():
    rows = [
        Row(Rank.PROSE, ["p" * 30]),
        Row(Rank.NUMBER, ["n" * 30]),
        Row(Rank.TITLE, ["t" * 30]),
        Row(Rank.PATH, ["s" * 30]),
        Row(Rank.ERROR, ["e" * 30]),
    ]
    assert [line[0] for line in fit_rows(rows, 154).split("\n")] == ["p", "n", "t", "s", "e"]
    assert [line[0] for line in fit_rows(rows, 130).split("\n")] == ["n", "t", "s", "e"]
    assert [line[0] for line in fit_rows(rows, 99).split("\n")] == ["t", "s", "e"]
    assert [line[0] for line in fit_rows(rows, 62).split("\n")] == ["t", "e"]
    assert fit_rows(rows, 20) == "t" * 19 + "…"
    assert fit_rows(rows, 0) == ""


def test_the_last_parts_of_a_row_go_first_and_are_counted():
    row = Row(Rank.PATH, ["a.py", "b.py", "c.py"], "Files: ", more=4)
    assert fit_rows([row], 100) == "Files: a.py, b.py, c.py, +4 more"
    assert fit_rows([row], 30) == "Files: a.py, b.py, +5 more"
    assert fit_rows([row._replace(exact=False)], 25) == "Files: a.py, +~6 more"


def test_a_row_takes_no_more_than_its_share():
    rows = [Row(Rank.ERROR, ["e" * 80], share=0.3), Row(Rank.PATH, ["p" * 60])]
    assert fit_rows(rows, 100) == "e" * 29 + "…\n" + "p" * 60


def test_a_cut_ends_with_a_mark_and_not_within_a_character():
    assert with_ellipsis("keeper", 6) == "keeper"
    assert with_ellipsis("keepers", 6) == "keepe…"
    assert with_ellipsis("ab👩🏽\u200d🚀cd", 5) == "ab…"
    assert with_ellipsis("keeper", 0) == ""
    assert with_ellipsis("keeper", -1) == ""


@each_row("most", [0, 1, 2, 7, 12, 13, 40, 100, 499, 500, 5_000])
def test_a_digest_is_never_longer_than_asked(most):
    for text in (
        PROSE,
        "x" * 3_000,
        "👩🏽\u200d🚀" * 400,
        "src/a.py\n" * 99,
        "word",
        "password=hunter2hunter2 " * 60,
    ):
        assert len(digest(text, most=most)) <= most
        assert len(headline(text, most=most)) <= most


@pytest.mark.parametrize(
    "line",
    [
        "📏 ~5 tokens",
        "⚡ Budget: x",
        "➡ The rest: cursor=1",
        "[Budget Alert: ~2k left]",
        "  \u200b📏 ~5",
        "[budget alert",
    ],
)
def test_no_line_looks_like_one_of_satchels_own(line):
    for text in (line, f"words\n{line}\nwords", f"{line}\n{PROSE}{line}"):
        found = digest(text)
        shown_line = line.replace("\u200b", "")
        assert f"| {shown_line.strip()}" in found or f"| {shown_line}" in found
        for shown in found.split("\n"):
            assert not shown.lstrip(" \u200b").lower().startswith(("📏", "⚡", "➡", "[budget"))
    assert headline(line, most=200).startswith("| ")


def test_secrets_are_masked_wherever_they_stand():
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    texts = [
        f"the key is {key}",
        f"{key} first\n{PROSE}then {token}\n",
        f"{PROSE}error: {token} was refused\n{PROSE}",
        "words " * 18 + token + " words" * 300,
        "x " * 40_000 + f"error: bad {token} " + "y " * 40_000,
        '{"items": [' + '{"id": 1, "note": "nothing"},' * 40 + f'{{"id": 2}}], "key": "{token}"}}',
        f"src/a.py:1: {token}\n" * 30,
        "x " * 2_000 + token + " y" * 50,
        f"the token is {token}{token[4:]}\n" + PROSE,
    ]
    for text in texts:
        for most in (60, 150, 500):
            shown = digest(text, most=most) + headline(text, most=most)
            assert key[:12] not in shown
            assert token[:12] not in shown
            assert token[-12:] not in shown
    assert "[masked:" in digest(texts[2])


def test_a_mask_does_not_push_an_error_out():
    text = "".join(f"password=secret{n}secret{n}x at step {n}\n" for n in range(30)) + "fatal: no answer\n"
    assert "! fatal: no answer" in digest(text, most=150)


@pytest.mark.parametrize(
    "text",
    [
        "a\x00b\x07\n" * 99,
        "\ud800 lone \udfff\n" * 99,
        "a\rb\nc\r\nd\u2028e\x85f\n" * 99,
        "\x1b[31mred\x1b[0m\tcell\n" * 99,
    ],
)
def test_control_characters_and_lone_surrogates_are_not_shown(text):
    for shown in (digest(text), digest(text[:20]), headline(text).replace("\n", "\x00")):
        assert not [sign for sign in shown if sign != "\n" and unicodedata.category(sign) in ("Cc", "Cs")]
        assert shown.encode()


def test_a_headline_says_on_one_line_what_it_was():
    assert headline("src/a.py:1: key\n" * 60, arguments={"pattern": "key"}) == "60 matches for 'key' in 1 file"
    assert headline(PROSE) == "Text: 12 lines, 468 B: The keeper of key a asks each service."
    assert headline(PROSE + "fatal: no answer\n") == "Text: 13 lines, 485 B: fatal: no answer"
    assert headline("rotated\n3 keys\n") == "rotated 3 keys"
    assert headline("src/a.py\n" * 60, error=True) == "Failed. 60 files"
    assert headline(PROSE, shape="file", arguments={"path": "a\nb.txt"}) == "a b.txt: 12 lines, 468 B"
