"""Commands that copy memories and stores: export, import, backup, restore, migrate."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from satchel.api.satchel import Satchel, restore
from satchel.cli.options import embed_waiting, json_option, operation_options, stdin
from satchel.cli.output import counting_bar, note, print_json, print_rows, print_text, progress_bar, write_bytes
from satchel.cli.store_options import embedder_option, location_to_write, open_store_for, store_options
from satchel.errors import InputError
from satchel.store.migrate import Compared, Migrated, migrate

if TYPE_CHECKING:
    from satchel.api.transfer import Imported

__all__ = ["backup_command", "export_command", "import_command", "migrate_command", "restore_command"]


SHOWN_PROBLEMS = 20


@click.command("export")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output."
)
@operation_options("export")
@store_options
def export_command(
    given: dict[str, Any], scope: dict[str, str | None], output: Path | None, db: str | None
) -> None:
    """Write memories as JSON lines: all of them, whatever their status, with history and relations."""
    with open_store_for(db, scope) as bag:
        if output is None or str(output) == "-":
            write_bytes(bag.export(**given))
            return
        count = bag.export(output, **given)
    note(f"wrote {count:,} memories and relations to {output}")


@click.command("import")
@operation_options("import_")
@embedder_option
@store_options
@json_option
@click.pass_context
def import_command(
    ctx: click.Context,
    given: dict[str, Any],
    scope: dict[str, str | None],
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Import JSON lines, a context pack, or what `--json` printed. FILE may be `-` for standard input.

    Memories keep their ids, so importing a file twice changes nothing.
    """
    source = Path(given["source"])
    with _opened(source) as lines, open_store_for(db, scope, create=True, embedder=embedder) as bag:
        size = None if str(source) == "-" else source.stat().st_size
        with progress_bar(size, "importing") as progress:
            done = _imported(bag, lines, source, strict="strict" in given, progress=progress)
        _show_imported(done, as_json=as_json)
        embed_waiting(bag, db)
    if done.problems:
        ctx.exit(1)


@click.command("backup")
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@store_options
def backup_command(target: Path, db: str | None) -> None:
    """Copy the store to a new FILE. Other processes can write to it meanwhile."""
    with open_store_for(db) as bag:
        size = bag.backup(target)
    print_text(f"backed up {size:,} bytes to {target}\n")


@click.command("restore")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing store. It is renamed, not deleted.")
@store_options
def restore_command(source: Path, force: bool, db: str | None) -> None:
    """Restore the store from the backup FILE."""
    place = location_to_write(db)
    kept = restore(source, place, replace=force)
    print_text(f"restored {place}\n")
    if kept is not None:
        note(f"the store that was replaced is now {kept}")


def _imported(bag: Satchel, lines: IO[bytes], source: Path, **options: Any) -> "Imported":
    try:
        return bag.import_(lines, **options)
    except InputError as error:
        raise InputError(f"{'standard input' if str(source) == '-' else source}: {error}") from error


def _show_imported(done: "Imported", *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    print_text(
        f"added {done.added:,}, updated {done.updated:,}, unchanged {done.kept:,}, "
        f"relations {done.relations:,}, bad lines {len(done.problems):,}\n"
    )
    for problem in done.problems[:SHOWN_PROBLEMS]:
        note(f"line {problem.line}: {problem.message}")
    if (more := len(done.problems) - SHOWN_PROBLEMS) > 0:
        note(f"… and {more:,} more bad lines; --json lists them all")


@contextlib.contextmanager
def _opened(source: Path) -> Iterator[IO[bytes]]:
    if str(source) == "-":
        yield stdin()
        return
    try:
        with open(source, "rb") as file:
            if file.peek(16).startswith(b"SQLite format 3"):
                raise InputError(f"{source} is a store or a backup; `satchel restore` takes it")
            yield file
    except OSError as error:
        raise InputError(f"cannot read {source}: {error.strerror}") from error


# migrate


SHOWN_TROUBLES = 20
SHOWN_DIGITS = 12


@click.command("migrate")
@click.option(
    "--from", "source", required=True, metavar="STORE", help="A file or postgresql://…. It is not changed."
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="STORE",
    help="A file or postgresql://…. It is created if it does not exist.",
)
@click.option("--org", "orgs", multiple=True, metavar="NAME", help="Only this org. Default: all orgs. Repeatable.")
@click.option("--verify-only", is_flag=True, help="Only compare both stores.")
@json_option
@click.pass_context
def migrate_command(
    ctx: click.Context, source: str, target: str, orgs: tuple[str, ...], verify_only: bool, as_json: bool
) -> None:
    """Copy everything to another store, and compare both.

    Memories are copied with their history, relations, uses and vectors, and the sessions of agents. A migration
    that was stopped continues where it was.
    """
    try:
        with counting_bar("comparing" if verify_only else "migrating") as show:
            done = migrate(source, target, orgs=orgs, verify_only=verify_only, progress=show)
    except KeyboardInterrupt:
        raise click.Abort("stopped; run the same command again to continue") from None
    if as_json:
        print_json(
            {
                "same": done.same,
                "arrived": done.arrived,
                **{name: getattr(done, name) for name in done.__struct_fields__},
            }
        )
    else:
        _show(done, verify_only=verify_only)
    if not (done.same if verify_only else done.arrived):
        ctx.exit(1)


def _show(done: Migrated, *, verify_only: bool) -> None:
    if not verify_only:
        print_text(
            f"added {done.added:,}, updated {done.updated:,}, unchanged {done.kept:,}, "
            f"newer in target {done.newer:,}, refused {done.refused:,}\n"
        )
    # An org may have nothing of a kind in either store.
    some = [each for each in done.compared if each.source.count or each.target.count]
    if some:
        counts = [(f"{each.source.count:,}", f"{each.target.count:,}") for each in some]
        rows = [(each.org, each.kind, *pair, *_outcome(each)) for each, pair in zip(some, counts, strict=True)]
        print_rows([("org", "kind", "source", "target", "checksum", ""), *rows], right=(2, 3))
    else:
        print_text("both stores are empty\n")
    for trouble in done.troubles[:SHOWN_TROUBLES]:
        note(f"org {trouble.org}: {trouble.id}: {trouble.message}")
    if (more := done.newer + done.refused - SHOWN_TROUBLES) > 0:
        note(f"… and {more:,} more")
    if done.arrived and not done.same and not verify_only:
        note(f"everything was copied; {done.target} also has what it had before")
    elif not done.same:
        note(f"{done.target} differs from {done.source}; the table lists where")


def _outcome(each: Compared) -> tuple[str, str]:
    if each.same:
        return each.source.checksum[:SHOWN_DIGITS], "same"
    counts = ((each.missing, "missing"), (each.extra, "more"), (each.differing, "other"))
    what = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    return "differs", f"{what}: {', '.join(each.examples)}"
