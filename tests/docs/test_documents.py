"""The documents are current: snippets run, references are up to date, links work."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from tables import each_row

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for pattern in ("*.md", "docs/**/*.md") for path in ROOT.glob(pattern))
BIN = Path(sys.executable).parent


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# Commands that start the test suite itself, reach the network, or need the .venv of a clone.
NOT_HERE = ("make", "git", "pip", "python -m venv", "pipx", "uv", "source .venv/bin/activate")
MOST_WORDS_OF_THE_README = 700

WORD = re.compile(r"[^\s`\"'()\[\],;]+")
ID = re.compile(r"[a-z2-7]{4,8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+Z?)?")


class Command(NamedTuple):
    """A command of a console block, and the lines that the page shows below it."""

    line: str
    shown: list[str]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def console_commands(page: Path) -> list[Command]:
    """The commands of a page's console blocks. A line that ends in a backslash goes on in the next one."""
    commands: list[Command] = []
    for block in blocks(page, "console"):
        assert block.startswith("$ "), f"{page.name}: a console block begins with a command"
        for line in block.replace("\\\n", "").splitlines():
            if line.startswith("$ "):
                commands.append(Command(line[2:].partition("  #")[0].strip(), []))
            else:
                commands[-1].shown.append(line)
    return commands


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SATCHEL", "XDG"))}
    return kept | {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "COLUMNS": "100",
    }


class Comparison:
    """What a page's commands print, compared with what the page shows.

    Ids are random, and memories are saved now. So an id of the page stands for an id that was printed in
    its place, and a day or a moment of the page for one of today, in later lines and commands too. Nothing else may
    differ. `known_ids` gives the ids of all memories that there are.
    """

    def __init__(self, known_ids: Callable[[], Collection[str]]) -> None:
        self.known_ids = known_ids
        self.stands_for: dict[str, str] = {}

    def to_run(self, command: str) -> str:
        """The command with the ids and moments of this run in place of those of the page."""
        return WORD.sub(lambda word: self.stands_for.get(word.group(), word.group()), command)

    def agree(self, printed: str, shown: list[str]) -> bool:
        lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
        return len(lines) == len(shown) and all(map(self._same_line, lines, shown))

    def _same_line(self, printed: str, shown: str) -> bool:
        words, wanted = WORD.findall(printed), WORD.findall(shown)
        return (
            WORD.sub("", printed) == WORD.sub("", shown)
            and len(words) == len(wanted)
            and all(map(self._same_word, words, wanted))
        )

    def _same_word(self, printed: str, shown: str) -> bool:
        if printed == shown:
            return True
        if MOMENT.fullmatch(shown) and printed.startswith(_today()):
            return self.stands_for.setdefault(shown, printed) == printed
        if ID.fullmatch(shown) and len(printed) == len(shown) and printed in self.known_ids():
            # A memory has one id on a page, and an id names one memory.
            if shown not in self.stands_for and printed not in self.stands_for.values():
                self.stands_for[shown] = printed
            return self.stands_for.get(shown) == printed
        return False


def ids_in(folder: Path) -> set[str]:
    """The ids, full and short, of the memories in every store below a folder."""
    import satchel
    from satchel.model.memory import STATUSES

    found: set[str] = set()
    for path in folder.rglob("*.db"):
        with satchel.open(path) as bag:
            memories = bag.recent(limit=1_000, ended=True, status=STATUSES)
            found |= {memory.id for memory in memories} | set(bag.short_ids(memories))
    return found


def _today() -> tuple[str, ...]:
    """The dates that a command may have used which ended a moment ago."""
    now = datetime.now(UTC)
    return (str(now.date()), str((now - timedelta(minutes=10)).date()))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=page_name)
def test_every_python_snippet_runs(page: Path, tmp_path: Path):
    for snippet in blocks(page, "python"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", snippet],
            cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=page_name)
def test_every_command_of_a_console_block_succeeds_and_prints_what_the_page_shows(page: Path, tmp_path: Path):
    commands = console_commands(page)
    assert commands
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    comparison = Comparison(lambda: ids_in(tmp_path))
    for command in commands:
        if command.line.startswith(NOT_HERE):
            continue
        done = subprocess.run(
            ["bash", "-ceu", f"set -o pipefail; {comparison.to_run(command.line)}"],
            cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{command.line}\n{done.stdout}"
        if command.shown:
            assert comparison.agree(done.stdout, command.shown), f"{command.line}\n{done.stdout}"


@each_row(
    "printed, shown, same",
    [
        ("saved it\n", ["saved it"], True),
        ("saved it\n", ["saved them"], False),
        ("saved it\nand more\n", ["saved it"], False),
        ("saved  it\n", ["saved it"], False),
        ("`get abcd`\n", ["`get k3f7`"], True),
        ("`get some`\n", ["`get k3f7`"], False),
        ("abcd abcd\n", ["k3f7 k3f7"], True),
        ("abcd efgh\n", ["k3f7 k3f7"], False),
        ("abcd abcd\n", ["k3f7 m2x4"], False),
        (f"noted on {datetime.now(UTC).date()}\n", ["noted on 2026-01-01"], True),
        ("noted on 2026-01-02\n", ["noted on 2026-01-01"], False),
    ],
)
def test_only_ids_and_the_day_of_writing_may_differ_from_what_a_page_shows(
    printed: str, shown: list[str], same: bool
):
    assert Comparison(lambda: {"abcd", "efgh"}).agree(printed, shown) == same


def test_a_command_of_a_page_gets_the_id_that_was_printed():
    comparison = Comparison(lambda: {"abcd"})
    assert comparison.agree("saved abcd\n", ["saved k3f7"])
    assert comparison.to_run("satchel get k3f7 --json") == "satchel get abcd --json"


def test_the_readme_is_short_and_has_no_table():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS_OF_THE_README
    assert not re.search(r"^\s*\|", text, re.MULTILINE)


def test_the_readme_shows_what_its_commands_print():
    commands = console_commands(ROOT / "README.md")
    assert [command.line for command in commands[:2]] == ["make demo", "make test"]
    assert sum(bool(command.shown) for command in commands) >= 3


@pytest.mark.parametrize(
    "script",
    ["async_stub.py", "tool_definitions.py", *sorted(path.name for path in (ROOT / "docs").glob("*_reference.py"))],
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
    import click

    from satchel.cli.app import app

    def names(group: click.Group, before: str) -> Iterator[str]:
        with click.Context(group) as context:
            for name in group.list_commands(context):
                yield before + name
                command = group.get_command(context, name)
                if isinstance(command, click.Group):
                    yield from names(command, f"{before}{name} ")

    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    for name in names(app, ""):
        section = page.split(f"## satchel {name}\n")[1].split("\n## ")[0]
        assert re.search(r"\n\n  [A-Z].*?[.\"]", section, re.DOTALL), name


def test_every_mcp_tool_is_in_the_reference_with_a_sentence():
    from satchel.server.mcp.catalog import TOOLS

    page = (ROOT / "docs/reference/mcp.md").read_text(encoding="utf-8")
    for name in TOOLS:
        section = page.split(f"### {name}\n")[1].split("\n### ")[0]
        assert re.search(r"^[A-Z].+\.", section, re.MULTILINE), name


def test_the_page_about_clients_has_the_versions_that_are_installed():
    pins = json.loads((ROOT / "tests/clients/package.json").read_text(encoding="utf-8"))["dependencies"]
    page = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| [^|]+ \| `([^`]+)` \| (\S+) \|$", page, re.MULTILINE)) == pins


def test_every_page_is_in_the_table_of_contents():
    contents = ROOT / "docs/README.md"
    linked = {(contents.parent / target).resolve() for target, _ in links(contents)}
    for page in PAGES:
        if page.is_relative_to(ROOT / "docs") and page != contents:
            assert page in linked, f"docs/README.md does not link {page.relative_to(ROOT)}"


def links(page: Path) -> list[tuple[str, str]]:
    """The links of a page to files of the repository: the path (empty for the page itself) and the anchor."""
    found = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8"))
    return [(target, anchor) for target, anchor in found if "://" not in target]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    made: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        made.append(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return {
        f"{name}-{made[:place].count(name)}" if made[:place].count(name) else name
        for place, name in enumerate(made)
    }


@each_row("page", PAGES)
def test_every_link_between_the_documents_leads_somewhere(page: Path):
    for target, anchor in links(page):
        leads_to = page.parent / target if target else page
        assert leads_to.exists(), f"{page.name} → {target}"
        if anchor:
            assert anchor in anchors(leads_to), f"{page.name} → {target}#{anchor}"


@each_row("page", PAGES)
def test_every_file_and_target_that_a_document_names_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`(?:pytest )?((?:src|tests|bench|docs|examples|requirements)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|^\$ )make ([\w-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for module in re.findall(r"python -m bench\.(\w+)", text):
        files = (ROOT / "bench" / f"{module}.py", ROOT / "bench" / module / "__main__.py")
        assert any(path.exists() for path in files), module


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
    assert " of 4,000; the rest costs " in printed
    assert printed.endswith("Nothing is lost: True\n")


def test_requirement_files_pin_versions_and_name_no_index():
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", "-r ")):
                assert re.fullmatch(r"[A-Za-z0-9_.-]+(\[[a-z,]+\])?==[0-9][\w.]*", line), line
