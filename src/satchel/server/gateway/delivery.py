"""Delivering a tool result to the client: stored in full, returned within its token allocation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from satchel.errors import StoreError
from satchel.fitting.cutting import truncate
from satchel.fitting.listing import as_json
from satchel.server.gateway.structured import examine_structured, most_tokens
from satchel.server.jsonrpc import Message
from satchel.server.process import short_line
from satchel.session.media import part_tokens
from satchel.session.session import Prepared, Session
from satchel.text.redact import redact_values

__all__ = ["Call", "Delivered", "Delivery", "is_small", "text_of", "tool_error"]

_MAX_CHARACTERS_PER_TOKEN = 16
_FEW_PARTS, _FEW_CHARACTERS = 3, 4_000
# Members of parts whose base64 is not text to mask.
_BINARY = ("data", "blob")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call as the client made it."""

    tool: str
    arguments: dict[str, Any]
    call_id: str | None = None
    remark: str | None = None
    """A line for the client about the call."""


class Delivered(NamedTuple):
    """An answer, and the result to enter into the ledger after the answer was sent."""

    answer: Message
    to_enter: Prepared | None = None


class _Said(NamedTuple):
    """What a server answered."""

    result: Message
    content: list[Message]
    texts: list[str]
    output: str
    """All it says as one text, which is stored and paged; structured content is part of it if it says more."""
    is_text: bool
    """Whether the texts alone are all of the output."""
    structured_tokens: int | None
    """What structured content costs a client that shows it too; None if it is not passed on."""

    @property
    def text_only(self) -> Message:
        return {name: value for name, value in self.result.items() if name != "structuredContent"}


class Delivery:
    """Passes tool results through a session. Each call runs in its own thread.

    The client gets the parts of a result unchanged if all of them fit together, structured content included,
    because some clients show it besides the text. Structured content that is only the text in a wrapper is left
    out. What does not fit comes as one text, which every client shows: a page of the texts, and of what only the
    structured content says.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._count = session.counter.count
        self._per_call = session.budget.per_call

    def __call__(self, call: Call, result: Any, *, new_turn: bool) -> Delivered:
        """Return the client's answer for what the server answered."""
        if self._session.mask_results:
            result = redact_values(result, but=_BINARY)
        content = result.get("content", []) if isinstance(result, dict) else None
        if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
            return Delivered(tool_error(f"the server of {call.tool} did not answer with a tool result"))
        said = self._read(result, content)
        try:
            return self._recorded(call, said, new_turn=new_turn)
        except StoreError as error:
            return Delivered(self._unrecorded(call, said, short_line(str(error))))

    def _read(self, result: Message, content: list[Message]) -> _Said:
        texts = [text for part in content if (text := text_of(part)) is not None]
        output, structured = "\n".join(texts), result.get("structuredContent")
        if structured is None:
            return _Said(result, content, texts, output, True, None)
        beyond, is_structure = examine_structured(structured, content, texts)
        if beyond is not None:
            output = f"{output}\n\nstructuredContent:\n{as_json(beyond)}" if output else as_json(beyond)
        tokens = None
        if is_structure and len(as_json(structured)) <= _MAX_CHARACTERS_PER_TOKEN * self._per_call:
            tokens = most_tokens(structured, count=self._count)
        return _Said(result, content, texts, output, beyond is None, tokens)

    def _recorded(self, call: Call, said: _Said, *, new_turn: bool) -> Delivered:
        others = sum(part_tokens(part, count=self._count) for part in said.content if text_of(part) is None)
        if said.structured_tokens is not None:
            delivered = self._with_structure(call, said, others, said.structured_tokens, new_turn=new_turn)
            if delivered is not None:
                return delivered
        ready = self._prepared(call, said, others, new_turn=new_turn)
        shown = ready.shown
        # A result with more pages must be on disk before the client can ask for them; a complete one need not.
        if shown.cursor is None:
            if said.is_text and self._fit([*said.texts, shown.note], shown.allocation):
                return Delivered(said.text_only | {"content": _with_note(said.content, shown.note)}, ready)
            return Delivered(said.text_only | {"content": _with_page(said.content, shown.text)}, ready)
        try:
            shown = ready.enter()
        except StoreError as error:
            shown = ready.unstored(short_line(str(error)))
        return Delivered(said.text_only | {"content": _with_page(said.content, shown.text)})

    def _with_structure(
        self, call: Call, said: _Said, others: int, structured_tokens: int, *, new_turn: bool
    ) -> Delivered | None:
        """Return the result as the server gave it, with its note, if all of it fits together; otherwise None."""
        extra = others + structured_tokens
        room = self._session.allocation(new_turn=new_turn) - extra
        if room <= 0 or not self._fit(said.texts, room):
            return None
        # If the stored text has the structured content too, that is counted there already.
        beyond = 0 if said.is_text else self._count(said.output) - self._count("\n".join(said.texts))
        ready = self._prepared(call, said, max(others, extra - beyond), new_turn=new_turn)
        if ready.shown.cursor is None and self._fit([*said.texts, ready.shown.note], room):
            return Delivered(said.result | {"content": _with_note(said.content, ready.shown.note)}, ready)
        ready.discard()
        return None

    def _prepared(self, call: Call, said: _Said, extra_tokens: int, *, new_turn: bool) -> Prepared:
        return self._session.prepare(
            call.tool,
            said.output,
            call_id=call.call_id,
            arguments=call.arguments,
            error=said.result.get("isError") is True,
            extra_tokens=extra_tokens,
            remark=call.remark,
            new_turn=new_turn,
            warn=True,
        )

    def _unrecorded(self, call: Call, said: _Said, why: str) -> Message:
        """Return the result, cut to the limit of one call, if the store cannot even be read."""
        remark = f"{call.remark}\n" if call.remark else ""
        note = f"{remark}[this result is not recorded: {why}]"
        if said.is_text and self._fit([*said.texts, note], self._per_call):
            return said.text_only | {"content": _with_note(said.content, note)}
        note = f"{remark}[the end of this result is cut off and not kept: {why}]"
        room = max(0, self._per_call - self._count(f"\n{note}"))
        cut = truncate(said.output, token_budget=room, counter=self._session.counter)
        return said.text_only | {"content": _with_page(said.content, f"{cut.text}\n{note}")}

    def _fit(self, texts: Sequence[str], most: int) -> bool:
        """Whether the texts fit, no matter if a client counts them one by one or joined."""
        length = sum(map(len, texts))
        # No counter needs more than this many tokens for a character of at most four bytes.
        if 8 * length <= most:
            return True
        if length > _MAX_CHARACTERS_PER_TOKEN * most:
            return False
        return sum(map(self._count, texts)) <= most and self._count("\n".join(texts)) <= most


def _with_note(content: list[Message], note: str) -> list[Message]:
    return [*content, _text(note)] if note else content


def _with_page(content: list[Message], page: str) -> list[Message]:
    """Return the parts with the page in place of the texts."""
    others = [part for part in content if text_of(part) is None]
    before = next((at for at, part in enumerate(content) if text_of(part) is not None), len(others))
    return [*others[:before], _text(page), *others[before:]]


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
