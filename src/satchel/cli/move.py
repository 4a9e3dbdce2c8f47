"""Commands that move memories: export, import, backup, restore."""

import os
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

import click

from satchel.bag import restore
from satchel.cli.options import (
    filter_options,
    json_option,
    location,
    open_store_for,
    scope_options,
    store_options,
)
from satchel.cli.output import note, print_json, print_text, progress_bar
from satchel.errors import InputError

__all__ = ["backup_command", "export_command", "import_command", "restore_command"]


@click.command("export")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.")
@filter_options
@scope_options
@store_options
def export_command(
    output: Path | None, chosen: dict[str, Any], scope: dict[str, str | None], db: str | None
) -> None:
    """Write every memory as JSON lines, with history and relations, whatever its status."""
    with open_store_for(db, scope) as bag:
        lines = bag.export(**chosen)
        if output is None:
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
            return
        count = 0
        # Complete or not there at all: a half-written export would import as a smaller store.
        with tempfile.NamedTemporaryFile(dir=output.parent, prefix=f".{output.name}.", delete=False) as file:
            try:
                for line in lines:
                    count += file.write(line) > 0
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(output)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        note(f"wrote {count - 1:,} memories and relations to {output}")


@click.command("import")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Import nothing if any line is bad.")
@scope_options
@store_options
@json_option
@click.pass_context
def import_command(
    ctx: click.Context,
    source: Path,
    strict: bool,
    scope: dict[str, str | None],
    db: str | None,
    as_json: bool,
) -> None:
    """Bring in the JSON lines of FILE; `-` is standard input. Twice is the same as once."""
    with _opened(source) as lines, open_store_for(db, scope, create=True) as bag:
        size = None if str(source) == "-" else source.stat().st_size
        with progress_bar(size, "importing") as progress:
            done = bag.import_(lines, strict=strict, progress=progress)
    if as_json:
        print_json(done)
    else:
        print_text(
            f"added {done.added:,}, updated {done.updated:,}, unchanged {done.kept:,}, "
            f"relations {done.relations:,}, bad lines {len(done.problems):,}\n"
        )
        for problem in done.problems:
            note(f"line {problem.line}: {problem.message}")
    if done.problems:
        ctx.exit(1)


@click.command("backup")
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@store_options
def backup_command(target: Path, db: str | None) -> None:
    """Copy the store to a new FILE, while others may go on writing."""
    with open_store_for(db) as bag:
        size = bag.backup(target)
    print_text(f"backed up {size:,} bytes to {target}\n")


@click.command("restore")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace a store that is there; it is kept aside.")
@store_options
def restore_command(source: Path, force: bool, db: str | None) -> None:
    """Put the backup FILE in the store's place."""
    place = location(db)
    kept = restore(source, place, replace=force)
    print_text(f"restored {place}\n")
    if kept is not None:
        note(f"what was there is in {kept}")


def _opened(source: Path) -> IO[bytes]:
    if str(source) == "-":
        return sys.stdin.buffer
    try:
        return open(source, "rb")
    except OSError as error:
        raise InputError(f"cannot read {source}: {error.strerror}") from error
