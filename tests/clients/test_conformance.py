"""The conformance suite of MCP against both HTTP endpoints, with the checks that cannot apply listed by reason."""

import contextlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import satchel
from clients.http_server import mcp_over_http
from conftest import clean_environment
from service_client import Served

pytestmark = pytest.mark.xdist_group("conformance")

SUITE = "@modelcontextprotocol/conformance/dist/index.js"
LONGEST_SUITE = 600

# Scenarios, or single checks of a scenario, that test what Satchel does not have. Everything else must pass, and
# what passes must not be listed.
NOT_APPLICABLE = {
    "calls a tool, prompt or resource of the suite's own example server": (
        "completion-complete",
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        "input-required-result-basic-elicitation",
        "input-required-result-basic-list-roots",
        "input-required-result-basic-sampling",
        "input-required-result-capability-check",
        "input-required-result-multi-round",
        "input-required-result-multiple-input-requests",
        "input-required-result-non-tool-request",
        "input-required-result-request-state",
        "input-required-result-result-type",
        "input-required-result-tampered-state",
        "json-schema-2020-12",
        "prompts-get-embedded-resource",
        "prompts-get-simple",
        "prompts-get-with-args",
        "prompts-get-with-image",
        "resources-read-binary",
        "resources-read-text",
        "resources-templates-read",
        "server-sse-polling",
        "server-stateless/sep-2575-missing-capability-http-400",
        "server-stateless/sep-2575-server-rejects-undeclared-capability",
        "tools-call-audio",
        "tools-call-elicitation",
        "tools-call-embedded-resource",
        "tools-call-image",
        "tools-call-mixed-content",
        "tools-call-sampling",
        "tools-call-with-progress",
    ),
    "needs a capability that the server does not declare (logging)": (
        "logging-set-level",
        "tools-call-with-logging",
    ),
    "needs a capability that the server does not declare (resource subscriptions)": (
        "resources-subscribe",
        "resources-unsubscribe",
    ),
    "needs tools with `x-mcp-header`": ("http-custom-header-server-validation",),
    "needs the tasks extension": (
        "tasks-capability-negotiation",
        "tasks-dispatch-and-envelope",
        "tasks-lifecycle",
        "tasks-mrtr-composition",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-request-state-removal",
        "tasks-required-task-error",
        "tasks-wire-fields",
    ),
}

# It reads a stream for a fixed time, so on a busy machine it ends before the check that fails.
TIMED = {"server-sse-polling"}


@contextlib.contextmanager
def mcp_of_the_service(folder: Path) -> Iterator[str]:
    with Served(folder, guarded=False) as service:
        yield f"{service.url}/mcp"


class Check(NamedTuple):
    scenario: str
    name: str
    status: str
    message: str


@pytest.fixture(scope="module", params=[mcp_over_http, mcp_of_the_service], ids=["mcp", "serve"])
def checks(request, npm, tmp_path_factory) -> list[Check]:
    """What the whole suite reports."""
    folder = tmp_path_factory.mktemp("conformance")
    with satchel.open(folder / "notes.db") as bag:
        bag.scoped(project="harbor").add("Signing keys are rotated every 90 days.")
    with request.param(folder) as url:
        subprocess.run(
            [*npm.script(SUITE), "server", "--url", url, "--suite", "all", "--output-dir", str(folder / "checks")],
            cwd=folder,
            env=clean_environment(folder),
            capture_output=True,
            timeout=LONGEST_SUITE,
        )
    return [
        # The folder is named server-SCENARIO-MOMENT.
        Check(
            re.sub(r"-\d{4}-\d\d-\d\dT[\dTZ-]+$", "", path.parent.name.removeprefix("server-")),
            found["id"],
            found["status"],
            found.get("errorMessage", ""),
        )
        for path in sorted((folder / "checks").glob("*/checks.json"))
        for found in json.loads(path.read_text())
    ]


def test_every_check_that_applies_passes(checks, record_property):
    listed = {name for names in NOT_APPLICABLE.values() for name in names}
    failed = [check for check in checks if check.status == "FAILURE"]
    report(checks, record_property)
    assert not [check for check in failed if not names_of(check) & listed]
    assert not listed - TIMED - set().union(*map(names_of, failed)), "these pass now: take them off the list"


def test_completion_is_offered_although_the_suites_own_prompt_is_unknown(checks):
    (message,) = [check.message for check in checks if check.name == "completion-complete"]
    assert "Method not found" not in message


def test_the_suite_ran_as_a_whole(checks):
    assert len({check.scenario for check in checks}) >= 60
    assert sum(check.status == "SUCCESS" for check in checks) >= 100


def names_of(check: Check) -> set[str]:
    """How the list may name a check: by its scenario, or by itself."""
    return {check.scenario, f"{check.scenario}/{check.name}"}


def report(checks: list[Check], record_property: Callable[[str, object], None]) -> None:
    listed = {name: reason for reason, names in NOT_APPLICABLE.items() for name in names}
    failed = {check.scenario for check in checks if check.status == "FAILURE"}
    rows = {
        "pass": {check.scenario for check in checks} - failed,
        "fail": {
            check.scenario for check in checks if check.status == "FAILURE" and not names_of(check) & listed.keys()
        },
        **NOT_APPLICABLE,
    }
    for reason, names in rows.items():
        record_property("conformance", (reason, ", ".join(f"`{name}`" for name in sorted(names))))
