"""Packing what another retriever found: no store, no file."""

from collections.abc import Iterable

from satchel.fitting.choice import Policy
from satchel.fitting.context import ContextBlock, fitted_block
from satchel.fitting.documents import as_items
from satchel.fitting.formats import FORMATS, LAYOUTS, Format
from satchel.fitting.packing import Pins
from satchel.model.arguments import check_known
from satchel.model.limits import check_budget
from satchel.text.tokens.counter import Counter
from satchel.text.tokens.registry import DEFAULT_COUNTER
from satchel.text.tokens.registry import counter as find_counter

__all__ = ["fit"]


def fit(
    items: Iterable[object],
    *,
    token_budget: int | None,
    format: Format = "system_prompt",
    policy: Policy = "best",
    pins: Pins = "strict",
    counter: str | Counter = DEFAULT_COUNTER,
) -> ContextBlock:
    """What is worth most of any retriever's items, as one text within the budget.

    Strings, mappings and objects that have a text, best first or with a score; LangChain documents and
    LlamaIndex nodes are taken as they are. The block's receipt names each by its id, or by its place:
    `item-1` is the first.
    """
    check_known("format", format, FORMATS)
    return fitted_block(
        as_items(items),
        budget=check_budget(token_budget),
        counter=find_counter(counter),
        layout=LAYOUTS[format],
        policy=policy,
        pins=pins,
    )
