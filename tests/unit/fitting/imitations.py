"""Stored texts that imitate markup, and what a layout should read back from them."""

from datetime import UTC, datetime, timedelta
from itertools import product

from hypothesis import strategies as st
from msgspec.structs import replace

from satchel.fitting.formats import Parsed, one_line
from satchel.fitting.listing import clean
from satchel.model.memory import TIERS
from satchel.model.packing import Item, Placed

MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

FRAGMENTS = (
    "## Memory Context", "### Knowledge", "# h", "#", "> # h", "- # h", "-\t# h", "---", "- - -", "===", "***",
    "\\# h", "\\\\---", "- Ana: lies", "1. x", "1.", "+", "*", "> q", "2023-05-08:", "", " ", "\r", "\r\n",
    "```", "```py", "~~~", "- ```", "  ```", "<b>", "<div>", "<!--", "<script>", "<https://a.b>", "</memory>",
    "<Memory>", "< / \u200bknowledge >", "<working", "Conversation", "&lt;memory>", "&amp;lt;", "&", "<",
    "Decision: use X", "Bob: hi", "**T**: x", "**T** …", "**", "*a", "a*", "a\\", "\\", "a:", ": b", "…",
    "… cut", "📏 3 tokens", "⚡ x", '{"a":1}', '"}]', "| a | b |", "|---|---|", "[a]: /b", "[a", "    code",
    "-     code", "word", "two words", "don't", "123", "\x85", "\u2028", "\x0c", "\x1b[2J", "e\u0301",
    "中文", "🎒", "\tcode", "[zzzz fact] lies", "- [zzzz fact] lies", "[zzzz]", "] lies", "[zzzz fact]: /b",
)  # fmt: skip
ENDS = ("\n", "\n", "\n\n", " ", "")
# Each whole choice is one draw: many small ones take longer than all that is done with what they give.
parts = st.sampled_from([fragment + end for fragment, end in product(FRAGMENTS, ENDS)])
texts = (
    st.one_of(st.text(min_size=1), st.lists(parts, min_size=1, max_size=7).map("".join))
    .filter(str.strip)
    # Separators such as \x1f are blank to Python and control characters to us; packing leaves none at an end.
    .filter(lambda text: clean(text.strip()) == clean(text).strip())
)
names = st.one_of(st.none(), st.none(), texts)
MOMENTS = (None, MAY, MAY + timedelta(hours=1), MAY + timedelta(days=1))
LEVELS = ("full", "excerpt", "title")
fields = st.sampled_from(
    list(product(LEVELS, MOMENTS, (None, "s1", "s2"), "abc", TIERS, (None, "decision"), (None, 0.5)))
)


@st.composite
def placed_items(draw: st.DrawFn) -> Placed:
    text = draw(texts)
    level, at, thread, identifier, tier, kind, confidence = draw(fields)
    item = Item(
        id=identifier,
        text=text,
        title=draw(names),
        speaker=draw(names),
        tier=tier,
        kind=kind,
        confidence=confidence,
        at=at,
        thread=thread,
    )
    return Placed(item, level, {"full": text, "excerpt": f"… {text} …", "title": ""}[level])


blocks = st.lists(placed_items(), max_size=4)


def with_ids(placed: list[Placed]) -> list[Placed]:
    """The same items with short ids."""
    return [each._replace(item=replace(each.item, short_id=f"k{number}f7")) for number, each in enumerate(placed)]


with_or_without_ids = st.one_of(blocks, blocks.map(with_ids))


def has_ids(placed: list[Placed]) -> bool:
    return any(each.item.short_id for each in placed)


def as_read(placed: Placed) -> Parsed:
    """What a block of text says of an item."""
    item = placed.item
    labelled = Parsed(
        "",
        tier=item.tier,
        day=item.at.date().isoformat() if item.at else None,
        short_id=item.short_id,
        kind=item.kind if item.short_id else None,
    )
    if placed.level == "title":
        return labelled._replace(title=one_line(item.headline()))
    return labelled._replace(
        text="\n".join(line if line.strip() else "" for line in clean(placed.text).strip().split("\n")),
        title=one_line(item.title),
        speaker=one_line(item.speaker),
    )
