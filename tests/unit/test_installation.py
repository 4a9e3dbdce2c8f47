"""What `pip install satchel` brings, and that it is enough for the library and the command line."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MOST_PACKAGES = 25


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(file: str) -> set[str]:
    """The packages that a file pins, without those of the files it includes."""
    lines = (REQUIREMENTS / file).read_text("utf-8").splitlines()
    return {normalized(re.split(r"[\[=]", line)[0]) for line in lines if "==" in line}


def brought_by(requirements: list[str]) -> set[str]:
    """All packages that a list of requirements installs, found in what is installed here."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        wanted = waiting.pop()
        found.add(normalized(wanted.name))
        for line in distribution(wanted.name).requires or []:
            needed = Requirement(line)
            chosen = any(
                needed.marker is None or needed.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)
            )
            if chosen and normalized(needed.name) not in found:
                waiting.append(needed)
    return found


def test_the_default_install_is_what_the_pins_say_and_no_more_than_25_packages():
    packages = brought_by(PROJECT["dependencies"])
    assert packages == pinned("runtime.txt")
    assert len(packages) + 1 <= MOST_PACKAGES


def test_the_extra_for_servers_is_what_its_pins_say():
    packages = brought_by(PROJECT["optional-dependencies"]["serve"])
    assert packages - pinned("runtime.txt") == pinned("serve.txt")


@pytest.fixture(scope="module")
def bare() -> str:
    """A program's beginning that makes every package unavailable but those of the default install."""
    allowed = pinned("runtime.txt") | {"satchel"}
    others = {
        module
        for module, owners in packages_distributions().items()
        if not allowed & {normalized(owner) for owner in owners}
    }
    assert {"mcp", "pydantic", "rich", "starlette", "httpx2"} <= others
    return (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {others!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
    )


def run(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program],
        input="",
        capture_output=True,
        text=True,
        timeout=120,
        env=environment or None,
    )


def test_the_library_needs_nothing_else(bare: str):
    done = run(
        bare + "import satchel\n"
        "for embedder in ('minilm', 'static'):\n"
        "    with satchel.open(':memory:', embedder=embedder) as bag:\n"
        "        bag.add('We rotate signing keys every hour. 記憶', kind='decision', tags=['auth'])\n"
        "        assert bag.search('key rotation', token_budget=200, min_relevance=0)\n"
        "        assert 'signing' in bag.context('rotate keys', token_budget=200, min_relevance=0).text\n"
        "        assert bag.session('s', budget=2000).result('grep', 'one\\ntwo\\n' * 2000).text\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


COMMANDS = [
    ["add", "We rotate signing keys every hour. 記憶"],
    ["search", "key rotation", "--token-budget", "200"],
    ["context", "key rotation"],
    ["list"],
    ["stats"],
    ["doctor"],
    ["tokens", "-"],
    ["export"],
    ["mcp", "--help"],
]


def test_the_command_line_needs_nothing_else(bare: str, tmp_path: Path):
    done = run(
        bare + "from satchel.cli.app import run\n"
        f"codes = {{words[0]: run(words) for words in {COMMANDS!r}}}\n"
        "assert not any(codes.values()), codes",
        SATCHEL_DB=str(tmp_path / "notes.db"),
        HOME=str(tmp_path),
        PATH="",
    )
    assert done.returncode == 0, done.stderr
    assert "signing keys" in done.stdout


def test_an_embedding_endpoint_names_the_extra_it_needs(bare: str):
    done = run(
        bare + "import satchel\nfrom satchel.embed.embedder import resolve_embedder\n"
        "try:\n    resolve_embedder('openai:m@http://localhost:1/v1').embed(['word'])\n"
        "except satchel.EmbedderError as error:\n    print(error)\n"
    )
    assert "pip install 'satchel[serve]'" in done.stdout, done.stderr
