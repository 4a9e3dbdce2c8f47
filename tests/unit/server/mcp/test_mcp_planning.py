"""The sdd tools: a project's specs, and what is related to a planned change."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tool_contexts import ask, empty_context

from read_back import footers
from satchel.errors import InputError
from satchel.server.mcp.tool_context import ToolContext


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    docs = tmp_path / "docs"
    change = docs / "changes" / "key-rotation"
    change.mkdir(parents=True)
    (docs / "design.md").write_text("# Design\n\n## Keys\n\nKeys rotate every hour.\n\n## Clock\n\nUTC.\n")
    (docs / "tasks.md").write_text("# Tasks\n\n- Rotate the keys.\n")
    (change / "proposal.md").write_text("# Proposal\n\nRotate keys by a nightly job.\n")
    with empty_context(tmp_path) as made:
        made.bag.add("We rotate keys since the leak in May.", title="Why keys rotate", project="atlas")
        made.bag.add("The coffee machine is broken.", project="boreal")
        yield made


def test_by_default_the_stages_are_listed_with_their_sizes(context: ToolContext, tmp_path: Path):
    answer = ask(context, "sdd_get_context")
    lines = footers(answer.text).body.strip().split("\n")
    assert lines[0] == "## Spec artifacts in docs/"
    size = context.count((tmp_path / "docs" / "design.md").read_text())
    assert f"design          present  9 lines  ~{size} tokens  docs/design.md" in lines
    assert "charter         missing  docs/charter.md" in lines
    assert lines[-1] == "changes         1 change, newest: key-rotation"
    assert (answer.data["included"], answer.data["omitted"]) == (len(lines) - 1, 0)
    assert ask(context, "sdd_get_context", detail_level="summary") == answer


def test_more_detail_brings_headings_and_the_next_step_then_the_texts(context: ToolContext):
    standard = ask(context, "sdd_get_context", detail_level="standard").text
    assert "    line 3: ## Keys\n" in standard
    assert "Next: principles: docs/principles.md is missing\n" in standard
    full = ask(context, "sdd_get_context", detail_level="full", stage="design").text
    assert "    Keys rotate every hour.\n" in full
    assert "Rotate the keys" not in full


def test_one_stage_or_change_can_be_asked_for(context: ToolContext):
    change = ask(context, "sdd_get_context", detail_level="full", stage="changes/key-rotation")
    assert footers(change.text).body.startswith("## Change key-rotation (docs/changes/key-rotation/proposal.md)\n")
    with pytest.raises(InputError, match="unknown stage 'deploy'; known: principles, charter"):
        ask(context, "sdd_get_context", stage="deploy")
    for path in ("../../etc/passwd", "/etc/passwd", "changes/../..", "\0"):
        with pytest.raises(InputError, match="unknown stage"):
            ask(context, "sdd_get_context", stage=path)


def test_a_check_reports_artifacts_changes_and_memories(context: ToolContext):
    answer = ask(context, "sdd_context_check", change_description="Rotate the keys more often")
    body = footers(answer.text).body
    assert [line for line in body.split("\n") if line.startswith("## ")] == [
        "## Artifacts",
        "## Earlier changes",
        "## Related memories",
    ]
    assert "docs/design.md#Design > Keys (line 3, ~" in body
    assert "docs/changes/key-rotation (proposal.md)\n" in body
    assert "Why keys rotate" in body
    assert "coffee" not in body
    assert answer.data["included"] >= 3
    assert not answer.data["omitted"]


def test_the_memories_of_a_check_are_those_of_the_project(context: ToolContext):
    text = ask(context, "sdd_context_check", change_description="Rotate the keys", project="boreal").text
    assert "Why keys rotate" not in text
    assert "## Artifacts" in text


def test_a_blank_description_is_refused(context: ToolContext):
    with pytest.raises(InputError, match="the change description is blank"):
        ask(context, "sdd_context_check", change_description="  ")


def test_cut_specs_are_counted_in_sections(context: ToolContext):
    told = footers(ask(context, "sdd_get_context", max_tokens=100).text)
    assert told.noun == "sections"
    assert told.shown < told.total == 9
