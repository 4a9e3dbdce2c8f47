"""The command that searches memories."""

from typing import Any

import click

from satchel.cli.hints import unknown_names
from satchel.cli.options import json_option, operation_options
from satchel.cli.output import (
    explain_hits,
    note,
    nothing_fitted_json,
    on_hits,
    on_words_alone,
    print_json,
    print_listing,
    print_text,
)
from satchel.cli.store_options import counter_option, embedder_option, open_store_for, store_options

__all__ = ["search_command"]


@click.command("search")
@operation_options("search")
@counter_option
@embedder_option
@store_options
@json_option
def search_command(
    given: dict[str, Any],
    scope: dict[str, str | None],
    counter: str | None,
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Find memories by what QUERY says or asks, best first.

    With --json and --tokens the whole JSON stays within the budget: it then has the hits and no separate text.
    If nothing fits, it only says which budget would do.
    """
    token_budget, explain = given.get("token_budget"), "explain" in given
    with open_store_for(db, scope, counter=counter, embedder=embedder) as bag:
        hits = bag.search(**given, format="json" if as_json and token_budget is not None else "text")
        if as_json and token_budget is not None:
            print_text(hits.text or nothing_fitted_json(hits, hits=[]))
        elif as_json:
            print_json(hits.result())
        else:
            print_listing(hits.text)
            if explain:
                # What is printed to be handed on stays within its budget.
                explain_hits(hits, bag.short_ids([hit.memory for hit in hits]), apart=token_budget is not None)
        remarks = [on_hits(hits, token_budget), on_words_alone(bag, embedder)]
    if not hits and not hits.omitted and not hits.irrelevant:
        remarks += unknown_names(db, scope, given.get("tags", ()))
    for remark in filter(None, remarks):
        note(remark)
