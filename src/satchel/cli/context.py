"""Commands that make a text for a context window: context, context-pack."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from satchel.cli.hints import unknown_names
from satchel.cli.options import json_option, operation_options, plot_option
from satchel.cli.output import (
    UNMATCHED,
    PackOutcome,
    explain_receipt,
    note,
    nothing_fitted_json,
    nothing_kept,
    on_words_alone,
    print_json,
    print_text,
    spent,
)
from satchel.cli.store_options import counter_option, embedder_option, open_store_for, store_options
from satchel.errors import InputError
from satchel.fitting.context import BlockFacts, Frame
from satchel.fitting.listing import as_json as to_json
from satchel.fitting.listing import json_inside
from satchel.model.checks import expanded
from satchel.model.ids import whole_short_id
from satchel.model.packing import PackFormat, Receipt

__all__ = ["context_command", "context_pack_command"]


@click.command("context")
@operation_options("context")
@counter_option
@plot_option
@embedder_option
@store_options
@json_option
@click.pass_context
def context_command(
    ctx: click.Context,
    given: dict[str, Any],
    scope: dict[str, str | None],
    counter: str | None,
    plot: Path | None,
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Pack what matters for QUERY into one text. Without QUERY: what is pinned, recent and important.

    With --json and --tokens the whole JSON stays within the budget: it then has short ids instead of whole hits.
    If nothing fits, it only says which budget would do.
    """
    query, explain = given.get("query"), "explain" in given
    token_budget = given["token_budget"]
    whole = ctx.get_parameter_source("token_budget") is not ParameterSource.COMMANDLINE
    with open_store_for(db, scope, counter=counter, embedder=embedder) as bag:
        block = bag.context(**given, frame=_ContextAsJson() if as_json and not whole else None)
        if plot is not None:
            _save_picture(block.receipt, plot, title=_title(query, scope["project"]))
        if as_json and whole:
            print_json(block.result(receipt=explain))
        else:
            print_text(block.text or (nothing_fitted_json(block, text="") if as_json else ""))
        # As JSON the receipt is part of the answer, if the budget leaves room for answers of that size.
        if explain and not (as_json and whole):
            explain_receipt(bag, block.receipt)
        outcome = PackOutcome.of_block(block, asked=bool(query and query.strip()))
        remarks = [
            nothing_kept(outcome, token_budget) or spent(outcome, token_budget, block.receipt if explain else None),
            None if block.matched else UNMATCHED,
            on_words_alone(bag, embedder) if query is not None else None,
        ]
    if not outcome.kept and not outcome.left_out:
        remarks += unknown_names(db, scope, given.get("tags", ()))
    for remark in filter(None, remarks):
        note(remark)


def _title(query: str | None, project: str | None) -> str:
    return f"Context for “{query}”" if query is not None else f"Context of {project or 'all projects'}"


class _ContextAsJson(Frame):
    """A block as JSON within the budget: its text, its numbers, and the short id of each memory in it."""

    def write(self, body: str, facts: BlockFacts) -> str:
        told = ("token_count", "included", "omitted", "irrelevant", "complete", "matched", "tier_breakdown")
        names = {"short_ids": [whole_short_id(each) for each in facts.ids]}
        return to_json({"text": body} | {name: getattr(facts, name) for name in told} | names) + "\n"

    def beside(self, identifier: str) -> str:
        return f'"{whole_short_id(identifier)}",'

    def encode(self, part: str) -> str:
        return json_inside(part)


def _save_picture(receipt: Receipt, target: Path, *, title: str) -> None:
    """Write or replace the file in one step, and say so."""
    from satchel.api.transfer import write_atomically
    from satchel.cli.plots.pack_plot import pack_picture

    write_atomically(expanded(target), [pack_picture(receipt, title=title).encode()])
    note(f"drew {target}")


@click.command("context-pack")
@operation_options("context_pack")
@counter_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write or replace this file instead of printing. A name that ends in .json means --format json.",
)
@click.option("--copy", is_flag=True, help="Copy it to the clipboard instead of printing; `-o -` prints it too.")
@click.option("--explain", is_flag=True, help="Also print what became of every candidate, on standard error.")
@embedder_option
@store_options
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
def context_pack_command(
    given: dict[str, Any],
    scope: dict[str, str | None],
    counter: str | None,
    output: Path | None,
    copy: bool,
    explain: bool,
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Pack whole memories to carry elsewhere. `satchel import` reads the JSON form.

    Those that matter for QUERY, or without QUERY what is pinned, recent and important.
    """
    query = given.get("query")
    token_budget = given["token_budget"]
    form = _format(given.pop("format", None), output, as_json=as_json)
    if output is not None and str(output) != "-":
        # Before anything counts as used.
        from satchel.api.transfer import check_target

        check_target(expanded(output))
    with open_store_for(db, scope, counter=counter, embedder=embedder) as bag:
        pack = bag.context_pack(**given, format=form)
        if explain:
            explain_receipt(bag, pack.receipt)
        unsaid = on_words_alone(bag, embedder) if query is not None else None
    outcome = PackOutcome.of_pack(pack, asked=bool(query and query.strip()))
    # Who hands a pack over says how many memories it has.
    told = outcome if output is None and not copy else outcome._replace(asked=False)
    remark = spent(told, token_budget, pack.receipt if explain else None)
    if empty := nothing_kept(outcome, token_budget):
        if form == "json" and not copy and (output is None or str(output) == "-"):
            print_text(nothing_fitted_json(pack, memories=[]))
        note(empty + _not_done(output, copy=copy))
        if not outcome.left_out:
            for hint in unknown_names(db, scope, given.get("tags", ())):
                note(hint)
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

        write_atomically(expanded(output), [text.encode()])
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
