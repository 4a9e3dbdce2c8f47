"""Delivering a tool result to the client: stored in full, returned within its token allocation."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from satchel.errors import StoreError
from satchel.fitting.cutting import truncate
from satchel.fitting.listing import as_json
from satchel.server.jsonrpc import Message
from satchel.server.process import short_line
from satchel.session.media import part_tokens
from satchel.session.results import Shown
from satchel.session.session import Prepared, Session
from satchel.text.redact import redact_values

__all__ = ["Call", "Delivered", "Delivery", "is_small", "text_of", "tool_error"]

# A page inside a JSON string needs more tokens, because quotation marks are escaped once more.
_SHARE_OF_A_STRING = 0.8
_AROUND_A_STRING = 100
_LEAST_TEXT = 400
_MAX_CHARACTERS_PER_TOKEN = 16
_UNRECORDED_TOKENS = 8_000
_FEW_PARTS, _FEW_CHARACTERS = 3, 4_000
# Members of parts whose base64 is not text to mask.
_BINARY = ("data", "blob")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call as the client made it."""

    tool: str
    arguments: dict[str, Any]
    call_id: str | None = None
    promises_structure: bool = False
    """Whether the tool has an output schema."""


class Delivered(NamedTuple):
    """An answer, and the result to enter into the ledger after the answer was sent."""

    answer: Message
    to_enter: Prepared | None = None


class _Room(NamedTuple):
    """Tokens for the text of an answer, and for its page, which appears twice: as text and inside a JSON string."""

    whole: int
    page: int


class Delivery:
    """Passes tool results through a session. Each call runs in its own thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._count = session.counter.count
        self._deferred_warning: str | None = None

    def __call__(self, call: Call, result: Any, *, new_turn: bool) -> Delivered:
        """Return the client's answer for what the server answered."""
        if self._session.mask_results:
            result = redact_values(result, but=_BINARY)
        content = result.get("content", []) if isinstance(result, dict) else None
        if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
            return Delivered(tool_error(f"the server of {call.tool} did not answer with a tool result"))
        structured = result.get("structuredContent")
        texts = [text for part in content if (text := text_of(part)) is not None]
        output = "\n".join(texts)
        if structured is not None and not _texts_contain(texts, structured):
            output += ("\n\n" if output else "") + "structuredContent:\n" + as_json(structured)
        others = sum(part_tokens(part, count=self._count) for part in content if text_of(part) is None)
        try:
            room = self._room(call, structured, others)
            ready = self._session.prepare(
                call.tool,
                output,
                call_id=call.call_id,
                arguments=call.arguments,
                error=result.get("isError") is True,
                extra_tokens=others,
                max_tokens=None if room is None else others + room.page,
                new_turn=new_turn,
                warn=True,
            )
            # A result with more pages must be on disk before the client can ask for them; a complete one need not.
            whole = ready.shown.cursor is None
            shown = ready.shown if whole else ready.enter()
        except StoreError as error:
            return Delivered(self._unrecorded(call, result, content, texts, str(error)))
        note = self._warned(shown, ready.warning)
        answer: Message = result | {"content": self._content(content, texts, shown, note)}
        if structured is not None:
            # Other calls of the same turn may have used tokens in the meantime.
            most = shown.allocation if room is None or shown.allocation < room.page else room.whole
            answer = self._with_structure(answer, structured, shown, most, call)
        return Delivered(answer, ready if whole else None)

    def _room(self, call: Call, structured: Any, others: int) -> "_Room | None":
        """Return the tokens for the text, or None if they are simply the allocation."""
        in_both = structured is not None and call.promises_structure
        if not others and not in_both:
            return None
        allocation = self._session.allocation()
        # Images cannot be cut. Even if they use up the allocation, the text must say what there is and how to go
        # on.
        room = max(allocation - others, min(_LEAST_TEXT, allocation))
        page = room
        if in_both and not self._fits(as_json(structured), room):
            page = max(1, int(_SHARE_OF_A_STRING * room) - _AROUND_A_STRING)
        return _Room(room, page)

    def _content(self, content: list[Message], texts: Sequence[str], shown: Shown, note: str) -> list[Message]:
        """Return all parts unchanged plus the note if they fit; otherwise the page in place of the texts."""
        if shown.cursor is None and self._fit([*texts, note], shown.allocation):
            return [*content, _text(note)] if note else content
        page = shown.text + note.removeprefix(shown.note)
        others = [part for part in content if text_of(part) is None]
        before = next((at for at, part in enumerate(content) if text_of(part) is not None), len(others))
        return [*others[:before], _text(page), *others[before:]]

    def _warned(self, shown: Shown, warning: str | None) -> str:
        """Return the note with a due warning on its own line; if that does not fit, the next result carries it."""
        warning = warning or self._deferred_warning
        self._deferred_warning = None
        if warning is None or self._fits(f"{shown.text}\n{warning}", shown.allocation):
            return shown.note if warning is None else f"{shown.note}\n{warning}"
        self._deferred_warning = warning
        return shown.note

    def _with_structure(self, answer: Message, structured: Any, shown: Shown, most: int, call: Call) -> Message:
        if self._fits(as_json(structured), most):
            return answer
        answer = {name: value for name, value in answer.items() if name != "structuredContent"}
        if not call.promises_structure:
            return answer
        page = shown.structured() | {"continuation_token": shown.cursor or shown.handle}
        with_text = page | {"text": shown.text}
        fits = self._fits(as_json(with_text), most)
        return answer | {"structuredContent": with_text if fits else page}

    def _unrecorded(
        self, call: Call, result: Message, content: list[Message], texts: Sequence[str], why: str
    ) -> Message:
        """Return the result, cut to a fixed size, when the store fails: the tool has run, so answer anyway."""
        note = short_line(f"[this result is not recorded, and cannot be paged: {why}]")
        room = max(0, _UNRECORDED_TOKENS - self._count(note))
        structured = result.get("structuredContent")
        answer = {name: value for name, value in result.items() if name != "structuredContent"}
        if structured is not None and self._fits(as_json(structured), _UNRECORDED_TOKENS):
            answer["structuredContent"] = structured
        elif structured is not None and call.promises_structure:
            answer["structuredContent"] = {"continuation_token": "", "budget_note": note}
        if self._fit([*texts, note], _UNRECORDED_TOKENS):
            return answer | {"content": [*content, _text(note)]}
        cut = truncate("\n".join(texts), token_budget=room, counter=self._session.counter)
        others = [part for part in content if text_of(part) is None]
        return answer | {"content": [_text(cut.text), *others, _text(note)]}

    def _fit(self, texts: Sequence[str], most: int) -> bool:
        """Whether the texts fit, no matter if a client counts them one by one or joined."""
        # No counter needs more than this many tokens for a character of at most four bytes.
        if sum(8 * len(text) for text in texts) <= most:
            return True
        return sum(map(self._count, texts)) <= most and self._count("\n".join(texts)) <= most

    def _fits(self, text: str, most: int) -> bool:
        return len(text) <= _MAX_CHARACTERS_PER_TOKEN * most and self._fit([text], most)


def is_small(result: Any) -> bool:
    """Whether the result is so small that handling it inline is faster than waking a thread."""
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list) or len(content) > _FEW_PARTS or "structuredContent" in result:
        return False
    return all(isinstance(part, dict) and len(text_of(part) or "") < _FEW_CHARACTERS for part in content)


def tool_error(message: str) -> Message:
    """Return a tool error that a model can read, on one line."""
    return {"content": [_text(short_line(message))], "isError": True}


def text_of(part: Message) -> str | None:
    """Return the text of a part, or None for images and other parts that are passed on unchanged."""
    holder = (
        part.get("resource") if part.get("type") == "resource" else part if part.get("type") == "text" else None
    )
    text = holder.get("text") if isinstance(holder, dict) else None
    return text if isinstance(text, str) else None


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _texts_contain(texts: Sequence[str], structured: Any) -> bool:
    """Whether the texts contain the whole structured content, as JSON or in the plain form that many SDKs use."""
    value = structured
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        value = structured["result"]
    if len(texts) == 1 and (texts[0] == value or _read(texts[0]) in (structured, value)):
        return True
    return isinstance(value, list) and len(value) == len(texts) and all(map(_same, texts, value))


def _same(text: str, value: Any) -> bool:
    return text == value or bool(_read(text) == value)


def _read(text: str) -> Any:
    try:
        return _decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return _UNREADABLE


_UNREADABLE = object()
_decode: Callable[[str], Any] = msgspec.json.Decoder().decode
