"""Options that several commands share."""

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from satchel.api.operations import Offered, offered
from satchel.api.parameters import OPTIONS, Limit, Shape, shape_of
from satchel.api.satchel import Satchel
from satchel.cli.output import counting_bar, note
from satchel.cli.store_options import Command, about_this_store, named_scope
from satchel.errors import BudgetError, EmbedderError, InputError
from satchel.fitting.listing import DETAILS
from satchel.model.checks import expanded
from satchel.model.scope_fields import SCOPE_FIELDS

__all__ = [
    "LIMIT",
    "decode",
    "detail_option",
    "embed_waiting",
    "json_option",
    "operation_options",
    "plot_option",
    "read_file",
    "read_stdin",
    "stdin",
]


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def operation_options(method: str) -> Callable[[Command], Command]:
    """Add the arguments and options of an operation, as the table of operations gives them.

    The command gets what was typed as two dictionaries: `given` has the arguments of the method by their Python
    names, and `scope` the fields of the scope. What has neither a value nor a default is in neither.

    The options are added when the command is needed, by the attribute `complete` of its callback: a module has
    several commands, and making the options of one takes 2 ms.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(*args: Any, **options: Any) -> Any:
            typed = [(each, options.pop(each.python_name)) for each in offered(method, "cli")]
            given = {each.python_name: _joined(value) for each, value in typed if not _absent(each, value)}
            scope = named_scope({name: given.pop(name, None) for name in SCOPE_FIELDS})
            try:
                return command(*args, given=given, scope=scope, **options)
            except BudgetError as error:
                raise BudgetError(str(error).replace("pins=best_effort", "--pins best_effort")) from error

        below = len(getattr(command, "__click_params__", ()))
        wrapped.complete = functools.cache(functools.partial(_complete, method=method, below=below))  # type: ignore[attr-defined]
        return wrapped

    return decorate


def _complete(command: click.Command, *, method: str, below: int) -> None:
    """Add the options of an operation to a command, before its last `below` parameters."""

    def holder() -> None:
        """Takes the options as a command does."""

    for parameter in reversed(offered(method, "cli")):
        _parameter(parameter)(holder)
    place = len(command.params) - below
    command.params[place:place] = reversed(getattr(holder, "__click_params__", ()))


def _joined(value: Any) -> Any:
    """The values of an option; several KEY=VALUE are one dictionary."""
    if isinstance(value, tuple) and all(isinstance(each, dict) for each in value):
        return {key: content for each in value for key, content in each.items()}
    return value


def _absent(parameter: Offered, value: object) -> bool:
    """Whether an option was neither typed nor has a default: an empty list, or a flag that is not set."""
    return value is None or value == () or (value is False and parameter.default is False)


def detail_option(default: str) -> Callable[[Command], Command]:
    """--detail, for commands that list memories without a method that takes it."""
    kinds = click.Choice(DETAILS)
    return click.option("--detail", type=kinds, default=default, show_default=True, help=OPTIONS["detail"].help)


def _parameter(parameter: Offered) -> Callable[[Command], Command]:
    """The argument or option of a command for a parameter."""
    shape, about = parameter.shape, parameter.about
    if parameter.positional:
        metavar = (about.metavar or parameter.name.upper()) + ("…" if shape.several else "")
        metavar = metavar if parameter.required else f"[{metavar}]"
        many = -1 if shape.several else 1
        return click.argument(parameter.python_name, required=parameter.required, metavar=metavar, nargs=many)
    return click.option(*_spellings(parameter), parameter.python_name, **_option_settings(parameter))


def _spellings(parameter: Offered) -> list[str]:
    """The names of an option: the short one of the command line, and the Python name where it differs."""
    names = dict.fromkeys(f"--{name.replace('_', '-')}" for name in (parameter.name, parameter.python_name))
    if parameter.shape.base is bool and parameter.default is None:
        return [f"{name}/--not-{name[2:]}" for name in names]
    return list(names)


def _option_settings(parameter: Offered) -> dict[str, Any]:
    shape, about = parameter.shape, parameter.about
    settings: dict[str, Any] = {"help": about.help, "default": parameter.default}
    if shape.base is bool:
        return settings if parameter.default is None else settings | {"is_flag": True}
    if shape.base is dict:
        settings |= {"type": _Values(), "multiple": True, "help": f"{about.help} Repeatable."}
    elif shape.choices:
        settings["type"] = click.Choice(shape.choices)
    elif shape.check is not None:
        settings["type"] = _Checked(shape)
    if about.metavar and shape.base is not dict:
        settings["metavar"] = about.metavar
    if shape.several:
        settings |= {"multiple": True, "help": f"{about.help} Repeatable."}
    return settings | {"show_default": parameter.default is not None}


class _Checked(click.ParamType[Any]):
    """A number that the check of its parameter reads."""

    name = "number"

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        assert param is not None
        assert self._shape.check is not None
        if self._shape.base is float and isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = float(value)
        return self._shape.check(value, name=param.name)


class _Values(click.ParamType[dict[str, Any]]):
    """KEY=VALUE, or a JSON object. A value that is JSON is taken as such, anything else as text."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        whole = _json_or_text(value)
        if isinstance(whole, dict):
            return whole
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            option = "" if param is None else f"{param.opts[0]} "
            raise InputError(f'{option}{value!r} is not KEY=VALUE; write it as pr=12 or {{"pr": 12}}')
        return {key.strip(): _json_or_text(text)}


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


LIMIT = _Checked(shape_of(Limit))


# Options of commands whose text fits a budget


def _checked_plot(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and str(value) == "-":
        raise InputError("--plot needs a file, since standard output has the text; such as --plot context.svg")
    if value is not None and value.suffix.lower() not in ("", ".svg"):
        raise InputError(f"--plot draws an SVG, not a {value.suffix} file; name it {value.with_suffix('.svg')}")
    if value is not None:
        from satchel.api.transfer import check_target

        # Before anything counts as used.
        check_target(expanded(value))
    return value


plot_option = click.option(
    "--plot",
    metavar="FILE.svg",
    type=click.Path(path_type=Path),
    callback=_checked_plot,
    help="Also draw where the tokens went, into this file.",
)


# Vectors that a command makes before it ends, since nothing goes on after it


def embed_waiting(bag: Satchel, db: str | None) -> None:
    """Embed what a write has left waiting, with a bar; what cannot be embedded now is said and waits on.

    Ctrl-C ends the command and says how many memories wait, and how to go on.
    """
    try:
        total = bag.waiting
        if total:
            with counting_bar("embedding", total) as show:
                bag.catch_up(progress=lambda done: show(done, max(done, total)))
    except EmbedderError as error:
        note(str(error))
    except KeyboardInterrupt:
        advice = (
            f"stopped; all is stored, and {bag.waiting:,} wait for their vectors, found by their words "
            "meanwhile: `satchel reembed` makes them"
        )
        raise click.Abort(about_this_store(advice, db)) from None


# Reading what the user names


def read_stdin() -> str:
    """Standard input as text, or an error that says it is not UTF-8."""
    return decode(stdin().read(), "standard input")


def stdin() -> IO[bytes]:
    """Return standard input as bytes. Someone who types is told how to end it."""
    if sys.stdin is None:
        raise InputError("standard input is closed; there is nothing to read")
    if sys.stdin.isatty():
        note("reading from the terminal; Ctrl-D on an empty line ends the text")
    return sys.stdin.buffer


def read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


def decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: byte {error.start} cannot be read") from None
