"""Messages as OpenAI's and Anthropic's interfaces take them."""

from collections.abc import Iterable
from typing import Any

from satchel.cli.transcripts.assembly import Assembly, Transcript
from satchel.cli.transcripts.content import Piece, call_piece, pieces, result_piece, string
from satchel.fitting.as_json import as_json

__all__ = ["is_message", "of_messages"]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
STANDING = ("system", "developer")
# Calls of the older form have no ids: a result belongs to the call before it.
UNNAMED = "function call {}"


def is_message(value: object) -> bool:
    return isinstance(value, dict) and value.get("role") in ROLES


def of_messages(messages: Iterable[dict[str, Any]], *, system: object = None, tools: object = None) -> Transcript:
    """A conversation, with what stands before it in a request."""
    said = Assembly()
    said.say("system", pieces(system))
    if tools:
        said.say("system", pieces(as_json(tools)))
    unnamed = 0
    for message in messages:
        role, content = message["role"], message.get("content")
        if role in STANDING:
            said.say("system", pieces(content))
        elif role == "user":
            said.say("user", pieces(content))
        elif role == "tool":
            said.say("tool", [result_piece(content, message.get("tool_call_id"), message.get("name"))])
        elif role == "function":
            said.say("tool", [result_piece(content, UNNAMED.format(unnamed), message.get("name"))])
        else:
            unnamed += isinstance(message.get("function_call"), dict)
            said.answer(_answer(message, UNNAMED.format(unnamed)))
    return said.transcript()


def _answer(message: dict[str, Any], unnamed: str) -> list[Piece]:
    found = [piece for field in ("reasoning_content", "content", "refusal") for piece in pieces(message.get(field))]
    calls = message.get("tool_calls")
    made = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    found += [_call(call.get("function") or call.get("custom"), call.get("id")) for call in made]
    if isinstance(message.get("function_call"), dict):
        found.append(_call(message["function_call"], unnamed))
    return found


def _call(called: object, call_id: object) -> Piece:
    known = called if isinstance(called, dict) else {}
    return call_piece(known.get("name"), string(known.get("arguments")) or string(known.get("input")), call_id)
