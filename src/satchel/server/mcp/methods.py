"""What the MCP server answers to each method: parameters in, result out, as plain dictionaries.

The server over standard input and the one over HTTP share these. Some methods need the store, which may not be open
yet; the others are answered from `guide`. Nothing heavy is imported before a method needs it.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from satchel.errors import SatchelError
from satchel.server.jsonrpc import INVALID_PARAMS, Message, RequestError, json_type
from satchel.server.mcp.guide import PROMPT, TEMPLATES, definitions, guide_for
from satchel.server.process import short_line

if TYPE_CHECKING:
    from satchel.server.mcp.tool import Tool
    from satchel.server.mcp.tool_context import ToolContext

__all__ = ["Method", "Served", "failed_call", "mcp_methods", "needed"]

MOST_COMPLETIONS = 100
"""The limit of the specification."""

# The arguments that name a project; other arguments get no suggestions.
_COMPLETED = {(PROMPT["name"], "project"), ("satchel://pack/{project}", "project")}


class Served(NamedTuple):
    """What the methods that need the store work on."""

    context: "ToolContext"
    tools: "Mapping[str, Tool]"


class Method(NamedTuple):
    """How a method is answered. One that needs the store may take its time, and runs in a thread."""

    answer: Callable[[Message], Message]
    needs_store: bool = False


def mcp_methods(names: Sequence[str], served: Callable[[], Served]) -> dict[str, Method]:
    """Return the methods of a server that offers the tools of these names.

    `served` waits until the store is open and the tools are loaded; it raises a `SatchelError` if they cannot be.
    A method raises `RequestError` for parameters that it does not take.
    """
    tools = [definitions()[name] for name in names]
    return {
        "tools/list": Method(partial(_list, {"tools": tools})),
        "tools/call": Method(partial(_call_tool, served), needs_store=True),
        "prompts/list": Method(partial(_list, {"prompts": [PROMPT]})),
        "prompts/get": Method(_get_prompt),
        "resources/list": Method(partial(_list_resources, served), needs_store=True),
        "resources/templates/list": Method(partial(_list, {"resourceTemplates": TEMPLATES})),
        "resources/read": Method(partial(_read_resource, served), needs_store=True),
        "completion/complete": Method(partial(_complete, served), needs_store=True),
    }


def _list(found: Message, params: Message) -> Message:
    """Return a list, which has only one page."""
    _optional(params, "cursor", str)
    return found


# Prompts, resources, completion


def _get_prompt(params: Message) -> Message:
    name, arguments = needed(params, "name", str), _optional(params, "arguments", dict) or {}
    if name != PROMPT["name"]:
        raise RequestError(INVALID_PARAMS, f"there is no prompt {name[:80]!r}; there is {PROMPT['name']}")
    try:
        text = guide_for(_optional(arguments, "project", str))
    except SatchelError as error:
        raise RequestError(INVALID_PARAMS, short_line(str(error))) from error
    return {"messages": [{"role": "user", "content": _text(text)}]}


def _list_resources(served: Callable[[], Served], params: Message) -> Message:
    from satchel.server.mcp.catalog import pack_resources

    _optional(params, "cursor", str)
    return {"resources": pack_resources(served().context)}


def _read_resource(served: Callable[[], Served], params: Message) -> Message:
    from satchel.server.mcp.catalog import read_resource

    uri = needed(params, "uri", str)
    try:
        text = read_resource(served().context, uri)
    except SatchelError as error:
        raise RequestError(INVALID_PARAMS, short_line(str(error)), {"uri": uri}) from error
    return {"contents": [{"uri": uri, "mimeType": "text/markdown", "text": text}]}


def _complete(served: Callable[[], Served], params: Message) -> Message:
    from satchel.server.mcp.catalog import complete_project

    ref, argument = needed(params, "ref", dict), needed(params, "argument", dict)
    labels = {"ref/prompt": "name", "ref/resource": "uri"}
    if (label := labels.get(str(ref.get("type")))) is None:
        raise RequestError(INVALID_PARAMS, f"ref.type must be one of: {', '.join(labels)}")
    named, name, value = needed(ref, label, str), needed(argument, "name", str), needed(argument, "value", str)
    known = {PROMPT["name"], *(each["uriTemplate"] for each in TEMPLATES)}
    if named not in known:
        raise RequestError(INVALID_PARAMS, f"there is no {named[:80]!r}; there are: {', '.join(sorted(known))}")
    found = complete_project(served().context, value) if (named, name) in _COMPLETED else []
    values = found[:MOST_COMPLETIONS]
    return {"completion": {"values": values, "total": len(found), "hasMore": len(found) > len(values)}}


# Tools


def _call_tool(served: Callable[[], Served], params: Message) -> Message:
    """Call a tool and record the answer in the session's ledger. An error becomes a one-line answer."""
    if not isinstance(name := params.get("name"), str):
        raise RequestError(INVALID_PARAMS, "tools/call needs params with the name of a tool")
    arguments = _optional(params, "arguments", dict) or {}
    try:
        context, tools = served()
    except SatchelError as error:
        return failed_call(str(error))
    result = _tool_result(context, tools, name, arguments)
    if context.recorder is not None:
        context.recorder.enter(name, result["content"][0]["text"], error=result["isError"])
    return result


def _tool_result(
    context: "ToolContext", tools: "Mapping[str, Tool]", name: str, arguments: Mapping[str, Any]
) -> Message:
    if name not in tools:
        return failed_call(f"there is no tool {name[:80]!r}; there are: {', '.join(tools)}")
    try:
        answer = tools[name].call(context, arguments)
    except SatchelError as error:
        return failed_call(str(error))
    except Exception as error:
        if os.environ.get("SATCHEL_DEBUG"):
            raise
        print(f"satchel: {name}: unexpected {type(error).__name__}", file=sys.stderr)
        return failed_call(f"unexpected {type(error).__name__}: {error}; SATCHEL_DEBUG=1 shows where")
    result: Message = {"content": [_text(answer.text)], "isError": False}
    structured = context.structured(answer)
    return result if structured is None else result | {"structuredContent": structured}


def failed_call(message: str) -> Message:
    """Return the result of a tool call that failed, with a message of one line."""
    return {"content": [_text(short_line(message))], "isError": True}


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


# Parameters


def needed(params: Message, name: str, kind: type) -> Any:
    """Return a parameter that must be given and be of this type."""
    if params.get(name) is None:
        raise RequestError(INVALID_PARAMS, f"{name} is missing; give {_KINDS[kind]}")
    return _optional(params, name, kind)


def _optional(params: Message, name: str, kind: type) -> Any:
    value = params.get(name)
    if value is not None and not isinstance(value, kind):
        raise RequestError(INVALID_PARAMS, f"{name} must be {_KINDS[kind]}, not {json_type(value)}")
    return value


_KINDS: dict[type, str] = {str: "a string", dict: "an object"}
