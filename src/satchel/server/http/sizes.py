"""How large an answer may be, told by its texts before it is written out, and of a list before all is read."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec

from satchel.fitting.hits import Timeline
from satchel.server.http.answers import Context, Memories, Pack, Searched, Whole
from satchel.server.http.problems import RefusedError
from satchel.server.http.questions import Listing, Span

__all__ = ["check_size", "collected"]

FIRST_PORTION = 32
# Which fields of a query say how many; only what is asked without any effect can be asked for twice.
_HOW_MANY: dict[type, tuple[str, ...]] = {Listing: ("limit",), Span: ("before", "after")}


def collected(read: Callable[[Any], Any], query: Any, most: int) -> Any:
    """What a query asks for. Of many, a few are read first: if these are large, the rest is not read at all."""
    wanted = {name: getattr(query, name) for name in _HOW_MANY.get(type(query), ())}
    portion = FIRST_PORTION
    while portion < max(wanted.values(), default=0):
        fewer = {name: min(number, portion) for name, number in wanted.items()}
        size = check_size(_least_size(read(msgspec.structs.replace(query, **fewer))), most)
        # As many of the same size as would fit.
        portion = max(2 * portion, portion * most // max(size, 1))
    value = read(query)
    check_size(_least_size(value), most)
    return value


def check_size(size: int, most: int) -> int:
    if size > most:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "large-answer",
            f"the answer has more than {most:,} bytes; ask for fewer, within a token budget, or by pages",
        )
    return size


def _least_size(value: Any) -> int:
    """The characters of the texts in an answer; each takes a byte or more."""
    match value:
        case Memories():
            return sum(len(memory.text) for memory in value.memories)
        case Timeline():
            return sum(len(memory.text) for memory in (*value.before, value.focus, *value.after))
        case Searched():
            return len(value.text) + sum(len(hit.memory.text) for hit in value.hits)
        case Context() | Pack():
            return len(value.text)
        case Whole():
            return len(value.content)
    return 0
