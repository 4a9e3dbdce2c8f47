"""The command line: it parses, calls `Satchel`, prints; nothing else."""

import os
import sys
from collections.abc import Sequence

import click

from satchel.errors import InputError, SatchelError

__all__ = ["main"]

FAILURE = 1
BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code: 2 for bad input, 1 for a failure."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    from satchel.cli.app import app

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
