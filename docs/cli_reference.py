"""Writes docs/reference/cli.md from the commands themselves: python docs/cli_reference.py [--check]."""

import sys
from pathlib import Path

import click

from satchel.cli.app import app

PAGE = Path(__file__).parent / "reference/cli.md"

HEADING = """\
# The `satchel` command

Written by `make docs` from the commands; do not edit.

Every command that uses a store takes `--db STORE`, a file or `postgresql://…`, before or after its
name. Without it `SATCHEL_DB` names the store, or else it is `satchel.db` in the user's data folder.
`--embedder SPEC`, or else `SATCHEL_EMBEDDER`, says who makes vectors:
`minilm`, `static`, `none`, `sentence-transformers:NAME_OR_PATH` or `openai:MODEL[@BASE_URL]`; without either the
store's own, or `minilm` for a new one. Only commands that embed something look at it, and a store whose vectors
another one made is refused until `satchel reembed`. What a program may read goes to standard output, remarks to
standard error. Exit codes: 0 done, 2 bad input (nothing was changed), 1 a failure, 130 stopped by Ctrl-C.
"""


def reference() -> str:
    context = click.Context(app, info_name="satchel", max_content_width=100, terminal_width=100)
    parts = [HEADING]
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        parts += sections(command, name, context)
    return "\n".join(parts)


def sections(command: click.Command, name: str, parent: click.Context) -> list[str]:
    """A command's help, and below it those of its own commands."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
    found = [f"## {context.command_path.split(' [')[0]}\n\n```text\n{command.get_help(context)}\n```\n"]
    if isinstance(command, click.Group):
        for inner_name, inner in command.commands.items():
            found += sections(inner, inner_name, context)
    return found


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0 if PAGE.read_text(encoding="utf-8") == reference() else "docs/reference/cli.md is stale: make docs"
        )
    PAGE.write_text(reference(), encoding="utf-8")
