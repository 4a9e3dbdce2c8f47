"""Tools that read a project's specs: sdd_get_context, sdd_context_check."""

from typing import Any

from satchel.server.arguments import MAX_TOKENS, line
from satchel.server.mcp.answers import Answer
from satchel.server.mcp.tool import CURSOR, Tool, detail_level
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.specs.specs import spec_check, spec_context

__all__ = ["CHECK", "SPECS"]

NO_SPECS = "No spec artifacts here."
NOTHING_RELATED = "Nothing here is related to this change."


def _specs(context: ToolContext, given: dict[str, Any]) -> Answer:
    if (page := context.continued("sdd_get_context", given)) is not None:
        return page
    portions = spec_context(context.specs, stage=given.get("stage"), detail=given["detail"], count=context.count)
    return context.listed("sdd_get_context", portions, given, nothing=NO_SPECS, noun="sections")


def _check(context: ToolContext, given: dict[str, Any]) -> Answer:
    if (page := context.continued("sdd_context_check", given)) is not None:
        return page
    portions = spec_check(
        context.specs,
        given["change_description"],
        bag=context.view(given),
        detail=given["detail"],
        count=context.count,
    )
    return context.listed("sdd_context_check", portions, given, nothing=NOTHING_RELATED, noun="sections")


SPECS = Tool(
    "sdd_get_context",
    "The project's spec artifacts. summary: stages and sizes; standard: headings and next step; full: texts.",
    {
        "stage": line("such as design, or changes/SLUG"),
        "detail_level": detail_level("summary"),
        "max_tokens": MAX_TOKENS,
        "cursor": CURSOR,
    },
    (),
    _specs,
)
CHECK = Tool(
    "sdd_context_check",
    "Before a change: which artifacts, earlier changes and memories bear on it. Reports, judges nothing.",
    {
        "change_description": line("what will change"),
        "project": line("only this project"),
        "detail_level": detail_level("standard"),
        "max_tokens": MAX_TOKENS,
        "cursor": CURSOR,
    },
    ("change_description",),
    _check,
)
