"""Arguments of MCP tools: the JSON schemas of parameters, and how the arguments of a call are read.

Models and clients are careless, so reading is lenient. What a tool does not know is left aside and named in a
remark, never refused. An empty value means that an argument is not given. A value that cannot be used is an
`InputError`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from reprlib import repr as shortened
from typing import Any, NamedTuple, TypeVar

import msgspec

from satchel.errors import BudgetError, InputError, SatchelError
from satchel.model.checks import check_budget, check_known
from satchel.model.signatures import USUAL_NAMES, nearest_name

__all__ = [
    "MAX_TOKENS",
    "Arguments",
    "Parameter",
    "Schema",
    "choice",
    "flag",
    "ids",
    "line",
    "number",
    "read_arguments",
    "schema",
    "tags",
    "text",
    "with_remark",
    "words",
]

MAX_LINE = 10_000
MAX_TEXT = 4_000_000

Schema = dict[str, Any]
Error = TypeVar("Error", bound=SatchelError)


class Parameter(NamedTuple):
    """A parameter of a tool: its JSON schema, and how an argument is read."""

    schema: Schema
    read: Callable[[str, Any], Any]
    """Checks and converts an argument; takes its name and a value that is not null."""
    python_name: str | None = None
    """The Python name of the parameter; None if it is the same."""
    default: Any = None
    """The value if a call leaves it out; None means that it stays out."""
    takes_zero: bool = False
    """Whether 0 is a value of its own, as for a number of neighbours."""


def _typed(kind: str, about: str | None) -> Schema:
    return {"type": kind} if about is None else {"type": kind, "description": about}


def text(about: str | None = None) -> Parameter:
    """Return a parameter for a text of any length that can be stored."""
    return Parameter(_typed("string", about), lambda name, value: _string(name, value, MAX_TEXT))


def line(about: str | None = None) -> Parameter:
    """Return a parameter for a short text, such as a name or a question."""
    return Parameter(_typed("string", about), lambda name, value: _string(name, value, MAX_LINE))


def tags(about: str | None = None) -> Parameter:
    """Return a parameter for a list of names. Names in one string, separated by commas, are accepted too."""
    return Parameter(_typed("array", about) | {"items": {"type": "string"}}, _names)


def ids(about: str | None = None) -> Parameter:
    """Return a parameter for one id or several: in one string, or as a list."""
    return Parameter(_typed("string", about), _ids)


def choice(known: tuple[str, ...], about: str | None = None) -> Parameter:
    """Return a parameter that takes one of several words, in any case."""

    def read(name: str, value: object) -> object:
        meant = _normal(value)
        check_known(name, meant if meant in known else value, known)
        return meant

    return Parameter(_typed("string", about) | {"enum": list(known)}, read)


def words(known: tuple[str, ...], about: str | None = None) -> Parameter:
    """Return a parameter that takes one or several of these words, and does not list them: that costs tokens."""
    return Parameter(_typed("string", about), partial(_words, known))


def flag(about: str | None = None) -> Parameter:
    """Return a parameter that is true or false."""
    return Parameter(_typed("boolean", about), _flag)


def number(check: Callable[..., Any], about: str | None = None, *, whole: bool, takes_zero: bool) -> Parameter:
    """Return a parameter for a number that `check` accepts."""
    kind = "integer" if whole else "number"
    return Parameter(_typed(kind, about), partial(_number, check, whole=whole), takes_zero=takes_zero)


def schema(parameters: Mapping[str, Parameter], required: Iterable[str]) -> Schema:
    """Return the JSON schema of a tool's arguments."""
    said: Schema = {"type": "object", "properties": {name: each.schema for name, each in parameters.items()}}
    needed = list(required)
    return said | {"required": needed} if needed else said


# What a call gives.


class Arguments(NamedTuple):
    """The arguments of a call by their Python names, and what was left aside."""

    values: dict[str, Any]
    ignored: Mapping[str, str | None]
    """Names that the tool does not know, and the parameter that each may stand for."""
    renamed: Mapping[str, str]
    """Names that were taken for a parameter that the tool needs."""

    @property
    def remark(self) -> str:
        """What to tell the model in one line; empty if all of its arguments were understood."""
        said = [f"{_shown(name)} was read as {meant}" for name, meant in self.renamed.items()]
        if len(self.ignored) == 1:
            ((name, meant),) = self.ignored.items()
            said.append(f"ignored: {_shown(name)}" + (f"; did you mean {meant}?" if meant else ""))
        elif self.ignored:
            some = [
                _shown(name) + (f" (did you mean {meant}?)" if meant else "")
                for name, meant in list(self.ignored.items())[:MOST_NAMED]
            ]
            more = len(self.ignored) - len(some)
            said.append("ignored: " + ", ".join(some) + (f" and {more:,} more" if more else ""))
        return "; ".join(said)


MOST_NAMED = 5
# Other names that are accepted without a remark.
_SAME = {
    "id": ("ids", "memory_id", "memory_ids", "identifier", "identifiers"),
    "max_tokens": ("token_budget",),
}


def read_arguments(
    tool: str, parameters: Mapping[str, Parameter], required: Iterable[str], arguments: Mapping[str, Any]
) -> Arguments:
    """Return the arguments of a call, checked.

    An empty value (null, "", [] or 0) is not given, unless the parameter is required or takes 0. If a call has
    every parameter of the tool, its schema was made strict and the model had to fill in all of them; then 0 and
    false say nothing either. Unknown arguments are ignored. One of them is taken for a required parameter that is
    missing if it is the only usual name for it, such as `content` for `text`.
    """
    needed = tuple(required)
    given = _under_own_names(parameters, arguments)
    ignored = {
        name: _meant(name, parameters) for name in given if name not in parameters and given[name] is not None
    }
    renamed = _renamed(parameters, needed, given, ignored)
    for name, meant in renamed.items():
        given[meant] = given[name]
        del ignored[name]
    filled = given.keys() >= parameters.keys()
    paging = not _says_nothing(given.get("cursor"))
    kept = {
        name: value
        for name, value in given.items()
        if name in parameters
        and not (value is None if name in needed and not paging else _left_out(parameters[name], value, filled))
    }
    result = Arguments({}, ignored, renamed)
    try:
        read = {name: parameters[name].read(name, value) for name, value in kept.items()}
        for name in needed:
            # A cursor says it all.
            if name not in read and not paging:
                raise InputError(f"{tool} needs {name}")
    except InputError as error:
        raise with_remark(error, result.remark) from error
    defaults = {name: each.default for name, each in parameters.items() if each.default is not None}
    values = {parameters[name].python_name or name: value for name, value in (defaults | read).items()}
    return result._replace(values=values)


def with_remark(error: Error, remark: str) -> Error:
    """Return an error of the same type that also says what was ignored."""
    return type(error)(f"{error}; {remark}") if remark else error


def _under_own_names(parameters: Mapping[str, Parameter], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with other names of the same thing replaced; two that differ are an error."""
    given = dict(arguments)
    for own, others in _SAME.items():
        for other in others:
            if own not in parameters or other in parameters or _left_out(parameters[own], given.get(other)):
                continue
            if _left_out(parameters[own], given.get(own)):
                given[own] = given.pop(other)
            elif parameters[own].read(other, given[other]) == parameters[own].read(own, given[own]):
                del given[other]
            else:
                raise InputError(f"{own} and {other} are two names of one thing; give one of them")
    return given


def _renamed(
    parameters: Mapping[str, Parameter],
    needed: Iterable[str],
    given: Mapping[str, Any],
    ignored: Mapping[str, str | None],
) -> dict[str, str]:
    """Return the ignored names that stand for a required parameter which is missing, and no other name does."""
    found: dict[str, str] = {}
    for name in needed:
        if given.get(name) is None:
            usual = [other for other in ignored if name in USUAL_NAMES.get(other, ())]
            if len(usual) == 1 and isinstance(given[usual[0]], str):
                found[usual[0]] = name
    return found


def _meant(name: str, parameters: Mapping[str, Parameter]) -> str | None:
    return nearest_name(name[:100], parameters)


def _shown(name: str) -> str:
    """Return a name as it may stand in an answer: short, and nothing that could pass for something else."""
    return name if name.isidentifier() and len(name) <= 40 else shortened(name)


def _left_out(parameter: Parameter, value: object, filled: bool = False) -> bool:
    if isinstance(value, bool):
        return filled and value is False
    if isinstance(value, int | float) and value == 0:
        return filled or not parameter.takes_zero
    return _says_nothing(value)


def _says_nothing(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, list):
        return all(isinstance(each, str) and not each.strip() for each in value)
    return value is None


# Values.


def _string(name: str, value: object, most: int) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, not {type(value).__name__}")
    if len(value) > most:
        raise InputError(f"{name} has {len(value):,} characters; the most is {most:,}")
    return value


def _names(name: str, value: object, *, separator: str | None = ",") -> list[str]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise InputError(f"{name} {shortened(value)} is not a list of strings") from None
    found = _split(_string(name, value, MAX_TEXT), separator) if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InputError(f"{name} must be a list of strings, not {shortened(value)}")
    if len(found) > MAX_LINE:
        raise InputError(f"{name} has {len(found):,} entries; the most is {MAX_LINE:,}")
    return [_string(name, each, MAX_LINE) for each in found if each.strip()]


def _split(names: str, separator: str | None) -> list[str]:
    return [part for each in names.split(separator) if (part := each.strip())]


def _ids(name: str, value: object) -> list[str]:
    plain = value.replace(",", " ") if isinstance(value, str) and not value.lstrip().startswith("[") else value
    return list(dict.fromkeys(_names(name, plain, separator=None)))


def _normal(value: object) -> object:
    return value.strip().lower().replace(" ", "_").replace("-", "_") if isinstance(value, str) else value


def _words(known: tuple[str, ...], name: str, value: object) -> list[str]:
    found = _names(name, value)
    for each in found:
        if _normal(each) not in known:
            check_known(name, each, known)
    return [str(_normal(each)) for each in found]


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, not {shortened(value)}")
    return value


def _number(check: Callable[..., Any], name: str, value: object, *, whole: bool) -> Any:
    return check(_whole_number(name, value) if whole else value, name=name)


def _whole_number(name: str, value: object) -> object:
    """Accept whole numbers as ints, digits, or floats without a fraction, since JSON has one type of number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int | str):
        raise InputError(f"{name} {shortened(value)} is not a whole number")
    return value if isinstance(value, int) else value[:40]


def _budget(name: str, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | str):
        raise BudgetError(f"{name} {shortened(value)} is not a whole number of tokens")
    budget = check_budget(value if isinstance(value, int) else value[:40])
    assert budget is not None
    return budget


MAX_TOKENS = Parameter(_typed("integer", "of the answer"), _budget, "token_budget")
