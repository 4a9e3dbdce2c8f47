"""With the best match first, it is included as far as it fits, and then the others."""

import pytest

from satchel.fitting.context import ContextBlock, fitted_block
from satchel.fitting.formats import LAYOUTS
from satchel.model.packing import Item
from satchel.text.tokens import counter

COUNTER = counter("o200k_base")
STEPS = "\n".join(f"{number}. Do step number {number} of the release with care." for number in range(1, 13))
LONG = Item(id="steps", text=STEPS, title="Cutting a release", value=0.6)
SHORT = [Item(id=f"s{number}", text=f"Release {number} was nice and short.", value=0.5) for number in range(20)]


def packed(items: list[Item], budget: int | None, *, best_first: bool = True) -> ContextBlock:
    return fitted_block(
        items, budget=budget, counter=COUNTER, layout=LAYOUTS["system_prompt"], best_first=best_first
    )


def levels(block: ContextBlock) -> dict[str, str | None]:
    return {entry.id: entry.level for entry in block.receipt.kept}


def test_the_best_match_comes_whole_where_shorter_ones_are_worth_more_for_a_token():
    assert levels(packed([LONG, *SHORT], 230))["steps"] == "full"
    assert levels(packed([LONG, *SHORT], 230, best_first=False)).get("steps") != "full"


@pytest.mark.parametrize("budget", [40, 60, 90, 120, 150])
def test_where_it_does_not_fit_its_part_comes_before_the_others(budget):
    block = packed([LONG, *SHORT], budget)
    assert block.token_count <= budget
    assert "steps" in levels(block)


def test_a_long_best_match_is_cut_to_its_passages_or_a_sentence_of_them():
    text = (
        "Filler about nothing. " * 200
        + "The key hangs behind the clock. It is the spare one. "
        + "More filler. " * 200
    )
    start = text.index("The key hangs")
    item = Item(id="book", text=text, value=0.6, passages=((start, start + 53), (0, 44)), sought=("key",))
    block = packed([item, *SHORT], 60)
    assert "The key hangs behind the clock." in block.text
    assert block.token_count <= 60


def test_the_passages_that_are_needed_stand_for_a_long_text_and_nothing_is_missing():
    text = "\n\n".join(f"Part {number}. " + "Words and words. " * 40 for number in range(8))
    second = text.index("Part 1."), text.index("Part 2.")
    item = Item(id="book", text=text, value=0.6, passages=(second, (0, 600)), needed=(second,))
    block = packed([item], 4_000)
    assert levels(block) == {"book": "passages"}
    assert block.complete
    assert "Part 1." in block.text
    assert "Part 3." not in block.text


def test_what_a_newer_one_overtakes_stands_only_beside_it():
    old = Item(id="old", text="We use Jenkins.", value=0.5, overtaken_by="new")
    new = Item(id="new", text="We moved from Jenkins to GitHub Actions, which is a longer text.", value=0.6)
    both = packed([new, old], 200)
    assert set(levels(both)) == {"new", "old"}
    for budget in range(1, both.token_count + 1):
        kept = levels(packed([new, old], budget))
        assert "old" not in kept or "new" in kept
