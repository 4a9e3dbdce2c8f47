"""Signatures of public methods: all keyword parameters by name, and a clear error for one that does not exist.

Methods declare shared groups of parameters as `**chosen: Unpack[Chosen]`. `parameters_of` lists the members of such
a group as if they were written out, and `checked_keywords` makes `help()` show them.
"""

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, TypeVar, Unpack, get_args, get_origin

from satchel.errors import ParameterError

__all__ = ["USUAL_NAMES", "checked_function", "checked_keywords", "nearest_name", "parameters_of"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "body": ("text",),
    "budget": ("token_budget", "max_tokens"),
    "change": ("change_description",),
    "content": ("text",),
    "description": ("change_description",),
    "id": ("identifier", "identifiers"),
    "k": ("limit",),
    "max_results": ("limit",),
    "file": ("location", "target", "source"),
    "max_tokens": ("token_budget",),
    "memory": ("text",),
    "message": ("text",),
    "n": ("limit",),
    "note": ("text",),
    "path": ("location", "target", "source"),
    "project": ("move_to",),
    "q": ("query",),
    "question": ("query",),
    "search_query": ("query",),
    "source": ("id",),
    "source_id": ("id", "source"),
    "tag": ("tags",),
    "target_id": ("target",),
    "threshold": ("min_relevance",),
    "tokens": ("token_budget", "max_tokens"),
    "token_budget": ("max_tokens", "budget"),
    "top_k": ("limit",),
    "topic": ("topic_key",),
    "type": ("kind",),
}
"""What other libraries call a parameter, and what it may be called here."""
_SCOPE = ("org", "project", "user", "agent", "session")


def parameters_of(method: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a method by name, without `self`.

    The members of `**options: Unpack[SomeTypedDict]` are listed as keyword parameters that are None by default.
    """
    found = _expanded(inspect.signature(method))
    found.pop("self", None)
    return found


def _expanded(signature: inspect.Signature) -> dict[str, inspect.Parameter]:
    found: dict[str, inspect.Parameter] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            found[name] = parameter
        elif get_origin(parameter.annotation) is Unpack:
            (group,) = get_args(parameter.annotation)
            for member, annotation in inspect.get_annotations(group).items():
                found[member] = inspect.Parameter(
                    member, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
                )
    return found


def checked_keywords(cls: type[T]) -> type[T]:
    """Make every public method of a class refuse an unknown keyword by name, with the nearest one that exists."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and name in vars(cls):
            setattr(cls, name, _checked(name, method))
    return cls


def checked_function(function: F) -> F:
    """Make a function refuse an unknown keyword as the methods of a checked class do."""
    return _checked(function.__name__, function)  # type: ignore[return-value]


def _checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    code = method.__code__
    known = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self"}

    @functools.wraps(method)
    def called(*args: Any, **options: Any) -> Any:
        for option in options:
            if option not in known:
                raise ParameterError(
                    f"{name}() has no parameter {option!r}; {_hint(option, parameters_of(method))}"
                )
        return method(*args, **options)

    if code.co_flags & inspect.CO_VARKEYWORDS:
        # Only where it differs from what `functools.wraps` shows: signatures take time at every start.
        signature = inspect.signature(method)
        listed = _expanded(signature)
        known |= listed.keys() - {"self"}
        called.__signature__ = signature.replace(parameters=list(listed.values()))  # type: ignore[attr-defined]
    return called


def nearest_name(option: str, known: Collection[str]) -> str | None:
    """Return the known name that an unknown one most likely stands for, or None."""
    from difflib import get_close_matches

    usual = [name for name in USUAL_NAMES.get(option, ()) if name in known]
    near = usual or get_close_matches(option, known, n=1)
    return near[0] if near else None


def _hint(option: str, known: dict[str, inspect.Parameter]) -> str:
    if near := nearest_name(option, known):
        return f"did you mean {near}?"
    if option in _SCOPE:
        return f"use bag.scoped({option}=…) to read and write inside one {option}"
    return f"it takes {', '.join(known) or 'none'}"
