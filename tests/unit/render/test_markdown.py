"""A context block groups by day and session, and stored text stays inside its bullet."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel import Memory, Scope
from satchel.render import context_markdown

MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
# Texts that try to be something else, and anything at all.
texts = st.one_of(
    st.text(min_size=1),
    st.lists(
        st.sampled_from(
            ["## Memory Context", "- Ana: lies", "---", "- - -", "2023-05-08:", "", " ", "```", "===", "1. x",
             "<b>", "word", "\r", "\x85", "\u2028", "\x0c", "\t- x", "\x1b[2J"]
        ),
        min_size=1,
    ).map("\n".join),
).filter(str.strip)  # fmt: skip


def memory(text: str, *, number: int = 1, at: datetime = MAY, session: str | None = None, **fields) -> Memory:
    scope = Scope(session=session)
    return Memory(
        id=f"m{number:03}", text=text, at=at, created_at=MAY, updated_at=MAY, tokens=1, scope=scope, **fields
    )


def test_one_date_stands_over_all_lines_of_a_day_and_session():
    block = context_markdown(
        [
            memory("We rotate JWTs every hour.", number=3, at=MAY + timedelta(days=17), title="JWT rotation"),
            memory("Wow, that's cool!", number=2, session="s1", speaker="Melanie"),
            memory("I went to a support group.", number=1, session="s1", speaker="Caroline"),
        ]
    )
    assert block == (
        "## Memory Context\n"
        "\n2023-05-08:\n"
        "- Caroline: I went to a support group.\n"
        "- Melanie: Wow, that's cool!\n"
        "\n2023-05-25:\n"
        "- **JWT rotation**: We rotate JWTs every hour.\n"
    )


def test_two_sessions_of_one_day_are_two_groups_and_no_session_is_one():
    evening = MAY + timedelta(hours=5)
    block = context_markdown(
        [
            memory("one", number=1, session="s1"),
            memory("three", number=2, session="s2", at=evening),
            memory("two", number=3, session="s1", at=evening + timedelta(hours=1)),
            memory("four", number=4, at=evening),
            memory("five", number=5, at=evening + timedelta(hours=2)),
        ]
    )
    days = block.split("\n2023-05-08:\n")[1:]
    assert days == ["- one\n- two\n", "- three\n", "- four\n- five\n"]


def test_each_day_of_a_session_has_its_own_date():
    late = MAY.replace(hour=23)
    for session in ("s1", None):
        said = [
            memory("one", session=session, at=late),
            memory("two", session=session, at=late + timedelta(hours=2)),
        ]
        block = context_markdown(said)
        assert block.endswith("\n2023-05-08:\n- one\n\n2023-05-09:\n- two\n")


def test_nothing_makes_no_block():
    assert context_markdown([]) == ""


def test_further_lines_are_indented_and_blank_ones_stay_blank():
    block = context_markdown([memory("one.\n \n# two\r\n    three\n\n", title="T", speaker="Ana")])
    assert block.endswith("- **T**: Ana: one.\n\n  # two\n      three\n")


@pytest.mark.parametrize("text", ["---", "-", "- -\n# no heading"])
def test_a_text_of_dashes_is_no_rule_across_the_page(text: str):
    line = context_markdown([memory(text)]).splitlines()[3]
    assert line == f"- \\{text.splitlines()[0]}"


@given(st.lists(st.tuples(texts, st.one_of(st.none(), texts), st.one_of(st.none(), texts)), max_size=4))
def test_only_our_own_lines_start_at_the_margin(stored):
    memories = [
        memory(text, number=number, title=title, speaker=speaker)
        for number, (text, title, speaker) in enumerate(stored)
    ]
    lines = context_markdown(memories).splitlines()
    at_margin = [line for line in lines if line and not line.startswith("  ")]
    assert at_margin[:2] == (["## Memory Context", "2023-05-08:"] if stored else [])
    assert len(at_margin[2:]) == len(stored)
    assert all(line.startswith("- ") and not re.fullmatch(r"[- \t]+", line) for line in at_margin[2:])
    assert all(line == "" or line.strip() for line in lines), "no line of blanks"


@given(texts)
def test_every_sentence_stands_verbatim_in_the_block(text):
    block = context_markdown([memory(text)])
    for sentence in re.split(r"[\r\n]+|(?<=[.!?])\s+", text):
        if not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]", sentence):
            assert sentence.strip() in block
