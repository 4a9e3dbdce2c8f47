"""Secrets are masked before anything is stored: `redact` is the one door text passes through."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from satchel.model.surrogates import repair_surrogates
from satchel.text.redact.assignments import HINTS, find_assignments
from satchel.text.redact.contexts import ACROSS_WORDS, WITHIN_WORDS, Context, find_context
from satchel.text.redact.shapes import SHAPES, find_shape, has_head

__all__ = ["Redacted", "masked_labels", "masked_line", "redact", "without_masks"]


class Redacted(NamedTuple):
    """A text without its secrets, and the label of each thing masked, in order of appearance."""

    text: str
    masked: tuple[str, ...]


class _Span(NamedTuple):
    start: int
    end: int
    label: str


class _Piece(NamedTuple):
    """A stretch of text still to be searched or, with a label, a secret to be masked."""

    text: str
    label: str | None = None


_Finder = Callable[[str], Iterator[_Span]]

_PRIVATE = re.compile(r"<private(?:[\s/](?:[^<>\[]|\[(?!masked:))*+)?>|</private\s*>", re.ASCII | re.IGNORECASE)
_MASK = re.compile(r"(\[masked:[a-z0-9-]{1,40}\])")


def _by_shape(label: str, head: str, body: str, text: str) -> Iterator[_Span]:
    return (_Span(*span, label) for span in find_shape(text, head, body))


def _by_context(context: Context, text: str) -> Iterator[_Span]:
    return (_Span(*span, context.label) for span in find_context(text, context))


def _by_assignment(text: str) -> Iterator[_Span]:
    return (_Span(*span) for span in find_assignments(text))


def _by_hint(finders: Iterable[tuple[str, _Finder]]) -> tuple[tuple[str, tuple[_Finder, ...]], ...]:
    grouped: dict[str, list[_Finder]] = {}
    for hint, find in finders:
        grouped.setdefault(hint, []).append(find)
    return tuple((hint, tuple(group)) for hint, group in grouped.items())


# What must occur in a text before a search is worth its time; most texts contain none of it. A
# token is one long word, so that its hints are looked for in long words only.
_LONG = 16
_HEADS = _by_hint(
    (head, partial(_by_shape, shape.label, head, shape.body)) for shape in SHAPES for head in shape.heads
)
_WITHIN_WORDS = _by_hint((context.hint, partial(_by_context, context)) for context in WITHIN_WORDS)
_ACROSS_WORDS = _by_hint(
    [(context.hint, partial(_by_context, context)) for context in ACROSS_WORDS]
    + [(hint, _by_assignment) for hint in HINTS]
)


def redact(text: str) -> Redacted:
    """The text with every secret replaced by `[masked:LABEL]`; doing it twice changes nothing."""
    if not _has_private(text) and not _spans(text):
        return Redacted(text, ())

    done: list[str] = []
    masked: list[str] = []
    todo = [piece for part in _without_private(text) for piece in _around_masks(part)]
    todo.reverse()
    while todo:
        piece = todo.pop()
        if piece.label is not None:
            done.append(f"[masked:{piece.label}]")
            masked.append(piece.label)
        elif spans := _merged(_spans(piece.text)):
            # What is left between two masks is searched again, on its own: a second call sees the
            # same stretches, so nothing is left for it to find.
            todo += reversed(list(_cut(piece.text, spans)))
        else:
            done.append(piece.text)
    return Redacted("".join(done), tuple(masked))


def masked_line(message: str) -> str:
    """A message for people and logs: on one line, without secrets."""
    return redact(" ".join(repair_surrogates(message).split())).text


def masked_labels(*texts: str | None) -> tuple[str, ...]:
    """The labels of the masks that stand in texts, in order."""
    return tuple(mask[8:-1] for text in texts if text for mask in _MASK.findall(text))


def without_masks(text: str) -> str:
    """What is left of a text beside its masks."""
    return _MASK.sub("", text)


def _finders(text: str) -> list[_Finder]:
    groups: list[tuple[_Finder, ...]] = []
    if long := [word for word in text.split() if len(word) >= _LONG]:
        words = " " + " ".join(long)
        if has_head(words):
            groups += [group for head, group in _HEADS if head in words]
        words = words.lower()
        groups += [group for hint, group in _WITHIN_WORDS if hint in words]
    lowered = text.lower()
    groups += [group for hint, group in _ACROSS_WORDS if hint in lowered]
    return list(dict.fromkeys(chain.from_iterable(groups))) if groups else []


def _has_private(text: str) -> bool:
    return "<" in text and _PRIVATE.search(text) is not None


def _without_private(text: str) -> Iterator[_Piece]:
    spans: list[_Span] = []
    depth = start = 0
    for tag in _PRIVATE.finditer(text):
        if tag[0][1] != "/":
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                spans.append(_Span(start, tag.end(), "private"))
    if depth:
        spans.append(_Span(start, len(text), "private"))
    return _cut(text, spans)


def _around_masks(piece: _Piece) -> Iterator[_Piece]:
    if piece.label is None:
        yield from map(_Piece, _MASK.split(piece.text))
    else:
        yield piece


def _spans(text: str) -> list[_Span]:
    return [span for find in _finders(text) for span in find(text)]


def _merged(spans: list[_Span]) -> list[_Span]:
    """The spans in order of appearance; where some overlap, one with the first one's label."""
    merged: list[_Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(span.end, merged[-1].end))
        else:
            merged.append(span)
    return merged


def _cut(text: str, spans: Iterable[_Span]) -> Iterator[_Piece]:
    position = 0
    for span in spans:
        if span.start > position:
            yield _Piece(text[position : span.start])
        yield _Piece(text[span.start : span.end], span.label)
        position = span.end
    if position < len(text):
        yield _Piece(text[position:])
