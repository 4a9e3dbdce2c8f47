"""What several suites share: stores of each sort, and the real command in a real process."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import satchel
from satchel import Satchel
from satchel.recall import candidates

settings.register_profile("satchel", deadline=None, derandomize=True)
settings.load_profile("satchel")

# So that a failing assertion in a support module shows its values, as one in a test does.
pytest.register_assert_rewrite("complaint", "in_step", "operations", "samples")

Cli = Callable[..., subprocess.CompletedProcess[str]]
Opening = Callable[..., Satchel]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"


@pytest.fixture
def bag(path: Path) -> Iterator[satchel.Satchel]:
    with satchel.open(path) as opened:
        yield opened


@pytest.fixture(params=["whole", "by index"])
def opening(request, path: Path, monkeypatch) -> Opening:
    """Opens a store in memory whose scopes are read whole, or one in a file where only the indexes are asked."""
    if request.param == "whole":
        return lambda **options: satchel.open(":memory:", **options)
    monkeypatch.setattr(candidates, "SMALL", 0)
    return lambda **options: satchel.open(path, **options)


@pytest.fixture
def notes(opening: Opening) -> Iterator[Satchel]:
    with opening() as opened:
        yield opened


@pytest.fixture
def words(opening: Opening) -> Iterator[Satchel]:
    """A store that is searched without vectors."""
    with opening(embedder="none") as opened:
        yield opened


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run `satchel ARGS…` as a user would, on a store in the test's own folder."""

    def run(
        *arguments: str | Path, stdin: bytes | str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        content = stdin if isinstance(stdin, bytes) else stdin.encode()
        done = subprocess.run(
            [str(Path(sys.executable).with_name("satchel")), *map(str, arguments)],
            input=content,
            capture_output=True,
            timeout=60,
            cwd=tmp_path,
            env=clean_environment(tmp_path) | environment,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def clean_environment(folder: Path) -> dict[str, str]:
    """Nothing of the machine's own store, and a default location inside the test's folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SATCHEL")}
    return kept | {"SATCHEL_DB": str(folder / "notes.db"), "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
