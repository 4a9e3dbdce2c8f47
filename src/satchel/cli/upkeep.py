"""Commands for the upkeep: doctor, reembed, completion, tokens."""

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from satchel.api.satchel import Satchel
from satchel.cli.options import (
    about_this_store,
    decode,
    embedder_option,
    json_option,
    location,
    open_store_for,
    read_file,
    read_stdin,
    scope_options,
    store_options,
)
from satchel.cli.output import counting_bar, note, print_json, print_rows, print_text
from satchel.embed.embedder import resolve_embedder
from satchel.errors import InputError
from satchel.model.checks import repair_surrogates
from satchel.store.locations import is_address, shown_location
from satchel.text.tokens import DEFAULT_COUNTER, known_counters
from satchel.text.tokens import counter as find_counter

__all__ = ["completion_command", "doctor_command", "reembed_command", "tokens_command"]


SHELLS = ("bash", "zsh", "fish")

org_option = partial(scope_options, text="On a server, of this {field}; of the default one else.", fields=("org",))


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Mend what can be mended without losing anything.")
@org_option
@store_options
@json_option
@click.pass_context
def doctor_command(
    ctx: click.Context, fix: bool, scope: dict[str, str | None], db: str | None, as_json: bool
) -> None:
    """Check the health of the store. Versions, integrity, indexes, vectors; of a file permissions and log too."""
    with open_store_for(db, scope) as bag:
        done = bag.repair() if fix else []
        checks = bag.checks()
    place = shown_location(location(db))
    if as_json:
        print_json({"store": place, "checks": checks, "done": done})
    else:
        marks = {"ok": "ok", "warning": "WARNING", "failed": "FAILED"}
        print_text(f"{place}, org {bag.scope.org}\n" if is_address(location(db)) else f"{place}\n")
        print_rows([(marks[check.state], check.name, about_this_store(check.detail, db)) for check in checks])
        for line in done:
            note(line)
    if any(check.state == "failed" for check in checks):
        ctx.exit(1)


@click.command("reembed")
@partial(
    embedder_option,
    text="The new one: minilm, static, none, sentence-transformers:NAME_OR_PATH or openai:MODEL[@BASE_URL].",
)
@org_option
@store_options
@json_option
def reembed_command(embedder: str | None, scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Make all vectors anew. By another embedder, or by the store's own; if memories wait for vectors of
    that one, only theirs. The old ones serve until it is done, and what was stopped goes on where it was.
    """
    started = time.monotonic()
    try:
        with _opened_to_reembed(db, scope, embedder) as (bag, own), counting_bar("embedding") as show:
            waited = bag.catch_up(progress=lambda done: show(done, None)) if own else 0
            embedded = waited or bag.reembed(embedder, progress=show)
            name = bag.embedder
    except KeyboardInterrupt:
        raise click.Abort("stopped; the same command goes on where it was") from None
    if as_json:
        print_json({"embedded": embedded, "embedder": name})
    elif name == "none":
        print_text("there are no vectors any more; searches go by words alone\n")
    else:
        what = "passage" if embedded == 1 else "passages"
        if waited:
            what = "memory that waited" if waited == 1 else "memories that waited"
        print_text(f"embedded {embedded:,} {what} by {name} in {time.monotonic() - started:.1f} s\n")


@contextlib.contextmanager
def _opened_to_reembed(
    db: str | None, scope: dict[str, str | None], embedder: str | None
) -> Iterator[tuple[Satchel, bool]]:
    """The store, and whether its own embedder is meant, which then is at hand.

    Opened with another one it would be refused.
    """
    with open_store_for(db, scope) as bag:
        own = bag.embedder
        if embedder is None or resolve_embedder(embedder).name != own:
            yield bag, embedder is None
            return
    with open_store_for(db, scope, embedder=embedder) as bag:
        yield bag, True


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script. For bash: `eval "$(satchel completion bash)"`."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    script = completion(ctx.find_root().command, {}, "satchel", "_SATCHEL_COMPLETE").source()
    print_text(script + "\n")


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
