"""Parse transcripts of Claude Code (JSON lines) and messages of OpenAI and Anthropic into entries by turn."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec

from satchel.errors import InputError
from satchel.fitting.listing import as_json
from satchel.model.checks import repaired_value
from satchel.model.memory import as_time

__all__ = ["Transcript", "TranscriptEntry", "parse_transcript"]


TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal", "thinking": "thinking"}
CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
RESULT = "tool_result"
PICTURES = ("image", "image_url", "input_image", "document", "file", "input_file", "input_audio", "audio")
# Encrypted; the length says little about the tokens.
SEALED = "redacted_thinking"


class Piece(NamedTuple):
    """One block of a message: text, a tool call or a tool result."""

    kind: Literal["text", "call", "result"]
    text: str
    images: int = 0
    tool: str | None = None
    call_id: str | None = None


def pieces(content: object) -> list[Piece]:
    """Return the blocks of a message's content; a string is one block."""
    blocks = content if isinstance(content, list) else [content]
    return [piece for block in blocks if (piece := _piece(block)) is not None]


def call_piece(tool: object, arguments: object, call_id: object) -> Piece:
    name = string(tool)
    given = arguments if isinstance(arguments, str) else as_json(arguments)
    return Piece("call", f"{name} {given}", 0, name or None, string(call_id) or None)


def result_piece(content: object, call_id: object, tool: object = None) -> Piece:
    inner = pieces(content)
    text = "\n".join(piece.text for piece in inner if piece.text)
    images = sum(piece.images for piece in inner)
    return Piece("result", text, images, string(tool) or None, string(call_id) or None)


def string(value: object) -> str:
    """Return the value if it is a string, otherwise an empty string: transcripts may contain anything."""
    return value if isinstance(value, str) else ""


def _piece(block: object) -> Piece | None:
    if isinstance(block, str):
        return _text(block)
    if not isinstance(block, dict):
        return None
    kind = string(block.get("type"))
    if kind in TEXTS:
        return _text(string(block.get(TEXTS[kind])))
    if kind in CALLS:
        return call_piece(block.get("name"), block.get("input"), block.get("id"))
    if kind.endswith(RESULT):
        return result_piece(block.get("content"), block.get("tool_use_id"))
    if kind in PICTURES:
        return _picture(block)
    return None if kind == SEALED else _text(as_json(block))


def _picture(block: dict[str, Any]) -> Piece:
    """Return an image, or a document, which counts as an image unless it has plain text."""
    texts = list(_plain(block.get("source")))
    return Piece("text", "\n".join(texts), 0 if texts else 1)


def _plain(source: object) -> Iterator[str]:
    if isinstance(source, dict) and source.get("type") == "text":
        yield string(source.get("data"))
    elif isinstance(source, dict) and source.get("type") == "content":
        yield from (piece.text for piece in pieces(source.get("content")) if piece.text)


def _text(text: str) -> Piece | None:
    return Piece("text", text) if text else None


# Turns: a turn is one request to a model, first what is new in its prompt, then the answer


Role = Literal["system", "user", "assistant", "tool"]


class TranscriptEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A block of a message in its turn: part of the answer if the role is assistant, otherwise of the prompt."""

    role: Role
    turn: int
    text: str
    images: int = 0
    tool: str | None = None
    call_id: str | None = None


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded conversation, with counts of what was skipped."""

    entries: tuple[TranscriptEntry, ...]
    """In prompt order."""
    times: tuple[datetime | None, ...]
    """When each turn was answered, if recorded."""
    first_prompt: int | None = None
    """The provider's token count of the first prompt, which includes the unrecorded system prompt."""
    skipped: int = 0
    """Lines that are not messages."""
    sidechains: int = 0
    """Lines of subagents, which have their own context."""
    compactions: int = 0
    """Summaries that were skipped because the original messages are present."""

    @property
    def turns(self) -> int:
        return len(self.times)


class TranscriptBuilder:
    """Builds a transcript from messages in recorded order."""

    def __init__(self) -> None:
        self._entries: list[TranscriptEntry] = []
        self._times: list[datetime | None] = []
        self._tools: dict[str, str] = {}
        # One answer may be recorded in several parts, with the results of its first calls in between.
        self._turns: dict[str, int] = {}
        self._parts: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def say(self, role: Role, pieces: Iterable[Piece]) -> None:
        """Add to the next prompt; a tool result has the role of a tool, whoever sends it."""
        for piece in pieces:
            self._add("tool" if piece.kind == "result" else role, len(self._times), piece)

    def answer(self, pieces: Iterable[Piece], *, message_id: str = "", at: datetime | None = None) -> None:
        """Add an answer, or another part of the answer with this id."""
        turn = self._turns.get(message_id)
        if turn is None:
            turn = len(self._times)
            self._times.append(at)
            if message_id:
                self._turns[message_id] = turn
        parts = self._parts.setdefault(message_id, []) if message_id else []
        before = tuple(parts)
        for piece in pieces:
            if piece.kind == "result":
                # The result of a server-side tool is inside the answer.
                piece = piece._replace(kind="call")
            earlier = next((place for place in before if _grown(self._entries[place], piece)), None)
            if earlier is None:
                parts.append(len(self._entries))
                self._add("assistant", turn, piece)
            else:
                self._entries[earlier] = _entry("assistant", turn, piece)

    def transcript(self) -> Transcript:
        # Only later parts of an answer are out of order.
        ordered = sorted(self._entries, key=lambda entry: entry.turn)
        return Transcript(entries=tuple(map(self._named, ordered)), times=tuple(self._times))

    def _add(self, role: Role, turn: int, piece: Piece) -> None:
        if piece.kind == "call" and piece.call_id and piece.tool:
            self._tools[piece.call_id] = piece.tool
        self._entries.append(_entry(role, turn, piece))

    def _named(self, entry: TranscriptEntry) -> TranscriptEntry:
        tool = self._tools.get(entry.call_id or "")
        return msgspec.structs.replace(entry, tool=tool) if entry.tool is None and tool else entry


def _entry(role: Role, turn: int, piece: Piece) -> TranscriptEntry:
    return TranscriptEntry(
        role=role, turn=turn, text=piece.text, images=piece.images, tool=piece.tool, call_id=piece.call_id
    )


def _grown(earlier: TranscriptEntry, piece: Piece) -> bool:
    """Whether a part of an answer was recorded before it was complete, or twice."""
    if piece.call_id is not None or earlier.call_id is not None:
        return piece.call_id == earlier.call_id and piece.tool == earlier.tool
    return bool(earlier.text) and piece.text.startswith(earlier.text)


# Messages in the format of the OpenAI and Anthropic APIs


ROLES = ("system", "developer", "user", "assistant", "tool", "function")
STANDING = ("system", "developer")
# The old function-call format has no ids: a result belongs to the call before it.
UNNAMED = "function call {}"


def is_message(value: object) -> bool:
    return isinstance(value, dict) and value.get("role") in ROLES


def of_messages(messages: Iterable[dict[str, Any]], *, system: object = None, tools: object = None) -> Transcript:
    """Return a conversation, with the system prompt and the tools of its request."""
    said = TranscriptBuilder()
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


# Claude Code transcripts: one JSON object per line, most of which were never sent to a model


MESSAGES = ("user", "assistant")
ATTACHMENT = "attachment"
# Where attachments that are sent to the model have their text; other attachments are only events.
ATTACHED = {
    "queued_command": "prompt",
    "hook_additional_context": "content",
    "nested_memory": "content",
    "file": "content",
    "directory": "content",
    "edited_text_file": "snippet",
    "plan_file_reference": "planContent",
    "skill_listing": "content",
    "task_reminder": "content",
    "todo_reminder": "content",
}
# What Claude Code itself writes in place of an answer, such as an API error.
NO_MODEL = "<synthetic>"
PROMPT_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def is_line(value: dict[str, Any]) -> bool:
    """Whether this is a message as Claude Code records it; messages of providers have no `message` field."""
    return value.get("type") in MESSAGES and isinstance(value.get("message"), dict)


def of_lines(lines: Iterable[object]) -> Transcript:
    """Return what was sent to a model, in file order.

    Lines name their parents, but following the parents would lose all but one of several parallel calls. So
    messages discarded by a rewind are counted too.
    """
    said = TranscriptBuilder()
    values = [line for line in lines if isinstance(line, dict)]
    main = [line for line in values if not line.get("isSidechain")]
    # In a subagent's own file, all lines are sidechain lines.
    chosen = main if any(map(is_line, main)) else values
    skipped = compactions = 0
    first_prompt: int | None = None
    answered = False
    seen: set[str] = set()
    for line in chosen:
        uuid = string(line.get("uuid"))
        if uuid in seen or not _sent(line):
            skipped += 1
        elif line.get("isCompactSummary") and len(said):
            compactions += 1
        elif line["type"] == "assistant":
            message = line["message"]
            said.answer(
                pieces(message.get("content")),
                message_id=string(message.get("id")),
                at=_time(line.get("timestamp")),
            )
            if not answered:
                first_prompt, answered = _prompt_tokens(message.get("usage")), True
        else:
            said.say(
                "user", _attached(line) if line["type"] == ATTACHMENT else pieces(line["message"].get("content"))
            )
        if uuid:
            seen.add(uuid)
    return msgspec.structs.replace(
        said.transcript(),
        first_prompt=first_prompt,
        skipped=skipped,
        sidechains=len(values) - len(chosen),
        compactions=compactions,
    )


def _sent(line: dict[str, Any]) -> bool:
    if line.get("type") == ATTACHMENT:
        return bool(_attached(line))
    return is_line(line) and line["message"].get("model") != NO_MODEL


def _attached(line: dict[str, Any]) -> list[Piece]:
    attachment = line.get("attachment")
    if not isinstance(attachment, dict):
        return []
    field = ATTACHED.get(string(attachment.get("type")))
    return [] if field is None else pieces(_innermost(attachment.get(field)))


def _innermost(content: object) -> object:
    """Return the text of a file, which is nested: {"type": "text", "file": {"content": …}}."""
    while isinstance(content, dict):
        inner = content.get("content", content.get("file", content.get("text")))
        if inner is None:
            return as_json(content)
        content = inner
    return content


def _prompt_tokens(usage: object) -> int | None:
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in PROMPT_TOKENS]
    return sum(count for count in counts if isinstance(count, int) and count > 0) or None


def _time(value: object) -> datetime | None:
    try:
        return as_time(value)
    except InputError:
        return None


# Parsing a file of any known format


KNOWN = "Claude Code's JSON lines, or messages of OpenAI or Anthropic"

_decode = msgspec.json.Decoder().decode


def parse_transcript(content: bytes, *, name: str = "the transcript") -> Transcript:
    """Parse JSON lines, an array of messages or an object with `messages`; the format is detected."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    _check_text(content, name)
    try:
        transcript = _understood(_values(content, name), name)
    except RecursionError:
        raise InputError(f"{name} is nested too deeply to be read") from None
    if not transcript.entries:
        raise InputError(f"{name} contains no messages; supported: {KNOWN}")
    if not transcript.turns:
        raise InputError(f"{name} contains no answer of a model, so there is no request to replay")
    return transcript


def _check_text(content: bytes, name: str) -> None:
    if not content.strip():
        raise InputError(f"{name} is empty; supported: {KNOWN}")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"line {line:,} of {name} is not UTF-8 text: byte {error.start:,} cannot be read"
        ) from None


def _values(content: bytes, name: str) -> list[Any]:
    """Return the value of each line, or one value that spans all lines."""
    numbered = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    by_line = _is_json(numbered[0][1])
    if not by_line and not _is_json(content):
        # To report the right error: is the first of several lines broken, or one value that spans them?
        by_line = len(numbered) > 1 and numbered[1][1].lstrip().startswith(b"{") and _is_json(numbered[1][1])
    return [_value(line, name, number) for number, line in (numbered if by_line else [(1, content)])]


def _value(line: bytes, name: str, number: int) -> Any:
    try:
        return _decode(line)
    except ValueError:
        # The standard library accepts lone surrogates, and says in which line it fails.
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
        raise InputError(f"{name} is JSON, but not a transcript; supported: {KNOWN}")
    return _counted(of_messages(said, **around), len(messages) - len(said) + extra)


def _longest(conversations: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the last request of a log in which each request repeats the one before."""
    for before, after in pairwise(conversations):
        if after["messages"][: len(before["messages"])] != before["messages"]:
            count = f"{len(conversations):,}"
            raise InputError(f"{name} contains {count} conversations; put the one to replay into its own file")
    return conversations[-1]


def _counted(transcript: Transcript, skipped: int) -> Transcript:
    return msgspec.structs.replace(transcript, skipped=transcript.skipped + skipped)
