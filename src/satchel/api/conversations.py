"""Messages in the shapes of the OpenAI and Anthropic APIs, as turns of a conversation that are saved once each."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from satchel.api.filters import Choice, filter_for
from satchel.errors import InputError
from satchel.model.memory import Draft, Memory
from satchel.model.patterns import lazy_pattern
from satchel.text.redact import redact, without_masks

if TYPE_CHECKING:
    from satchel.api.satchel import Satchel

__all__ = ["SKIPPED_ROLES", "Turn", "TurnFields", "align", "save_turns", "turns_of"]

SKIPPED_ROLES = ("system", "developer", "tool", "function")
"""Roles whose messages are instructions or data, not something that was said."""

_TEXT_PARTS = ("text", "input_text", "output_text")
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_REF = lazy_pattern(r"message-(\d{6,9})-([0-9a-f]{16})")
_MICROSECOND = timedelta(microseconds=1)
_ALL = 1_000_000


class TurnFields(TypedDict, total=False):
    """Fields that are set on every new memory of a conversation."""

    tags: Choice
    source: str | None
    metadata: Mapping[str, Any] | None


class Turn(NamedTuple):
    """One thing that was said."""

    speaker: str
    text: str
    place: int
    """Where its message is in the list that was given."""

    @property
    def digest(self) -> str:
        """A hash of who said what. Secrets are masked first, so that they cannot be guessed from it."""
        said = f"{self.speaker}\0{redact(self.text).text}"
        return blake2b(said.encode(), digest_size=8).hexdigest()


def turns_of(messages: object, *, skip: Iterable[str] = SKIPPED_ROLES) -> list[Turn]:
    """Return what was said in a list of messages, in order, without tool calls, results, thinking and images."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InputError(f"messages must be a list of messages, not {type(messages).__name__}")
    skipped = {skip} if isinstance(skip, str) else set(skip)
    found = (_turn(_mapping(message, f"messages[{place}]"), place) for place, message in enumerate(messages))
    return [turn for role, turn in found if role not in skipped and without_masks(redact(turn.text).text).strip()]


def save_turns(
    view: "Satchel", turns: Sequence[Turn], *, start: datetime, **fields: Unpack[TurnFields]
) -> list[Memory]:
    """Save the turns of one session that are new, and return the memories of all of them."""
    with view.transaction():
        saved = _saved(view)
        size = max(saved, default=-1) + 1
        digests = [saved[place].digest if place in saved else None for place in range(size)]
        first, known = align(digests, [turn.digest for turn in turns])
        moment = max((each.memory.at for each in saved.values()), default=None)
        drafts = []
        for position, turn in enumerate(turns[known:], size):
            told = start + turn.place * _MICROSECOND
            moment = told if moment is None else max(told, moment + _MICROSECOND)
            drafts.append(_draft(turn, position, moment, fields))
        added = view.add_many(drafts)
    return [saved[place].memory for place in range(first, first + known) if place in saved] + added


def align(saved: Sequence[str | None], given: Sequence[str]) -> tuple[int, int]:
    """Return from which place of a saved conversation on a list of turns is saved already, and how many of them.

    Both are digests; None is a turn that was purged, which stays so. A list that begins as the conversation does is
    the conversation from its beginning. Otherwise its beginning may be the end of the conversation, if the oldest
    messages were dropped. If neither holds, all of it is new.
    """
    both = min(len(saved), len(given))
    if _same(saved[:both], given[:both]):
        return 0, both
    for start in range(1, len(saved)):
        left = len(saved) - start
        if saved[start] == given[0] and left <= len(given) and _same(saved[start:], given[:left]):
            return start, left
    return len(saved), 0


def _same(saved: Sequence[str | None], given: Sequence[str]) -> bool:
    return all(one is None or one == other for one, other in zip(saved, given, strict=True))


class _Saved(NamedTuple):
    """A turn that is in the store."""

    digest: str
    memory: Memory


def _saved(view: "Satchel") -> dict[int, _Saved]:
    """The turns of a session by their position in it."""
    where = filter_for(view.scope, tier="conversation", everything=True)
    found: dict[int, _Saved] = {}
    for memory in view._store.select(where, limit=_ALL):
        # A view that leaves a field of its scope open also reads sessions of the same name elsewhere.
        if memory.scope == view.scope and memory.ref is not None and (parts := _REF.fullmatch(memory.ref)):
            found[int(parts[1])] = _Saved(parts[2], memory)
    return found


def _draft(turn: Turn, position: int, at: datetime, fields: TurnFields) -> Draft:
    try:
        return Draft(
            turn.text,
            tier="conversation",
            speaker=turn.speaker,
            ref=f"message-{position:06d}-{turn.digest}",
            at=at,
            **fields,
        )
    except InputError as error:
        raise InputError(f"messages[{turn.place}]: {error}") from error


def _turn(message: Mapping[str, Any], place: int) -> tuple[str, Turn]:
    """The role of a message, and its turn; one without text has an empty one."""
    where = f"messages[{place}]"
    role, name = message.get("role"), message.get("name")
    if role is None and message.get("type", "message") != "message":
        # A function call or its output, as the Responses API of OpenAI lists them.
        return "", Turn("", "", place)
    if not isinstance(role, str) or not role.strip():
        raise InputError(f'{where} has no role; a message is {{"role": "user", "content": "…"}}')
    if name is not None and not isinstance(name, str):
        raise InputError(f"{where}: name must be a string, not {type(name).__name__}")
    if "content" not in message and not any(key in message for key in _INSTEAD_OF_CONTENT):
        raise InputError(f'{where} has no content; a message is {{"role": "user", "content": "…"}}')
    return role, Turn(name or role, _text(message.get("content"), where), place)


def _text(content: object, where: str) -> str:
    """The text of a message's content: a string, or the text parts of a list."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise InputError(f"{where}: content must be a string or a list of parts, not {type(content).__name__}")
    texts = [_part(part, f"{where}.content[{place}]") for place, part in enumerate(content)]
    return "\n\n".join(text for text in texts if text.strip())


def _part(part: object, where: str) -> str:
    """The text of one part; empty if it is an image, a tool call, a tool result or thinking."""
    if isinstance(part, str):
        return part
    fields = _mapping(part, where)
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise InputError(f'{where} has no type; a part is {{"type": "text", "text": "…"}}')
    if kind not in _TEXT_PARTS:
        return ""
    if not isinstance(text := fields.get("text"), str):
        raise InputError(f"{where}: text must be a string, not {type(text).__name__}")
    return text


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    """A message or part as a mapping; the SDKs of providers have objects that give one."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump) and isinstance(dumped := dump(), Mapping):
        return dumped
    raise InputError(f'{where} is a {type(value).__name__}; it must be a dict such as {{"role": …, "content": …}}')
