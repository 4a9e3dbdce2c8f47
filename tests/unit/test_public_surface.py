"""The public names are complete, documented and cheap to import."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import satchel
from satchel import errors
from satchel.model import memory
from satchel.model.signatures import parameters_of

HEAVY = ("apsw", "msgspec", "numpy", "rich", "splintr", "platformdirs", "satchel.api.satchel")


def test_every_exported_name_is_there_and_the_list_is_in_order():
    assert satchel.__all__ == sorted(satchel.__all__)
    for name in satchel.__all__:
        assert getattr(satchel, name) is not None
    assert dir(satchel) == satchel.__all__


def test_every_type_that_is_read_from_json_is_known_before_threads_ask_for_it():
    """msgspec kills the process where two of them ask for the first time at once: decoders are made on import."""
    known, converted = set(), set()
    for file in Path(satchel.__file__).parent.rglob("*.py"):
        code = file.read_text(encoding="utf-8")
        assert not re.search(r"json\.decode\([^\n]*type=", code), file
        converted |= set(re.findall(r"msgspec\.convert\([^\n]*, (\w+)\)", code))
        for kinds in re.findall(r"^_KNOWN = \[.* in \((.*)\)\]", code, re.MULTILINE):
            known |= set(kinds.split(", "))
    assert converted == known == {"Record", "Relation"}


def test_every_error_is_exported_and_says_when_to_catch_it():
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert getattr(satchel, name) is kind
        assert issubclass(kind, satchel.SatchelError)
        assert kind.__doc__
        assert kind.__doc__.startswith("Catch this")
        assert name in (errors.__doc__ or "")


def test_every_public_method_says_what_it_does():
    for name, method in inspect.getmembers(satchel.Satchel, inspect.isfunction):
        if not name.startswith("_"):
            assert method.__doc__, name


def test_every_parameter_of_a_public_method_is_explained_in_its_docstring():
    for name, method in inspect.getmembers(satchel.Satchel, inspect.isfunction):
        if not name.startswith("_"):
            explained = set(re.findall(r"`(\w+)(?:=[^`]*)?`", inspect.getdoc(method) or ""))
            assert parameters_of(method).keys() - explained - {"text"} == set(), name


def test_what_public_methods_return_is_public():
    for owner in (getattr(satchel, name) for name in satchel.__all__):
        found = inspect.getmembers(owner, inspect.isfunction) if inspect.isclass(owner) else [("", owner)]
        for name, method in found:
            if not name.startswith("_") and inspect.isfunction(method):
                for kind in _classes_of(method.__annotations__.get("return")):
                    assert kind in satchel.__all__, f"{owner.__name__}.{name} returns {kind}"


def _classes_of(annotation: object) -> Iterator[str]:
    """The names of Satchel's own classes in an annotation; one that is a string may name them too."""
    if isinstance(annotation, str):
        yield from (name for name in re.findall(r"[A-Z]\w+", annotation) if name in _own_classes())
    elif inspect.isclass(annotation) and annotation.__module__.startswith("satchel."):
        yield annotation.__name__
    for inner in typing.get_args(annotation):
        yield from _classes_of(inner)


@cache
def _own_classes() -> set[str]:
    drivers = ("satchel.store.database", "satchel.store.sqlite", "satchel.store.postgres")  # never handed out
    classes = (each for module in _modules() for _, each in inspect.getmembers(module, inspect.isclass))
    return {each.__name__ for each in classes if not each.__module__.startswith(drivers)}


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(satchel.__path__, "satchel."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def test_no_name_is_exported_by_a_module_that_lacks_it():
    for module in _modules():
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"{module.__name__}.{name}"


def test_the_keyword_fields_are_those_of_a_draft():
    placed = set(memory.PlacedFields.__annotations__)
    assert placed | {"text"} == set(memory.Draft.__struct_fields__)
    assert set(memory.ChangedFields.__annotations__) == {*memory.CHANGEABLE, "move_to"}


def test_the_version_loads_nothing_heavy():
    script = (
        "import sys; sys.argv = ['satchel', '--version']\n"
        "from satchel.cli.app import run\nassert run() == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n")[:2] == [f"satchel {satchel.__version__}", "[]"], done.stderr


def test_a_search_loads_no_masked_arrays(tmp_path: Path):
    path = tmp_path / "notes.db"
    with satchel.open(path, embedder="static") as bag:
        bag.add_many([satchel.Draft(f"turn {each} of the talk", session="s1", speaker="Ana") for each in range(30)])
    script = (
        f"import satchel, sys\nwith satchel.open({str(path)!r}) as bag:\n"
        "    print(len(bag.search('What did Ana say of the talk?')))\n"
        "print('numpy' in sys.modules, 'numpy.ma' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "10\nTrue False\n", done.stderr


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(satchel, "nothing")
    assert not hasattr(satchel, "MadeUpError")
