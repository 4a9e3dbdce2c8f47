"""The documents stay true: their snippets run, the reference is current, links lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tables import each_row

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for pattern in ("*.md", "docs/**/*.md") for path in ROOT.glob(pattern))
BIN = Path(sys.executable).parent

# Commands for a newcomer's shell that the suite itself is part of, or that reach the network.
NOT_HERE = ("make", "git", "pip", "python -m venv", "pipx", "uv")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SATCHEL")}
    return kept | {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "PATH": f"{BIN}:{os.environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_every_python_snippet_runs(page: Path, tmp_path: Path):
    for snippet in blocks(page, "python"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", snippet],
            cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=lambda page: page.name)
def test_every_command_of_a_console_block_succeeds(page: Path, tmp_path: Path):
    commands = [
        line[2:].partition("  #")[0]
        for block in blocks(page, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    assert commands
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command in commands:
        if command.startswith(NOT_HERE):
            continue
        done = subprocess.run(
            ["bash", "-ceu", f"set -o pipefail; {command}"],
            cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.mark.parametrize(
    "script", ["async_stub.py", *sorted(path.name for path in (ROOT / "docs").glob("*_reference.py"))]
)
def test_the_reference_is_current(script: str):
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / script), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_every_command_is_in_the_reference_with_a_sentence():
    from satchel.cli.app import COMMANDS

    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        section = page.split(f"## satchel {name}\n")[1].split("\n## ")[0]
        assert re.search(r"^  [A-Z].+[.\"]", section, re.MULTILINE), name


@each_row("page", PAGES)
def test_every_link_between_the_documents_leads_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} → {target}"


@each_row("page", PAGES)
def test_every_file_and_target_that_a_document_names_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:src|tests|bench|docs|examples|requirements)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([\w-]+)`", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for module in re.findall(r"python -m bench\.(\w+)", text):
        assert (ROOT / "bench" / f"{module}.py").exists(), module


def output_of(example: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example)],
        cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_demo_works_and_keeps_its_budget(tmp_path: Path):
    printed = output_of("demo.py", tmp_path)
    assert "Rotation of signing keys" in printed
    counted = re.search(r"^(\d+)  o200k_base", printed, re.MULTILINE)
    assert counted is not None
    assert 0 < int(counted.group(1)) <= 300
    assert "not-a-real-one" not in printed


@pytest.mark.slow
def test_the_example_of_a_client_works(tmp_path: Path):
    printed = output_of("mcp_client.py", tmp_path)
    assert printed.count("\n📏 ") == 3


@pytest.mark.slow
def test_the_example_of_a_session_works(tmp_path: Path):
    printed = output_of("session.py", tmp_path)
    assert "of 4,000 lines shown" in printed
    assert printed.endswith("Nothing is lost: True\n")


def test_requirement_files_pin_versions_and_name_no_index():
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", "-r ")):
                assert re.fullmatch(r"[A-Za-z0-9_.-]+(\[[a-z,]+\])?==[0-9][\w.]*", line), line
