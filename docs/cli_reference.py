"""Writes docs/reference/cli.md from the commands: python docs/cli_reference.py [--check]."""

import sys
from pathlib import Path

import click

from satchel.cli.app import app

PAGE = Path(__file__).parent / "reference/cli.md"

HEADING = """\
# The `satchel` command

This page is the reference of the command line: every command with its options, as `--help` prints it.
`make docs` writes it from the commands; do not edit it.

These apply to all commands:

* `--db STORE` is a file or `postgresql://…`, given before or after the name of the command.
  Default: `$SATCHEL_DB`, then `satchel.db` in the user data directory.
* `--embedder SPEC` chooses what makes vectors:
  `minilm`, `static`, `none`, `sentence-transformers:NAME_OR_PATH` or `openai:MODEL[@BASE_URL]`.
  Default: `$SATCHEL_EMBEDDER`, then the embedder of the store, then `minilm`.
  Only commands that embed something use it. If another embedder made the vectors of the store, the command
  fails and names `satchel reembed`.
* Results go to standard output, messages to standard error.
* On a terminal, tables are cut to its width. With `NO_COLOR` or `TERM=dumb` no escape sequence is printed.
* Exit codes: 0 success, 1 failure, 2 bad input (nothing was changed), 130 interrupted by Ctrl-C.
"""


def reference() -> str:
    context = app.context_class(app, info_name="satchel", max_content_width=100, terminal_width=100)
    parts = [HEADING]
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        parts += sections(command, name, context)
    return "\n".join(parts)


def sections(command: click.Command, name: str, parent: click.Context) -> list[str]:
    """Return the help of a command, then that of its subcommands."""
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=100)
    found = [f"## {context.command_path.split(' [')[0]}\n\n```text\n{command.get_help(context)}\n```\n"]
    if isinstance(command, click.Group):
        for inner_name in command.list_commands(context):
            inner = command.get_command(context, inner_name)
            assert inner is not None
            found += sections(inner, inner_name, context)
    return found


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0 if PAGE.read_text(encoding="utf-8") == reference() else "docs/reference/cli.md is stale: make docs"
        )
    PAGE.write_text(reference(), encoding="utf-8")
