"""Messages put together into turns. A turn is one request to a model: what is new in it, then the answer."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from satchel.cli.transcripts.content import Piece

__all__ = ["Assembly", "Entry", "Role", "Transcript"]

Role = Literal["system", "user", "assistant", "tool"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A block of a message. An assistant's is part of the answer of its turn, any other of the turn's prompt."""

    role: Role
    turn: int
    text: str
    images: int = 0
    tool: str | None = None
    call_id: str | None = None


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    entries: tuple[Entry, ...]
    """In the order in which a prompt holds them."""
    times: tuple[datetime | None, ...]
    """When each turn was answered, where that is recorded."""
    first_prompt: int | None = None
    """The tokens of the first prompt as its provider counted them, which none of the entries may explain."""
    skipped: int = 0
    """Lines of other kinds."""
    sidechains: int = 0
    """Lines of subagents, which have a context of their own."""
    compactions: int = 0
    """Summaries left out, since what they sum up is there."""

    @property
    def turns(self) -> int:
        return len(self.times)


class Assembly:
    """Takes what was said in the order of its recording."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._times: list[datetime | None] = []
        self._tools: dict[str, str] = {}
        # One answer may come in several parts, with the results of its first calls between them.
        self._turns: dict[str, int] = {}
        self._parts: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def say(self, role: Role, pieces: Iterable[Piece]) -> None:
        """Part of the next prompt; results of tools are the tool's, whoever brings them."""
        for piece in pieces:
            self._add("tool" if piece.kind == "result" else role, len(self._times), piece)

    def answer(self, pieces: Iterable[Piece], *, message_id: str = "", at: datetime | None = None) -> None:
        """A whole answer, or a further part of the one with this id."""
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
                # What a provider's own tool found stands inside of the answer.
                piece = piece._replace(kind="call")
            earlier = next((place for place in before if _grown(self._entries[place], piece)), None)
            if earlier is None:
                parts.append(len(self._entries))
                self._add("assistant", turn, piece)
            else:
                self._entries[earlier] = _entry("assistant", turn, piece)

    def transcript(self) -> Transcript:
        # Only a further part of an answer comes later than what has followed it.
        ordered = sorted(self._entries, key=lambda entry: entry.turn)
        return Transcript(entries=tuple(map(self._named, ordered)), times=tuple(self._times))

    def _add(self, role: Role, turn: int, piece: Piece) -> None:
        if piece.kind == "call" and piece.call_id and piece.tool:
            self._tools[piece.call_id] = piece.tool
        self._entries.append(_entry(role, turn, piece))

    def _named(self, entry: Entry) -> Entry:
        tool = self._tools.get(entry.call_id or "")
        return msgspec.structs.replace(entry, tool=tool) if entry.tool is None and tool else entry


def _entry(role: Role, turn: int, piece: Piece) -> Entry:
    return Entry(role=role, turn=turn, text=piece.text, images=piece.images, tool=piece.tool, call_id=piece.call_id)


def _grown(earlier: Entry, piece: Piece) -> bool:
    """Whether a part of an answer was recorded before it was complete, or twice."""
    if piece.call_id is not None or earlier.call_id is not None:
        return piece.call_id == earlier.call_id and piece.tool == earlier.tool
    return bool(earlier.text) and piece.text.startswith(earlier.text)
