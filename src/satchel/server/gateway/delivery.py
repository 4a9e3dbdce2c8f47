"""The result of a tool on its way to the client: whole in the store, within its allocation in the answer."""

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

__all__ = ["Call", "Delivered", "Delivery", "is_small", "text_of", "tool_error"]

# JSON in JSON has more quotation marks to escape: room for the page once more, inside a string.
_SHARE_OF_A_STRING = 0.8
_AROUND_A_STRING = 100
_LEAST_TEXT = 400
_SURELY_TOO_MANY_BYTES = 16
_UNRECORDED_TOKENS = 8_000
_FEW_PARTS, _FEW_CHARACTERS = 3, 4_000


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call as the client made it."""

    tool: str
    arguments: dict[str, Any]
    call_id: str | None = None
    promises_structure: bool = False
    """Whether the tool has an output schema."""


class Delivered(NamedTuple):
    """An answer, and what is to be entered once it is given."""

    answer: Message
    afterwards: Prepared | None = None


class _Room(NamedTuple):
    """Tokens for the text of an answer, and for a page that stands in it twice: as it is, and in a string."""

    whole: int
    page: int


class Delivery:
    """Takes results to a session; each call in a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._count = session.counter.count
        self._unsaid: str | None = None

    def __call__(self, call: Call, result: Any, *, new_turn: bool) -> Delivered:
        """What the client gets for what the server answered."""
        content = result.get("content", []) if isinstance(result, dict) else None
        if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
            return Delivered(tool_error(f"the server of {call.tool} answered with what is no result of a tool"))
        structured = result.get("structuredContent")
        texts = [text for part in content if (text := text_of(part)) is not None]
        output = "\n".join(texts)
        if structured is not None and not _says(texts, structured):
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
            # What leads to more is on disk before the client can ask for that; what is whole need not be.
            whole = ready.shown.cursor is None
            shown = ready.shown if whole else ready.enter()
        except StoreError as error:
            return Delivered(self._unrecorded(call, result, content, texts, str(error)))
        note = self._warned(shown, ready.warning)
        answer: Message = result | {"content": self._content(content, texts, shown, note)}
        if structured is not None:
            # Calls of the same turn may have left less than there seemed to be.
            most = shown.allocation if room is None or shown.allocation < room.page else room.whole
            answer = self._with_structure(answer, structured, shown, most, call)
        return Delivered(answer, ready if whole else None)

    def _room(self, call: Call, structured: Any, others: int) -> "_Room | None":
        """What the text may have, where that is not simply the allocation."""
        in_both = structured is not None and call.promises_structure
        if not others and not in_both:
            return None
        allocation = self._session.allocation()
        # Pictures cannot be cut; however large they are, some text tells what there is and how to go on.
        room = max(allocation - others, min(_LEAST_TEXT, allocation))
        page = room
        if in_both and not self._fits(as_json(structured), room):
            page = max(1, int(_SHARE_OF_A_STRING * room) - _AROUND_A_STRING)
        return _Room(room, page)

    def _content(self, content: list[Message], texts: Sequence[str], shown: Shown, note: str) -> list[Message]:
        """The parts as they are, and the note, where all fits; else the page in the place of the texts."""
        if shown.cursor is None and self._fit([*texts, note], shown.allocation):
            return [*content, _text(note)] if note else content
        page = shown.text + note.removeprefix(shown.note)
        others = [part for part in content if text_of(part) is None]
        before = next((at for at, part in enumerate(content) if text_of(part) is not None), len(others))
        return [*others[:before], _text(page), *others[before:]]

    def _warned(self, shown: Shown, warning: str | None) -> str:
        """The note with a warning in a line of its own, if there is one; the next has what this has no room for."""
        warning = warning or self._unsaid
        self._unsaid = None
        if warning is None or self._fits(f"{shown.text}\n{warning}", shown.allocation):
            return shown.note if warning is None else f"{shown.note}\n{warning}"
        self._unsaid = warning
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
        """The tool has done its work, whatever the store is in: its answer goes out, cut, and says so."""
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
        """Together, whether a client counts them one by one or as one."""
        # No counter gives a character of at most four bytes more tokens than this.
        if sum(8 * len(text) for text in texts) <= most:
            return True
        return sum(map(self._count, texts)) <= most and self._count("\n".join(texts)) <= most

    def _fits(self, text: str, most: int) -> bool:
        return len(text) <= _SURELY_TOO_MANY_BYTES * most and self._fit([text], most)


def is_small(result: Any) -> bool:
    """Whether it is looked at sooner than a thread could be woken for it."""
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list) or len(content) > _FEW_PARTS or "structuredContent" in result:
        return False
    return all(isinstance(part, dict) and len(text_of(part) or "") < _FEW_CHARACTERS for part in content)


def tool_error(message: str) -> Message:
    """A failure that a model can read, in one line."""
    return {"content": [_text(short_line(message))], "isError": True}


def text_of(part: Message) -> str | None:
    """The text of a part that has one; None for images and whatever else is passed as it is."""
    holder = (
        part.get("resource") if part.get("type") == "resource" else part if part.get("type") == "text" else None
    )
    text = holder.get("text") if isinstance(holder, dict) else None
    return text if isinstance(text, str) else None


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _says(texts: Sequence[str], structured: Any) -> bool:
    """Whether the texts give the structured content whole: as JSON, or as many SDKs put a plain value."""
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
