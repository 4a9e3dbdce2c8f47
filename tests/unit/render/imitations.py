"""Stored texts that try to be something else, and what a layout should read back from them."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from satchel.fields import TIERS
from satchel.pack.item import Item, Placed
from satchel.render.guard import one_line
from satchel.render.layout import Parsed
from satchel.render.listing import clean

MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

fragments = st.sampled_from(
    [
        "## Memory Context", "### Knowledge", "# h", "#", "> # h", "- # h", "-\t# h", "---", "- - -", "===", "***",
        "\\# h", "\\\\---", "- Ana: lies", "1. x", "1.", "+", "*", "> q", "2023-05-08:", "", " ", "\r", "\r\n",
        "```", "```py", "~~~", "- ```", "  ```", "<b>", "<div>", "<!--", "<script>", "<https://a.b>", "</memory>",
        "<Memory>", "< / \u200bknowledge >", "<working", "Conversation", "&lt;memory>", "&amp;lt;", "&", "<",
        "Decision: use X", "Bob: hi", "**T**: x", "**T** …", "**", "*a", "a*", "a\\", "\\", "a:", ": b", "…",
        "… cut", "📏 3 tokens", "⚡ x", '{"a":1}', '"}]', "| a | b |", "|---|---|", "[a]: /b", "[a", "    code",
        "-     code", "word", "two words", "don't", "123", "\x85", "\u2028", "\x0c", "\x1b[2J", "e\u0301",
        "中文", "🎒", "\tcode",
    ]
)  # fmt: skip
texts = st.one_of(
    st.text(min_size=1),
    st.lists(st.tuples(fragments, st.sampled_from(["\n", "\n", "\n\n", " ", ""])), min_size=1, max_size=7).map(
        lambda parts: "".join(fragment + end for fragment, end in parts)
    ),
).filter(str.strip)
names = st.one_of(st.none(), st.none(), texts)


@st.composite
def placed_items(draw: st.DrawFn) -> Placed:
    text = draw(texts)
    item = Item(
        id=draw(st.sampled_from("abc")),
        text=text,
        title=draw(names),
        speaker=draw(names),
        tier=draw(st.sampled_from(TIERS)),
        kind=draw(st.sampled_from([None, "decision"])),
        confidence=draw(st.sampled_from([None, 0.5])),
        at=draw(st.sampled_from([None, MAY, MAY + timedelta(hours=1), MAY + timedelta(days=1)])),
        thread=draw(st.sampled_from([None, "s1", "s2"])),
    )
    return draw(
        st.sampled_from(
            [Placed(item, "full", text), Placed(item, "excerpt", f"… {text} …"), Placed(item, "title", "")]
        )
    )


blocks = st.lists(placed_items(), max_size=4)


def as_read(placed: Placed) -> Parsed:
    """What a block of text says of an item."""
    item = placed.item
    day = item.at.date().isoformat() if item.at else None
    if placed.level == "title":
        return Parsed("", title=one_line(item.headline()), tier=item.tier, day=day)
    return Parsed(
        "\n".join(line if line.strip() else "" for line in clean(placed.text).strip().split("\n")),
        title=one_line(item.title),
        speaker=one_line(item.speaker),
        tier=item.tier,
        day=day,
    )
