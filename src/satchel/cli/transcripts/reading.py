"""The bytes of a recording as a transcript, whichever of the known forms it has."""

import json
from itertools import pairwise
from typing import Any

import msgspec

from satchel.cli.transcripts.assembly import Transcript
from satchel.cli.transcripts.claude_code import is_line, of_lines
from satchel.cli.transcripts.messages import is_message, of_messages
from satchel.errors import InputError
from satchel.model.surrogates import repaired_value

__all__ = ["parse_transcript"]

KNOWN = "Claude Code's JSON lines, or messages of OpenAI or Anthropic"

_decode = msgspec.json.Decoder().decode


def parse_transcript(content: bytes, *, name: str = "the transcript") -> Transcript:
    """JSON lines, an array of messages or an object with `messages`; the form is found out."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    _check_text(content, name)
    try:
        transcript = _understood(_values(content, name), name)
    except RecursionError:
        raise InputError(f"{name} is nested too deeply to be read") from None
    if not transcript.entries:
        raise InputError(f"{name} has no messages in it; what can be read: {KNOWN}")
    if not transcript.turns:
        raise InputError(f"{name} has no answer of a model in it, so no request was made that could be replayed")
    return transcript


def _check_text(content: bytes, name: str) -> None:
    if not content.strip():
        raise InputError(f"{name} is empty; what can be read: {KNOWN}")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"line {line:,} of {name} is not UTF-8 text: byte {error.start:,} cannot be read"
        ) from None


def _values(content: bytes, name: str) -> list[Any]:
    """The value of each line, or the one value that all of the lines are."""
    numbered = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    by_line = _is_json(numbered[0][1])
    if not by_line and not _is_json(content):
        # Where to point to: at a first line that is broken, or into a value that goes over several.
        by_line = len(numbered) > 1 and numbered[1][1].lstrip().startswith(b"{") and _is_json(numbered[1][1])
    return [_value(line, name, number) for number, line in (numbered if by_line else [(1, content)])]


def _value(line: bytes, name: str, number: int) -> Any:
    try:
        return _decode(line)
    except ValueError:
        # The standard library's reads halves of surrogate pairs as well, and knows the line where it fails.
        return repaired_value(_leniently(line, name, number))


def _leniently(line: bytes, name: str, number: int) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        at = number + error.lineno - 1
        raise InputError(f"line {at:,} of {name} is not JSON: {error.msg} at column {error.colno:,}") from None
    except ValueError as error:
        raise InputError(f"line {number:,} of {name} cannot be read: {error}") from None


def _is_json(line: bytes) -> bool:
    try:
        _decode(line)
    except ValueError:
        try:
            json.loads(line)
        except ValueError:
            return False
    return True


def _understood(values: list[Any], name: str) -> Transcript:
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    objects = [value for value in values if isinstance(value, dict)]
    if any(map(is_line, objects)):
        return _counted(of_lines(objects), len(values) - len(objects))
    conversations = [value for value in objects if isinstance(value.get("messages"), list)]
    if conversations:
        request = _longest(conversations, name)
        messages = request["messages"]
        around = {"system": request.get("system"), "tools": request.get("tools")}
        extra = len(objects) - len(conversations)
    else:
        messages, around, extra = values, {}, 0
    said = [message for message in messages if is_message(message)]
    if not said:
        raise InputError(f"{name} is JSON, but no transcript; what can be read: {KNOWN}")
    return _counted(of_messages(said, **around), len(messages) - len(said) + extra)


def _longest(conversations: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The last of a log of requests, each of which repeats the one before it."""
    for before, after in pairwise(conversations):
        if after["messages"][: len(before["messages"])] != before["messages"]:
            count = f"{len(conversations):,}"
            raise InputError(f"{name} holds {count} conversations; put the one to replay into a file of its own")
    return conversations[-1]


def _counted(transcript: Transcript, skipped: int) -> Transcript:
    return msgspec.structs.replace(transcript, skipped=transcript.skipped + skipped)
