"""Claude Code's transcripts: a JSON object a line, most of which never went to a model."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from satchel.cli.transcripts.assembly import Assembly, Transcript
from satchel.cli.transcripts.content import Piece, pieces, string
from satchel.errors import InputError
from satchel.fitting.as_json import as_json
from satchel.model.fields import as_time

__all__ = ["is_line", "of_lines"]

MESSAGES = ("user", "assistant")
ATTACHMENT = "attachment"
# Where an attachment that goes to the model has its text; the others only tell what happened.
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
# What Claude Code writes itself in the place of an answer, such as an error of the API.
NO_MODEL = "<synthetic>"
PROMPT_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def is_line(value: dict[str, Any]) -> bool:
    """Whether this is a message as Claude Code records it; a provider's own has its role outside."""
    return value.get("type") in MESSAGES and isinstance(value.get("message"), dict)


def of_lines(lines: Iterable[object]) -> Transcript:
    """What went to a model, in the order of the file.

    Lines name their parents, but a line of descent would lose all but one of several calls at once. So what a
    rewind left behind counts as well.
    """
    said = Assembly()
    values = [line for line in lines if isinstance(line, dict)]
    main = [line for line in values if not line.get("isSidechain")]
    # A subagent's own file is all sidechain.
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
    """The text of a file lies in objects inside each other: {"type": "text", "file": {"content": …}}."""
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
