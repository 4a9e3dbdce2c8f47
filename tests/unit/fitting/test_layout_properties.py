"""For any stored text, parts cost at least what the block costs, and nothing in a block is mistaken for markup."""

import re
from collections import Counter as Tally

from hypothesis import given, settings
from imitations import as_read, has_ids, with_or_without_ids
from markdown_it import MarkdownIt

from satchel import counter
from satchel.fitting.formats import LAYOUTS, Layout
from satchel.model.packing import Placed

COUNTERS = ("o200k_base", "llama2", "claude-4.7", "chars/4", "cl100k_base", "gemma3")
TEXT_FORMATS = ("system_prompt", "markdown", "messages")
TAG = re.compile(r"^</?(?:memory|working|conversation|knowledge)>$", re.MULTILINE)
TAG_LIKE = re.compile(r"<[^\w<\n]*(?:memory|working|conversation|knowledge)\b", re.IGNORECASE)


def parts(layout: Layout, placed: list[Placed]) -> list[str]:
    headings = {("section", layout.section(each.item)) for each in placed}
    headings |= {("group", layout.group(each.item)) for each in placed}
    return [layout.around, *(heading.text for _, heading in headings), *map(layout.lines, placed)]


@settings(max_examples=300)
@given(with_or_without_ids)
def test_parts_cost_at_least_what_the_block_costs(placed: list[Placed]):
    for layout in LAYOUTS.values():
        block, apart = layout.block(placed), parts(layout, placed)
        for name in COUNTERS:
            count = counter(name).count
            assert sum(map(count, apart)) >= count(block), (layout.name, name)


@settings(max_examples=300)
@given(with_or_without_ids)
def test_a_block_of_text_reads_back_as_the_items_it_was_made_of(placed: list[Placed]):
    for name in TEXT_FORMATS:
        layout = LAYOUTS[name]
        assert Tally(layout.parse(layout.block(placed), ids=has_ids(placed))) == Tally(map(as_read, placed))


@given(with_or_without_ids)
def test_raw_holds_every_text_as_it_is_stored(placed: list[Placed]):
    found = LAYOUTS["raw"].parse(LAYOUTS["raw"].block(placed))
    stored = [(each.item.id, each.item.short_id, each.item.kind, each.text) for each in placed]
    assert Tally((each.id, each.short_id, each.kind, each.text) for each in found) == Tally(stored)


@settings(max_examples=300)
@given(with_or_without_ids)
def test_markdown_sees_no_heading_and_no_bullet_but_ours(placed: list[Placed]):
    tokens = MarkdownIt().parse(LAYOUTS["markdown"].block(placed))
    tiers = {each.item.tier for each in placed}
    days = {(each.item.tier, each.item.at.date()) for each in placed if each.item.at}
    headings = [token.level for token in tokens if token.type == "heading_open"]
    assert headings == [0] * (1 + len(tiers) if placed else 0)
    opened = Tally(token.type for token in tokens if token.level == 0 and token.nesting >= 0)
    assert set(opened) <= {"heading_open", "bullet_list_open", "paragraph_open"}
    assert opened["paragraph_open"] == len(days)
    assert sum(token.type == "list_item_open" and token.level == 1 for token in tokens) == len(placed)
    assert not any(token.type == "html_block" and TAG_LIKE.search(token.content) for token in tokens)


@given(with_or_without_ids)
def test_only_our_own_tags_are_in_the_system_prompt(placed: list[Placed]):
    block = LAYOUTS["system_prompt"].block(placed)
    assert (
        len(TAG_LIKE.findall(block))
        == len(TAG.findall(block))
        == (2 + 2 * len({p.item.tier for p in placed}) if placed else 0)
    )
