"""For any tool output, the digest fits its size, is deterministic and clean, and keeps the error."""

import json
import unicodedata
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from satchel.session.digests.digest import digest, headline, shape_of

pytestmark = pytest.mark.slow

WORDS = (
    "the", "keeper", "asks", "each", "service", "for", "its", "key", "before", "midnight", "and", "writes", "what",
    "it", "finds", "into", "a", "list", "記憶", "naïve", "🎉",
)  # fmt: skip
TROUBLE = "fatal: node-7 gave no answer after 31 seconds"


def said(random, number=6):
    return " ".join(random.choices(WORDS, k=number))


def path(random):
    folder = random.choice(("src/app", "src/app/core", "tests/unit", "docs"))
    return f"{folder}/{random.choice(WORDS[:9])}_{random.randrange(99)}.{random.choice(('py', 'md', 'ts'))}"


def changed(random):
    name = path(random)
    lines = "\n".join(random.choice("+- ") + said(random) for _ in range(8))
    return f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1,4 +1,5 @@ def turn():\n{lines}"


def commit(random):
    return f"commit {random.getrandbits(160):040x}\nAuthor: Ana <ana@example.org>\n\n    {said(random)}\n"


def record(random):
    return json.dumps(
        {"id": random.randrange(10**6), "name": said(random, 2), "tags": [said(random, 1)], "done": None}
    )


def clock(random):
    return f"2026-11-16T10:{random.randrange(60):02d}:{random.randrange(60):02d}Z"


LINES = {
    "files": path,
    "listing": lambda random: f"-rw-r--r-- 1 ana staff {random.randrange(9999):5} Nov 16 10:00 {path(random)}",
    "matches": lambda random: f"{path(random)}:{random.randrange(900)}: {said(random)}",
    "headings": lambda random: f"{path(random)}\n{random.randrange(900)}:{said(random)}\n",
    "code": lambda random: f"def turn_{random.randrange(999)}(key):\n    value = key + 1\n    return value\n",
    "markdown": lambda random: f"## {said(random, 3)}\n\n{said(random, 30)}.\n\n- {said(random)}\n",
    "diff": changed,
    "log": lambda random: f"{clock(random)} {random.choice(('INFO', 'WARN', 'DEBUG'))} {said(random)}",
    "records": lambda random: json.dumps({"ts": clock(random), "level": "info", "msg": said(random)}),
    "commits": commit,
    "status": lambda random: random.choice((" M ", "?? ", "A  ")) + path(random),
    "text": lambda random: said(random, 15) + ".",
    "coloured": lambda random: f"\x1b[32m{said(random, 4)}\x1b[0m\t{random.randrange(99)}\r",
    "binary": lambda random: "".join(map(chr, random.choices(range(256), k=60))),
    "torn": lambda random: (
        random.choice(("\ud800", "\udfff", "\x00", "\u2028", "📏 ~5 tokens", "⚡ x")) + said(random, 3)
    ),
}
SHAPES = {
    "files": "files", "listing": "files", "matches": "matches", "headings": "matches", "code": "file",
    "markdown": "file", "diff": "diff", "log": "log", "records": "log", "commits": "log", "status": "status",
    "text": "text",
}  # fmt: skip
OWN = ("📏", "⚡", "➡", "[budget alert")


def output(name, size, seed):
    """So many characters of one sort; long ones repeat themselves."""
    random = Random(seed)
    block = [LINES[name](random) for _ in range(60)]
    length = sum(map(len, block)) + len(block)
    return (block * (size // length + 1))[: max(2, 60 * size // length)]


def check(text, **options):
    most = options.pop("most", 500)
    found, line = digest(text, most=most, **options), headline(text, **options)
    assert len(found) <= most
    assert len(line) <= 100
    assert (found, line) == (digest(text, most=most, **options), headline(text, **options))
    assert "\n" not in line
    for shown in (*found.split("\n"), line):
        assert not [sign for sign in shown if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")]
        assert not shown.lstrip().lower().startswith(OWN)
    return found


@settings(max_examples=150)
@given(
    name=st.sampled_from(sorted(LINES)),
    size=st.sampled_from([100, 1_000, 5_000, 40_000, 70_000, 300_000]),
    seed=st.integers(0, 9_999),
    place=st.floats(0, 1),
    most=st.integers(0, 700),
)
def test_a_digest_keeps_to_the_room_and_keeps_the_error(name, size, seed, place, most):
    lines = output(name, size, seed)
    calm = "\n".join(lines)
    check(calm, most=most)
    if size >= 1_000 and name in SHAPES:
        assert shape_of(calm) == SHAPES[name]
    at = round(place * len(lines))
    troubled = "\n".join([*lines[:at], TROUBLE, *lines[at:]])
    if name not in ("commits", "binary"):
        assert TROUBLE in check(troubled)
        assert TROUBLE not in check(calm)
    assert check(troubled, error=True)


@settings(max_examples=60)
@given(
    number=st.sampled_from([1, 30, 700, 4_000]),
    seed=st.integers(0, 9_999),
    place=st.floats(0, 1),
    cut=st.floats(0.3, 1),
    most=st.integers(0, 700),
)
def test_json_whole_or_cut_off_keeps_its_error(number, seed, place, cut, most):
    random = Random(seed)
    records = [record(random) for _ in range(min(number, 60))] * (number // 60 + 1)
    at = round(place * len(records))
    troubled = [*records[:at], json.dumps({"id": 7, "error": TROUBLE}), *records[at:]]
    whole = f'{{"items": [{", ".join(troubled)}], "total": {len(troubled)}}}'
    assert TROUBLE in check(whole)
    assert TROUBLE not in check(f"[{','.join(records)}]")
    check(whole[: round(cut * len(whole))], most=most)
    check(whole, most=most)


@settings(max_examples=300)
@given(
    text=st.lists(
        st.text(max_size=30)
        | st.sampled_from(
            [
                "\n",
                "\r\n",
                "\r",
                "{",
                "[",
                '{"a": ',
                "src/a.py",
                ":12:",
                "diff --git a/x b/x",
                "--- a",
                "+++ b",
                "@@ -1 +1 @@",
            ]
        )
        | st.sampled_from(
            [
                "\ud800",
                "\x00",
                "👩🏽\u200d🚀",
                "e\u0301",
                "error: ",
                "Traceback (most recent call last):",
                "\x1b[31m",
            ]
        )
        | st.sampled_from(
            ["commit 4b825dc642", "## main", " M a.py", "On branch ", "    1\tdef f():", "# Heading", "📏", "➡ "]
        ),
        max_size=60,
    ).map("\n".join),
    shape=st.sampled_from([None, "files", "matches", "file", "diff", "log", "status", "json", "text"]),
    most=st.integers(0, 600),
    error=st.booleans(),
)
@example(text="\n" * 12 + "x", shape="diff", most=500, error=False)
@example(text="+++ b\n" * 12, shape="diff", most=500, error=False)
def test_any_text_taken_for_any_shape_gives_a_digest(text, shape, most, error):
    check(text, shape=shape, most=most, error=error, arguments={"path": text[:50], "pattern": text[-50:]})


@pytest.mark.parametrize("name", ["files", "matches", "diff", "log", "text", "torn"])
def test_five_megabytes_keep_the_one_error(name):
    lines = output(name, 5_000_000, 3)
    at = 2 * len(lines) // 3
    assert TROUBLE in digest("\n".join([*lines[:at], TROUBLE, *lines[at:]]))


@pytest.mark.parametrize(
    "text", ["x", "\n", "x\n", "[", '{"a":', "é", "記", "🎉", "\ud800", "A1b2", "error "], ids=ascii
)
def test_five_megabytes_of_the_same_do_no_harm(text):
    check(text * (5_000_000 // len(text)))
