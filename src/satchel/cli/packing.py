"""The command that packs whole memories to carry elsewhere: context-pack."""

from pathlib import Path
from typing import Any

import click

from satchel.api.transfer.files import check_target, write_atomically
from satchel.cli import clipboard
from satchel.cli.budgeting import budget_option, counter_option, packing_options, receipt_option, relevance_option
from satchel.cli.options import (
    as_of_option,
    embedder_option,
    ended_option,
    filter_options,
    open_store_for,
    scope_options,
    store_options,
)
from satchel.cli.output import note, print_text
from satchel.cli.receipt_table import explain_receipt
from satchel.cli.remarks import Outcome, nothing_kept, on_words_alone, spent
from satchel.errors import InputError
from satchel.fitting.context_pack import PACK_FORMATS, PackFormat

__all__ = ["context_pack_command"]


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
    outcome = Outcome.of_pack(pack, asked=bool(query and query.strip()))
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
        write_atomically(output.expanduser(), [text.encode()])
        note(f"wrote {memories} to {output}: {remark}")
    elif output is not None or not copy:
        print_text(text)
        note(remark)
    if copy:
        note(f"copied {memories} by {clipboard.copy(text)}" + ("" if output else f": {remark}"))


def _not_done(output: Path | None, *, copy: bool) -> str:
    """What an empty pack is not for: it replaces neither a file nor what is on the clipboard."""
    if output is not None and str(output) != "-":
        return f"; {output} was not written"
    return "; the clipboard is as it was" if copy else ""


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count:,} memories"
