"""The command `satchel`: its commands by name, each imported when it is called, and how it ends.

`satchel.__main__` starts it. An error is one line on standard error, and the exit code says whose fault it was.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from satchel import __version__
from satchel.cli.help import TYPED
from satchel.cli.lazy import ModuleCommands
from satchel.errors import InputError, SatchelError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["app", "main", "run"]

FAILURE = 1
BAD_INPUT = 2
INTERRUPTED = 130

COMMANDS = {
    "add": "satchel.cli.save",
    "get": "satchel.cli.show",
    "list": "satchel.cli.show",
    "search": "satchel.cli.search",
    "context": "satchel.cli.context",
    "context-pack": "satchel.cli.context",
    "update": "satchel.cli.save",
    "edit": "satchel.cli.edit",
    "forget": "satchel.cli.forget",
    "unforget": "satchel.cli.forget",
    "relate": "satchel.cli.save",
    "unrelate": "satchel.cli.save",
    "projects": "satchel.cli.show",
    "tags": "satchel.cli.show",
    "similar": "satchel.cli.show",
    "timeline": "satchel.cli.show",
    "history": "satchel.cli.show",
    "stats": "satchel.cli.show",
    "export": "satchel.cli.transfer",
    "import": "satchel.cli.transfer",
    "backup": "satchel.cli.transfer",
    "restore": "satchel.cli.transfer",
    "migrate": "satchel.cli.transfer",
    "doctor": "satchel.cli.upkeep",
    "reembed": "satchel.cli.upkeep",
    "tokens": "satchel.cli.upkeep",
    "mcp": "satchel.cli.mcp",
    "gateway": "satchel.cli.gateway",
    "serve": "satchel.cli.serve",
    "token": "satchel.cli.serve",
    "budget": "satchel.cli.sessions",
    "db": "satchel.cli.database",
    "completion": "satchel.cli.upkeep",
}


ALIASES = {
    "remember": "add",
    "show": "get",
    "cat": "get",
    "ls": "list",
    "rm": "forget",
    "delete": "forget",
    "remove": "forget",
}
"""Other names that people try. Help lists only the command, and each command's help names its aliases."""


def _completing() -> bool:
    """Whether a shell asks for completions, and not a person for a command."""
    return "_SATCHEL_COMPLETE" in os.environ


class LazyCommands(ModuleCommands):
    """The commands by name or alias. A module is imported when one of its commands is needed."""

    modules = COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if (command := super().get_command(ctx, name)) is None:
            return None
        if aliases := [alias for alias, meant in ALIASES.items() if meant == name]:
            command.epilog = f"{'Alias' if len(aliases) == 1 else 'Aliases'}: {', '.join(aliases)}"
        if _completing():
            from satchel.cli.completion import complete_from_store

            complete_from_store(command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A command may print how to go on, such as the next page of a list.
        ctx.meta[TYPED] = tuple(args)
        if args and args[0] == "help":
            # `satchel help search` is `satchel search --help`.
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = [*COMMANDS, *ALIASES]
        # While a shell completes a line, a wrong word in it is nothing to complain about.
        if args and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(COMMANDS)}"
            raise InputError(f"there is no command {args[0]!r}; {hint}")
        name, command, left = super().resolve_command(ctx, args)
        # Messages name the command itself, whichever name was typed.
        return (ALIASES.get(name, name) if name else None), command, left

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Offer the commands, and an alias only where no command begins like this."""
        found = super().shell_complete(ctx, incomplete)
        if not found and incomplete:
            from click.shell_completion import CompletionItem

            found = [CompletionItem(alias) for alias in ALIASES if alias.startswith(incomplete)]
        return found


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="satchel %(version)s")
@click.option(
    "--db", metavar="STORE", help="A file or postgresql://…. Default: $SATCHEL_DB, then the user data directory."
)
@click.option(
    "--embedder",
    metavar="SPEC",
    help="What makes vectors: minilm, static, none, sentence-transformers:NAME_OR_PATH or openai:MODEL[@BASE_URL]. "
    "Default: $SATCHEL_EMBEDDER, then the embedder of the store.",
)
@click.pass_context
def app(ctx: click.Context, db: str | None, embedder: str | None) -> None:
    """Memory for LLM agents that fits the token budget you give it."""
    if embedder is not None:
        from satchel.embed.embedder import resolve_embedder

        # Also for commands that embed nothing: a wrong name is an error everywhere.
        resolve_embedder(embedder)
    ctx.obj = {"db": db, "embedder": embedder}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code: 0 for success, 2 for bad input, 1 for a failure, 130 for Ctrl-C."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; an error is one line on standard error."""
    if _completing():
        return _complete(arguments)
    try:
        # Click returns the code of an early exit, such as that of --help, and None otherwise.
        code = app.main(args=arguments, prog_name="satchel", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(error.format_message() + "\n")
        return BAD_INPUT
    except click.UsageError as error:
        message = error.format_message().rstrip(".").replace(". Did you mean", "; did you mean")
        where = f"see `{error.ctx.command_path} --help`" if error.ctx else ""
        return _complain(
            f"{message}{'' if message.endswith('?') else ';'} {where}" if where else message, BAD_INPUT
        )
    except click.ClickException as error:
        return _complain(error.format_message(), BAD_INPUT)
    except InputError as error:
        return _complain(str(error), BAD_INPUT)
    except SatchelError as error:
        return _complain(str(error), FAILURE)
    except (click.Abort, KeyboardInterrupt) as stop:
        return _complain(str(stop) or "stopped", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, and Python must not try to flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except OSError as error:
        return _complain(f"{error.filename or 'output'}: {error.strerror}", FAILURE)
    except Exception as error:
        if _was_interrupted(error):
            return _complain("stopped", INTERRUPTED)
        if os.environ.get("SATCHEL_DEBUG"):
            raise
        what = f"unexpected {type(error).__name__}: {error}; SATCHEL_DEBUG=1 shows where"
        return _complain(what, FAILURE)
    return code if isinstance(code, int) else 0


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: modules in C may turn it into an ImportError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _complete(arguments: Sequence[str] | None) -> int:
    """Print what a shell may offer. Whatever goes wrong, nothing is printed into the line that someone types."""
    try:
        app.main(args=arguments, prog_name="satchel", standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILURE
    except Exception:
        if os.environ.get("SATCHEL_DEBUG"):
            raise
    return FAILURE


def _complain(message: str, code: int) -> int:
    from satchel.model.invisible import visible
    from satchel.text.redact import masked_line

    if sys.stderr is not None:
        sys.stderr.write(f"satchel: {masked_line(visible(message))}\n")
    return code
