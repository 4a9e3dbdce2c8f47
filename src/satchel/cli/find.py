"""Commands that find memories: search, context, context-pack."""

from pathlib import Path
from typing import Any

import click

from satchel.cli.options import (
    LIMIT,
    as_of_option,
    budget_option,
    counter_option,
    detail_option,
    embedder_option,
    ended_option,
    explain_option,
    filter_options,
    json_option,
    open_store_for,
    packing_options,
    plot_option,
    receipt_option,
    relevance_option,
    scope_options,
    store_options,
)
from satchel.cli.output import (
    UNMATCHED,
    PackOutcome,
    explain_hits,
    explain_receipt,
    note,
    nothing_kept,
    on_hits,
    on_words_alone,
    print_listing,
    print_text,
    spent,
)
from satchel.errors import InputError
from satchel.fitting.context import BlockFacts, Frame
from satchel.fitting.context_pack import PACK_FORMATS, PackFormat
from satchel.fitting.formats import FORMATS, Format
from satchel.fitting.listing import Detail, json_inside
from satchel.fitting.listing import as_json as to_json
from satchel.model.packing import Receipt

__all__ = ["context_command", "context_pack_command", "search_command"]


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
            frame=_ContextAsJson() if as_json else None,
            as_of=as_of,
            min_relevance=min_relevance,
            **packing,
            **chosen,
        )
        if plot is not None:
            _save_picture(block.receipt, plot, title=_title(query, scope["project"]))
        print_text(block.text)
        if explain:
            explain_receipt(bag, block.receipt)
        outcome = PackOutcome.of_block(block, asked=bool(query and query.strip()))
        note(
            nothing_kept(outcome, token_budget) or spent(outcome, token_budget, block.receipt if explain else None)
        )
        if not block.matched:
            note(UNMATCHED)
        if query is not None and (remark := on_words_alone(bag, embedder)):
            note(remark)


def _title(query: str | None, project: str | None) -> str:
    return f"Context for “{query}”" if query is not None else f"Context of {project or 'all projects'}"


class _ContextAsJson(Frame):
    """A block as JSON, with what a program may want to know beside its text."""

    def write(self, body: str, facts: BlockFacts) -> str:
        told = ("token_count", "included", "omitted", "irrelevant", "complete", "matched", "tier_breakdown")
        return to_json({"text": body} | {name: getattr(facts, name) for name in told}) + "\n"

    def encode(self, part: str) -> str:
        return json_inside(part)


def _save_picture(receipt: Receipt, target: Path, *, title: str) -> None:
    """Write or replace the file in one step, and say so."""
    from satchel.api.transfer import write_atomically
    from satchel.cli.plots.pack_plot import pack_picture

    write_atomically(target.expanduser(), [pack_picture(receipt, title=title).encode()])
    note(f"drew {target}")


@click.command("context-pack")
@click.argument("query", required=False)
@budget_option(2000)
@relevance_option
@counter_option
@click.option(
    "--format", "chosen_format", type=click.Choice(PACK_FORMATS), help="Its form; markdown if none is given."
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write or replace this file instead of printing; one that ends in .json is JSON unless a form is given.",
)
@click.option("--copy", is_flag=True, help="Put it on the clipboard instead of printing; `-o -` prints it too.")
@packing_options
@receipt_option
@filter_options
@ended_option
@as_of_option
@scope_options
@embedder_option
@store_options
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
def context_pack_command(
    query: str | None,
    token_budget: int,
    min_relevance: float,
    counter: str | None,
    chosen_format: PackFormat | None,
    output: Path | None,
    copy: bool,
    packing: dict[str, Any],
    explain: bool,
    chosen: dict[str, Any],
    ended: bool,
    as_of: str | None,
    scope: dict[str, str | None],
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Pack whole memories to carry elsewhere. As JSON `satchel import` reads them.

    Those that matter for QUERY, or without QUERY what is pinned, recent and important.
    """
    form = _format(chosen_format, output, as_json=as_json)
    if output is not None and str(output) != "-":
        # Before anything counts as used.
        from satchel.api.transfer import check_target

        check_target(output.expanduser())
    with open_store_for(db, scope, counter=counter, embedder=embedder) as bag:
        pack = bag.context_pack(
            query,
            token_budget=token_budget,
            format=form,
            ended=ended,
            as_of=as_of,
            min_relevance=min_relevance,
            **packing,
            **chosen,
        )
        if explain:
            explain_receipt(bag, pack.receipt)
        unsaid = on_words_alone(bag, embedder) if query is not None else None
    outcome = PackOutcome.of_pack(pack, asked=bool(query and query.strip()))
    # Who hands a pack over says how many memories it has.
    told = outcome if output is None and not copy else outcome._replace(asked=False)
    remark = spent(told, token_budget, pack.receipt if explain else None)
    if empty := nothing_kept(outcome, token_budget):
        note(empty + _not_done(output, copy=copy))
    else:
        _hand_over(pack.text, _memories(outcome.kept), remark, output, copy=copy)
    if unsaid:
        note(unsaid)


def _format(chosen: PackFormat | None, output: Path | None, *, as_json: bool) -> PackFormat:
    if as_json and chosen not in (None, "json"):
        raise InputError(f"--json and --format {chosen} are two forms; give one of them")
    named_so = output is not None and output.suffix.lower() == ".json"
    return "json" if as_json or (chosen is None and named_so) else chosen or "markdown"


def _hand_over(text: str, memories: str, remark: str, output: Path | None, *, copy: bool) -> None:
    """To standard output, to a file or to the clipboard, with one remark."""
    if output is not None and str(output) != "-":
        from satchel.api.transfer import write_atomically

        write_atomically(output.expanduser(), [text.encode()])
        note(f"wrote {memories} to {output}: {remark}")
    elif output is not None or not copy:
        print_text(text)
        note(remark)
    if copy:
        from satchel.cli import clipboard

        note(f"copied {memories} by {clipboard.copy(text)}" + ("" if output else f": {remark}"))


def _not_done(output: Path | None, *, copy: bool) -> str:
    """What an empty pack is not for: it replaces neither a file nor what is on the clipboard."""
    if output is not None and str(output) != "-":
        return f"; {output} was not written"
    return "; the clipboard is as it was" if copy else ""


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count:,} memories"
