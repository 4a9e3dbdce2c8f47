"""How the command `satchel` starts and exits: numpy without its docstrings and types, and no teardown."""

import subprocess
import sys
from pathlib import Path

import pytest

import satchel

START = "import sys\nimport satchel.__main__ as start\nstart._start_fast()\n"
POSTPONED = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars", "numpy._typing")


def run(script: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_a_search_loads_neither_docstrings_nor_types_of_numpy(tmp_path: Path):
    path = tmp_path / "notes.db"
    with satchel.open(path) as bag:
        bag.add("We rotate signing keys every hour.")
    words = ["--db", str(path), "search", "How often do we rotate keys?"]
    found = run(
        f"{START}from satchel.cli.app import run\nassert run({words!r}) == 0\n"
        f"assert 'numpy' in sys.modules\nprint([type(sys.modules[each]).__name__ for each in {POSTPONED!r}])"
    )
    assert "signing keys" in found
    assert found.endswith("['_Postponed', '_Postponed', '_Postponed']\n")


@pytest.mark.parametrize(
    "use",
    [
        "import numpy.typing as types",
        "from numpy._typing import ArrayLike, NDArray; import numpy.typing as types",
        "from numpy._typing._shape import _Shape; import numpy.typing as types",
        "import numpy._typing as types; types.ArrayLike",
    ],
)
def test_types_of_numpy_are_there_for_a_package_that_uses_them(use: str):
    found = run(f"{START}import numpy\n{use}\nprint(types.NDArray[numpy.float32], sys.modules['numpy._typing'])")
    assert found.startswith("numpy.ndarray[")
    assert "__init__.py" in found


def test_docstrings_of_numpy_are_there_for_a_package_that_asks_for_their_module():
    found = run(f"{START}import numpy\nfrom numpy._core._add_newdocs import add_newdoc\nprint(numpy.array.__doc__)")
    assert "Create an array" in found


def test_the_library_leaves_numpy_as_it_is():
    assert "Create an array" in run(
        "import satchel\nfrom satchel.recall import ranking\nimport numpy\nprint(numpy.array.__doc__)"
    )


MAIN = "import satchel.__main__ as start\nimport atexit, sys, threading, time\nsys.argv[1:] = {words!r}\n"


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["search"], 2)])
def test_a_command_writes_everything_and_calls_exit_functions_but_destroys_no_module(words: list[str], code: int):
    script = (
        MAIN.format(words=words) + "class Last:\n    def __del__(self): print('destroyed')\nlast = Last()\n"
        "atexit.register(print, 'exit function')\nstart.main()"
    )
    written = run(script, code).splitlines()
    assert written[-1] == "exit function"
    assert len(written) == (2 if code == 0 else 1)


def test_a_command_waits_for_a_thread_that_is_still_running():
    late = "def late():\n    threading.main_thread().join()\n    print('done')\n"
    script = MAIN.format(words=["--version"]) + late + "threading.Thread(target=late).start()\nstart.main()"
    assert run(script).endswith("done\n")
