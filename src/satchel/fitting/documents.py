"""Convert documents and memories of other libraries to items, and `fit`, which packs them without a store."""

import math
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from reprlib import repr as shortened
from typing import Any, TypeVar, cast
from uuid import UUID

from msgspec.structs import replace

from satchel.errors import InputError
from satchel.fitting.context import ContextBlock, fitted_block
from satchel.fitting.formats import LAYOUTS
from satchel.fitting.renditions import as_item
from satchel.model.checks import check_budget, check_known, repair_surrogates
from satchel.model.memory import Hit, Memory, Tier, as_time, checked
from satchel.model.packing import FORMATS, Format, Item, Pins, PolicyName
from satchel.text.tokens import DEFAULT_COUNTER, Counter
from satchel.text.tokens import counter as find_counter

__all__ = ["as_items", "fit"]


# The names under which other libraries keep a field, in the order of search.
_TEXT = ("text", "page_content", "content", "body", "memory")
_SCORE = ("score", "relevance_score", "similarity")
_KIND = ("kind", "type", "category")
_SPEAKER = ("speaker", "role", "author")
_TIME = ("at", "time", "timestamp", "created_at", "date")
_THREAD = ("session", "thread_id", "session_id", "conversation_id")
_ID = ("id", "id_", "node_id")
_METADATA = ("metadata", "extra_info", "payload")

_LOWEST_VALUE = 0.05

# Numbers below this (in 1973) are not read as Unix times: they may be a year, a day number or a video position.
_EARLIEST_EPOCH = 100_000_000

_T = TypeVar("_T")


def as_items(things: Iterable[object]) -> list[Item]:
    """Convert strings, mappings and objects with a text to items, best first.

    Takes the results of retrievers as they are: a LangChain `Document` or a pair of one and its score, a LlamaIndex
    node with or without its score, dictionaries as mem0 returns them, a `Memory`, a `Hit`, an `Item`. Title, time,
    speaker and so on are read from the object, then from its metadata.

    A higher score is better, so negate distances. If all scores are above 0 and at most 1, they are the values;
    otherwise they are scaled to 0.05 to 1. Something without a score gets the lowest one. If nothing has a score,
    the order given is the rank, and the value is one over the square root of the rank.
    """
    # A single document or node is iterable too, but yields its fields.
    single = hasattr(things, "page_content") or hasattr(things, "get_content")
    if single or isinstance(things, str | bytes | Mapping) or not isinstance(things, Iterable):
        raise InputError(f"items must be a list, not {type(things).__name__}; put it into one: [...]")
    read = [_read(thing, place) for place, thing in enumerate(things, start=1)]
    ids = _unique_ids([item.id for item, _ in read])
    values = _values([score for _, score in read])
    items = [replace(item, id=name, value=value) for (item, _), name, value in zip(read, ids, values, strict=True)]
    return sorted(items, key=lambda item: -item.value)


def _read(thing: object, place: int) -> tuple[Item, float | None]:
    """Return an item, whose id may be empty, and its score."""
    score: object = None
    own: object = None
    if isinstance(thing, tuple) and len(thing) == 2 and not hasattr(thing, "_fields"):
        thing, score = thing
    if isinstance(thing, Item):
        item, own = thing, thing.value
    elif isinstance(thing, Hit):
        item, own = as_item(thing), thing.score
    elif isinstance(thing, Memory):
        item = as_item(Hit(thing, 1.0))
    elif isinstance(thing, str):
        item = Item(id="", text=repair_surrogates(thing))
    else:
        item, own = _foreign(thing, place)
    if not item.text.strip():
        raise InputError(f"item {place} ({type(thing).__name__}) has an empty text; leave it out")
    return item, _score(own if score is None else score, place)


def _foreign(thing: object, place: int) -> tuple[Item, object]:
    """Convert an object of another library to an item, and return its score."""
    # LlamaIndex's NodeWithScore raises if asked for the text of a node that is not a TextNode.
    node = _attribute(thing, "node")
    inner = node if isinstance(node, Mapping) or hasattr(node, "get_content") else thing
    sources = [inner, *_metadata(inner)]
    tier = _first(sources, ("tier",), _as_given)
    item = Item(
        id=_first(sources, _ID, _as_name) or "",
        text=repair_surrogates(_text(sources, place, type(thing).__name__)),
        title=_first(sources, ("title",), _as_line),
        speaker=_first(sources, _SPEAKER, _as_line),
        kind=_first(sources, _KIND, partial(_as_kind, type(inner).__name__)),
        tier="knowledge" if tier is None else _tier(tier, place),
        confidence=_first(sources, ("confidence",), _as_weight),
        at=_first(sources, _TIME, _as_moment),
        thread=_first(sources, _THREAD, _as_name),
        pinned=_first(sources, ("pinned",), _as_given) is True,
    )
    # "value" is a score only in the object itself; in metadata it can be anything.
    score = _first([thing], (*_SCORE, "value"), _as_given)
    return item, _first(sources, _SCORE, _as_given) if score is None else score


def _metadata(thing: object) -> Iterator[object]:
    """Yield the metadata, and the metadata inside it, because some vector stores wrap metadata again."""
    for _ in range(2):
        found = (_attribute(thing, name) for name in _METADATA)
        thing = next((each for each in found if isinstance(each, Mapping)), None)
        if thing is None:
            return
        yield thing


def _first(sources: Iterable[object], names: Sequence[str], reading: Callable[[Any], _T | None]) -> _T | None:
    """Return the first value under one of these names that can be converted."""
    for source in sources:
        for name in names:
            value = _attribute(source, name)
            if value is not None and (read := reading(value)) is not None:
                return read
    return None


def _attribute(source: object, name: str) -> Any:
    value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    return None if callable(value) else value


def _text(sources: Sequence[object], place: int, type_name: str) -> str:
    text = _first(sources, _TEXT, lambda value: value if isinstance(value, str) else None)
    if text is None and callable(content := getattr(sources[0], "get_content", None)):
        text = content()
    if not isinstance(text, str):
        raise InputError(
            f"item {place} ({type_name}) has no text; looked for a string as {', '.join(_TEXT)}, "
            "in it and in its metadata"
        )
    return text


def _tier(value: object, place: int) -> Tier:
    try:
        return cast(Tier, checked("tier", value))
    except InputError as error:
        raise InputError(f"item {place}: {error}") from None


def _score(value: object, place: int) -> float | None:
    if value is None:
        return None
    try:
        # Any number type, such as numpy's. Strings and bools are refused, though float() accepts them.
        score = math.nan if isinstance(value, str | bytes | bool) else float(cast(Any, value))
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"item {place}: score {shortened(value)} is not a finite number")
    return score


def _as_given(value: object) -> object:
    return value


def _as_line(value: object) -> str | None:
    return " ".join(repair_surrogates(value).split()) or None if isinstance(value, str) else None


def _as_kind(type_name: str, value: object) -> str | None:
    # The `type` of a LangChain Document is "Document", which is not a kind.
    return None if (line := _as_line(value)) == type_name else line


def _as_name(value: object) -> str | None:
    return _as_line(str(value)) if isinstance(value, str | int | UUID) else None


def _as_weight(value: object) -> float | None:
    return float(value) if isinstance(value, float | int) and 0 <= value <= 1 else None


def _as_moment(value: object) -> datetime | None:
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC) if value >= _EARLIEST_EPOCH else None
        return as_time(value)
    except (InputError, OverflowError, OSError, ValueError):
        return None


def _unique_ids(wanted: Sequence[str]) -> list[str]:
    """Return unique ids: a repeated id gets a number, and a missing one is made from the position."""
    ids: dict[str, None] = {}
    given = set(wanted)
    repeats: Tally[str] = Tally()
    for place, name in enumerate(wanted, start=1):
        unique = base = name or f"item-{place}"
        while unique in ids or (unique != name and unique in given):
            repeats[base] += 1
            unique = f"{base}-{repeats[base] + 1}"
        ids[unique] = None
    return list(ids)


def _values(scores: Sequence[float | None]) -> list[float]:
    known = [score for score in scores if score is not None]
    if not known:
        return [1 / math.sqrt(place) for place in range(1, len(scores) + 1)]
    lowest = min(known)
    filled = [lowest if score is None else score for score in scores]
    if lowest > 0 and max(known) <= 1:
        return filled
    # Scaled first: the difference of two large scores may overflow.
    largest = max(map(abs, known)) or 1.0
    scaled = [score / largest for score in filled]
    low, span = min(scaled), max(scaled) - min(scaled)
    return [_LOWEST_VALUE + (1 - _LOWEST_VALUE) * (each - low) / span if span else 1.0 for each in scaled]


# `satchel.fit`.


def fit(
    items: Iterable[object],
    *,
    token_budget: int | None,
    format: Format = "system_prompt",
    policy: PolicyName = "best",
    pins: Pins = "strict",
    counter: str | Counter = DEFAULT_COUNTER,
) -> ContextBlock:
    """Pack the results of any retriever into one text within the budget, without a store.

    `items` are strings, mappings or objects with a text, best first or with a score; LangChain documents and
    LlamaIndex nodes are taken as they are. The options are those of `Satchel.context`. The receipt of the returned
    block names each item by its id, or by its position: `item-1` is the first.
    """
    check_known("format", format, FORMATS)
    return fitted_block(
        as_items(items),
        budget=check_budget(token_budget),
        counter=find_counter(counter),
        layout=LAYOUTS[format],
        policy=policy,
        pins=pins,
    )
