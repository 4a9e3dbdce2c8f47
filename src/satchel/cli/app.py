"""The command `satchel`: its commands by name, each imported when it is called, and how it ends."""

import importlib
import os
import sys
from collections.abc import Sequence

import click

from satchel import __version__
from satchel.errors import InputError, SatchelError

__all__ = ["app", "main", "run"]

FAILURE = 1
BAD_INPUT = 2
INTERRUPTED = 130

COMMANDS = {
    "add": "satchel.cli.save",
    "get": "satchel.cli.show",
    "list": "satchel.cli.show",
    "search": "satchel.cli.find",
    "context": "satchel.cli.find",
    "context-pack": "satchel.cli.find",
    "update": "satchel.cli.save",
    "forget": "satchel.cli.save",
    "relate": "satchel.cli.save",
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
    "mcp": "satchel.cli.serve",
    "gateway": "satchel.cli.serve",
    "serve": "satchel.cli.serve",
    "token": "satchel.cli.serve",
    "budget": "satchel.cli.sessions",
    "db": "satchel.cli.database",
    "completion": "satchel.cli.upkeep",
}


class LazyCommands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(COMMANDS)}"
            raise InputError(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="satchel %(version)s")
@click.option("--db", metavar="STORE", help="A file or postgresql://…; SATCHEL_DB or the user's data folder else.")
@click.option(
    "--embedder",
    metavar="SPEC",
    help="Who makes vectors: minilm, static, none, sentence-transformers:NAME_OR_PATH or openai:MODEL[@BASE_URL]; "
    "SATCHEL_EMBEDDER or the store's own else.",
)
@click.pass_context
def app(ctx: click.Context, db: str | None, embedder: str | None) -> None:
    """Memory for LLM agents that fits the token budget you give it."""
    if embedder is not None:
        from satchel.embed.embedder import resolve_embedder

        # Most commands embed nothing; a wrong word is wrong before all of them.
        resolve_embedder(embedder)
    ctx.obj = {"db": db, "embedder": embedder}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code: 2 for bad input, 1 for a failure."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; an error is one line on stderr."""
    try:
        # Click hands back the code of an early exit, such as that of --help, and None otherwise.
        code = app.main(args=arguments, prog_name="satchel", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(error.format_message() + "\n")
        return BAD_INPUT
    except click.UsageError as error:
        where = f"; see `{error.ctx.command_path} --help`" if error.ctx else ""
        return _complain(error.format_message().rstrip(".") + where, BAD_INPUT)
    except click.ClickException as error:
        return _complain(error.format_message(), BAD_INPUT)
    except InputError as error:
        return _complain(str(error), BAD_INPUT)
    except SatchelError as error:
        return _complain(str(error), FAILURE)
    except (click.Abort, KeyboardInterrupt) as stop:
        return _complain(str(stop) or "stopped", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not try to flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except OSError as error:
        return _complain(f"{error.filename or 'output'}: {error.strerror}", FAILURE)
    except Exception as error:
        if os.environ.get("SATCHEL_DEBUG"):
            raise
        what = f"unexpected {type(error).__name__}: {error}; SATCHEL_DEBUG=1 shows where"
        return _complain(what, FAILURE)
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    from satchel.text.redact import masked_line

    if sys.stderr is not None:
        sys.stderr.write(f"satchel: {masked_line(message)}\n")
    return code
