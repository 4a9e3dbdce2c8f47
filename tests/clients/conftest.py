"""Installed clients, and the tables of docs/clients.md that a run prints."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from docs.generated import write

from clients.coding_clients import CLIENTS, CodingClient, Npm
from npm_packages import node, npm_packages

ROOT = Path(__file__).parents[2]
MANIFEST = json.loads(Path(__file__).with_name("package.json").read_text())
PAGE = ROOT / "docs" / "clients.md"
OTHERS = {
    "@modelcontextprotocol/conformance": "MCP conformance suite",
    "@modelcontextprotocol/inspector": "MCP Inspector, `--cli`",
    "@modelcontextprotocol/server-filesystem": "the server behind the gateway",
}
SIGNS = {"passed": "✓", "failed": "**✗**", "skipped": "–"}


@pytest.fixture(scope="session")
def npm() -> Npm:
    """The clients of package.json; skips where there is no npm or no registry."""
    packages = npm_packages("clients", {kind: MANIFEST[kind] for kind in ("dependencies", "optionalDependencies")})
    # Some of them need a newer node than the system may have.
    own = sorted(packages.glob("node-*/bin/node"))
    return Npm(packages, own[0] if own else Path(node()))


@pytest.fixture(
    scope="session",
    params=[pytest.param(kind, id=kind.name, marks=pytest.mark.xdist_group(kind.name)) for kind in CLIENTS],
)
def kind(request: pytest.FixtureRequest) -> type[CodingClient]:
    """Each coding client in turn; all tests of a client run in one worker."""
    return request.param


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-docs", action="store_true", help="write the tables to docs/clients.md")


class Tables:
    """What the tests of all workers report, as tables in markdown."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[str, str]] = {}
        self.facts: dict[str, dict[str, str]] = {}
        self.conformance: dict[str, str] = {}

    def take(self, report: pytest.TestReport) -> None:
        """Take the outcome of a test under its name, which is a sentence, and its parameter."""
        found = re.search(r"::test_(\w+)\[([\w-]+)", report.nodeid)
        if found and (report.when == "call" or not report.passed):
            self.outcomes.setdefault(found[1].replace("_", " "), {})[found[2]] = SIGNS[report.outcome]
        for name, value in report.user_properties if report.when == "teardown" else ():
            if name == "fact":
                client, label, text = value
                self.facts.setdefault(label, {})[client] = text
            elif name == "conformance":
                self.conformance[value[0]] = value[1]

    def lines(self) -> dict[str, list[str]]:
        clients = {kind.name: kind.title for kind in CLIENTS}
        servers = {
            "stdio": "standard input",
            "http": "HTTP",
            "mcp": "`satchel mcp --http`",
            "serve": "`satchel serve`",
        }
        rows = [[reason, names] for reason, names in self.conformance.items() if names]
        return {
            "versions": _table(["client", "package", "version"], _versions()),
            "results": _by_column("test", clients, self.outcomes),
            "facts": _by_column("what the model is shown", clients, self.facts),
            "inspector and suite": _by_column("test", servers, self.outcomes),
            "conformance": _table(["result", "scenarios"], rows),
        }


def _versions() -> list[list[str]]:
    titles = {kind.package: kind.title for kind in CLIENTS} | OTHERS
    return [[titles.get(package, ""), f"`{package}`", pin] for package, pin in MANIFEST["dependencies"].items()]


def _by_column(corner: str, columns: dict[str, str], rows: dict[str, dict[str, str]]) -> list[str]:
    # Sorted, because the workers report in another order each time.
    shown = sorted((name, row) for name, row in rows.items() if row.keys() & columns.keys())
    cells = [[name, *(row.get(column, "") for column in columns)] for name, row in shown]
    return _table([corner, *columns.values()], cells)


def _table(header: list[str], rows: list[list[Any]]) -> list[str]:
    cells = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(map(str, row)) + " |" for row in cells]


def pytest_configure(config: pytest.Config) -> None:
    # Only the process that the workers report to prints the tables.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reporter(config))


class _Reporter:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tables = Tables()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tables.take(report)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = self._tables.lines()
        for name, table in lines.items():
            terminalreporter.section(name)
            terminalreporter.write_line("\n".join(table))
        if self._config.getoption("--write-docs"):
            # A run of some tests keeps the tables of the others.
            ran = [name for name, table in lines.items() if len(table) > 2]
            write(PAGE, {name: lambda name=name: lines[name] for name in ran})
