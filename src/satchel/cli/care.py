"""Commands for the upkeep: doctor, completion."""

import click
from click.shell_completion import get_completion_class

from satchel.cli.options import json_option, location, open_store_for, store_options
from satchel.cli.output import note, print_json, print_rows, print_text

__all__ = ["completion_command", "doctor_command"]

SHELLS = ("bash", "zsh", "fish")


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Mend what can be mended without losing anything.")
@store_options
@json_option
@click.pass_context
def doctor_command(ctx: click.Context, fix: bool, db: str | None, as_json: bool) -> None:
    """Check the health of the store. Integrity, indexes, SQLite version, permissions, log."""
    with open_store_for(db) as bag:
        done = bag.repair() if fix else []
        checks = bag.checks()
    if as_json:
        print_json({"store": location(db), "checks": checks, "done": done})
    else:
        marks = {"ok": "ok", "warning": "WARNING", "failed": "FAILED"}
        print_text(f"{location(db)}\n")
        print_rows([(marks[check.state], check.name, check.detail) for check in checks])
        for line in done:
            note(line)
    if any(check.state == "failed" for check in checks):
        ctx.exit(1)


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script. For bash: `eval "$(satchel completion bash)"`."""
    completion = get_completion_class(shell)
    assert completion is not None
    script = completion(ctx.find_root().command, {}, "satchel", "_SATCHEL_COMPLETE").source()
    print_text(script + "\n")
