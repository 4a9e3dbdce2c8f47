"""What the API answers with, and how large that may be."""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Literal, NamedTuple

import msgspec

from satchel.api.answers import Memories
from satchel.fitting.context import ContextResult
from satchel.fitting.context_pack import PackResult
from satchel.fitting.hits import SearchResult, Timeline
from satchel.model.memory import Memory
from satchel.model.result import FittedResult
from satchel.server.http.problems import RefusedError
from satchel.server.http.requests import ListRequest, TimelineRequest
from satchel.session.account import SessionState
from satchel.session.results import Found, LedgerEntry, Shown

__all__ = [
    "Entries",
    "Sessions",
    "Spent",
    "Turn",
    "Whole",
    "check_size",
    "read_within",
    "spent",
]


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Sessions(_Answer, frozen=True, kw_only=True):
    sessions: tuple[SessionState, ...]


class Entries(_Answer, frozen=True, kw_only=True):
    entries: tuple[LedgerEntry, ...]


class Whole(_Answer, frozen=True, kw_only=True):
    """All that stands behind a handle, as it was."""

    handle: str
    encoding: Literal["text", "base64"]
    content: str


class Turn(_Answer, frozen=True, kw_only=True):
    turn: int


class Spent(NamedTuple):
    """Tokens that were asked for, used and left out, or left for later pages; memories left out."""

    asked: int = 0
    used: int = 0
    left: int = 0
    omitted: int = 0


def spent(value: Any) -> Spent:
    """What an answer says of its tokens."""
    if isinstance(value, FittedResult):
        return Spent(value.token_budget or 0, value.token_count, value.tokens_omitted, value.omitted)
    if isinstance(value, Shown):
        return Spent(value.allocation, value.token_count, value.remaining_tokens)
    if isinstance(value, Found):
        return Spent(value.allocation, value.token_count)
    return Spent()


# How large an answer may be


FIRST_PORTION = 32
# Which fields of a query say how many; only what is asked without any effect can be asked for twice.
_HOW_MANY: dict[type, tuple[str, ...]] = {ListRequest: ("limit",), TimelineRequest: ("before", "after")}


def read_within(read: Callable[[Any], Any], query: Any, most: int) -> Any:
    """The answer to a query, refused if it has more than `most` bytes.

    Of a long list the first few are read to see how large they are: 10,000 memories may have 40 GB, which must not
    be read before they are refused.
    """
    wanted = {name: getattr(query, name) for name in _HOW_MANY.get(type(query), ())}
    portion = FIRST_PORTION
    while portion < max(wanted.values(), default=0):
        fewer = {name: min(number, portion) for name, number in wanted.items()}
        size = check_size(_text_size(read(msgspec.structs.replace(query, **fewer))), most)
        # As many as would fit if all have the same size.
        portion = max(2 * portion, portion * most // max(size, 1))
    value = read(query)
    check_size(_text_size(value), most)
    return value


def check_size(size: int, most: int) -> int:
    if size > most:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "large-answer",
            f"the answer has more than {most:,} bytes; ask for fewer, within a token budget, or by pages",
        )
    return size


def _text_size(value: Any) -> int:
    """The number of characters of the texts in an answer; each takes a byte or more."""
    match value:
        case Memories():
            return _sizes(value.memories)
        case Timeline():
            return _sizes((*value.before, value.focus, *value.after))
        case SearchResult() | ContextResult():
            return len(value.text) + _sizes(hit.memory for hit in value.hits)
        case PackResult():
            return len(value.text) + _sizes(value.memories)
        case Whole():
            return len(value.content)
    return 0


def _sizes(memories: Iterable[Memory]) -> int:
    return sum(len(memory.text) for memory in memories)
