"""Commands that find memories: search, context."""

from pathlib import Path
from typing import Any

import click

from satchel.cli.budgeting import budget_option, counter_option, packing_options, receipt_option, relevance_option
from satchel.cli.explanation import explain_hits
from satchel.cli.options import (
    LIMIT,
    as_of_option,
    detail_option,
    embedder_option,
    ended_option,
    explain_option,
    filter_options,
    json_option,
    open_store_for,
    scope_options,
    store_options,
)
from satchel.cli.output import note, print_listing, print_text
from satchel.cli.picture import plot_option, save_picture
from satchel.cli.receipt_table import explain_receipt
from satchel.cli.remarks import UNMATCHED, Outcome, nothing_kept, on_hits, on_words_alone, spent
from satchel.fitting.as_json import as_json as to_json
from satchel.fitting.as_json import json_inside
from satchel.fitting.context import ContextBlock, Frame
from satchel.fitting.formats import FORMATS, Format
from satchel.fitting.listing import Detail

__all__ = ["context_command", "search_command"]


@click.command("search")
@click.argument("query")
@click.option("--limit", type=LIMIT, default=10, show_default=True, help="At most this many.")
@budget_option()
@relevance_option
@counter_option
@explain_option
@filter_options
@ended_option
@as_of_option
@scope_options
@detail_option("standard")
@embedder_option
@store_options
@json_option
def search_command(
    query: str,
    limit: int,
    token_budget: int | None,
    min_relevance: float,
    counter: str | None,
    explain: bool,
    chosen: dict[str, Any],
    ended: bool,
    as_of: str | None,
    scope: dict[str, str | None],
    detail: Detail,
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Find memories by what QUERY says or asks, best first."""
    with open_store_for(db, scope, counter=counter, embedder=embedder) as bag:
        hits = bag.search(
            query,
            limit=limit,
            token_budget=token_budget,
            ended=ended,
            detail=detail,
            format="json" if as_json else "text",
            explain=explain,
            as_of=as_of,
            min_relevance=min_relevance,
            **chosen,
        )
        if as_json:
            print_text(hits.text)
        else:
            print_listing(hits.text)
            if explain:
                # What is printed to be handed on stays within its budget.
                explain_hits(hits, bag.short_ids([hit.memory for hit in hits]), apart=token_budget is not None)
        for remark in (on_hits(hits, token_budget), on_words_alone(bag, embedder)):
            if remark:
                note(remark)


@click.command("context")
@click.argument("query", required=False)
@budget_option(2000)
@relevance_option
@counter_option
@click.option(
    "--format", "layout", type=click.Choice(FORMATS), default="system_prompt", show_default=True, help="Its form."
)
@packing_options
@receipt_option
@plot_option
@filter_options
@ended_option
@as_of_option
@scope_options
@embedder_option
@store_options
@json_option
def context_command(
    query: str | None,
    token_budget: int,
    min_relevance: float,
    counter: str | None,
    layout: Format,
    packing: dict[str, Any],
    explain: bool,
    plot: Path | None,
    chosen: dict[str, Any],
    ended: bool,
    as_of: str | None,
    scope: dict[str, str | None],
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Pack what matters for QUERY into one text. Without QUERY what is pinned, recent and important."""
    with open_store_for(db, scope, counter=counter, embedder=embedder) as bag:
        block = bag.context(
            query,
            token_budget=token_budget,
            format=layout,
            ended=ended,
            frame=Frame(_context_json, json_inside) if as_json else None,
            as_of=as_of,
            min_relevance=min_relevance,
            **packing,
            **chosen,
        )
        if plot is not None:
            save_picture(block.receipt, plot, title=_title(query, scope["project"]))
        print_text(block.text)
        if explain:
            explain_receipt(bag, block.receipt)
        outcome = Outcome.of_block(block, asked=bool(query and query.strip()))
        note(
            nothing_kept(outcome, token_budget) or spent(outcome, token_budget, block.receipt if explain else None)
        )
        if not block.matched:
            note(UNMATCHED)
        if query is not None and (remark := on_words_alone(bag, embedder)):
            note(remark)


def _title(query: str | None, project: str | None) -> str:
    return f"Context for “{query}”" if query is not None else f"Context of {project or 'all projects'}"


def _context_json(block: ContextBlock) -> str:
    """A block as JSON, with what a program may want to know beside its text."""
    told = ("text", "token_count", "facts_included", "facts_omitted", "irrelevant", "tier_breakdown")
    return to_json({name: getattr(block, name) for name in told}) + "\n"
