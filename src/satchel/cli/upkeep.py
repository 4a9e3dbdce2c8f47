"""Maintenance commands: doctor, reembed, completion, tokens."""

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from satchel.api.satchel import Satchel
from satchel.cli.options import decode, json_option, read_file, read_stdin
from satchel.cli.output import counting_bar, note, print_json, print_rows, print_text
from satchel.cli.store_options import (
    about_this_store,
    embedder_option,
    location,
    open_store_for,
    scope_options,
    store_options,
)
from satchel.embed.embedder import resolve_embedder
from satchel.errors import InputError
from satchel.model.checks import repair_surrogates
from satchel.store.locations import is_address, shown_location
from satchel.text.tokens import DEFAULT_COUNTER, known_counters
from satchel.text.tokens import counter as find_counter

__all__ = ["completion_command", "doctor_command", "reembed_command", "tokens_command"]


SHELLS = ("bash", "zsh", "fish")

org_option = partial(scope_options, text="On a server: the org. Default: the default org.", fields=("org",))


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Repair what can be repaired without losing data.")
@org_option
@store_options
@json_option
@click.pass_context
def doctor_command(
    ctx: click.Context, fix: bool, scope: dict[str, str | None], db: str | None, as_json: bool
) -> None:
    """Run health checks on the store: versions, integrity, indexes, vectors, and of a file its permissions."""
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
    text="The new embedder: minilm, static, none, sentence-transformers:NAME_OR_PATH or openai:MODEL[@BASE_URL].",
)
@org_option
@store_options
@json_option
def reembed_command(embedder: str | None, scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Compute all vectors again, with another embedder or with the one of the store.

    If memories wait for vectors of the store's own embedder, only those are computed. The old vectors are used
    until it is done. A run that was stopped continues where it was.
    """
    started = time.monotonic()
    try:
        with _opened_to_reembed(db, scope, embedder) as (bag, own), counting_bar("embedding") as show:
            waited = bag.catch_up(progress=lambda done: show(done, None)) if own else 0
            embedded = waited or bag.reembed(embedder, progress=show)
            name = bag.embedder
    except KeyboardInterrupt:
        raise click.Abort("stopped; run the same command again to continue") from None
    if as_json:
        print_json({"embedded": embedded, "embedder": name})
    elif name == "none":
        print_text("removed all vectors; searches use words only\n")
    else:
        what = "passage" if embedded == 1 else "passages"
        if waited:
            what = "waiting memory" if waited == 1 else "waiting memories"
        print_text(f"embedded {embedded:,} {what} with {name} in {time.monotonic() - started:.1f} s\n")


@contextlib.contextmanager
def _opened_to_reembed(
    db: str | None, scope: dict[str, str | None], embedder: str | None
) -> Iterator[tuple[Satchel, bool]]:
    """Open the store; the flag says whether its own embedder is meant, which is then loaded.

    A store that is opened with another embedder than its own is refused.
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
    """Print the completion script of a shell. For bash: `eval "$(satchel completion bash)"`.

    It completes commands, options, kinds, projects, tags and ids.
    """
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    script = completion(ctx.find_root().command, {}, "satchel", "_SATCHEL_COMPLETE").source()
    print_text(script + "\n")


@click.command("tokens")
@click.argument("files", metavar="FILE…", nargs=-1, type=click.Path(path_type=Path))
@click.option("--counter", metavar="NAME", help="Count with this vocabulary or for this model.")
@click.option("--all", "every", is_flag=True, help="Count with every counter.")
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
    print_rows(rows, right=(0,))


def _label(row: dict[str, Any]) -> str:
    """Return the name of the counter; if it only estimates, also what its number means."""
    if row["exact"]:
        return str(row["counter"])
    if not row["binds"]:
        return f"{row['counter']} (rule of thumb)"
    return f"{row['counter']} (at most; about {row['estimate']:,})"


def _read(file: Path) -> str:
    return read_stdin() if str(file) == "-" else decode(read_file(file), str(file))
