"""The MCP server: protocol handlers that run each tool call in a thread."""

import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from satchel import __version__
from satchel.errors import SatchelError
from satchel.server.mcp.catalog import (
    INSTRUCTIONS,
    TEMPLATES,
    complete_project,
    guide_for,
    pack_resources,
    read_resource,
)
from satchel.server.mcp.tool import Tool
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.process import short_line

__all__ = ["build_server"]

MOST_COMPLETIONS = 100
"""The limit of the specification."""

PROMPT = types.Prompt(
    name="memory-guide",
    description="How to work with memory within a context budget.",
    arguments=[types.PromptArgument(name="project", description="The project that you work on.", required=False)],
)
# The arguments that name a project; other arguments get no suggestions.
COMPLETED = {(PROMPT.name, "project"), ("satchel://pack/{project}", "project")}

Context = Any


def build_server(context: ToolContext, tools: Mapping[str, Tool]) -> Server[Any]:
    """Return an SDK server that offers these tools in this context."""

    async def list_tools(ctx: Context, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool.definition) for tool in tools.values()])

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        work = partial(_called, context, tools, params.name, params.arguments or {})
        # When the client has gone nobody waits for the answer.
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    async def list_prompts(ctx: Context, params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[PROMPT])

    async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != PROMPT.name:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name[:80]!r}; there is {PROMPT.name}")
        try:
            text = guide_for((params.arguments or {}).get("project"))
        except SatchelError as error:
            raise MCPError(types.INVALID_PARAMS, short_line(str(error))) from error
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    async def list_resources(ctx: Context, params: object) -> types.ListResourcesResult:
        found = await anyio.to_thread.run_sync(pack_resources, context, abandon_on_cancel=True)
        return types.ListResourcesResult(resources=[types.Resource.model_validate(each) for each in found])

    async def list_templates(ctx: Context, params: object) -> types.ListResourceTemplatesResult:
        templates = [types.ResourceTemplate.model_validate(each) for each in TEMPLATES]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            text = await anyio.to_thread.run_sync(read_resource, context, str(params.uri), abandon_on_cancel=True)
        except SatchelError as error:
            data = {"uri": str(params.uri)}
            raise MCPError(types.INVALID_PARAMS, short_line(str(error)), data) from error
        contents = types.TextResourceContents(uri=params.uri, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[contents])

    async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        ref, argument = params.ref, params.argument
        named = ref.name if isinstance(ref, types.PromptReference) else ref.uri
        known = {PROMPT.name, *(each["uriTemplate"] for each in TEMPLATES)}
        if named not in known:
            raise MCPError(
                types.INVALID_PARAMS, f"there is no {named[:80]!r}; there are: {', '.join(sorted(known))}"
            )
        if (named, argument.name) not in COMPLETED:
            return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))
        work = partial(complete_project, context, argument.value)
        found = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        values = found[:MOST_COMPLETIONS]
        more = len(found) > len(values)
        return types.CompleteResult(completion=types.Completion(values=values, total=len(found), has_more=more))

    return Server(
        "satchel",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read,
        on_completion=complete,
    )


def _called(
    context: ToolContext, tools: Mapping[str, Tool], name: str, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    """Call a tool and record the answer in the session's ledger. An error becomes a one-line answer."""
    result = _result(context, tools, name, arguments)
    if context.recorder is not None:
        for part in result.content:
            if isinstance(part, types.TextContent):
                context.recorder.enter(name, part.text, error=bool(result.is_error))
    return result


def _result(
    context: ToolContext, tools: Mapping[str, Tool], name: str, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    if name not in tools:
        return _failure(f"there is no tool {name[:80]!r}; there are: {', '.join(tools)}")
    try:
        answer = tools[name].call(context, arguments)
    except SatchelError as error:
        return _failure(str(error))
    except Exception as error:
        if os.environ.get("SATCHEL_DEBUG"):
            raise
        print(f"satchel: {name}: unexpected {type(error).__name__}", file=sys.stderr)
        return _failure(f"unexpected {type(error).__name__}: {error}; SATCHEL_DEBUG=1 shows where")
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=context.structured(answer),
    )


def _failure(message: str) -> types.CallToolResult:
    content = types.TextContent(type="text", text=short_line(message))
    return types.CallToolResult(content=[content], is_error=True)
