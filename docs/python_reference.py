"""Writes the generated parts of docs/reference/python.md: python docs/python_reference.py [--check].

Signatures come from `inspect`, so that shared keyword parameters are listed by name. Fields and their descriptions
come from the source of each class: annotations, the strings below them, and properties.
"""

import ast
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from generated import write

import satchel
from satchel import errors
from satchel.api.filters import When
from satchel.api.parameters import FIELDS
from satchel.fitting.listing import Detail
from satchel.model.memory import Kind, RelationKind, Status, Tier
from satchel.model.packing import Format, PolicyName
from satchel.model.result import Result
from satchel.model.signatures import parameters_of

PAGE = Path(__file__).parent / "reference/python.md"
WIDTH = 100

OPENING = ("open", "aopen", "restore")
MAIN_CLASSES = ("Satchel", "Session", "AsyncSatchel", "AsyncSession")
TYPES: dict[str, Any] = {
    "Kind": Kind,
    "Tier": Tier,
    "Status": Status,
    "RelationKind": RelationKind,
    "Detail": Detail,
    "Format": Format,
    "PolicyName": PolicyName,
    "When": When,
    "Hints": satchel.Hints,
    "Holds": satchel.Holds,
}


def types_table() -> Iterator[str]:
    yield "| type | values |\n|---|---|"
    for name, value in TYPES.items():
        if get_origin(value) is Literal:
            said = ", ".join(f'`"{each}"`' for each in get_args(value))
        else:
            said = in_cell(spelled(value, named=False))
        yield f"| `{name}` | {said} |"


def opening() -> Iterator[str]:
    for name in OPENING:
        yield from function(f"satchel.{name}", getattr(satchel, name))


def functions() -> Iterator[str]:
    for name in satchel.__all__:
        found = getattr(satchel, name)
        if inspect.isfunction(found) and name not in OPENING:
            yield from function(f"satchel.{name}", found)


def methods(cls: type) -> Callable[[], Iterator[str]]:
    """The methods and properties of a class: a table of all, then each with its signature."""

    def lines() -> Iterator[str]:
        members = {
            name: member
            for name, member in vars(cls).items()
            if not name.startswith("_") and (isinstance(member, property) or inspect.isfunction(member))
        }
        yield "| member | what it does |\n|---|---|"
        for name, member in members.items():
            # As GitHub makes the anchor of a heading: lower case, without dots.
            yield f"| [`{name}`](#{cls.__name__.lower()}{name}) | {first_sentence(member)} |"
        yield ""
        for name, member in members.items():
            if isinstance(member, property):
                yield f"### {cls.__name__}.{name}\n\n{described(member)}\n"
            else:
                yield from function(f"{cls.__name__}.{name}", member)

    return lines


def results() -> Iterator[str]:
    """Every public class beside the main ones and the errors, with its fields."""
    for name in satchel.__all__:
        found = getattr(satchel, name)
        if not inspect.isclass(found) or name in MAIN_CLASSES or name in errors.__all__:
            continue
        yield f"### {name}\n\n{described(found)}\n"
        fields = list(fields_of(found))
        if any(field.about for field in fields):
            yield "| field | type | meaning |\n|---|---|---|"
            yield from (f"| `{each.name}` | {in_cell(each.type)} | {escaped(each.about)} |" for each in fields)
            yield ""
        elif fields:
            yield "Fields: " + ", ".join(f"`{each.name}: {each.type}`" for each in fields) + ".\n"
        for each in methods_of(found):
            yield f"* `{each.name}{signature(each.function)}`: {first_sentence(each.function)}"
        if any(methods_of(found)):
            yield ""


def problems() -> Iterator[str]:
    yield "| error | is a | when |\n|---|---|---|"
    for name in errors.__all__:
        error = getattr(errors, name)
        about = " ".join((inspect.getdoc(error) or "").split())
        yield f"| `{name}` | `{error.__mro__[1].__name__}` | {about} |"


def function(name: str, found: Callable[..., Any]) -> Iterator[str]:
    yield f"### {name}\n\n```text\n{declaration(name, found)}\n```\n\n{described(found)}\n"


def declaration(name: str, found: Callable[..., Any]) -> str:
    """A signature on one line, or one parameter a line where that is too long."""
    short = name.rpartition(".")[2]
    line = f"{short}{signature(found)}"
    if len(line) <= WIDTH:
        return line
    listed = "".join(f"    {each},\n" for each in parameters(found))
    return f"{short}(\n{listed}){returned(found)}"


def signature(found: Callable[..., Any]) -> str:
    return f"({', '.join(parameters(found))}){returned(found)}"


def parameters(found: Callable[..., Any]) -> Iterator[str]:
    keywords = False
    for name, each in parameters_of(found).items():
        if each.kind is each.KEYWORD_ONLY and not keywords:
            keywords = True
            yield "*"
        keywords |= each.kind is each.VAR_POSITIONAL
        stars = "*" * ((each.kind is each.VAR_POSITIONAL) + 2 * (each.kind is each.VAR_KEYWORD))
        typed = "" if each.annotation is each.empty else f": {spelled(each.annotation)}"
        yield f"{stars}{name}{typed}{default_of(each)}"


def default_of(parameter: inspect.Parameter) -> str:
    """The default as it is written; of a member of a group that takes no None, that it may be left out."""
    if parameter.default is parameter.empty:
        return ""
    if parameter.default is None and not spelled(parameter.annotation).endswith(("None", "Any")):
        return " = ..."
    return f" = {parameter.default!r}"


def returned(found: Callable[..., Any]) -> str:
    answer = inspect.signature(found).return_annotation
    return "" if answer is inspect.Signature.empty else f" -> {spelled(answer)}"


def spelled(type_: Any, *, named: bool = True) -> str:
    """A type as a reader writes it, with the names of the table of types."""
    if isinstance(type_, str):
        return type_
    if type_ is None or type_ is type(None):
        return "None"
    if type_ is ...:
        return "..."
    if named:
        for name, value in TYPES.items():
            if type_ == value:
                return name
    origin = get_origin(type_)
    if origin in (Union, types.UnionType):
        return " | ".join(alternatives(get_args(type_), named=named))
    if origin is Literal:
        return " | ".join(repr(each) for each in get_args(type_))
    if origin is None:
        return str(getattr(type_, "__name__", type_))
    inner = ", ".join(
        f"[{', '.join(spelled(one) for one in each)}]" if isinstance(each, list) else spelled(each)
        for each in get_args(type_)
    )
    return f"{origin.__name__}[{inner}]"


def alternatives(members: tuple[Any, ...], *, named: bool) -> Iterator[str]:
    """The members of a union, of which several together may have a name."""
    rest = list(members)
    for name, value in TYPES.items() if named else ():
        parts = get_args(value) if get_origin(value) in (Union, types.UnionType) else ()
        if parts and all(part in rest for part in parts):
            rest = [each for each in rest if each not in parts]
            yield name
    yield from (spelled(each, named=named) for each in rest if each is not type(None))
    if type(None) in rest:
        yield "None"


class Field(NamedTuple):
    name: str
    type: str
    about: str


class Method(NamedTuple):
    name: str
    function: Callable[..., Any]


def fields_of(cls: type) -> Iterator[Field]:
    """The public fields and properties of a class and its bases, in the order of the source."""
    seen = set()
    for base in reversed(bases_of(cls)):
        tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for field in declared(tree.body, vars(inspect.getmodule(base))):
            if not field.name.startswith("_") and field.name not in seen:
                seen.add(field.name)
                known = (
                    FIELDS[field.name].help
                    if base in (satchel.Memory, satchel.Draft) and field.name in FIELDS
                    else ""
                )
                yield field._replace(about=field.about or known)


def declared(body: list[ast.stmt], module: Mapping[str, Any]) -> Iterator[Field]:
    for place, node in enumerate(body):
        below = body[place + 1] if place + 1 < len(body) else None
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if not ast.unparse(node.annotation).startswith("ClassVar"):
                yield Field(node.target.id, plain(node.annotation), string(below))
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from assigned(node, module)
        elif isinstance(node, ast.FunctionDef) and any(is_property(each) for each in node.decorator_list):
            about = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
            yield Field(node.name, plain(node.returns) if node.returns else "", about)


def assigned(init: ast.FunctionDef, module: Mapping[str, Any]) -> Iterator[Field]:
    """What `__init__` sets, with the type of the argument, or of the argument's field, that it is set to."""
    arguments = {each.arg: each.annotation for each in (*init.args.args, *init.args.kwonlyargs)}
    for place, node in enumerate(init.body):
        below = init.body[place + 1] if place + 1 < len(init.body) else None
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(target, ast.Attribute):
            continue
        annotation = getattr(node, "annotation", None)
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call) and value.args:
            value = value.args[0]  # tuple(hits) has about the type of hits
        if annotation is None and isinstance(value, ast.Name):
            annotation = arguments.get(value.id)
        type_ = plain(annotation) if annotation else ""
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            owner = arguments.get(value.value.id)
            fields = inspect.get_annotations(module.get(plain(owner), object)) if owner else {}
            type_ = type_ or spelled(fields.get(value.attr, ""))
        yield Field(target.attr, type_, string(below))


def is_property(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).rpartition(".")[2] in ("property", "cached_property")


def plain(annotation: ast.expr) -> str:
    """An annotation without quotes and without what only checkers read."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("Annotated"):
        assert isinstance(annotation.slice, ast.Tuple)
        return plain(annotation.slice.elts[0])
    return ast.unparse(annotation).replace("'", '"')


def string(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(inspect.cleandoc(node.value.value).split())
    return ""


def methods_of(cls: type) -> list[Method]:
    """The public methods that a class of values defines itself, with a docstring."""
    found = {
        name: member
        for base in reversed(bases_of(cls))
        if base is not Result  # its methods are those of every result, and described once
        for name, member in vars(base).items()
        if not name.startswith("_") and isinstance(member, types.FunctionType | classmethod | staticmethod)
    }
    plain_functions = {name: getattr(cls, name) for name in found}
    return [Method(name, each) for name, each in plain_functions.items() if inspect.getdoc(each)]


def bases_of(cls: type) -> list[type]:
    return [each for each in cls.__mro__ if each.__module__.startswith("satchel.")]


def in_cell(type_: str) -> str:
    return escaped(f"`{type_}`") if type_ else ""


def escaped(text: str) -> str:
    """A text for a cell of a table."""
    return text.replace("|", "\\|")


def described(found: Any) -> str:
    said = inspect.getdoc(found) or ""
    # A NamedTuple without a docstring of its own has its signature instead.
    return "" if said.startswith(f"{getattr(found, '__name__', '')}(") else said


def first_sentence(found: Any) -> str:
    first = " ".join(described(found).split("\n\n")[0].split())
    return first.partition(". ")[0].rstrip(".") + "."


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "types": types_table,
    "opening": opening,
    "satchel": methods(satchel.Satchel),
    "session": methods(satchel.Session),
    "functions": functions,
    "results": results,
    "errors": problems,
}

if __name__ == "__main__":
    write(PAGE, PARTS)
