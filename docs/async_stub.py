"""Writes src/satchel/api/aio.pyi, the types of the async twins: python docs/async_stub.py [--check].

The signatures are read from the source of `Satchel` and `Session`. Each method becomes `async def` with the same
parameters. It returns what the original returns, but a list for an iterator and the twin for a `Session`.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from satchel.api.asynchronous import NOT_AWAITED

SOURCE = Path(__file__).parents[1] / "src"
STUB = SOURCE / "satchel/api/aio.pyi"
WIDTH = 116
TWINS = {"Session": "AsyncSession", "Satchel": "AsyncSatchel", "Iterator": "list"}

HEADER = "# `make docs` writes this file from the signatures of Satchel and Session; do not edit it.\n"
OPENING = """
class Opening:
    def __await__(self) -> Generator[Any, None, AsyncSatchel]: ...
    async def __aenter__(self) -> AsyncSatchel: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

"""
SATCHEL = """class AsyncSatchel:
    bag: Satchel
    scope: Scope
    counter: Counter
    def __init__(self, bag: Satchel) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    async def run(self, work: Callable[[Satchel], Result]) -> Result: ...
"""
SESSION = """class AsyncSession:
    session: Session
    name: str
    counter: Counter
    hints: Hints
    def __init__(self, session: Session) -> None: ...
    async def run(self, work: Callable[[Session], Result]) -> Result: ...
"""
# What the parts above need, beside what signatures name.
IMPORTS = {
    "Any": "typing",
    "Callable": "collections.abc",
    "Counter": "satchel.text.tokens",
    "Generator": "collections.abc",
    "Hints": "satchel.session.session",
    "Satchel": "satchel.api.satchel",
    "Scope": "satchel.model.memory",
    "Self": "typing",
    "Session": "satchel.session.session",
    "TracebackType": "types",
    "TypeVar": "typing",
}


class Module:
    """One source file: its classes and functions, and where the names in it come from."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = SOURCE.joinpath(*name.split(".")).with_suffix(".py")
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.homes: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self.homes |= {alias.asname or alias.name: node.module for alias in node.names}
            elif isinstance(node, ast.Import):
                self.homes |= {alias.name: "" for alias in node.names}
        for each in self.tree.body:
            if isinstance(each, ast.Assign):
                self.homes |= {target.id: name for target in each.targets if isinstance(target, ast.Name)}
            elif isinstance(each, ast.ClassDef):
                self.homes[each.name] = name

    def methods(self, owner: str) -> Iterator[ast.FunctionDef]:
        """Yield the public methods of a class; of one that is overloaded only its overloads."""
        (found,) = (each for each in self.tree.body if isinstance(each, ast.ClassDef) and each.name == owner)
        functions = [each for each in found.body if isinstance(each, ast.FunctionDef)]
        overloaded = {each.name for each in functions if _is_overload(each)}
        for each in functions:
            special = [decorator for decorator in each.decorator_list if not _is_overload(each)]
            if each.name.startswith("_") or (special and each.name not in NOT_AWAITED):
                continue
            if each.name not in overloaded or _is_overload(each):
                yield each

    def function(self, name: str) -> ast.FunctionDef:
        (found,) = (each for each in self.tree.body if isinstance(each, ast.FunctionDef) and each.name == name)
        return found


class Stub:
    """Signatures as the lines of a stub, and the imports that they need."""

    def __init__(self) -> None:
        self.used: dict[str, str] = dict(IMPORTS)

    def signature(self, module: Module, function: ast.FunctionDef, *, awaited: bool, indent: str = "    ") -> str:
        """Return a function as `def … : ...`, on one line if it fits, else with a parameter on each."""
        parts = list(self._parameters(module, function.args))
        returns = self._type(module, function.returns, twin=True)
        start = f"{indent}{'async ' if awaited else ''}def {function.name}("
        overload = f"{indent}@overload\n" if _is_overload(function) else ""
        if _is_overload(function):
            self.used["overload"] = "typing"
        line = f"{start}{', '.join(parts)}) -> {returns}: ..."
        if len(line) > WIDTH:
            inner = "".join(f"{indent}    {part},\n" for part in parts)
            line = f"{start}\n{inner}{indent}) -> {returns}: ..."
        return f"{overload}{line}\n"

    def imports(self) -> str:
        """Return the import statements, sorted as ruff sorts them."""
        modules: dict[str, list[str]] = {}
        for name, home in self.used.items():
            modules.setdefault(home or name, []).append("" if not home else name)
        plain = [f"import {name}\n" for name, names in sorted(modules.items()) if names == [""]]
        ours = {home for home in modules if home.startswith("satchel")}
        standard = [_imported(home, names) for home, names in sorted(modules.items()) if names != [""]]
        standard = [line for line in standard if not line.startswith("from satchel")]
        return "".join([*plain, *standard, "\n", *(_imported(home, modules[home]) for home in sorted(ours))])

    def _parameters(self, module: Module, args: ast.arguments) -> Iterator[str]:
        defaults: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults)) + list(args.defaults)
        for parameter, default in zip(args.args, defaults, strict=True):
            yield self._parameter(module, parameter, default)
        if args.kwonlyargs:
            yield "*"
        for parameter, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            yield self._parameter(module, parameter, default)
        if args.kwarg is not None:
            yield f"**{self._parameter(module, args.kwarg, None)}"

    def _parameter(self, module: Module, parameter: ast.arg, default: ast.expr | None) -> str:
        if parameter.annotation is None:
            return parameter.arg
        typed = f"{parameter.arg}: {self._type(module, parameter.annotation)}"
        if default is None:
            return typed
        return f"{typed} = {ast.unparse(default).replace(chr(39), chr(34)) if _is_plain(default) else '...'}"

    def _type(self, module: Module, annotation: ast.expr | None, *, twin: bool = False) -> str:
        assert annotation is not None
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name):
                if twin:
                    node.id = TWINS.get(node.id, node.id)
                if node.id in module.homes and node.id not in TWINS.values():
                    self.used[node.id] = module.homes[node.id]
        return ast.unparse(annotation).replace("'", '"')


def _is_plain(default: ast.expr) -> bool:
    return isinstance(default, ast.Constant)


def _is_overload(function: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "overload" for each in function.decorator_list)


def _imported(home: str, names: list[str]) -> str:
    # Constants first, then classes, then the rest, as ruff has them.
    ordered = sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    line = f"from {home} import {', '.join(ordered)}\n"
    if len(line) <= WIDTH + 1:
        return line
    return f"from {home} import (\n" + "".join(f"    {name},\n" for name in ordered) + ")\n"


def written() -> str:
    stub = Stub()
    satchel, session = Module("satchel.api.satchel"), Module("satchel.session.session")
    opens = stub.signature(satchel, satchel.function("open"), awaited=False, indent="")
    opens = opens.replace("def open(", "def aopen(").replace("-> AsyncSatchel:", "-> Opening:")
    parts = [opens, OPENING, SATCHEL]
    parts += [
        stub.signature(satchel, method, awaited=method.name not in NOT_AWAITED)
        for method in satchel.methods("Satchel")
        if method.name != "transaction"
    ]
    parts += ["\n", SESSION]
    parts += [stub.signature(session, method, awaited=True) for method in session.methods("Session")]
    names = '__all__ = ["AsyncSatchel", "AsyncSession", "Opening", "aopen"]\n\nResult = TypeVar("Result")\n\n'
    return f"{HEADER}\n{stub.imports()}\n{names}{''.join(parts)}"


if __name__ == "__main__":
    text = written()
    if "--check" in sys.argv:
        held = STUB.read_text(encoding="utf-8") if STUB.exists() else ""
        sys.exit(0 if held == text else f"{STUB.relative_to(SOURCE.parent)} is stale: make docs")
    STUB.write_text(text, encoding="utf-8")
