"""The command that counts: tokens."""

from pathlib import Path
from typing import Any

import click

from satchel.cli.output import print_json, print_rows
from satchel.cli.reading import decode, read_file, read_stdin
from satchel.errors import InputError
from satchel.model.surrogates import repair_surrogates
from satchel.text.tokens.registry import DEFAULT_COUNTER, known_counters
from satchel.text.tokens.registry import counter as find_counter

__all__ = ["tokens_command"]


@click.command("tokens")
@click.argument("files", metavar="FILE…", nargs=-1, type=click.Path(path_type=Path))
@click.option("--counter", metavar="NAME", help="A vocabulary or a model name.")
@click.option("--all", "every", is_flag=True, help="With every counter there is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def tokens_command(files: tuple[Path, ...], counter: str | None, every: bool, as_json: bool) -> None:
    """Count the tokens of FILEs, or of standard input."""
    if counter and every:
        raise InputError("give --counter or --all, not both")
    names = known_counters() if every else (counter or DEFAULT_COUNTER,)
    counters = [find_counter(name) for name in names]
    texts = [(repair_surrogates(str(file)), _read(file)) for file in files or (Path("-"),)]
    counted: list[dict[str, Any]] = [
        {
            "file": file,
            "counter": each.name,
            "tokens": each.count(text),
            "estimate": each.estimate(text),
            "exact": each.exact,
            "binds": each.binds,
        }
        for file, text in texts
        for each in counters
    ]
    if as_json:
        print_json(counted)
        return
    rows = [(f"{row['tokens']:,}", _label(row), str(row["file"])) for row in counted]
    if len(texts) > 1:
        for each in counters:
            total = sum(row["tokens"] for row in counted if row["counter"] == each.name)
            rows.append((f"{total:,}", each.name, "total"))
    print_rows(rows, right=0)


def _label(row: dict[str, Any]) -> str:
    """The counter's name, and for one that does not know the number what it says instead."""
    if row["exact"]:
        return str(row["counter"])
    if not row["binds"]:
        return f"{row['counter']} (rule of thumb)"
    return f"{row['counter']} (at most; about {row['estimate']:,})"


def _read(file: Path) -> str:
    return read_stdin() if str(file) == "-" else decode(read_file(file), str(file))
